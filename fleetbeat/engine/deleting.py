"""Deleting a whole application: what goes in which order, what stays, and letting go of that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetbeat.decisions.deletion import DeletionDecision, needs_confirmation, stays_because, to_delete
from fleetbeat.decisions.inventory import PART_OF, ObjectMeta
from fleetbeat.decisions.leaving import Leaver, removal_stages
from fleetbeat.decisions.ownership import Ours, owner_of
from fleetbeat.engine.observe import observe
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Plan, Removal, StagePlan
from fleetbeat.engine.write import TRIES
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Unauthorized
from fleetbeat.model import ApiSet, ObjectId, ObjectResult
from fleetbeat.ports import ClusterPort, Seen


def find(
    cluster: ClusterPort,
    apis: ApiSet,
    kinds: Iterable[str],
    pool: Requests,
    *,
    applyset: str,
    home: str,
    confirmed: bool = False,
) -> DeletionDecision:
    """What of the application is in the cluster, sorted. Writes nothing.

    ``kinds``: ``Kind.group`` of everything it may have. Raises NotYet when one of them cannot be asked for: the record
    of where its objects are goes last, so none may be out of sight.
    """
    kinds = sorted(kinds)
    if not apis.complete:
        served = {f"{r.kind}.{r.group}" if r.group else r.kind for r in apis.resources}
        if unseen := [kind for kind in kinds if kind not in served]:
            raise NotYet(
                f"nothing is deleted: some API groups do not answer, so it is not known whether there are objects of "
                f"{', '.join(unseen)}. See: kubectl get apiservices"
            )
    live = observe(cluster, apis, applyset, kinds, pool)
    metas = [ObjectMeta.of(key.group, key.kind, body) for key, body in live.items()]
    return to_delete(metas, applyset=applyset, home=home, confirmed=confirmed)


def plan_deletion(decision: DeletionDecision) -> Plan:
    """Objects that stay are let go of first: what is in a Namespace that goes must not look like ours."""
    order = removal_stages([Leaver.of(meta) for meta in decision.delete])
    found = {meta.id: meta for meta in decision.delete}
    removals = [
        Removal(
            key,
            Seen(found[key].uid, found[key].resource_version),
            stage.wave,
            "confirmed" if needs_confirmation(found[key]) else "",
            "its application has left the catalog",
        )
        for stage in order
        for key in stage.ids
    ]
    stages = [StagePlan(0, "release", (tuple(key for key, _ in decision.kept),))] if decision.kept else []
    stages += [StagePlan(stage.wave, "prune", stage.tiers) for stage in order]
    return Plan(
        removals=tuple(removals),
        stages=(*stages, StagePlan(0, "farewell", ())),
        settled=tuple(ObjectResult(key, "kept", why) for key, why in decision.kept),
    )


def let_go(
    cluster: ClusterPort, apis: ApiSet, applyset: str, objects: Sequence[ObjectId], pool: Requests
) -> list[ObjectResult]:
    """Take the application's label off these objects and leave them as they are.

    Returns "kept" for each it was taken off, "failed" where it could not be. Safe to repeat: what is gone, or not ours
    any more, is left alone and not told.
    """

    def one(key: ObjectId) -> ObjectResult | None:
        try:
            return _let_go(cluster, apis, applyset, key)
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            return ObjectResult(key, "failed", str(error))

    return [result for result in pool.map(one, objects) if result is not None]


def _let_go(cluster: ClusterPort, apis: ApiSet, applyset: str, key: ObjectId) -> ObjectResult | None:
    resource = apis.find(key.group, key.kind)
    if resource is None:
        return None
    for _ in range(TRIES):
        live = cluster.get(resource, key.namespace, key.name)
        if live is None or not isinstance(owner_of(live, applyset), Ours):
            return None
        metadata = live["metadata"]
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]},
            {"op": "remove", "path": f"/metadata/labels/{PART_OF.replace('/', '~1')}"},
        ]
        try:
            written = cluster.patch(resource, key.namespace, key.name, operations)
        except Conflict:
            continue
        why = stays_because(ObjectMeta.of(key.group, key.kind, live))
        return ObjectResult(key, "kept", why, audit_id=written.audit_id)
    raise Refused(f"{key} was changed by somebody else at each of {TRIES} tries to take the label off")
