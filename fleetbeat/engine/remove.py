"""Deleting what the bundle no longer has, by the exact state it was decided on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from fleetbeat.decisions.inventory import PART_OF, Claimant, ObjectMeta
from fleetbeat.decisions.ownership import Ours, owner_of
from fleetbeat.decisions.pruning import going_reason, keep_reason
from fleetbeat.decisions.tiers import PREREQUISITES
from fleetbeat.engine.contents import why_to_keep
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Removal
from fleetbeat.engine.write import TRIES, Done
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Unauthorized
from fleetbeat.model import ApiSet, Body, ObjectId, Propagation
from fleetbeat.model_results import ObjectResult, Outcome
from fleetbeat.ports import ClusterPort, Seen


def remove_tier(
    cluster: ClusterPort,
    apis: ApiSet,
    applyset: str,
    tier: Sequence[Removal],
    pool: Requests,
    *,
    ours: Collection[str] = (),
    hooks_in: Collection[str] = (),
    heirs: Mapping[ObjectId, Claimant] = MappingProxyType({}),
    propagation: Propagation = "Background",
    record: Callable[[Sequence[Done]], None],
    keep: Callable[..., str] = keep_reason,
    exact: bool = False,
) -> list[Done]:
    """Ask for the deletion of each. Whether those have gone that are not ``gone`` yet is a later look's question.

    ``ours``: uids of the application's objects. A Namespace or CustomResourceDefinition that would take along what is
    not among them is kept. What its hooks have left in a Namespace is the application's too, unless hooks of the bundle
    live there still (``hooks_in``, names). ``heirs``: who gets what is not deleted but handed over, since another
    bundle has it too. ``keep``: a rule like ``keep_reason``, for one that has moved meanwhile; ``exact``: such a one is
    refused instead.

    Calls ``record`` and raises as ``write_stage`` does.
    """

    def remove(removal: Removal) -> Done:
        try:
            return _remove(cluster, apis, applyset, removal, propagation, heirs.get(removal.id), keep, exact)
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            return Done(ObjectResult.failure(removal.id, error, removal.wave))

    kept = {
        removal.id: _done(removal, "kept", why)
        for removal in tier
        if removal.id.group_kind in PREREQUISITES
        and removal.id not in heirs
        and (why := why_to_keep(cluster, apis, removal.id, ours, pool, "" if removal.id.name in hooks_in else applyset))
    }
    done, error = pool.finish(remove, [removal for removal in tier if removal.id not in kept])
    done += kept.values()
    record(done)
    if error is not None:
        raise error
    return done


def still_there(removals: Mapping[ObjectId, Removal], live: Mapping[ObjectId, Body | None]) -> dict[ObjectId, str]:
    """Those of the removed objects that have not gone, with what holds each, in words.

    An object of the same name and another uid is somebody's new one: ours has gone.
    """
    return {
        key: going_reason(ObjectMeta.of(key.group, key.kind, body))
        for key, body in live.items()
        if body is not None and body["metadata"]["uid"] == removals[key].seen.uid
    }


def to_heir(heir: Claimant, seen: Seen) -> list[dict[str, str]]:
    """The patch that gives the object to another application: its mark and nothing else, on exactly what was seen.

    No resourceVersion is ever used twice, so it stands for the uid too.
    """
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": seen.resource_version},
        {"op": "replace", "path": f"/metadata/labels/{PART_OF.replace('/', '~1')}", "value": heir.applyset},
    ]


def why_pruned(removal: Removal) -> str:
    return "; ".join(filter(None, (removal.because, removal.confirmed)))


def _remove(
    cluster: ClusterPort,
    apis: ApiSet,
    applyset: str,
    removal: Removal,
    propagation: Propagation,
    heir: Claimant | None,
    keep: Callable[..., str],
    exact: bool,
) -> Done:
    key, seen = removal.id, removal.seen
    resource = apis.find(key.group, key.kind)
    if resource is None:
        return _done(removal, "pruned", "its kind is not served any more")
    for _ in range(TRIES):
        try:
            if heir is not None:
                patched = cluster.patch(resource, key.namespace, key.name, to_heir(heir, seen))
                return _done(removal, "handed-over", f"to application {heir.application}", audit_id=patched.audit_id)
            written = cluster.delete(resource, key.namespace, key.name, seen=seen, propagation=propagation)
        except Conflict:
            # Somebody wrote to it since: it may have been given away, protected, or made anew.
            live = cluster.get(resource, key.namespace, key.name)
            if live is None:
                return _done(removal, "pruned", "was gone already")
            if heir is not None and live["metadata"].get("labels", {}).get(PART_OF) == heir.applyset:
                # by an execution that was killed
                return _done(removal, "handed-over", f"to application {heir.application}")
            if not isinstance(owner_of(live, applyset), Ours):
                return _done(removal, "kept", "does not carry this application's label any more")
            if why := keep(ObjectMeta.of(key.group, key.kind, live), confirmed=bool(removal.confirmed)):
                return _done(removal, "kept", why)
            if exact:
                raise Refused(f"{key} was changed since the plan was saved; it is not deleted") from None
            seen = Seen.of(live)
            continue
        if written is None:
            return _done(removal, "pruned", "was gone already")
        # A Status instead of the object: it has gone with this answer, nothing is to be waited for.
        gone = written.body.get("kind") == "Status"
        return _done(removal, "pruned", why_pruned(removal), audit_id=written.audit_id, gone=gone)
    raise Refused(f"{key} was changed by somebody else at each of {TRIES} tries to delete it")


def _done(removal: Removal, outcome: Outcome, reason: str, *, audit_id: str = "", gone: bool = True) -> Done:
    return Done(ObjectResult(removal.id, outcome, reason, removal.wave, audit_id=audit_id), gone=gone)
