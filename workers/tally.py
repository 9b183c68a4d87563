"""The results of a run's objects, kept one by one as they come: a wave that is killed is not told twice."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import orjson

from fleetbeat import keys
from fleetbeat.clients.ledger import Pen
from fleetbeat.clients.runs import Turn
from fleetbeat.decisions.ledger import Execution
from fleetbeat.engine.plan import Known, known_from_json, known_to_json
from fleetbeat.engine.write import Done
from fleetbeat.errors import ConfigurationError
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Health, HealthStatus, ObjectResult
from workers.parts import Parts

Entry = tuple[ObjectResult, Known | None]


def keep(shared: Parts, run: str, batch: Sequence[Done], pen: Pen) -> None:
    """Results and ledger together. Objects that have to wait are left out: their turn is still to come."""
    kept = [one for one in batch if not one.not_yet]
    pen.keep(run, {_field(one.result): _dump(shared, run, one.result, one.known) for one in kept})


def tell(batch: Sequence[Done], pen: Pen) -> None:
    """What the ledger cannot know from the answers alone: why, what it was like before, and what others had done."""
    for one in batch:
        result, change = one.result, one.change
        why = "; ".join(filter(None, (f"{result.phase} hook" if result.phase else "", result.reason)))
        if change is not None:
            pen.explain(result.id, result.reason)
            if change.seen is not None:
                pen.know(result.id, change.seen.resource_version, change.before)
        elif result.audit_id:
            pen.explain(result.id, why)
        elif result.outcome in ("created", "configured"):
            pen.found(result.id, why)
        elif result.outcome in ("unchanged", "pruned", "handed-over"):
            # It was so when its turn came: perhaps by a write of this run whose answer got lost.
            pen.possible(result.id)


def execution(turn: Turn, stage: str) -> Execution:
    """Who writes and why, for the ledger. The cluster is told with the first write."""
    said = {word: turn.record.get(word, "") for word in _ABOUT}
    return Execution(turn.app, "", turn.run, turn.fence, stage, **said)


_ABOUT = ("trigger", "by", "reason", "overrode", "digest", "tag", "source", "revision")


def done(entries: Iterable[Entry]) -> list[Done]:
    """As the execution that wrote them had them. Failed ones are left out: they are tried again."""
    return [
        Done(result, known, Health(result.health) if result.health else None)
        for result, known in entries
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
        fresh[key.key] = _dump(shared, run, replace(result, health=state.status), known)
    shared.runs.record(run, fresh)


def load(shared: Parts, run: str) -> dict[ObjectId, Entry]:
    """Everything kept so far of members."""
    return {result.id: (result, known) for result, known in _everything(shared, run) if not result.phase}


def hooks(shared: Parts, run: str) -> dict[tuple[str, ObjectId], ObjectResult]:
    """Of hooks, by phase and object: one of two phases has two results."""
    return {(result.phase, result.id): result for result, _ in _everything(shared, run) if result.phase}


def settle_hooks(shared: Parts, run: str, phase: str, judged: Mapping[ObjectId, Health]) -> None:
    """Health as seen while waiting; what is wrong with a hook becomes its reason."""
    kept = hooks(shared, run)
    fresh: list[ObjectResult] = []
    for key, state in judged.items():
        if result := kept.get((phase, key)):
            bad: tuple[HealthStatus, ...] = ("Degraded", "Missing")
            reason = state.message if state.status in bad else result.reason
            fresh.append(replace(result, health=state.status, reason=reason))
    _tell_again(shared, run, fresh)


def note_hooks(shared: Parts, run: str, phase: str, said: Mapping[ObjectId, str]) -> None:
    """What became of their objects when the phase was over."""
    kept = hooks(shared, run)
    fresh: list[ObjectResult] = []
    for key, text in said.items():
        result = kept.get((phase, key))
        if result is not None and text and text not in result.reason:
            fresh.append(replace(result, reason="; ".join(filter(None, (result.reason, text)))))
    _tell_again(shared, run, fresh)


def _tell_again(shared: Parts, run: str, results: Sequence[ObjectResult]) -> None:
    shared.runs.record(run, {_field(result): _dump(shared, run, result, None) for result in results})


def _everything(shared: Parts, run: str) -> Iterator[Entry]:
    for text in shared.runs.results(run).values():
        data = orjson.loads(text)
        result = ObjectResult.from_json(data["result"])
        yield result, _unsealed(shared, run, result, data["known"])


def _field(result: ObjectResult) -> str:
    return f"{result.phase} {result.id.key}" if result.phase else result.id.key


def _dump(shared: Parts, run: str, result: ObjectResult, known: Known | None) -> str:
    """What is known of an object is sealed: from the plain hash of a manifest a weak Secret could be guessed."""
    sealed = ""
    if known is not None:
        plain = orjson.dumps(known_to_json({result.id: known}))
        sealed = base64.b64encode(shared.store.seal(plain, _context(run, result))).decode()
    return orjson.dumps({"result": result.to_json(), "known": sealed}).decode()


def _unsealed(shared: Parts, run: str, result: ObjectResult, sealed: object) -> Known | None:
    """None too for what another key or an earlier version has written: the next look compares the object then."""
    if not isinstance(sealed, str) or not sealed:
        return None
    try:
        plain = shared.store.unseal(base64.b64decode(sealed), _context(run, result))
    except (ConfigurationError, ValueError):
        return None
    return next(iter(known_from_json(orjson.loads(plain)).values()), None)


def _context(run: str, result: ObjectResult) -> str:
    return f"{keys.results(run)} {_field(result)}"
