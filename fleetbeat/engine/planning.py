"""From manifests to a plan: observe, compare, decide what is pruned, put everything into stages. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from fleetbeat.decisions.changes import fingerprint
from fleetbeat.decisions.inventory import ObjectMeta, PruneDecision, group_kinds, to_prune
from fleetbeat.decisions.options import COMPARE_OPTIONS
from fleetbeat.decisions.treatment import ignores_extraneous
from fleetbeat.decisions.waves import Stage, live_wave, prune_order
from fleetbeat.decisions.waves import plan as waves
from fleetbeat.engine.compare import Comparer, Comparison
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.observe import observe
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Known, Plan, Removal, StagePlan
from fleetbeat.engine.weigh import Weigher
from fleetbeat.model import NAMESPACE, ApiSet, Application, Body, Manifest, ObjectId, ObjectResult
from fleetbeat.ports import ClusterPort, Seen


def make_plan(
    cluster: ClusterPort,
    apis: ApiSet,
    application: Application,
    manifests: Sequence[Manifest],
    *,
    applyset: str,
    owned_kinds: Iterable[str],
    known: Mapping[ObjectId, Known],
    pool: Requests,
    owner_name: Callable[[str], str] = lambda mark: mark,
    home: str = "",
) -> tuple[Plan, Comparison]:
    """The plan, and the comparison behind it (``fleetbeat diff`` shows the bodies).

    ``owned_kinds``: ``Kind.group`` of everything the ApplySet parent lists; empty before the first sync, which then
    needs no LIST. ``known``: what the last run left. A plan with failed results has no stages: nothing is to be
    written then. Manifests that ask to be left out (``hook: Skip``) are in nobody's stage, and their live copies, if an
    earlier bundle applied them, stay as they are. ``home``: the namespace of the ApplySet parents, never pruned:
    the record of what every application owns in this cluster would go with it.
    """
    order = waves(manifests)  # first, because a wave that cannot be read is everybody's problem
    wanted = [key for stage in order for key in stage.ids]
    left_out = {m.id for m in manifests}.difference(wanted)
    kinds = frozenset(owned_kinds) | group_kinds(known)
    live = observe(cluster, apis, applyset, kinds, pool)
    missing = _missing_namespace(cluster, application, wanted)
    comparer = Comparer(
        cluster,
        apis,
        weigher=Weigher(cluster, application, applyset, owner_name),
        judge=Judge(application, cluster, apis),
        live=live,
        known=known,
        heal=application.sync.self_heal,
        absent_namespaces=[missing] if missing else [],
    )
    comparison = comparer.compare(manifests, pool, left_out=left_out)
    settled = comparison.settled
    if any(result.outcome == "failed" for result in settled):
        # What would have been written is told too: not tried, because nothing is half-applied.
        return Plan(comparison.changes, settled=settled, known=comparison.known), comparison

    # Objects read although no list had them count too: one stored object may be served in two API groups (case d1).
    uids = {live[key]["metadata"]["uid"] for key in wanted if key in live}
    uids |= {v.live["metadata"]["uid"] for v in comparison.verdicts.values() if v.live is not None}
    never = ObjectId("", "Namespace", "", home)
    prunable = {key: body for key, body in live.items() if key not in left_out and key != never}
    pruning = _pruning(application, apis, prunable, wanted, uids, applyset)
    kept = tuple(
        # An object that says so does not make the application OutOfSync by staying.
        ObjectResult(key, "unchanged", f"kept: {why}; {COMPARE_OPTIONS}: IgnoreExtraneous")
        if ignores_extraneous(live[key])
        else ObjectResult(key, "kept", why)
        for key, why in pruning.kept
    )
    if never in live and never not in wanted:
        kept += (ObjectResult(never, "kept", "holds the record of what each application owns in this cluster"),)
    stages = _stages(order, comparison, known)
    removals = {
        meta.id: Removal(meta.id, Seen(meta.uid, meta.resource_version), live_wave(meta.annotations))
        for meta in pruning.prune
    }
    if removals:
        tiers = prune_order((removal.id, removal.wave) for removal in removals.values())
        stages.append(StagePlan(0, "prune", tiers))
    # Everything that carries our label is remembered, kept and ignored objects too: what is known is not drift.
    rest = {
        key: Known("", fingerprint(body, key.group_kind), "Healthy")
        for key, body in live.items()
        if key not in comparison.verdicts and key not in removals
    }
    plan = Plan(
        changes=comparison.changes,
        removals=tuple(removals.values()),
        stages=tuple(stages),
        settled=settled + kept,
        known={**rest, **comparison.known},
        create_namespace=missing,
        refusal=pruning.refusal or "",
    )
    return plan, comparison


def _missing_namespace(cluster: ClusterPort, application: Application, wanted: Collection[ObjectId]) -> str:
    """The destination namespace when the option CreateNamespace has to make it."""
    name = application.destination.namespace
    if not (application.sync.create_namespace and name):
        return ""
    if ObjectId("", "Namespace", "", name) in wanted:
        return ""
    return "" if cluster.get(NAMESPACE, "", name) is not None else name


def _pruning(
    application: Application,
    apis: ApiSet,
    live: Mapping[ObjectId, Body],
    wanted: Sequence[ObjectId],
    uids: Collection[str],
    applyset: str,
) -> PruneDecision:
    metas = [ObjectMeta.of(key.group, key.kind, body) for key, body in live.items()]
    decision = to_prune(
        metas,
        frozenset(wanted),
        applyset=applyset,
        allow_empty=application.sync.allow_empty,
        complete=apis.complete,
        wanted_uids=uids,
    )
    if application.sync.prune:
        return decision
    off = tuple((meta.id, "spec.sync.prune is false") for meta in decision.prune)
    return PruneDecision(kept=decision.kept + off, ignored=decision.ignored, refusal=decision.refusal)


def _stages(order: Sequence[Stage], comparison: Comparison, known: Mapping[ObjectId, Known]) -> list[StagePlan]:
    """Waves of all manifests, cut down to what is written and what is waited for."""
    changed = {change.id for change in comparison.changes}
    stages = []
    for stage in order:
        tiers = tuple(cut for tier in stage.tiers if (cut := tuple(key for key in tier if key in changed)))
        unsettled = tuple(
            key
            for key in stage.ids
            if key not in changed and key in known and known[key].health not in ("Healthy", "Suspended")
        )
        if tiers or unsettled:
            stages.append(StagePlan(stage.wave, stage.part, tiers, unsettled))
    return stages
