"""A host whose clock is wrong: what asks for the time of day gets it shifted, and sees it jump.

Monotonic clocks and sleeps stay as they are, as on a host whose administrator sets the time. The nursery gives a child
such a clock when its environment asks for one; names that modules have taken from ``time`` and ``datetime`` by then are
changed too.
"""

from __future__ import annotations

import datetime
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "TEST_HOST_CLOCK"  #: names the file with the seconds
_FRESH = 0.02  # seconds of the monotonic clock for which the file is not read again
_real = datetime.datetime


class WrongClock:
    """A host's clock that is so many seconds ahead (behind, if negative) of everybody else's."""

    def __init__(self, folder: Path, ahead: float) -> None:
        self._file = folder / f"clock-{uuid.uuid4().hex[:6]}"
        self.jump(ahead)

    def jump(self, ahead: float) -> None:
        """Somebody sets it, while the host's processes run; they see it within 20 ms."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(str(ahead))
        fresh.rename(self._file)

    @property
    def env(self) -> dict[str, str]:
        """Of a child that lives by it."""
        return {VARIABLE: str(self._file)}


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _real)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, _real)


def install() -> None:
    """Make this process live by the clock that its environment names."""
    file, original, monotonic = Path(os.environ[VARIABLE]), time.time, time.monotonic
    read = (float("-inf"), 0.0)

    def now() -> float:
        nonlocal read
        at, ahead = read
        if monotonic() - at > _FRESH:
            ahead = float(file.read_text())
            read = (monotonic(), ahead)
        return original() + ahead

    class Shifted(_real, metaclass=_Kind):
        """Makes the real thing, and differs in what it takes for now."""

        def __new__(cls, *values: Any, **named: Any) -> Any:
            return _real(*values, **named)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return _real.fromtimestamp(now(), tz)

        @classmethod
        def utcnow(cls) -> Any:
            return _real.fromtimestamp(now(), datetime.UTC).replace(tzinfo=None)

    def or_now(of: Callable[[float], Any]) -> Callable[..., Any]:
        return lambda seconds=None: of(now() if seconds is None else seconds)

    strftime, localtime = time.strftime, or_now(time.localtime)
    _replace(
        {
            time.time: now,
            time.time_ns: lambda: int(now() * 1e9),
            time.gmtime: or_now(time.gmtime),
            time.localtime: localtime,
            time.ctime: or_now(time.ctime),
            time.strftime: lambda form, at=None: strftime(form, localtime() if at is None else at),
            _real: Shifted,
        }
    )


def _replace(changed: dict[Any, Any]) -> None:
    """In every module that has it by any name, but for this one."""
    by_id = {id(before): after for before, after in changed.items()}
    for module in [found for name, found in sys.modules.items() if name != __name__]:
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if id(value) in by_id:
                setattr(module, name, by_id[id(value)])
