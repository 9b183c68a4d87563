"""What the cluster serves, as fresh as the question needs it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fleetbeat.decisions.inventory import split_group_kind
from fleetbeat.decisions.manifests import RawManifest, bundle_kinds
from fleetbeat.errors import NotYet
from fleetbeat.model import ApiSet, Manifest
from fleetbeat.ports import ClusterPort


def api_set_for(cluster: ClusterPort, kinds: Iterable[tuple[str, str]]) -> ApiSet:
    """The cached discovery, asked anew once when it lacks one of ``kinds`` (group, kind).

    A worker that did not apply a CustomResourceDefinition itself learns of its kind here: without the second look it
    would take the kind's objects for gone, or for not judgeable yet. The client bounds how often it really asks
    (field case k8).
    """
    apis = cluster.api_set()
    served = {(r.group, r.kind) for r in apis.resources}
    return apis if served.issuperset(kinds) else cluster.api_set(refresh=True)


def api_set_with_owned(cluster: ClusterPort, kinds: Iterable[tuple[str, str]], owned: Iterable[str]) -> ApiSet:
    """The same for a plan, which also needs the kinds the application has objects of (``Kind.group``).

    A kind that is not served has no objects any more and is forgotten, so that must not be read off an old answer.
    Raises NotYet when one is missing and the cluster could not be asked again just now. On an incomplete answer nothing
    is forgotten anyway.
    """
    mine = {split_group_kind(kind) for kind in owned}
    before = cluster.api_set()
    apis = api_set_for(cluster, {*kinds, *mine})
    missing = mine.difference((r.group, r.kind) for r in apis.resources)
    if missing and apis.complete and apis is before:
        names = ", ".join(sorted(f"{kind}.{group}".rstrip(".") for group, kind in missing))
        raise NotYet(f"cluster {cluster.name} was asked too often what it serves to be sure that {names} is gone")
    return apis


def with_bundle(apis: ApiSet, manifests: Sequence[Manifest]) -> ApiSet:
    """What the cluster serves, and what it will serve once the bundle's CRDs are established."""
    served = {(r.group, r.version, r.kind) for r in apis.resources}
    coming = [
        r
        for r in bundle_kinds([RawManifest(m.body, m.origin) for m in manifests])
        if (r.group, r.version, r.kind) not in served
    ]
    return ApiSet((*apis.resources, *coming), apis.complete, apis.version)
