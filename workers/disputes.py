"""Fights over fields, from one run to the next: what is left alone, what was put back, what status says of it."""

from __future__ import annotations

from collections.abc import Container, Mapping

import orjson

from fleetbeat.decisions import fights
from fleetbeat.decisions.fights import Dispute, Disputes, Limits
from fleetbeat.engine.plan import Plan
from fleetbeat.engine.weigh import Truces, no_truces
from fleetbeat.model import Application, ObjectId
from workers import tally
from workers.parts import Parts

#: So many are told in the state, which every look reads; the history entry has all of them.
TOLD = 20


def truces(shared: Parts, state: Mapping[str, str], record: Mapping[str, str], application: Application) -> Truces:
    """Which fields the run of ``record`` leaves alone: none, when somebody has asked for this sync."""
    before = _load(shared, state, record)
    if not before or not application.sync.self_heal or record.get("trigger") == "Request":
        return no_truces
    now, limits = shared.runs.now(), _limits(shared, application)

    def look(key: ObjectId, name: str, party: str) -> Dispute | None:
        dispute = before.get(key, {}).get(name)
        if dispute is None:
            return None
        dispute = fights.changed(dispute, party, now, limits)
        return dispute if dispute.stands(now, limits) else None

    return look


def is_over(shared: Parts, state: Mapping[str, str]) -> bool:
    """Has a field been left alone for long enough? Then it is tried again, although nothing moved."""
    until = int(state.get("truce") or 0)
    return bool(until) and not Dispute(until=until).stands(shared.runs.now(), _limits(shared, None))


def after_run(
    shared: Parts,
    state: Mapping[str, str],
    record: Mapping[str, str],
    plan: Plan,
    entries: Mapping[ObjectId, tally.Entry],
    application: Application | None,
) -> dict[str, str | int | float]:
    """Fields of the state: ``fights`` (digest of what is remembered), ``truce`` (ms, its first end), ``conflicts``."""
    heals = {
        change.id: change.healed
        for change in plan.changes
        if change.healed and change.id in entries and entries[change.id][0].outcome in ("created", "configured")
    }
    before = _load(shared, state, record)
    nothing: dict[str, str | int | float] = {"fights": "", "truce": "", "conflicts": ""}
    if not (heals or plan.truces or before):
        return nothing if any(state.get(word) for word in nothing) else {}
    found = fights.after_run(before, plan.truces, heals, shared.runs.now(), _limits(shared, application))
    standing = [(key, name, one) for key, left in plan.truces.items() for name, one in left.items()]
    told = [fights.condition(*one) for one in standing[:TOLD]]
    blob = orjson.dumps({"of": _of(record), "disputes": fights.to_json(found)}, option=orjson.OPT_SORT_KEYS)
    return {
        "fights": shared.blobs.put(blob) if found else "",
        "truce": min((one.until for _, _, one in standing), default=""),
        "conflicts": orjson.dumps(told).decode() if told else "",
    }


def yielded(before: str, plan: Plan, known: Container[ObjectId]) -> str:
    """Field of the state: object → what of it is left to whom, as JSON. What was not compared is as it was."""
    left = {ObjectId.from_key(key): told for key, told in orjson.loads(before or "{}").items()} | plan.yielded
    there = {key.key: told for key, told in sorted(left.items()) if told and key in known}
    return orjson.dumps(dict(list(there.items())[:TOLD])).decode() if there else ""


def _limits(shared: Parts, application: Application | None) -> Limits:
    """An application that is looked at once in five minutes could not be healed three times in ten."""
    chosen = shared.settings.fights
    interval = application.sync.interval if application is not None else 0.0
    return Limits(chosen.heals, max(chosen.within, (chosen.heals + 1) * interval), chosen.pause, chosen.longest)


def _load(shared: Parts, state: Mapping[str, str], record: Mapping[str, str]) -> Disputes:
    """What is remembered of the same digest, catalog entry and cluster; a lost blob costs a few heals more."""
    text = shared.blobs.get(state["fights"]) if state.get("fights") else None
    data = orjson.loads(text) if text is not None else {}
    return fights.from_json(data["disputes"]) if data.get("of") == _of(record) else {}


def _of(record: Mapping[str, str]) -> list[str]:
    return [record.get(word, "") for word in ("digest", "spec", "home")]
