"""What time it is by a server of HTTP, as the ``Date`` of its answers says (RFC 9110 §6.6.1), to the second.

What a server has stamped is compared with this, not with the host's own clock, which may be an hour off.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta


def http_date(text: str) -> datetime | None:
    """A date of HTTP, with time zone; None for anything else."""
    try:
        found = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo is not None and found.year in _YEARS else None


#: A server that claims another one has no clock to go by, and time cannot be counted on from the last year there is.
_YEARS = range(1971, 9000)


class ServerClock:
    """One server's clock, carried on between its answers by this process's monotonic one. Thread-safe."""

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        host: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._monotonic = monotonic
        self._host = host
        self._heard: tuple[str, datetime, float] | None = None  # text, what it means, our monotonic seconds then

    def heard(self, date: str | None) -> None:
        """The ``Date`` of an answer that has just come; None or nonsense changes nothing."""
        if not date or (self._heard and self._heard[0] == date):  # the second's first answer was nearest to its begin
            return
        meant = http_date(date)
        if meant is not None:
            self._heard = (date, meant, self._monotonic())

    def now(self) -> datetime:
        """At most about a second behind. The host's clock where no answer has told one."""
        if self._heard is None:
            return self._host()
        _, meant, at = self._heard
        return meant + timedelta(seconds=self._monotonic() - at)
