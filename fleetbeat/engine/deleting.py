"""Deleting a whole application: what goes in which order, what stays, and letting go of that."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fleetbeat.decisions.deletion import (
    DeletionDecision,
    is_hooks_object,
    needs_confirmation,
    stays_because,
    to_delete,
)
from fleetbeat.decisions.inventory import HOOK_OF, PART_OF, Claimant, ObjectMeta, split_group_kind
from fleetbeat.decisions.leaving import Leaver, RemovalStage, removal_stages
from fleetbeat.decisions.ownership import Ours, owner_of
from fleetbeat.decisions.tiers import PREREQUISITES
from fleetbeat.decisions.waves import Stage, arrange
from fleetbeat.engine.compare import account_of
from fleetbeat.engine.contents import why_to_keep
from fleetbeat.engine.hooking import Hooks, cleaned_up, planned
from fleetbeat.engine.observe import observe
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import HookRun, Plan, Removal, StagePlan
from fleetbeat.engine.remove import to_heir
from fleetbeat.engine.write import TRIES
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Unauthorized
from fleetbeat.model import ApiResource, ApiSet, Manifest, ObjectId, Permission
from fleetbeat.model_results import ObjectResult
from fleetbeat.ports import ClusterPort, Seen

DELETION_PHASES = ("PreDelete", "PostDelete")


def find(
    cluster: ClusterPort,
    apis: ApiSet,
    kinds: Iterable[str],
    pool: Requests,
    *,
    namespaces: Collection[str],
    applyset: str,
    home: str,
    confirmed: bool = False,
    usual: Permission = "true",
) -> DeletionDecision:
    """What of the application is in the cluster, sorted. Writes nothing.

    ``kinds``: ``Kind.group`` of everything it may have; ``namespaces``: where. Raises NotYet when one of them cannot be
    asked for: the record of where its objects are goes last, so none may be out of sight. ``confirmed``, ``usual``: as
    for ``to_delete``.
    """
    kinds = sorted(kinds)
    if not apis.complete:
        served = {f"{r.kind}.{r.group}" if r.group else r.kind for r in apis.resources}
        if unseen := [kind for kind in kinds if kind not in served]:
            raise NotYet(
                f"nothing is deleted: some API groups do not answer, so it is not known whether there are objects of "
                f"{', '.join(unseen)}. See: kubectl get apiservices"
            )
    live = observe(cluster, apis, applyset, kinds, pool, namespaces=namespaces)
    metas = [ObjectMeta.of(key.group, key.kind, body) for key, body in live.items()]
    return to_delete(metas, applyset=applyset, home=home, confirmed=confirmed, usual=usual)


@dataclass(frozen=True)
class DeletionHooks:
    """The hooks before and after a deletion."""

    stages: Mapping[str, tuple[StagePlan, ...]] = field(default_factory=dict)  #: phase → its stages
    runs: tuple[HookRun, ...] = ()
    failing: tuple[StagePlan, ...] = ()  #: what follows when one has failed


def hooks_of(manifests: Sequence[Manifest], run: str, phases: Iterable[str]) -> DeletionHooks:
    """``manifests``: hooks alone. ``phases``: of PreDelete and PostDelete those that are still to be run."""
    stages: dict[str, tuple[StagePlan, ...]] = {}
    runs: list[HookRun] = []
    for phase in phases:
        order = [stage for stage in arrange(manifests, complete=False).stages if stage.phase == phase]
        mine = list(planned(order, manifests, run))
        names = {manifests[one.index].id: one.id for one in mine}
        found = [replace(_as_planned(stage, names), phase=stage.phase) for stage in order]
        if going := cleaned_up(mine, manifests, succeeded=True):
            found.append(StagePlan(0, "cleanup", (tuple(going),), (), order[0].phase))
        stages[phase] = tuple(found)
        runs += mine
    going = cleaned_up(runs, manifests, succeeded=False)
    failing = (StagePlan(0, "cleanup", (tuple(going),), phase=""),) if going else ()
    return DeletionHooks(stages, tuple(runs), failing)


def _as_planned(stage: Stage, names: Mapping[ObjectId, ObjectId]) -> StagePlan:
    return StagePlan(stage.wave, stage.part, tuple(tuple(names[key] for key in tier) for tier in stage.tiers))


def refused_hooks(runs: Sequence[HookRun], manifests: Sequence[Manifest], runner: Hooks) -> list[ObjectResult]:
    """Which of them the API server would refuse: asked before anything is deleted. Writes nothing."""
    accounts = {(m.id.namespace, m.id.name) for m in manifests if m.id.group_kind == "ServiceAccount"}
    spaces = {m.id.name for m in manifests if m.id.group_kind == "Namespace"}

    def exempt(manifest: Manifest) -> bool:
        return (manifest.id.namespace, account_of(manifest)) in accounts or manifest.id.namespace in spaces

    once = {one.index: one for one in reversed(runs)}.values()
    return [result for one in once if (result := runner.try_out(one, exempt)) is not None]


def plan_deletion(decision: DeletionDecision, hooks: DeletionHooks, usual: Permission = "true") -> Plan:
    """Hooks before, what stays, what goes, hooks after, and last what contains other things, and the record.

    Objects that stay are let go of first: what is in a Namespace that goes must not look like ours. Namespaces and
    definitions go after the hooks, which live in them.
    """
    order = removal_stages([Leaver.of(meta) for meta in decision.delete])
    found = {meta.id: meta for meta in decision.delete}
    removals = [
        Removal(
            key,
            Seen(found[key].uid, found[key].resource_version),
            stage.wave,
            "confirmed" if needs_confirmation(found[key], usual) else "",
            "its application has left the catalog",
        )
        for stage in order
        for key in stage.ids
    ]
    contents = [stage for stage in order if not _contains(stage)]
    containers = [stage for stage in order if _contains(stage)]
    kept = tuple(key for key, _ in decision.kept)
    return Plan(
        removals=tuple(removals),
        stages=(
            *hooks.stages.get("PreDelete", ()),
            *([StagePlan(0, "release", (kept,))] if kept else []),
            *(StagePlan(stage.wave, "prune", stage.tiers) for stage in contents),
            *hooks.stages.get("PostDelete", ()),
            StagePlan(0, "unhook", ()),
            *(StagePlan(stage.wave, "prune", stage.tiers) for stage in containers),
            StagePlan(0, "farewell", ()),
        ),
        hooks=hooks.runs,
        failing=hooks.failing,
        settled=tuple(ObjectResult(key, "kept", why) for key, why in decision.kept),
    )


def _contains(stage: RemovalStage) -> bool:
    """Namespaces and definitions have stages of their own."""
    return all(key.group_kind in PREREQUISITES for key in stage.ids)


def passed(plan: Plan, number: int) -> list[str]:
    """The phases whose hooks have all gone through when stage ``number`` begins."""
    of_hooks = {stage.phase: position for position, stage in enumerate(plan.stages) if stage.phase in DELETION_PHASES}
    return [phase for phase, last in of_hooks.items() if last < number]


def unhook(
    cluster: ClusterPort,
    apis: ApiSet,
    kinds: Iterable[str],
    applyset: str,
    pool: Requests,
    usual: Permission = "true",
    *,
    namespaces: Collection[str],
) -> list[ObjectId]:
    """Delete every object that hooks of the application have left. Returns those that are not gone yet. Safe to repeat.

    A Namespace or definition that would take along what others have in it is left as it is. ``kinds``: ``Kind.group``
    of everything hooks may have made, in ``namespaces``. ``usual``: the application's option Delete. Raises the
    cluster's errors.
    """
    resources = [found for kind in sorted(kinds) if (found := apis.find(*split_group_kind(kind)))]
    there: list[ObjectId] = []
    for resource in resources:
        bodies = cluster.list(resource, selector=f"{HOOK_OF}={applyset}", metadata_only=True, instead=namespaces)
        metas = [ObjectMeta.of(resource.group, resource.kind, body) for body in bodies]
        mine = [
            meta
            for meta in metas
            if is_hooks_object(meta, applyset, usual)
            and not (
                meta.id.group_kind in PREREQUISITES and why_to_keep(cluster, apis, meta.id, (), pool, spent=applyset)
            )
        ]
        there += [meta.id for meta in mine]

        def delete(meta: ObjectMeta, resource: ApiResource = resource) -> None:
            with contextlib.suppress(Conflict):  # it moved: the next look decides anew
                seen = Seen(meta.uid, meta.resource_version)
                cluster.delete(resource, meta.id.namespace, meta.id.name, seen=seen)

        pool.map(delete, [meta for meta in mine if not meta.deleting])
    return there


def let_go(
    cluster: ClusterPort,
    apis: ApiSet,
    applyset: str,
    objects: Sequence[ObjectId],
    pool: Requests,
    heirs: Mapping[ObjectId, Claimant] = MappingProxyType({}),
) -> list[ObjectResult]:
    """Take the application's label off these objects and leave them as they are.

    ``heirs``: who gets what another bundle has too. Nobody would tell that application that the owner has gone.
    Returns "kept" for each it was taken off, "handed-over", and "failed" where it could not be. Safe to repeat: what is
    gone, or not ours any more, is left alone and not told.
    """

    def one(key: ObjectId) -> ObjectResult | None:
        try:
            return _let_go(cluster, apis, applyset, key, heirs.get(key))
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            return ObjectResult.failure(key, error)

    return [result for result in pool.map(one, objects) if result is not None]


def _let_go(
    cluster: ClusterPort, apis: ApiSet, applyset: str, key: ObjectId, heir: Claimant | None
) -> ObjectResult | None:
    resource = apis.find(key.group, key.kind)
    if resource is None:
        return None
    for _ in range(TRIES):
        live = cluster.get(resource, key.namespace, key.name)
        if live is None or not isinstance(owner_of(live, applyset), Ours):
            return None
        metadata = live["metadata"]
        if heir is not None:
            operations = to_heir(heir, Seen(metadata["uid"], metadata["resourceVersion"]))
        else:
            operations = [
                {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
                {"op": "remove", "path": f"/metadata/labels/{PART_OF.replace('/', '~1')}"},
            ]
        try:
            written = cluster.patch(resource, key.namespace, key.name, operations)
        except Conflict:
            continue
        if heir is not None:
            return ObjectResult(key, "handed-over", f"to application {heir.application}", audit_id=written.audit_id)
        why = stays_because(ObjectMeta.of(key.group, key.kind, live))
        return ObjectResult(key, "kept", why, audit_id=written.audit_id)
    raise Refused(f"{key} was changed by somebody else at each of {TRIES} tries to take the label off")
