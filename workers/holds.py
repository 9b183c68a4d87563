"""Holds and annotations that keep a sync from writing, from one run to the next (``fleetbeat/decisions/holds.py``).

A run that may write nothing waits in front of its first write, as for a sync window, and goes on when the hold ends or
is lifted. What is left as it is for a time is noted in the state with its end, at which the application is rung.
Looks that find nothing held read nothing of this.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping

import orjson

from fleetbeat.clients import applyset
from fleetbeat.clients.holds import Holds
from fleetbeat.clients.runs import Fields, Look
from fleetbeat.decisions import holds, self_heal
from fleetbeat.decisions.bypasses import Bypasses
from fleetbeat.decisions.holds import Held, Hold, Subject
from fleetbeat.decisions.lifecycle import origin
from fleetbeat.engine.plan import Known, Plan
from fleetbeat.errors import FleetbeatError, LostLock, StoreUnavailable
from fleetbeat.model import Application, ObjectId
from fleetbeat.model_results import ObjectResult
from workers import hand_holds, hold_ends, tally, windows
from workers.departing import is_removal
from workers.parts import Parts
from workers.target import Target, target
from workers.task import Next, Wait, Work

log = logging.getLogger(__name__)

#: Begins what a run that waits for a hold has in its field ``window``, so that it is looked at like one at a window.
_WAITS = "hold "
#: So many are told in the state, which every look reads; the history entry has all of them.
TOLD = 20


# ── the plan ─────────────────────────────────────────────────────────────────────────────────────────────────────


def bypasses(
    work: Work, where: Target, parent: applyset.Parent | None, look: Look, known: Mapping[ObjectId, Known]
) -> tuple[Bypasses, Fields]:
    """What this run leaves as it is, and what to keep of it in the record. Notes the holds in the cluster."""
    shared, app, client = work.parts, work.turn.app, Holds(work.parts.store)
    new = hand_holds.meet(shared, app, look.state, parent)
    found, noted = client.read(), (shared.runs.look(app) if new else look).orders.get("holds", "")
    if parent and parent.holds and not look.state.get("digest") and "holds" not in look.orders:
        # Redis has lost its data, and with it that people hold this application.
        remembered = _remembered(parent.holds, app, found.now)
        client.restore(remembered)
        found, noted = client.read(), shared.runs.look(app).orders.get("holds", "")
    if parent:
        _note(work, parent, [hold for hold in found.holds if (hold.kind, hold.target) == ("app", app)])
    annotations = parent.body["metadata"].get("annotations") if parent else None
    left = Bypasses.of(
        where.application,
        holds_there=found.holds,
        now=found.now,
        parent=annotations,
        parent_set_by=parent.setters if parent else (),
        same_bundle=bool(parent and not known and parent.digest == work.record["digest"]),
        asked=origin(work.record) == "Request",
    )
    mark = _mark(found.holds, where.application, found.now)
    return left, {"holds": mark, "holds_noted": noted, "held_parent": parent_mark(annotations)}


def _remembered(text: str, app: str, now: int) -> list[Hold]:
    """What cannot be read was not written by us: it is left out, and overwritten."""
    try:
        found = [Hold.from_json(one) for one in orjson.loads(text)]
    except (ValueError, TypeError) as error:
        log.warning("%s: annotation %s of its ApplySet parent is not ours: %s", app, applyset.HOLDS, error)
        return []
    mine = [hold for hold in found if (hold.kind, hold.target) == ("app", app)]
    return [hold for hold in mine if hold.stands(now) and hold.until - now <= holds.LONGEST * 1000][: holds.MOST_ON_ONE]


def _note(work: Work, parent: applyset.Parent, mine: Iterable[Hold]) -> None:
    """Put the application's own holds where people with only kubectl see them, and where no flush of Redis reaches."""
    shared, turn = work.parts, work.turn
    listed = [hold.to_json() for hold in sorted(mine, key=lambda hold: hold.id)]
    text = orjson.dumps(listed, option=orjson.OPT_SORT_KEYS).decode() if listed else ""
    if text == parent.holds:
        return
    pen = shared.ledger.pen(tally.execution(turn, "note of its holds"))
    try:
        where = target(
            shared,
            turn.app,
            run=turn.run,
            fence=turn.fence,
            digest=work.record["digest"],
            guard=work.lease.check,
            witness=pen.saw,
        )
        places = applyset.places(shared.settings.namespace, turn.app)
        with pen.begin(where.cluster.name, places, known_before=True):
            applyset.note(where.cluster, parent, applyset.HOLDS, text)
    except (LostLock, StoreUnavailable):
        raise
    except FleetbeatError as error:
        log.warning("%s: its holds are not noted in the cluster, the next run tries again: %s", turn.app, error)


def _mark(found: Iterable[Hold], application: Application, now: int) -> str:
    """Another one when a plan has to leave something else as it is."""
    subject = Subject.of(application)
    return holds.mark(
        hold
        for hold in found
        if hold.stands(now)
        and (hold.scope != "sync" if holds.hits(hold, subject) else hold.kind in ("namespace", "object"))
    )


def parent_mark(annotations: Mapping[str, str] | None) -> str:
    """Another one when the ApplySet parent says something else about self-healing; "" when it says nothing."""
    said = [(annotations or {}).get(key) for key in self_heal.KEYS]
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16] if any(word is not None for word in said) else ""


# ── waiting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def may_wait(plan: Plan, number: int) -> bool:
    """Not what belongs to what was begun, and not our own bookkeeping."""
    coming = [stage for stage in plan.stages[number:] if stage.part != "cleanup"]
    return bool(coming) and plan.stages[number].part != "cleanup" and any(stage.ids for stage in coming)


