"""Deleting what the bundle no longer has, by the exact state it was decided on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleetbeat.decisions.inventory import ObjectMeta, keep_reason
from fleetbeat.decisions.ownership import Ours, owner_of
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Removal
from fleetbeat.engine.write import TRIES, Done
from fleetbeat.errors import Conflict, NotYet, Refused, Rejected, Unauthorized
from fleetbeat.model import ApiSet, ObjectResult
from fleetbeat.ports import ClusterPort, Seen


def remove_tier(
    cluster: ClusterPort,
    apis: ApiSet,
    applyset: str,
    tier: Sequence[Removal],
    pool: Requests,
    *,
    record: Callable[[Sequence[Done]], None],
) -> list[Done]:
    """Ask for the deletion of each; whether they have gone is ``settle``'s question.

    Calls ``record`` and raises as ``write_stage`` does.
    """

    def remove(removal: Removal) -> Done:
        try:
            return Done(_remove(cluster, apis, applyset, removal))
        except (Rejected, Refused, Unauthorized, NotYet) as error:
            return Done(ObjectResult(removal.id, "failed", str(error), removal.wave))

    done, error = pool.finish(remove, tier)
    record(done)
    if error is not None:
        raise error
    return done


def _remove(cluster: ClusterPort, apis: ApiSet, applyset: str, removal: Removal) -> ObjectResult:
    key, seen = removal.id, removal.seen
    resource = apis.find(key.group, key.kind)
    if resource is None:
        return ObjectResult(key, "pruned", "its kind is not served any more", removal.wave)
    for _ in range(TRIES):
        try:
            written = cluster.delete(resource, key.namespace, key.name, seen=seen)
        except Conflict:
            # Somebody wrote to it since: it may have been given away, protected, or made anew.
            live = cluster.get(resource, key.namespace, key.name)
            if live is None:
                return ObjectResult(key, "pruned", "was gone already", removal.wave)
            if not isinstance(owner_of(live, applyset), Ours):
                return ObjectResult(key, "kept", "does not carry this application's label any more", removal.wave)
            if why := keep_reason(ObjectMeta.of(key.group, key.kind, live)):
                return ObjectResult(key, "kept", why, removal.wave)
            seen = Seen(live["metadata"]["uid"], live["metadata"]["resourceVersion"])
            continue
        if written is None:
            return ObjectResult(key, "pruned", "was gone already", removal.wave)
        return ObjectResult(key, "pruned", "not in the bundle any more", removal.wave, audit_id=written.audit_id)
    raise Refused(f"{key} was changed by somebody else at each of {TRIES} tries to delete it")
