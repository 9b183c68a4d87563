"""What was asked for and is refused: told to whoever asked, and nothing follows from it.

An application stays as it would have been without that request. Its state keeps what it says of the last sync, so that
no retry carries out in another way what was refused in this one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from fleetbeat.clients.runs import Look, new_run_id
from fleetbeat.decisions import events, overrides
from fleetbeat.decisions.lifecycle import Ending, history_entry, next_look
from fleetbeat.decisions.schedule import spread
from fleetbeat.errors import LostLock, PlanRefused
from fleetbeat.model import Retry, Revision
from fleetbeat.model_results import HealthStatus
from workers.parts import Parts
from workers.task import Ended, Outcome, Work

log = logging.getLogger(__name__)


def admit(shared: Parts, app: str, look: Look) -> Look:
    """The look without a request that may not override sync windows, which has got its answer by then."""
    request = look.request
    if not request.get("override_windows"):
        return look
    now = shared.runs.now()
    why = overrides.refusal(shared.settings.signing_key(), app, request, now)
    if not why:
        return look
    log.warning("%s: the override that %s asked for is refused: %s", app, request.get("by"), why)
    run = {"run": new_run_id(now), "trigger": "Request", "request": request.get("id", "")}
    run |= {word: request.get(word, "") for word in ("by", "reason")}
    entry = _entry(run, look.state, Ending("Failed", overrides.told(why), overrides.REASON), now)
    event = events.ended(run, entry)
    shared.runs.refuse(app, request.get("id", ""), entry=orjson.dumps(entry).decode(), event=event)
    return replace(look, request={})


def may_override(shared: Parts, app: str, record: Mapping[str, str]) -> bool:
    """Does the run of this record go past sync windows? Asked when one is shut: what is in Redis proves nothing."""
    may = overrides.stands(shared.settings.signing_key(), app, record)
    if record.get("override_windows") and not may:
        log.warning("%s run %s: no worker has admitted its override of sync windows", app, record.get("run"))
    return may


def is_refused(record: Mapping[str, str]) -> bool:
    """Is this the run of a saved plan that does not hold any more?"""
    return record.get("error") == PlanRefused.__name__


def report(work: Work) -> Outcome:
    """End the run of a refused plan. It has written nothing.

    Where it was a retry, what is tried next is nobody's request any more, and not before it would be looked at anyway.
    """
    shared, record, turn = work.parts, work.record, work.turn
    state, again = shared.runs.look(turn.app).state, bool(record.get("retry_of"))
    entry = _entry(
        record, state, Ending("Failed", record.get("error_text", ""), record["error"]), int(turn.now() * 1000)
    )
    said = shared.runs.finish(
        turn,
        entry=orjson.dumps(entry).decode(),
        event=events.ended(record, entry),
        state={"fence": turn.fence, **({"repeat": ""} if again else {"handled": record.get("request", "")})},
        next_look=None if again else _next_look(shared, turn.app, state),
        look_by=int(state.get("held_warn") or state.get("held_until") or 0),
    )
    if said == "lost":
        raise LostLock("taken over while reporting")
    return Ended(f"Failed: {record.get('error_text', '')}")


def _next_look(shared: Parts, app: str, state: Mapping[str, str]) -> float | None:
    """When the application would be looked at without this run: at once where one is due, else as before it.

    None = at its regular slot.
    """
    if state.get("phase", "Superseded") == "Superseded":
        return 0.0
    if state["phase"] == "Succeeded":
        return None
    entry = shared.catalogs.application(app)
    retry = entry[0].sync.retry if entry is not None else Retry()
    failures = int(state.get("failures") or 0)
    return next_look("change" if state.get("cure") == "change" else "time", failures, retry, spread=spread(app))


def _entry(run: Mapping[str, str], state: Mapping[str, str], end: Ending, finished: int) -> dict[str, Any]:
    """For history: about the revision of the run, or the one in force. ``finished``: ms since epoch."""
    about = run if run.get("digest") else state
    revision = Revision(*(about.get(word, "") for word in ("digest", "tag", "source", "revision")))
    health: HealthStatus = state.get("health") or "Unknown"  # type: ignore[assignment]
    durations = {key[5:]: float(value) for key, value in run.items() if key.startswith("took:")}
    return history_entry(
        run=run, revision=revision, end=end, results=[], finished=finished, durations=durations, health=health
    )
