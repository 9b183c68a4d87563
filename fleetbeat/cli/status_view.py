"""What is known of an application, put together from Redis for ``fleetbeat status``. Pure but for the reading."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetbeat.cli.results import left_alone
from fleetbeat.clients.runs import Look
from fleetbeat.decisions import progress
from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.conditions import argo, conditions
from fleetbeat.decisions.holds import Hold
from fleetbeat.model import ObjectId, Revision


@dataclass(frozen=True)
class View:
    """One application. Times are seconds; ``None`` = unknown."""

    app: str
    sync: str
    health: str
    phase: str
    message: str
    revision: Revision  #: in force
    attempted: str  #: digest tried last, "" when it is the one in force
    step: str  #: of the run under way, "" when there is none
    age: float | None  #: since the last run ended
    next_look: float | None  #: until beat rings the application again; below 0 = overdue
    error: str  #: word of the last error, "" when the last run went well
    objects: int | None
    failures: int
    held_back: str = ""  #: why it is not at what its source means: a pin or a veto
    conditions: list[dict[str, Any]] = field(default_factory=list)
    """Of the application: Ready, Reconciling, Stalled, and what is wrong with it, in Argo CD's types.

    Of fields: Conflict, one that is left to a rival for now; Yielded, one that is left to others as the rules say. Of
    objects: Kept, it has left the bundle and stays; Skipped, it is left to its owner, or to whoever changed it while
    self-heal is off; Held, somebody keeps it from being written, for a time.
    """
    holds: Sequence[Hold] = ()  #: that hit it as a whole
    drift: Mapping[str, Any] = field(default_factory=dict)  #: decisions.drift.summary, empty = nothing is known of any

    def to_json(self) -> dict[str, Any]:
        """For ``-o json|yaml``: Argo CD's words, Flux's revision form."""
        return {
            "app": self.app,
            "sync": self.sync,
            "health": self.health,
            "phase": self.phase,
            "message": self.message,
            "reason": self.error,
            "step": self.step,
            "revision": str(self.revision) if self.revision.digest else "",
            "commit": self.revision.commit,
            "source": self.revision.source,
            "created": self.revision.created,
            "attempted": self.attempted,
            "objects": self.objects,
            "failures": self.failures,
            "heldBack": self.held_back,
            "conditions": self.conditions,
            "drift": dict(self.drift) or None,
            "holds": [hold.for_programs() for hold in self.holds],
            "ageSeconds": None if self.age is None else round(self.age, 1),
            "nextLookSeconds": None if self.next_look is None else round(self.next_look, 1),
        }


def view(
    app: str,
    look: Look,
    *,
    now_ms: float,
    due_ms: float | None,
    held: str | None = None,
    entry: Mapping[str, Any] | None = None,
    holds: Sequence[Hold] = (),
) -> View:
    """``due_ms``: the application's score in the due set. ``entry``: the newest of its history, where that is asked.

    ``held``: of one that has left the catalog and is to be deleted, why that has not begun; "" = nothing holds it.
    ``holds``: those that hit the application as a whole.
    """
    state, run = look.state, look.run
    digest, attempted = state.get("digest", ""), state.get("attempted", "")
    running = bool(run)
    conflicts, left = (json.loads(state.get(word) or "[]") for word in ("conflicts", "held"))
    return View(
        app=app,
        sync=state.get("sync", "Unknown"),
        health=state.get("health", "Unknown"),
        phase=_phase(look, held),
        message=_message(look, now_ms) if held is None else _farewell(look, held, now_ms),
        revision=Revision(
            digest=digest,
            tag=state.get("tag", ""),
            source=state.get("source", ""),
            revision=state.get("revision", ""),
            created=state.get("created", ""),
        ),
        attempted=attempted if attempted != digest else "",
        step=f"{run.get('step', '')} ({run.get('state', '')})" if running else "",
        age=(now_ms - float(state["finished"])) / 1000 if state.get("finished") else None,
        next_look=None if due_ms is None else (due_ms - now_ms) / 1000,
        error=state.get("reason", ""),
        objects=int(state["objects"]) if state.get("objects") else None,
        failures=int(state.get("failures", 0) or 0),
        held_back=_held_back(look),
        conditions=[
            *conditions(state, run),
            *argo(state, departing=held is not None),
            *conflicts,
            *left,
            *_yielded(state.get("yielded") or "{}"),
            *_left_alone(entry or {}, {condition.get("object") for condition in (*conflicts, *left)}),
        ],
        holds=holds,
        drift=json.loads(state.get("drift") or "{}"),
    )


def _phase(look: Look, held: str | None) -> str:
    if held is not None:
        return "Held" if held else "Deleting"
    return "Running" if look.run else look.state.get("phase", "-")


def _farewell(look: Look, held: str, now_ms: float) -> str:
    if held:
        return f"has left the catalog; {held}"
    if look.run.get("trigger") == "Removed":
        return _message(look, now_ms)
    # Of the last deletion, if one has been tried: a sync's success says nothing about it.
    told = look.state.get("message", "") if look.state.get("removing") else ""
    return told or "has left the catalog; its objects are deleted soon unless it comes back"


def _held_back(look: Look) -> str:
    """As the last look found it; a pin also before that."""
    pin = Order.of_pin(look.orders)
    if look.state.get("held_back") or not pin:
        return look.state.get("held_back", "")
    return f"pinned to {Revision(pin.digest).short} {pin}, not taken up yet"


def _yielded(text: str) -> list[dict[str, Any]]:
    return [
        {
            "type": "Yielded",
            "status": "True",
            "reason": "LeftToOthers",
            "message": f"{ObjectId.from_key(key)}: {told}",
            "object": str(ObjectId.from_key(key)),
        }
        for key, told in json.loads(text).items()
    ]


def _left_alone(entry: Mapping[str, Any], told: Container[object]) -> list[dict[str, Any]]:
    """``told``: objects of which a conflict says why."""
    return [
        {
            "type": "Kept" if result.outcome == "kept" else "Skipped",
            "status": "True",
            "reason": "LeftAlone",
            "message": f"{result.id}: {result.reason}",
            "object": str(result.id),
        }
        for result in left_alone(entry)
        if str(result.id) not in told
    ]


def _message(look: Look, now_ms: float) -> str:
    if look.run:
        waiting = look.run.get("message", "")
        step = look.run.get("step", "")
        if standing := progress.told(look.run, now_ms / 1000):
            waiting = f"{waiting}; {standing}"
        return f"{step}: {waiting}" if waiting else f"{step} ({look.run.get('state', '')})"
    known = look.state.get("message", "" if look.state else "not looked at yet")
    if look.request:
        asked = f"sync asked for by {look.request.get('by', '?')}, not begun"
        # what keeps it from beginning, such as a login that cannot be read, stands there
        return f"{asked}; last: {known}" if look.state.get("reason") else asked
    return known
