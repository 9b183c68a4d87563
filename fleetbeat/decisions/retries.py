"""What a retry has of the run that it repeats: its class, who asked and why, and what that person was allowed. Pure.

A run that fails leaves it in the state (``repeat``), written by the script that ends the run; the retry takes it into
its record by the script that begins one. So no kill in between loses it, and whatever else begins a run (another
digest, another catalog entry, a request) has nothing of it.

As in Argo CD the sync that somebody asked for is that person's for as many tries as ``sync.retry.limit`` says. What is
tried at the interval afterwards nobody waits for any more, and counts as automated. Putting back what was changed by
hand stays that for good, since windows may be shut for it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

import orjson

from fleetbeat.decisions import overrides
from fleetbeat.decisions.lifecycle import HEALING, origin


@dataclass(frozen=True)
class Repeated:
    """The first of the runs, and what was asked for."""

    run: str = ""
    trigger: str = ""
    by: str = ""
    reason: str = ""
    confirm_prune: str = ""
    promise: str = ""  #: id of the saved plan that alone may be carried out
    override_windows: str = ""  #: ``overrides.admitted`` for the first run and its digest

    def fields(self) -> dict[str, str]:
        """Of a retry's record. The override is not among them: it is bound to another run."""
        named = {"retry_of": self.run, "repeats": self.trigger}
        return named | {word: getattr(self, word) for word in ("by", "reason", "confirm_prune", "promise")}


def kept(key: bytes | None, app: str, record: Mapping[str, str]) -> str:
    """For the state after the failure of this run. ``key``: of overrides, None = nobody asks for one."""
    first = record.get("retry_of") or record.get("run", "")
    words = {word: record.get(word, "") for word in ("by", "reason", "confirm_prune", "promise")}
    override = ""
    if overrides.stands(key, app, record):
        override = overrides.admitted(key, app, first, record.get("digest", ""), record)
    return orjson.dumps(asdict(Repeated(first, origin(record), override_windows=override, **words))).decode()


def of(state: Mapping[str, str], *, key: bytes | None, app: str, digest: str, limit: int, now: int) -> Repeated:
    """What a retry that begins at ``now`` (ms by the server's clock) repeats; empty where that says nothing.

    ``limit``: ``sync.retry.limit``. An override goes with it for ``overrides.LIFE`` from the start of the first run,
    and to the bundle it was made for alone. What was written by another version is passed over.
    """
    try:
        found = Repeated(**{name: str(value) for name, value in orjson.loads(state.get("repeat") or "{}").items()})
    except (ValueError, TypeError, AttributeError):
        return Repeated()
    if found.trigger in HEALING:
        return found
    if int(state.get("failures") or 0) > limit:
        return Repeated()
    about = {"run": found.run, "digest": digest, "by": found.by, "reason": found.reason}
    good = overrides.stands(key, app, {**about, "override_windows": found.override_windows})
    return found if good and abs(now - _began(found.run)) <= overrides.LIFE else replace(found, override_windows="")


def _began(run: str) -> int:
    """ms since epoch, from the run's id, which the override's MAC is over; 0 for what is none."""
    try:
        return int(datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return 0
