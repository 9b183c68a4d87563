"""Drift from one run to the next: the ledger of it, what is left alone for a time, and what status says of both."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import orjson

from fleetbeat.clients.drift import dump
from fleetbeat.clients.runs import Fields
from fleetbeat.decisions import drift, fights
from fleetbeat.decisions.drift import DriftLedger, Found, Kept
from fleetbeat.decisions.fights import ANY, Dispute, Limits
from fleetbeat.decisions.lifecycle import origin
from fleetbeat.engine.plan import Plan
from fleetbeat.engine.weigh import Truces, no_truces
from fleetbeat.model import Application, ObjectId
from fleetbeat.model_results import Drifted
from workers import tally
from workers.parts import Parts
from workers.task import Work

#: So many are told in the state, which every look reads; the history entry has all of them.
TOLD = 20
#: ms by which the last run may end in the future before that is a clock that went back
_CLOCK_WENT_BACK = 1000


# ── before ───────────────────────────────────────────────────────────────────────────────────────────────────────


def truces(work: Work, state: Mapping[str, str], home: str, application: Application) -> Truces:
    """What this run leaves alone: nothing, when somebody has asked for it. ``home``: uid of the ApplySet parent."""
    if not state.get("drift") or not application.sync.self_heal or origin(work.record) == "Request":
        return no_truces
    shared, before = work.parts, _ledger(work, state, home, application)
    now, of_fields, of_objects = shared.runs.now(), _limits(shared, application), _often(shared)

    def look(key: ObjectId, name: str, party: str) -> Dispute | None:
        dispute = before.dispute(key, name)
        if dispute is None:
            return None
        limits = of_objects if name == ANY else of_fields
        dispute = fights.changed(dispute, party, now, limits)
        return dispute if dispute.stands(now, limits) else None

    return look


def is_over(shared: Parts, app: str, state: Mapping[str, str]) -> bool:
    """Has something been left alone for long enough? Then it is tried again, although nothing moved.

    If not, the application is rung at that end, whatever its regular slot is.
    """
    until = int(state.get("truce") or 0)
    if not until:
        return False
    now = shared.runs.now()
    if int(state.get("ended") or 0) > now + _CLOCK_WENT_BACK:
        return True  # a run finds out what is left of the pause by the clock of now: else it would grow by that time
    if not Dispute(until=until).stands(now, _limits(shared, None)):
        return True
    shared.runs.look_by(app, until)
    return False


def waiting(shared: Parts, app: str, state: Mapping[str, str]) -> set[ObjectId]:
    """Objects that wait for their next heal: what moves of them meanwhile is looked at then.

    The state names them where they are few. Of more the drift ledger knows, or each of the rest that is rewritten would
    begin a run that finds nothing to do.
    """
    told: Mapping[str, int] = orjson.loads(state.get("waiting") or "{}")
    if not told:
        return set()
    ends = {ObjectId.from_key(key): until for key, until in told.items()}
    if len(ends) >= TOLD:
        ends |= {key: one.until for key, one in shared.drifts.read(app).often.items()}
    now, often = shared.runs.now(), _often(shared)
    return {key for key, until in ends.items() if Dispute(until=until).stands(now, often)}


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────


class Told(NamedTuple):
    """What the end of a run writes down of drift."""

    state: Fields
    ledger: str | None = None  #: None = as it was
    kept: int = 0  #: ms, 0 = without an end
    spaced: bool = False  #: something was left alone for a time, or put back after such a time

    @property
    def look_by(self) -> int:
        """ms since epoch when something that is left alone has its next turn, 0 = nothing is."""
        return int(self.state.get("truce") or 0)


def after_run(
    work: Work,
    state: Mapping[str, str],
    plan: Plan,
    entries: Mapping[ObjectId, tally.Entry],
    application: Application | None,
) -> Told:
    """Fields of the state: ``drift`` (a summary, JSON), ``truce`` (ms, the first end of what is left alone),
    ``conflicts`` (conditions, JSON), ``waiting`` (objects that wait for their next heal → ms, JSON)."""
    written = {key for key, (result, _) in entries.items() if result.outcome in ("created", "configured")}
    healed = {change.id: change.healed for change in plan.changes if change.healed and change.id in written}
    undone = {change.id: change.healed for change in plan.changes if change.healed and change.id not in written}
    left = {key: (*undone.get(key, ()), *plan.left.get(key, ())) for key in (*undone, *plan.left)}
    nothing: Fields = {"drift": "", "truce": "", "conflicts": "", "waiting": ""}
    if not (healed or left or state.get("drift")):
        return Told(nothing if any(state.get(name) for name in nothing) else {})
    shared, record = work.parts, work.record
    now, chosen = shared.runs.now(), shared.settings.drift
    kept = Kept(chosen.rows, chosen.days)
    unknown = {change.id for change in plan.changes if change.id not in written} | {one.id for one in plan.failed}
    found = drift.after_run(
        _ledger(work, state, record.get("home", ""), application),
        Found(work.turn.run, now, healed, left, unknown, plan.truces),
        _limits(shared, application),
        _often(shared),
        kept,
    )
    standing = [(key, name, one) for key, disputes in plan.truces.items() for name, one in disputes.items()]
    told = [fights.condition(*one) for one in standing[:TOLD]]
    waits = {key.key: one.until for key, name, one in standing if name == ANY}
    summary = drift.summary(found)
    return Told(
        {
            "drift": orjson.dumps(summary).decode() if summary else "",
            "truce": min((one.until for _, _, one in standing), default=""),
            "conflicts": orjson.dumps(told).decode() if told else "",
            "waiting": orjson.dumps(dict(list(waits.items())[:TOLD])).decode() if waits else "",
        },
        dump(found),
        drift.end(found, kept),
        bool(standing) or _after_a_pause(found, healed),
    )


def _after_a_pause(found: DriftLedger, healed: Mapping[ObjectId, Sequence[Drifted]]) -> bool:
    disputes = (
        found.dispute(key, name) for key, fields in healed.items() for name in (ANY, *(f.field for f in fields))
    )
    return any(dispute is not None and dispute.truces for dispute in disputes)


def yielded(before: str, plan: Plan, known: Container[ObjectId]) -> str:
    """Field of the state: object → what of it is left to whom, as JSON. What was not compared is as it was."""
    left = {ObjectId.from_key(key): told for key, told in orjson.loads(before or "{}").items()} | plan.yielded
    there = {key.key: told for key, told in sorted(left.items()) if told and key in known}
    return orjson.dumps(dict(list(there.items())[:TOLD])).decode() if there else ""


# ── what both need ───────────────────────────────────────────────────────────────────────────────────────────────


def _ledger(work: Work, state: Mapping[str, str], home: str, application: Application | None) -> DriftLedger:
    """What is remembered, with the disputes of the run's digest, catalog entry and cluster alone."""
    read = work.parts.drifts.read(work.turn.app) if state.get("drift") else DriftLedger()
    cluster = application.destination.cluster if application is not None else read.cluster
    if read.cluster != cluster:
        read = DriftLedger(cluster=cluster)
    return read.for_run((work.record.get("digest", ""), work.record.get("spec", ""), home))


def _limits(shared: Parts, application: Application | None) -> Limits:
    """An application that is looked at once in five minutes could not be healed three times in ten."""
    chosen = shared.settings.fights
    interval = application.sync.interval if application is not None else 0.0
    return Limits(chosen.heals, max(chosen.within, (chosen.heals + 1) * interval), chosen.pause, chosen.longest)


def _often(shared: Parts) -> Limits:
    """Of heals of one object. Looks that are rare are a bound by themselves."""
    chosen = shared.settings.heals
    return Limits(chosen.most, chosen.within, chosen.pause, chosen.longest, chosen.factor)
