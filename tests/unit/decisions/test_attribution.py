"""Which kind a word means, who owns which field, who wrote since."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.attribution import (
    applied_at,
    controller_of,
    doubtful,
    fields_to_json,
    kind_of,
    newest,
    owners,
    since,
)
from fleetbeat.decisions.ledger import Entry, Execution, Place, Write
from fleetbeat.errors import SourceNotFound
from fleetbeat.model import ApiResource, ApiSet, ObjectId

CORE = ApiResource("", "v1", "ConfigMap", "configmaps", namespaced=True, short_names=("cm",))
DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments", namespaced=True, short_names=("deploy",))
EVENT = ApiResource("", "v1", "Event", "events", namespaced=True, short_names=("ev",))
NEW_EVENT = EVENT._replace(group="events.k8s.io")
CART = ApiResource("shop.example.com", "v2", "Cart", "carts", namespaced=True)
OTHER_CART = CART._replace(group="other.example.com")
OLD_HPA = ApiResource("autoscaling", "v1", "Scaler", "scalers", namespaced=True, preferred=False)
APIS = ApiSet((CORE, DEPLOYMENT, EVENT, NEW_EVENT, CART, OTHER_CART, OLD_HPA), complete=True)


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("cm", CORE),
        ("configmap", CORE),
        ("ConfigMaps", CORE),
        ("Deployment", DEPLOYMENT),
        ("deployments.apps", DEPLOYMENT),
        ("Deployment.APPS", DEPLOYMENT),
        ("event", EVENT),
        ("events.events.k8s.io", NEW_EVENT),
        ("Cart.shop.example.com", CART),
    ],
)
def test_a_kind_is_known_by_every_name_kubectl_takes(word: str, meant: ApiResource) -> None:
    assert kind_of(APIS, word) == meant


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("nothing", "serves no kind 'nothing'"),
        ("deployment.extensions", "serves no kind"),
        ("scaler", "serves no kind"),
        ("cart", "Cart.other.example.com, Cart.shop.example.com"),
    ],
)
def test_a_word_that_means_none_or_several(word: str, told: str) -> None:
    with pytest.raises(SourceNotFound, match=told):
        kind_of(APIS, word)


def managed(name: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    entry = {"manager": name, "operation": "Update", "apiVersion": "v1", "time": "2026-11-30T14:00:00Z"}
    return {**entry, "fieldsV1": fields, **more}


LIVE = {
    "metadata": {
        "managedFields": [
            managed("kubectl-edit", {"f:data": {"f:greeting": {}}}, time="2026-11-30T14:03:11Z"),
            managed(
                "fleetbeat", {"f:data": {".": {}, "f:a.b": {}, "f:c": {}}}, operation="Apply", apiVersion="apps/v2"
            ),
            managed("kube-controller-manager", {"f:status": {"f:x": {}}}, subresource="status"),
            managed("old", {"f:metadata": {"f:labels": {"f:x": {}}}}, time="2026-11-30T13:59:59Z"),
            {"manager": "scaler", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {}}},
        ]
    }
}
FOURTEEN = 1_796_047_200_000  # 2026-11-30T14:00:00Z, in ms


def test_who_owns_which_field() -> None:
    found = owners(LIVE)
    assert [one.manager.name for one in found] == [
        "fleetbeat",
        "kubectl-edit",
        "kube-controller-manager",
        "old",
        "scaler",
    ]
    assert fields_to_json(found[:2]) == [
        {
            "manager": "fleetbeat",
            "operation": "Apply",
            "time": "2026-11-30T14:00:00Z",
            "fields": ['data["a.b"]', "data.c"],
        },
        {
            "manager": "kubectl-edit",
            "operation": "Update",
            "time": "2026-11-30T14:03:11Z",
            "fields": ["data.greeting"],
        },
    ]
    assert owners({}) == ()


@pytest.mark.parametrize(
    ("at", "who"),
    [
        (FOURTEEN - 2_000, ["kubectl-edit", "old", "scaler"]),
        (FOURTEEN, ["kubectl-edit", "scaler"]),
        (FOURTEEN + 191_900, ["kubectl-edit", "scaler"]),  # in the same second: later, as far as anybody knows
        (FOURTEEN + 192_000, ["scaler"]),
    ],
)
def test_who_has_written_since(at: int, who: list[str]) -> None:
    assert [one.manager.name for one in since(owners(LIVE), at)] == who


def test_the_version_that_hashes_compare_at() -> None:
    assert applied_at(LIVE) == "v2"
    assert applied_at({"metadata": {}}) == ""


def test_the_last_write_on_this_cluster() -> None:
    web, api = (Place(ObjectId("", "ConfigMap", "shop", name), "configmaps") for name in ("web", "api"))
    prod, test = (Execution("shop", cluster, "r", 1, "wave 0") for cluster in ("prod", "test"))
    first = Entry(1, "", 10, prod, (Write(10, "apply", web, "a"), Write(11, "apply", web, "b")))
    second = Entry(2, "", 20, test, (Write(20, "apply", web, "c"),))
    third = Entry(3, "", 30, prod, (Write(30, "apply", api, "d"),), possible=(web,))
    entries = (first, second, third)
    assert newest(entries, "prod", web.id) == (first, first.writes[1])
    assert newest(entries, "test", api.id) is None
    assert doubtful(entries, "prod", web.id, 11) is third
    assert doubtful(entries, "prod", web.id, 30) is None
    assert doubtful(entries, "test", web.id, 0) is None


@pytest.mark.parametrize(
    ("references", "told"),
    [
        ([], ""),
        ([{"kind": "Cart", "name": "main"}], ""),
        (
            [{"kind": "Cart", "name": "main"}, {"kind": "ReplicaSet", "name": "web-7", "controller": True}],
            "ReplicaSet web-7",
        ),
    ],
    ids=["none", "an owner that is no controller", "a controller"],
)
def test_the_controller_of_an_object(references: list[dict[str, Any]], told: str) -> None:
    assert controller_of({"metadata": {"ownerReferences": references}}) == told
