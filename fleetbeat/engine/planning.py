"""From manifests to a plan: observe, compare, decide what is pruned, put everything into stages. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from fleetbeat.decisions.bypasses import Bypasses
from fleetbeat.decisions.changes import fingerprint
from fleetbeat.decisions.hooks import OF_A_SYNC, SyncPhase, is_hook
from fleetbeat.decisions.inventory import group_kinds, namespaces
from fleetbeat.decisions.waves import Stage
from fleetbeat.decisions.waves import plan as waves
from fleetbeat.engine.compare import Comparer, Comparison, account_of
from fleetbeat.engine.hooking import Hooks, cleaned_up, planned
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.observe import observe
from fleetbeat.engine.owners import SetOwner
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import HookRun, Known, Plan, StagePlan
from fleetbeat.engine.pruning import plan_pruning
from fleetbeat.engine.weigh import Truces, Weigher, no_truces
from fleetbeat.model import NAMESPACE, ApiSet, Application, Manifest, ObjectId
from fleetbeat.model_results import ObjectResult
from fleetbeat.ports import ClusterPort


def make_plan(
    cluster: ClusterPort,
    apis: ApiSet,
    application: Application,
    manifests: Sequence[Manifest],
    *,
    applyset: str,
    owned_kinds: Iterable[str],
    owned_namespaces: Collection[str] = (),
    known: Mapping[ObjectId, Known],
    pool: Requests,
    owner_name: Callable[[str], SetOwner] = SetOwner,
    home: str = "",
    confirmed: str = "",
    may_empty: bool = False,
    truces: Truces = no_truces,
    bypasses: Bypasses | None = None,
    run: str = "",
    hooks_due: bool = False,
) -> tuple[Plan, Comparison]:
    """The plan, and the comparison behind it (``fleetbeat diff`` shows the bodies).

    ``owned_kinds``: ``Kind.group`` of everything the ApplySet parent lists; empty before the first sync, which then
    needs no LIST. ``owned_namespaces``: where it says they are, and where else to look if not everywhere is allowed is
    told by ``known``, what the last run left, and by the manifests. A plan with failed results has no stages: nothing
    is to be written then. Manifests that ask to be left out (``hook: Skip``) are in nobody's stage, and their live
    copies, if an earlier bundle applied them, stay as they are. ``home``: the namespace of the ApplySet parents, never
    pruned: the record of what every application owns in this cluster would go with it. ``confirmed``, ``may_empty``: as
    for ``plan_pruning``. ``truces``: which fields of unchanged manifests are fought over and left alone for now.
    ``bypasses``: what is to stay as it is; None = what the application itself says of that.
    ``hooks_due``: this run, ``run``, runs hooks (``hook_runs.due``); they are tried out here and are nobody's members.
    """
    order = waves(manifests)  # first, because a wave that cannot be read is everybody's problem
    hooks = {m.id for m in manifests if is_hook(m.annotations)}
    wanted = [key for stage in order for key in stage.ids if key not in hooks]
    left_out = {m.id for m in manifests}.difference(wanted)
    kinds = frozenset(owned_kinds) | group_kinds(known)
    spaces = namespaces([*known, *wanted]).union(owned_namespaces)
    live = observe(cluster, apis, applyset, kinds, pool, namespaces=spaces)
    missing = _missing_namespace(cluster, application, wanted)
    coming = [m.id.name for m in manifests if hooks_due and m.id in hooks and m.id.group_kind == "Namespace"]
    absent = [name for name in coming if cluster.get(NAMESPACE, "", name) is None]
    bypasses = bypasses or Bypasses.of(application)
    weigher = Weigher(cluster, application, applyset, owner_name, truces)
    judge = Judge(application, cluster, apis)
    comparer = Comparer(
        cluster,
        apis,
        weigher=weigher,
        judge=judge,
        live=live,
        known=known,
        bypasses=bypasses,
        absent_namespaces=[missing, *absent] if missing else absent,
    )
    comparison = comparer.compare(manifests, pool, left_out=left_out)
    due = tuple(planned(_of_a_sync(order), manifests, run)) if hooks_due else ()
    runner = Hooks(cluster, apis, run=run, manifests=manifests, weigher=weigher, judge=judge)
    settled = comparison.settled + _tried(due, hooks, runner, comparer, pool)
    if any(result.outcome == "failed" for result in settled):
        # What would have been written is told too: not tried, because nothing is half-applied.
        plan = Plan(comparison.changes, settled=settled, known=comparison.known, truces=comparison.truces)
        return replace(plan, left=comparison.left, held=comparison.held), comparison

    # Objects read although no list had them count too: one stored object may be served in two API groups (case d1).
    uids = {live[key]["metadata"]["uid"] for key in wanted if key in live}
    uids |= {v.live["metadata"]["uid"] for v in comparison.verdicts.values() if v.live is not None}
    never = ObjectId("", "Namespace", "", home)
    prunable = {key: body for key, body in live.items() if key not in left_out and key != never}
    pruning = plan_pruning(
        application,
        apis,
        prunable,
        wanted,
        applyset=applyset,
        wanted_uids=uids,
        confirmed=confirmed,
        may_empty=may_empty,
        bypasses=bypasses,
    )
    kept = pruning.kept
    if never in live and never not in wanted:
        kept += (ObjectResult(never, "kept", "holds the record of what each application owns in this cluster"),)
    by_phase = _stages(order, comparison, known, due, manifests)
    stages = [*by_phase["PreSync"], *by_phase["Sync"], *pruning.stages, *by_phase["PostSync"]]
    # Everything that carries our label is remembered, kept and ignored objects too, and what is to go as long as it has
    # not gone: what is known is not drift. Not what a hook is about to take the place of.
    rest = {
        key: Known("", fingerprint(body, key.group_kind), "Healthy")
        for key, body in live.items()
        if key not in comparison.verdicts and not (due and key in hooks)
    }
    if not apis.complete:
        # Nobody can say whether an object of a kind out of sight is still there.
        rest |= {k: e for k, e in known.items() if k not in comparison.verdicts and apis.find(k.group, k.kind) is None}
    plan = Plan(
        changes=comparison.changes,
        removals=pruning.removals,
        stages=tuple(stages),
        hooks=due,
        failing=tuple(_after_failure(due, manifests) + by_phase["SyncFail"]) if stages else (),
        settled=settled + kept,
        known={**rest, **comparison.known},
        create_namespace=missing,
        refusal=pruning.refusal,
        would_empty=pruning.empties,
        truces=comparison.truces,
        left=comparison.left,
        held={**comparison.held, **pruning.held},
        complete=apis.complete,
        claims=comparison.shared,
        yielded=comparison.yielded,
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


def _of_a_sync(order: Iterable[Stage]) -> list[Stage]:
    return [stage for stage in order if stage.phase in OF_A_SYNC]


def _tried(
    due: Sequence[HookRun],
    hooks: Collection[ObjectId],
    runner: Hooks,
    comparer: Comparer,
    pool: Requests,
) -> tuple[ObjectResult, ...]:
    """Which of the hooks the API server would refuse. What other hooks of the bundle make may be missing by now."""
    accounts = {(key.namespace, key.name) for key in hooks if key.group_kind == "ServiceAccount"}
    spaces = {key.name for key in hooks if key.group_kind == "Namespace"}

    def exempt(manifest: Manifest) -> bool:
        coming = (manifest.id.namespace, account_of(manifest)) in accounts or manifest.id.namespace in spaces
        return coming or comparer.exempt(manifest)

    once = {hook.index: hook for hook in reversed(due)}.values()  # a hook of two phases is one object to try
    return tuple(found for found in pool.map(lambda hook: runner.try_out(hook, exempt), once) if found is not None)


def _after_failure(due: Sequence[HookRun], manifests: Sequence[Manifest]) -> list[StagePlan]:
    """Deleting hooks of the phase that failed, whichever it will have been."""
    before = [hook for hook in due if hook.phase != "SyncFail"]
    going = cleaned_up(before, manifests, succeeded=False)
    return [StagePlan(0, "cleanup", (tuple(going),), phase="")] if going else []


def _stages(
    order: Sequence[Stage],
    comparison: Comparison,
    known: Mapping[ObjectId, Known],
    due: Sequence[HookRun],
    manifests: Sequence[Manifest],
) -> dict[SyncPhase, list[StagePlan]]:
    """Waves of all manifests, cut down to what is written, run and waited for; each phase ends by deleting hooks."""
    changed = {change.id for change in comparison.changes}
    objects = {(hook.phase, manifests[hook.index].id): hook.id for hook in due}
    stages: dict[SyncPhase, list[StagePlan]] = {phase: [] for phase in OF_A_SYNC}
    for stage in _of_a_sync(order):
        tiers = tuple(
            cut
            for tier in stage.tiers
            if (
                cut := tuple(
                    objects.get((stage.phase, key), key)
                    for key in tier
                    if key in changed or (stage.phase, key) in objects
                )
            )
        )
        unsettled = tuple(
            key
            for key in stage.ids
            if key not in changed
            and key in comparison.verdicts
            and key in known
            and not known[key].settled
            # nobody mends what is left as it is, so nothing waits for that
            and not comparison.verdicts[key].held
        )
        if tiers or unsettled:
            stages[stage.phase].append(StagePlan(stage.wave, stage.part, tiers, unsettled, stage.phase))
    for phase, found in stages.items():
        mine = [hook for hook in due if hook.phase == phase]
        going = cleaned_up(mine, manifests, succeeded=True)
        if phase == "SyncFail":  # however it ends: the run has failed, and nothing comes after
            going += [key for key in cleaned_up(mine, manifests, succeeded=False) if key not in going]
        if going:
            found.append(StagePlan(0, "cleanup", (tuple(going),), phase=phase))
    return stages
