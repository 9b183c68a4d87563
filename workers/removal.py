"""Steps of a deletion: where they differ from those of a sync (``departing.py`` tells when one begins).

The bundle is needed for its hooks alone. What goes is planned from the cluster, where the ApplySet parent lists every
kind of object the application has. It is deleted the way back, stage by stage, and the parent last: a deletion that is
broken off at any point is begun anew by the next run, but for hooks that have gone through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fleetbeat.clients import applyset
from fleetbeat.clients.runs import Fields
from fleetbeat.decisions.deletion import DeletionDecision
from fleetbeat.decisions.hooks import is_hook
from fleetbeat.decisions.inventory import group_kinds, namespaces, split_group_kind
from fleetbeat.decisions.lifecycle import Ending, after
from fleetbeat.engine import deleting
from fleetbeat.engine.deleting import DELETION_PHASES, find, hooks_of, plan_deletion, refused_hooks
from fleetbeat.engine.hooking import Hooks
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.kinds import api_set_for, api_set_with_owned
from fleetbeat.engine.plan import Plan, manifests_from_json, manifests_to_json
from fleetbeat.engine.rendering import render as render_bundle
from fleetbeat.engine.weigh import Weigher
from fleetbeat.engine.write import Done
from fleetbeat.errors import FleetbeatError, LostLock, NotYet, Permanent, StoreUnavailable
from fleetbeat.model import Manifest, ObjectId, Revision
from fleetbeat.model_results import ObjectResult
from workers import fleet_orders, hand_holds, memory, tally, waiting
from workers.departing import BACK
from workers.target import Target, target
from workers.task import HELD_PAUSE, Next, Outcome, Wait, Work, start_over

#: In place of the digest of the bundle whose hooks a deletion runs: no sync has gone through that could know it.
UNKNOWN = "?"

#: Keeps results, as ``write_stage`` has it.
Record = Callable[[Sequence[Done]], None]


class BundleUnavailable(NotYet):
    """The bundle is needed for its hooks, and cannot be had or read any more."""


def pull(work: Work) -> Outcome:
    """The bundle that was applied last, by its digest, when it has hooks to run or nobody knows whether it has."""
    shared, app = work.parts, work.turn.app
    where = target(shared, app, run=work.turn.run, removal=True)
    parent = applyset.read(where.cluster, shared.settings.namespace, app)
    state, departure = shared.runs.look(app).state, shared.departures.get(app)
    digest = work.record.get("digest") or (parent.digest if parent else "")
    wanted = state.get("deletion_hooks", UNKNOWN)
    if wanted == UNKNOWN:
        wanted = digest if parent else ""
    if not wanted or departure is None or departure.skip_hooks or departure.done >= set(DELETION_PHASES):
        return Next("diff", {"digest": digest, "rendered": ""})
    try:
        layer, revision = memory.pull(shared, where.application.source, Revision(wanted, work.record.get("tag", "")))
    except StoreUnavailable:
        raise
    except FleetbeatError as error:
        raise _without(app, wanted, error) from error
    told = {"source": revision.source, "revision": revision.revision, "revision_created": revision.created}
    return Next("render", {"digest": wanted, "layer": layer, **told})


def render(work: Work) -> Outcome:
    """Of the bundle only its hooks matter."""
    shared, record, app = work.parts, work.record, work.turn.app
    layer = shared.blobs.get(record["layer"])
    if layer is None:
        return start_over()
    limits, digest = shared.settings.bundles, record["digest"]
    where = target(shared, app, run=work.turn.run, fence=work.turn.fence, digest=digest, removal=True)
    try:
        rendered = render_bundle(
            layer, where.application, where.cluster, max_unpacked=limits.max_unpacked, max_entries=limits.max_entries
        )
    except Permanent as error:
        raise _without(app, digest, error) from error
    hooks = [manifest for manifest in rendered.manifests if is_hook(manifest.annotations)]
    return Next("diff", {"rendered": shared.blobs.put(manifests_to_json(hooks))})


def _without(app: str, digest: str, error: FleetbeatError) -> BundleUnavailable:
    return BundleUnavailable(
        f"the hooks of bundle {digest} are to run before and after the deletion, and it cannot be had: {error}. "
        f"Without them: fleetbeat delete {app} --skip-hooks"
    )


def plan(work: Work) -> Outcome:
    """What is there, in which order it goes. Waits while an object asks for a person's word."""
    shared, app, record = work.parts, work.turn.app, work.record
    rendered = shared.blobs.get(record["rendered"]) if record.get("rendered") else manifests_to_json([])
    departure = shared.departures.get(app)
    if rendered is None:
        return start_over()
    if departure is None:
        return Next("report", {"superseded": BACK})
    manifests = [] if departure.skip_hooks else manifests_from_json(rendered)
    where = target(shared, app, run=work.turn.run, digest=record["digest"], removal=True)
    parent = applyset.read(where.cluster, shared.settings.namespace, app)
    look = shared.runs.look(app, where.cluster.name)
    if look.fleet[1] is None:
        fleet_orders.recall(shared, where.cluster)  # a hold of the cluster holds up deletions too
    hand_holds.meet(shared, app, look.state, parent)
    kinds, spaces = _places(work, parent)
    usual = where.application.sync.delete_objects
    found = _find(work, where, kinds, spaces, confirmed=departure.confirmed)
    if found.unconfirmed:
        message = f"{memory.joined(found.unconfirmed)} asks for a confirmation (Delete=confirm)"
        asks = f"{message}: fleetbeat delete {app} --confirm"
        return Wait(work.turn.step, HELD_PAUSE, asks, blocked="ConfirmationNeeded")
    there = parent is not None or found.delete or found.kept
    hooks = hooks_of(manifests, work.turn.run, [phase for phase in DELETION_PHASES if phase not in departure.done])
    refused = tuple(refused_hooks(hooks.runs, manifests, _runner(work, where, manifests)))
    planned = Plan(settled=refused) if refused or not there else plan_deletion(found, hooks, usual)
    fields: Fields = {
        **waiting.NOTHING_YET,
        "written": "",
        "owned": "",
        "plan": shared.blobs.put(planned.to_json()),
        "rendered": shared.blobs.put(manifests_to_json(manifests)),
        "stages": len(planned.stages),
        "parent": "" if parent else "absent",
        "home": parent.uid if parent else "",
        "hooking": "",
    }
    return Next(after("diff", len(planned.stages)), fields)


