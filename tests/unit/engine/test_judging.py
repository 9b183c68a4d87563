"""What a judge knows beside the objects: the application's rules, the cluster's kinds and storage classes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleetbeat.engine.judging import Judge
from fleetbeat.errors import FleetbeatError, LostLock, Unauthorized
from fleetbeat.model import ApiResource, ApiSet, Application, Body, Destination, HealthRule, Source
from fleetbeat.model_results import Health

APIS = ApiSet(
    (
        ApiResource("shop.example.com", "v1", "Cart", "carts", True, has_status=True),
        ApiResource("shop.example.com", "v1", "Basket", "baskets", True, has_status=False),
        ApiResource("shop.example.com", "v1alpha1", "Shelf", "shelves", True, False, has_status=False),
        ApiResource("shop.example.com", "v1", "Shelf", "shelves", True, has_status=True),
        ApiResource("shop.example.com", "v1", "Stall", "stalls", True),
    ),
    complete=True,
)


#: by the cluster's clock; the host that judges may believe what it likes
AT = datetime(2031, 7, 1, 12, tzinfo=UTC)


class Classes:
    """A cluster of which only the time and the storage classes are asked."""

    def __init__(self, *classes: Body, error: FleetbeatError | None = None) -> None:
        self.classes, self.error, self.asked = classes, error, 0

    def now(self) -> datetime:
        return AT

    def list(self, resource: ApiResource, **_: Any) -> list[Body]:
        assert resource.kind == "StorageClass"
        self.asked += 1
        if self.error:
            raise self.error
        return [*self.classes]


def judge(cluster: Any = None, *rules: HealthRule) -> Judge:
    application = Application("shop", Source("./shop"), Destination("local"), health_rules=rules)
    return Judge(application, cluster or Classes(), APIS)


def thing(kind: str, age: float = 0.0, **fields: Any) -> Body:
    made = (AT - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "shop.example.com/v1",
        "kind": kind,
        "metadata": {"name": "main", "creationTimestamp": made},
        **fields,
    }


@pytest.mark.parametrize(
    ("kind", "age", "status"),
    [
        ("Cart", 0, "Progressing"),
        ("Cart", 60, "Healthy"),
        ("Basket", 0, "Healthy"),
        ("Shelf", 0, "Progressing"),
        ("Stall", 0, "Progressing"),
        ("Stall", 60, "Healthy"),
    ],
    ids=["reports", "silent", "never-reports", "one-version-reports", "not-known", "not-known-and-silent"],
)
def test_silence_means_what_the_kind_promises(kind, age, status):
    """Field cases c4 and h1. An object's age is told by the clock that stamped it."""
    assert judge().health(thing(kind, age)).status == status


def test_a_rule_of_the_application_decides():
    """Field case h1: a custom rule can override."""
    rule = HealthRule("shop.example.com", "Cart", current="spec.size > 0")
    assert judge(None, rule).health(thing("Cart", spec={"size": 1})) == Health("Healthy", "the rule's current is true")


def test_what_asks_to_be_left_out_is_not_judged():
    cart = thing("Cart", status={"conditions": [{"type": "Stalled", "status": "True"}]})
    assert judge().health(cart).status == "Degraded"
    cart["metadata"]["annotations"] = {"argocd.argoproj.io/ignore-healthcheck": "true"}
    assert judge().health(cart) == Health("Healthy", "asks not to be judged (ignore-healthcheck)")


def test_missing():
    assert judge().health(None).status == "Missing"


LATE = {"metadata": {"name": "local"}, "volumeBindingMode": "WaitForFirstConsumer"}
NOW = {"metadata": {"name": "cloud"}, "volumeBindingMode": "Immediate"}


def claim(of: str, phase: str | None = "Pending") -> Body:
    status = {"phase": phase} if phase else {}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {"storageClassName": of}, "status": status}


def test_claims_cost_one_request_and_only_when_one_is_unbound():
    """Field case h7."""
    cluster = Classes(LATE, NOW)
    by = judge(cluster)
    assert by.health(claim("local", "Bound")).status == "Healthy"
    assert cluster.asked == 0
    assert by.health(claim("local")).status == "Healthy"
    assert by.health(claim("local", None)).status == "Healthy"
    assert by.health(claim("cloud")).status == "Progressing"
    assert cluster.asked == 1


def test_who_may_not_read_the_classes_waits():
    cluster = Classes(error=Unauthorized("storageclasses is forbidden"))
    by = judge(cluster)
    told = "whether it waits for its first Pod cannot be told without the right to list StorageClasses"
    for _ in range(2):
        assert by.health(claim("local")) == Health("Progressing", f"not bound to a volume yet; {told}")
    assert cluster.asked == 1


def test_a_lost_lock_stops():
    with pytest.raises(LostLock):
        judge(Classes(error=LostLock("taken over"))).health(claim("local"))
