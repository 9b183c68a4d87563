"""The results of a run's objects, kept one by one as they come: a wave that is killed is not told twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from fleetbeat.clients.ledger import Pen
from fleetbeat.clients.runs import Turn
from fleetbeat.decisions.ledger import Execution
from fleetbeat.engine.plan import Known, known_from_json, known_to_json
from fleetbeat.engine.write import Done
from fleetbeat.model import Health, ObjectId, ObjectResult
from workers.parts import Parts

Entry = tuple[ObjectResult, Known | None]


def keep(run: str, batch: Sequence[Done], pen: Pen) -> None:
    """Results and ledger together. Objects that have to wait are left out: their turn is still to come."""
    entries = {one.result.id: (one.result, one.known) for one in batch if not one.not_yet}
    pen.keep(run, {key.key: _dump(key, entry) for key, entry in entries.items()})


def tell(batch: Sequence[Done], pen: Pen) -> None:
    """What the ledger cannot know from the answers alone: why, what it was like before, and what others had done."""
    for one in batch:
        result, change = one.result, one.change
        if change is not None:
            pen.explain(result.id, result.reason)
            if change.seen is not None:
                pen.know(result.id, change.seen.resource_version, change.before)
        elif result.audit_id:
            pen.explain(result.id, result.reason)
        elif result.outcome in ("created", "configured"):
            pen.found(result.id, result.reason)
        elif result.outcome in ("unchanged", "pruned"):
            # It was so when its turn came: perhaps by a write of this run whose answer got lost.
            pen.possible(result.id)


def execution(turn: Turn, stage: str) -> Execution:
    """Who writes and why, for the ledger. The cluster is told with the first write."""
    said = {word: turn.record.get(word, "") for word in _ABOUT}
    return Execution(turn.app, "", turn.run, turn.fence, stage, **said)


_ABOUT = ("trigger", "by", "reason", "digest", "tag", "source", "revision")


def done(entries: Mapping[ObjectId, Entry]) -> list[Done]:
    """As the execution that wrote them had them. Failed ones are left out: they are tried again."""
    return [
        Done(result, known, Health(result.health) if result.health else None)
        for result, known in entries.values()
        if result.outcome != "failed"
    ]


def settle(
    shared: Parts, run: str, judged: Mapping[ObjectId, tuple[Health, Known | None]], unchanged: Mapping[ObjectId, Known]
) -> None:
    """Health and fingerprint as seen while waiting. ``unchanged``: objects that are waited for without a write."""
    stored = load(shared, run)
    fresh: dict[str, str] = {}
    for key, (state, seen) in judged.items():
        if key not in stored and key not in unchanged:
            continue
        result, known = stored.get(key) or (ObjectResult(key, "unchanged"), unchanged[key])
        if known is not None and seen is not None:
            known = seen._replace(hash=known.hash)
        fresh[key.key] = _dump(key, (replace(result, health=state.status), known))
    shared.runs.record(run, fresh)


def load(shared: Parts, run: str) -> dict[ObjectId, Entry]:
    """Everything kept so far."""
    found: dict[ObjectId, Entry] = {}
    for key, text in shared.runs.results(run).items():
        data = orjson.loads(text)
        known = known_from_json(data["known"])
        found[ObjectId.from_key(key)] = (ObjectResult.from_json(data["result"]), next(iter(known.values()), None))
    return found


def _dump(key: ObjectId, entry: Entry) -> str:
    result, known = entry
    return orjson.dumps(
        {"result": result.to_json(), "known": known_to_json({key: known}) if known is not None else {}}
    ).decode()
