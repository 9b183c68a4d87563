"""The last look before a Namespace or a CustomResourceDefinition is deleted: does something of others go along?

Costs requests only then: one metadata-only LIST for each kind that a namespace can hold, or one for the kind that is
defined. What cannot be seen counts as there.
"""

from __future__ import annotations

from collections.abc import Collection

from fleetbeat.decisions.contents import defined_kind, kinds_inside, named, others
from fleetbeat.engine.observe import object_id
from fleetbeat.engine.parallel import Requests
from fleetbeat.errors import Rejected, Unauthorized
from fleetbeat.model import ApiResource, ApiSet, Body, ObjectId
from fleetbeat.ports import ClusterPort


def why_to_keep(
    cluster: ClusterPort, apis: ApiSet, key: ObjectId, ours: Collection[str], pool: Requests, spent: str = ""
) -> str:
    """The reason to keep a Namespace or CustomResourceDefinition, naming up to three objects; "" = it may go.

    ``ours``: uids of the application's objects; ``spent``: its ApplySet's id, where what its hooks have left in a
    Namespace goes too. Raises what a LIST raises, but for a missing right, which is a reason.
    """
    try:
        if key.kind == "Namespace":
            return _in_namespace(cluster, key.name, ours, pool, spent)
        return _of_definition(cluster, apis, key)
    except (Unauthorized, Rejected) as error:
        return f"whether others have something {_IN[key.kind]} cannot be seen: {error}"


#: How something belongs to a container.
_IN = {"Namespace": "in it", "CustomResourceDefinition": "of its kind"}


def _in_namespace(cluster: ClusterPort, name: str, ours: Collection[str], pool: Requests, spent: str) -> str:
    apis = cluster.api_set(refresh=True)  # a kind that has come a minute ago may have objects there
    if not apis.complete:
        return "whether others have something in it cannot be seen: an API group does not answer"

    def inside(resource: ApiResource) -> list[tuple[ObjectId, Body]]:
        bodies = cluster.list(resource, namespace=name, metadata_only=True)
        return [(object_id(resource, body), body) for body in bodies]

    found = others([pair for pairs in pool.map(inside, kinds_inside(apis)) for pair in pairs], apis, ours, spent)
    return f"would take along what is not this application's to delete: {named(found)}. {_AGAIN}" if found else ""


def _of_definition(cluster: ClusterPort, apis: ApiSet, key: ObjectId) -> str:
    resource = apis.find(key.group, key.kind)
    definition = cluster.get(resource, "", key.name) if resource else None
    if definition is None:
        return ""
    kind = defined_kind(definition)
    if kind is None:
        return "whether others have something of its kind cannot be seen: it serves no version"
    found = [
        object_id(kind, body)
        for body in cluster.list(kind, metadata_only=True)
        if not body["metadata"].get("deletionTimestamp")
    ]
    return f"would take along what is not this application's to delete: {named(found)}. {_AGAIN}" if found else ""


_AGAIN = "The next sync looks again"
