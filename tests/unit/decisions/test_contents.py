"""What would go along with a Namespace or a CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.decisions.contents import defined_kind, kinds_inside, named, others
from fleetbeat.decisions.hook_runs import RUN
from fleetbeat.decisions.inventory import HOOK_OF
from fleetbeat.model import ApiResource, ApiSet, ObjectId

APIS = ApiSet(
    (
        *BUILTIN.resources,
        ApiResource("shop.example.com", "v1", "Cart", "carts", True),
        ApiResource("shop.example.com", "v1", "Market", "markets", False),
        ApiResource(
            "authorization.k8s.io", "v1", "LocalSubjectAccessReview", "localsubjectaccessreviews", True
        )._replace(listable=False),
    ),
    complete=True,
)


def test_each_kind_once_and_none_that_holds_nothing():
    kinds = [f"{r.kind}.{r.group}".rstrip(".") for r in kinds_inside(ApiSet(APIS.resources[-3:], complete=True))]
    assert kinds == ["Cart.shop.example.com"]
    every = [(r.group, r.kind) for r in kinds_inside(APIS)]
    assert len(every) == len(set(every))
    assert ("", "ConfigMap") in every
    assert ("", "Namespace") not in every
    assert not {("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease")} & set(every)


def owner(api_version: str, kind: str, uid: str) -> dict[str, str]:
    return {"apiVersion": api_version, "kind": kind, "name": "x", "uid": uid}


def test_what_hooks_of_the_application_left_goes_too():
    """Nobody else would ever delete it, and it would keep its Namespace for ever."""
    made = {"labels": {HOOK_OF: "applyset-x-v1"}, "annotations": {RUN: "20261130T120000Z-abcdef"}}
    bodies: list[tuple[ObjectId, Any]] = [
        (ObjectId("", "ConfigMap", "shop", name), {"metadata": {"name": name, "namespace": "shop", "uid": name} | more})
        for name, more in {
            "hook": made,
            "copy": {"labels": made["labels"]},
            "kept": made | {"annotations": made["annotations"] | {"helm.sh/resource-policy": "keep"}},
            "nobody's": {"labels": {HOOK_OF: ""}, "annotations": made["annotations"]},
        }.items()
    ]
    left = [key.name for key in others(bodies, APIS, (), "applyset-x-v1")]
    assert left == ["copy", "kept", "nobody's"]
    assert len(others(bodies, APIS, (), "applyset-another-v1")) == len(others(bodies, APIS, ())) == len(bodies)


def seen(kind: str = "ConfigMap", name: str = "x", **metadata: Any) -> list[ObjectId]:
    body = {"metadata": {"name": name, "namespace": "shop", "uid": "u1", **metadata}}
    return others([(ObjectId("", kind, "shop", name), body)], APIS, {"ours"})


MARKET = owner("shop.example.com/v1", "Market", "theirs")


@pytest.mark.parametrize(
    ("counts", "object_"),
    [
        (True, {}),
        (True, {"labels": {"applyset.kubernetes.io/part-of": "applyset-any-v1"}}),
        (False, {"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        (False, {"name": "kube-root-ca.crt"}),
        (True, {"kind": "Secret", "name": "kube-root-ca.crt"}),
        (False, {"kind": "ServiceAccount", "name": "default"}),
        (True, {"kind": "ServiceAccount", "name": "robot"}),
        (False, {"kind": "Secret", "annotations": {"kubernetes.io/service-account.name": "default"}}),
        (True, {"kind": "Secret", "annotations": {"kubernetes.io/service-account.name": "robot"}}),
        # its owner lives in the namespace: judged itself, or gone, and then this goes too
        (False, {"kind": "Pod", "ownerReferences": [owner("apps/v1", "ReplicaSet", "r1")]}),
        (True, {"ownerReferences": [MARKET]}),
        (False, {"ownerReferences": [MARKET | {"uid": "ours"}]}),
        (True, {"ownerReferences": [owner("apps/v1", "ReplicaSet", "r1"), MARKET]}),
        (True, {"ownerReferences": [owner("gone.example.com/v1", "Thing", "t1")]}),
    ],
    ids=str,
)
def test_what_counts_as_somebody_elses(counts, object_):
    assert bool(seen(**object_)) == counts


def test_one_stored_object_counts_once():
    """Field case d1: served in two API groups."""
    body = {"metadata": {"name": "x", "namespace": "shop", "uid": "u1"}}
    keys = [ObjectId("extensions", "Ingress", "shop", "x"), ObjectId("networking.k8s.io", "Ingress", "shop", "x")]
    assert others([(key, body) for key in keys], APIS, ()) == keys[:1]


def test_up_to_three_are_named():
    keys = [ObjectId("", "ConfigMap", "shop", name) for name in "edcba"]
    assert named(keys) == "ConfigMap shop/a, ConfigMap shop/b, ConfigMap shop/c and 2 more"
    assert named(keys[:1]) == "ConfigMap shop/e"


def test_the_kind_of_a_definition():
    names = {"kind": "Cart", "plural": "carts"}
    versions = [{"name": "v1alpha1", "served": False}, {"name": "v1", "served": True}]
    spec = {"group": "shop.example.com", "scope": "Namespaced", "names": names, "versions": versions}
    assert defined_kind({"spec": spec}) == ApiResource("shop.example.com", "v1", "Cart", "carts", True)
    assert defined_kind({"spec": spec | {"versions": versions[:1]}}) is None
    assert defined_kind({}) is None
