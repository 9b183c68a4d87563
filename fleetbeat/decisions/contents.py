"""What goes along when a container goes: is there something in a Namespace, or of a kind, that is not ours to delete?

Deleting a Namespace deletes everything in it, deleting a CustomResourceDefinition every object of its kind. What this
application has there has gone before (``leaving.py``); whatever is left then belongs to somebody else, or was kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fleetbeat.decisions.deletion import is_hooks_object
from fleetbeat.decisions.inventory import ObjectMeta
from fleetbeat.model import ApiResource, ApiSet, Body, ObjectId

#: Kinds that controllers of Kubernetes keep by themselves: traces of other objects, nobody's work.
_TRACES = frozenset(
    {
        "Event",
        "Event.events.k8s.io",
        "Endpoints",
        "EndpointSlice.discovery.k8s.io",
        "Lease.coordination.k8s.io",
        "PodMetrics.metrics.k8s.io",
    }
)
#: What every Namespace gets from Kubernetes itself, and on platforms that put a certificate into each.
_FURNITURE = frozenset(
    {
        ("ServiceAccount", "default"),
        ("ConfigMap", "kube-root-ca.crt"),
        ("ConfigMap", "openshift-service-ca.crt"),
        ("ConfigMap", "istio-ca-root-cert"),
    }
)
#: Annotation of a Secret that holds a token.
_ACCOUNT = "kubernetes.io/service-account.name"

_SHOWN = 3


def kinds_inside(apis: ApiSet) -> list[ApiResource]:
    """Each kind once that may have objects in a namespace worth a look."""
    kinds = {(r.group, r.kind) for r in apis.resources if r.namespaced and r.listable}
    found = [resource for group, kind in sorted(kinds) if (resource := apis.find(group, kind))]
    return [r for r in found if r.listable and ObjectId(r.group, r.kind, "", "").group_kind not in _TRACES]


def others(
    bodies: Iterable[tuple[ObjectId, Body]], apis: ApiSet, ours: Collection[str], spent: str = ""
) -> list[ObjectId]:
    """Of the listed objects those that would go along and are not ours, sorted, each stored object once.

    Left out are furniture, what is being deleted already, and what goes with its owners: those that live in the
    namespace too are judged themselves, or have gone; of cluster-wide ones it counts whether they are ``ours`` (uids).
    What hooks of the application ``spent`` (the id of its ApplySet) have made is left out too: nobody else deletes it.
    """
    found: dict[str, ObjectId] = {}
    for key, body in sorted(bodies, key=lambda pair: pair[0]):
        meta = ObjectMeta.of(key.group, key.kind, body)
        if (spent and is_hooks_object(meta, spent)) or meta.deleting or _is_furniture(meta):
            continue
        if not _goes_with_owners(body, apis, ours):
            found.setdefault(meta.uid, key)
    return sorted(found.values())


def named(objects: Collection[ObjectId]) -> str:
    """``ConfigMap shop/a, Secret shop/b, Secret shop/c and 4 more``."""
    texts = [str(key) for key in sorted(objects)]
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more


def defined_kind(definition: Body) -> ApiResource | None:
    """The kind that a CustomResourceDefinition defines, at a version it serves; None when it serves none."""
    spec: Mapping[str, Any] = definition.get("spec") or {}
    version = next((v.get("name") for v in spec.get("versions") or () if v.get("served")), None)
    if version is None:
        return None
    names = spec.get("names") or {}
    return ApiResource(
        spec.get("group", ""),
        version,
        names.get("kind", ""),
        names.get("plural", ""),
        spec.get("scope") == "Namespaced",
    )


def _is_furniture(meta: ObjectMeta) -> bool:
    if (meta.id.group_kind, meta.id.name) in _FURNITURE:
        return True
    return meta.id.group_kind == "Secret" and meta.annotations.get(_ACCOUNT) == "default"


def _goes_with_owners(body: Body, apis: ApiSet, ours: Collection[str]) -> bool:
    owners = (body.get("metadata") or {}).get("ownerReferences") or []
    return bool(owners) and all(owner.get("uid") in ours or _is_namespaced(owner, apis) for owner in owners)


def _is_namespaced(owner: Mapping[str, Any], apis: ApiSet) -> bool:
    group, _, _ = str(owner.get("apiVersion", "")).rpartition("/")
    resource = apis.find(group, str(owner.get("kind", "")))
    return resource is not None and resource.namespaced
