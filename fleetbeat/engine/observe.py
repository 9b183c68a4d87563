"""What of ours is in the cluster: metadata of every object that carries the application's ApplySet label."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fleetbeat.decisions.inventory import PART_OF, split_group_kind
from fleetbeat.engine.parallel import Requests
from fleetbeat.model import ApiResource, ApiSet, Body, ObjectId
from fleetbeat.ports import ClusterPort


def observe(
    cluster: ClusterPort,
    apis: ApiSet,
    applyset: str,
    group_kinds: Iterable[str],
    pool: Requests,
    *,
    namespaces: Collection[str],
) -> dict[ObjectId, Body]:
    """One metadata-only LIST per kind; bodies are ``PartialObjectMetadata``.

    A kind that is not served any more has no objects any more: it is left out. Whether the answer may be used for
    pruning is ``apis.complete``'s business. A list that fails raises, so that nothing partial comes back.
    ``namespaces``: everywhere members may be, for an identity whose rights are per namespace.
    """
    resources = [found for gk in sorted(group_kinds) if (found := apis.find(*split_group_kind(gk)))]

    def listed(resource: ApiResource) -> list[tuple[ObjectId, Body]]:
        bodies = cluster.list(resource, selector=f"{PART_OF}={applyset}", metadata_only=True, instead=namespaces)
        return [(object_id(resource, body), body) for body in bodies]

    return {key: body for pairs in pool.map(listed, resources) for key, body in pairs}


def object_id(resource: ApiResource, body: Body) -> ObjectId:
    """Identity of a listed object. Items of a metadata list do not carry their own kind."""
    metadata = body["metadata"]
    return ObjectId(resource.group, resource.kind, metadata.get("namespace", ""), metadata["name"])