def hold_up(work: Work, application: Application, plan: Plan, number: int) -> Next | Wait | None:
    """What is done instead of stage ``number`` while a hold stands against it; None = it may be written."""
    record, shared, turn = work.record, work.parts, work.turn
    if not may_wait(plan, number):
        return None
    found = Holds(shared.store).read()
    standing = holds.standing(found.holds, Subject.of(application), "sync", found.now)
    if is_removal(record):
        standing += holds.standing(found.holds, Subject.of(application), "prune", found.now)
    if held := holds.told(_longest_first(standing)):
        if not is_removal(record):
            windows.remember(work, plan)
        before = " What came before it is written." if number else ""
        fields: dict[str, str | int | float] = {
            "window": _WAITS + holds.mark(standing),
            "look": str(int(min(application.sync.interval, windows.LONGEST_LOOK) * 1000)),
            "others": "",
            "waited": held.why,
            "warn": holds.warns_at(held.until, found.now, record.get("warn", "")),
        }
        if number:
            fields["opened"] = record.get("opened") or str(found.now)  # the plan is under way, and not made anew
        seconds = (held.until - found.now) / 1000
        message = f"{plan.stages[number].title} waits: {held.why}.{before}"
        return Wait(turn.step, seconds, message, fields, until=held.until, blocked="Hold")
    if waits(record):
        over = {"window": "", "look": "", "warn": ""}
        record |= over
        shared.runs.note(turn.app, turn.run, over)
    if number == 0 and not is_removal(record) and _mark(found.holds, application, found.now) != record.get("holds", ""):
        return Next("diff", windows.AFRESH)  # something else is to be left as it is than when the plan was made
    return None


def waits(record: Mapping[str, str]) -> bool:
    """Does this run wait for a hold?"""
    return record.get("window", "").startswith(_WAITS)


def have_changed(shared: Parts, there: hold_ends.Entry, record: Mapping[str, str], home: str) -> bool:
    """Are the holds a run waits for others by now? Tells of one that is about to end.

    ``home``: uid of the ApplySet parent, "" without one.
    """
    found, subject = Holds(shared.store).read(), Subject.of(there[0])
    standing = holds.standing(found.holds, subject, "sync", found.now)
    if is_removal(record):
        standing += holds.standing(found.holds, subject, "prune", found.now)
    if _WAITS + holds.mark(standing) != record["window"]:
        return True
    hold_ends.of_run(shared, there, record, home, _longest_first(standing), found.now)
    return False


def _longest_first(standing: Iterable[Hold]) -> list[Hold]:
    return sorted(standing, key=lambda hold: (-hold.until, hold.id))


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────


def after_run(
    state: Mapping[str, str], record: Mapping[str, str], plan: Plan, results: Iterable[ObjectResult], now: int
) -> dict[str, str | int | float]:
    """Fields of the state: ``held`` (conditions, JSON), ``held_until`` (ms, the first end), ``held_mark``; and
    ``held_warn``, when it is told that this end is near."""
    left = news(plan)
    noted: dict[str, str | int | float] = {"holds_noted": record["holds_noted"]} if "holds_noted" in record else {}
    if not left:
        nothing = dict.fromkeys(("held", "held_until", "held_mark", "held_warn"), "")
        return noted | (nothing if any(state.get(word) for word in nothing) else {})
    reasons = {result.id: result.reason for result in results}
    told = [_condition(key, held, reasons.get(key, held.why)) for key, held in list(left.items())[:TOLD]]
    sources = {held.source for held in left.values()}
    until = min((held.until for held in left.values() if held.until), default=0)
    marks = [record.get("holds", "") if "hold" in sources else ""]
    marks += [record.get("held_parent", "")] if "parent" in sources else []
    return noted | {
        "held": orjson.dumps(told).decode(),
        "held_until": until or "",
        "held_warn": holds.warns_at(until, now, state.get("held_warn", "")),
        "held_mark": "/".join(marks),
    }


def news(plan: Plan) -> dict[ObjectId, Held]:
    """What is left for a time; without what the catalog leaves for good."""
    return {key: held for key, held in plan.held.items() if held.source != "spec"}


def _condition(key: ObjectId, held: Held, why: str) -> dict[str, str]:
    until = {"until": holds.moment(held.until)} if held.until else {}
    reason = "HeldByHold" if held.source == "hold" else "SelfHealDisabled"
    message = why if why.startswith(str(key)) else f"{key}: {why}"
    return {"type": "Held", "status": "True", "reason": reason, "message": message, "object": str(key), **until}


def next_look(state: Mapping[str, object]) -> int:
    """When an application that leaves something as it is has to be looked at, ms since epoch; 0 = it leaves nothing."""
    return int(str(state.get("held_warn") or state.get("held_until") or 0))


def are_over(shared: Parts, where: Target, look: Look) -> bool:
    """Has something that was left as it is come to its end, or been let go of? Asked only where something was.

    If not, the application is rung at that end, and ten minutes before it, whatever its regular slot is.
    """
    state, app = look.state, where.application.name
    until, mark = int(state.get("held_until") or 0), state.get("held_mark", "")
    if not state.get("held"):
        return False
    found = Holds(shared.store).read()
    if until and found.now >= until:
        return True
    by_holds, _, by_parent = mark.partition("/")
    if by_holds and by_holds != _mark(found.holds, where.application, found.now):
        return True
    if by_parent:
        parent = applyset.read(where.cluster, shared.settings.namespace, app)
        if parent_mark(parent.body["metadata"].get("annotations") if parent else None) != by_parent:
            return True
    if until:
        shared.runs.look_by(app, hold_ends.of_state(shared, where, state, found.now))
    return False
