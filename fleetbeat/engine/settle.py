"""Looking whether what was written has become healthy, or what was deleted has gone. One look, no waiting."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from fleetbeat.decisions.changes import fingerprint
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.observe import object_id
from fleetbeat.engine.plan import Known
from fleetbeat.model import ApiSet, Body, ObjectId
from fleetbeat.model_results import Health
from fleetbeat.ports import ClusterPort

#: From so many objects of one kind in one namespace on, a LIST by label is cheaper than single reads.
LIST_FROM = 3


def read(
    cluster: ClusterPort, apis: ApiSet, applyset: str, ids: Iterable[ObjectId], *, label: str = PART_OF
) -> dict[ObjectId, Body | None]:
    """The live objects; None for those that are not there (or whose kind is not served).

    ``label``: carried by all of them, with the ApplySet's id: ``PART_OF`` by members, ``HOOK_OF`` by hooks.
    """
    found: dict[ObjectId, Body | None] = {}
    for (group, kind, namespace), members in groupby(sorted(ids), key=lambda key: key[:3]):
        keys = list(members)
        resource = apis.find(group, kind)
        if resource is None:
            found.update(dict.fromkeys(keys))
        elif len(keys) < LIST_FROM:
            found.update({key: cluster.get(resource, namespace, key.name) for key in keys})
        else:
            bodies = cluster.list(resource, selector=f"{label}={applyset}", namespace=namespace)
            listed = {object_id(resource, body): body for body in bodies}
            found.update({key: listed.get(key) for key in keys})
    return found


def judge(live: dict[ObjectId, Body | None], by: Judge) -> dict[ObjectId, tuple[Health, Known | None]]:
    """Health of each, and what to remember of it (the rendered hash is the caller's to fill in)."""
    judged: dict[ObjectId, tuple[Health, Known | None]] = {}
    for key, body in live.items():
        state = by.health(body)
        judged[key] = (state, Known("", fingerprint(body, key.group_kind), state.status) if body is not None else None)
    return judged