def _runner(work: Work, where: Target, manifests: Sequence[Manifest]) -> Hooks:
    apis = api_set_for(where.cluster, {(m.id.group, m.id.kind) for m in manifests})
    return Hooks(
        where.cluster,
        apis,
        run=work.turn.run,
        manifests=manifests,
        weigher=Weigher(where.cluster, where.application, where.applyset),
        judge=Judge(where.application, where.cluster, apis),
    )


def passed(work: Work, plan: Plan, number: int) -> None:
    """Stage ``number`` begins: the hooks before it have done their work, and no later run runs them again."""
    if phases := deleting.passed(plan, number):
        work.parts.departures.passed(work.turn.app, phases)


def unhook(work: Work, where: Target) -> list[ObjectId]:
    """Delete what hooks have left; returns what is not gone yet."""
    parent = applyset.read(where.cluster, work.parts.settings.namespace, work.turn.app)
    if parent is None:
        return []
    apis = api_set_for(where.cluster, {split_group_kind(kind) for kind in parent.hook_kinds})
    # A parent that was last written by a version before this one does not say where hooks have been: most live here.
    spaces = parent.hook_namespaces or parent.spaces | {where.application.destination.namespace} - {""}
    pool, usual = work.parts.requests.of(where.cluster.name), where.application.sync.delete_objects
    return deleting.unhook(where.cluster, apis, parent.hook_kinds, where.applyset, pool, usual, namespaces=spaces)


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
    kinds, spaces = _places(work, parent)
    found = _find(work, where, kinds, spaces, confirmed=True)
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
    heirs = applyset.claims(where.cluster, work.parts.settings.namespace, work.turn.app) if objects else {}
    results = deleting.let_go(
        where.cluster, apis, where.applyset, sorted(objects), work.parts.requests.of(where.cluster.name), heirs
    )
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
    return {**forgotten, **dict.fromkeys(_OF_A_BUNDLE, ""), "objects": 0, "deletion_hooks": UNKNOWN}


_OF_A_BUNDLE = ("digest", "tag", "source", "revision", "created", "drift", "truce", "conflicts", "waiting")


def _find(
    work: Work, where: Target, kinds: frozenset[str], namespaces: frozenset[str], *, confirmed: bool
) -> DeletionDecision:
    """What of the application is there, and what becomes of each object. Raises what ``deleting.find`` does."""
    shared = work.parts
    return find(
        where.cluster,
        api_set_with_owned(where.cluster, (), kinds),
        kinds,
        shared.requests.of(where.cluster.name),
        namespaces=namespaces,
        applyset=where.applyset,
        home=shared.settings.namespace,
        confirmed=confirmed,
        usual=where.application.sync.delete_objects,
    )


def _places(work: Work, parent: applyset.Parent | None) -> tuple[frozenset[str], frozenset[str]]:
    """Every kind the application may have objects of, and every namespace where.

    The inventory matters only where somebody deleted the parent.
    """
    state = work.parts.runs.look(work.turn.app).state
    known = memory.load_known(work.parts, state.get("inventory", "")) or {}
    if parent is None:
        return group_kinds(known), namespaces(known)
    return group_kinds(known) | parent.group_kinds, namespaces(known) | parent.spaces
