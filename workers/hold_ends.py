"""Before a hold ends somebody may want it to be longer: that is told once, ten minutes ahead, to those who do not look.

The moment is in the record of a run that waits, and in the state where something is left as it is (``warn``,
``held_warn``: ms since epoch). Beat rings the application then, as at the end itself; a hold that is met later than
that, or is shorter, says its end when it is met, and is not told again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import orjson

from fleetbeat.decisions import events, holds
from fleetbeat.decisions.holds import Hold
from fleetbeat.model import Application, Cluster
from workers import cluster_events
from workers.parts import Parts
from workers.target import Target, connected

log = logging.getLogger(__name__)

Entry = tuple[Application, Cluster, str]  #: of the catalog, or of a departure, with its digest


def of_run(
    shared: Parts, there: Entry, record: Mapping[str, str], home: str, standing: Sequence[Hold], now: int
) -> None:
    """The run waits for ``standing``, the longest first. ``home``: uid of the ApplySet parent, "" without one."""
    if not _is_due(record.get("warn", ""), now):
        return
    said, run = holds.warning(standing[:1], now), record["run"]

    def connect() -> Target:
        return connected(shared.settings, *there, run=run, digest=record.get("digest", ""))

    _tell(shared, there[0].name, connect, "warn", record["warn"], said, record, home, run)


def of_state(shared: Parts, where: Target, state: Mapping[str, str], now: int) -> int:
    """Something is left as it is. Returns when there is something to tell next: that it ends soon, or its end; ms."""
    until, warn = int(state["held_until"]), state.get("held_warn", "")
    if not _is_due(warn, now):
        return int(warn or until)
    end = holds.moment(until)
    told = [one["message"] for one in orjson.loads(state["held"]) if one.get("until") == end]
    said = [f"what is left as it is until {end} is written then: {why}" for why in told[:1]]
    app, home, run = where.application.name, state.get("home", ""), state.get("last_run", "")
    _tell(shared, app, lambda: where, "held_warn", warn, said, state, home, run)
    return until


def _is_due(warn: str, now: int) -> bool:
    return bool(warn) and now >= int(warn)


def _tell(
    shared: Parts,
    app: str,
    connect: Callable[[], Target],
    field: str,
    at: str,
    said: Sequence[str],
    about: Mapping[str, str],
    home: str,
    run: str,
) -> None:
    for line in said:
        event = events.hold_ends(line, about)
        if shared.runs.say_once(app, field, at, event, of_run=field == "warn"):
            log.warning("%s: %s", app, line)
            cluster_events.warn(shared, app, connect, event, home, at=int(at), run=run)
