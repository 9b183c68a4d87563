"""Steps of a deletion: where they differ from those of a sync (``departing.py`` tells when one begins).

``pull`` and ``render`` have nothing to do without hooks; the plan is made from the cluster alone, where the ApplySet
parent lists every kind of object the application has. What was written before is deleted the way back, stage by stage,
and the parent last: a deletion that is broken off at any point is begun anew by the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fleetbeat.clients import applyset
from fleetbeat.clients.runs import Fields
from fleetbeat.decisions.inventory import group_kinds
from fleetbeat.decisions.lifecycle import Ending, after
from fleetbeat.engine import deleting
from fleetbeat.engine.deleting import find, plan_deletion
from fleetbeat.engine.kinds import api_set_for, api_set_with_owned
from fleetbeat.engine.plan import Plan, manifests_to_json
from fleetbeat.engine.write import Done
from fleetbeat.errors import LostLock, NotYet
from fleetbeat.model import ObjectId, ObjectResult
from workers import memory, tally
from workers.target import Target, target
from workers.task import HELD_PAUSE, Next, Outcome, Wait, Work

#: Keeps results, as ``write_stage`` has it.
Record = Callable[[Sequence[Done]], None]


def pull(work: Work) -> Outcome:
    """No bundle is needed to delete. Which one was there last is told by Redis, or by the cluster."""
    digest = work.record.get("digest", "")
    if not digest:
        where = target(work.parts, work.turn.app, run=work.turn.run, removal=True)
        parent = applyset.read(where.cluster, work.parts.settings.namespace, work.turn.app)
        digest = parent.digest if parent else ""
    return Next("diff", {"digest": digest})


def plan(work: Work) -> Outcome:
    """What is there, in which order it goes. Waits while an object asks for a person's word."""
    shared, app = work.parts, work.turn.app
    where = target(shared, app, run=work.turn.run, digest=work.record["digest"], removal=True)
    parent = applyset.read(where.cluster, shared.settings.namespace, app)
    kinds = _kinds(work, parent)
    departure = shared.departures.get(app)
    found = find(
        where.cluster,
        api_set_with_owned(where.cluster, (), kinds),
        kinds,
        shared.pool,
        applyset=where.applyset,
        home=shared.settings.namespace,
        confirmed=departure is not None and departure.confirmed,
    )
    if found.unconfirmed:
        message = f"{memory.joined(found.unconfirmed)} asks for a confirmation (Delete=confirm)"
        return Wait(work.turn.step, HELD_PAUSE, f"{message}: fleetbeat delete {app} --confirm")
    planned = plan_deletion(found) if parent is not None or found.delete or found.kept else Plan()
    fields: Fields = {
        "written": "",
        "stage": "",
        "pending": "",
        "looks": 0,
        "owned": "",
        "plan": shared.blobs.put(planned.to_json()),
        "rendered": shared.blobs.put(manifests_to_json([])),
        "stages": len(planned.stages),
        "parent": "" if parent else "absent",
        "home": parent.uid if parent else "",
    }
    return Next(after("diff", len(planned.stages)), fields)


def is_over(work: Work, where: Target) -> bool:
    """Has the parent gone? It goes last, and taking it would make it anew."""
    return applyset.read(where.cluster, work.parts.settings.namespace, work.turn.app) is None


def kept(work: Work) -> list[ObjectId]:
    """What a stage of this run found that it must stay after all."""
    entries = tally.load(work.parts, work.turn.run)
    return [key for key, (result, _) in entries.items() if result.outcome == "kept"]


def farewell(work: Work, where: Target, record: Record) -> list[Done]:
    """Let go of what turned out to stay, make sure that nothing is left, and delete the parent."""
    shared, app = work.parts, work.turn.app
    parent = applyset.read(where.cluster, shared.settings.namespace, app)
    kinds = _kinds(work, parent)
    apis = api_set_with_owned(where.cluster, (), kinds)
    found = find(
        where.cluster, apis, kinds, shared.pool, applyset=where.applyset, home=shared.settings.namespace, confirmed=True
    )
    stays = {*kept(work), *(key for key, _ in found.kept)}
    if left := [meta.id for meta in found.delete if meta.id not in stays]:
        raise NotYet(f"{memory.joined(left)} is there again, or still; the deletion begins anew")
    done = let_go(work, where, {*(key for key, _ in found.kept), *(meta.id for meta in found.delete)}, record)
    if parent is not None and all(one.result.outcome != "failed" for one in done):
        if parent.run != work.turn.run:
            raise LostLock("another run has taken the parent")
        applyset.remove(where.cluster, parent)
    return done


def let_go(work: Work, where: Target, objects: set[ObjectId], record: Record) -> list[Done]:
    """Take the label off these and leave them as they are. Told are those it could be taken off, and could not."""
    apis = api_set_for(where.cluster, {(key.group, key.kind) for key in objects})
    results = deleting.let_go(where.cluster, apis, where.applyset, sorted(objects), work.parts.pool)
    known = tally.load(work.parts, work.turn.run)
    done = [Done(_with_reason(result, known)) for result in results]
    record(done)
    return done


def _with_reason(result: ObjectResult, known: Mapping[ObjectId, tally.Entry]) -> ObjectResult:
    """What was kept by a stage before keeps its reason."""
    before = known.get(result.id)
    return replace(result, reason=before[0].reason) if before and result.outcome == "kept" else result


def end(work: Work, ending: Ending) -> dict[str, str | int | float]:
    """What to remember of the application beside what every run leaves; its departure ends with its objects.

    Should it come back, nothing of before may count: neither what was tried nor what was there.
    """
    forgotten = dict.fromkeys(("attempted", "home"), "")
    if ending.phase != "Succeeded":
        return {**forgotten, "sync": "Unknown"}
    work.parts.departures.end(work.turn.app, int(work.record["since"]))
    return {**forgotten, **dict.fromkeys(_OF_A_BUNDLE, ""), "objects": 0}


_OF_A_BUNDLE = ("digest", "tag", "source", "revision", "created", "fights", "truce", "conflicts")


def _kinds(work: Work, parent: applyset.Parent | None) -> frozenset[str]:
    """Every kind the application may have objects of. The inventory matters only where somebody deleted the parent."""
    state = work.parts.runs.look(work.turn.app).state
    known = memory.load_known(work.parts, state.get("inventory", "")) or {}
    return group_kinds(known) | (parent.group_kinds if parent else frozenset())
