"""Whose a foreign ApplySet is: what is asked, and what it means that the answer is refused."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from fleetbeat.clients.applyset import APPLICATION
from fleetbeat.decisions.inventory import TOOLING
from fleetbeat.engine.owners import SetOwner, owner_name
from fleetbeat.errors import ClusterUnavailable, FleetbeatError, Unauthorized
from fleetbeat.model import CONFIG_MAP, ApiResource, Body

OURS: Body = {
    "metadata": {
        "namespace": "fleetbeat",
        "name": "app-shop",
        "annotations": {APPLICATION: "shop", TOOLING: "fleetbeat/1.0"},
    }
}
THEIRS: Body = {"metadata": {"namespace": "shop", "name": "their-set"}}


class Cluster:
    """One parent, and the namespaces that are open; "" = all."""

    def __init__(self, parent: Body | None, *open_: str, error: FleetbeatError | None = None) -> None:
        self.parent, self.open, self.error, self.asked = parent, set(open_), error, 0

    def list(
        self, resource: ApiResource, *, selector: str, metadata_only: bool, instead: Collection[str]
    ) -> list[Body]:
        assert (resource, selector, metadata_only) == (CONFIG_MAP, "applyset.kubernetes.io/id=applyset-x", True)
        self.asked += 1
        if self.error:
            raise self.error
        if "" not in self.open and not self.open.issuperset(instead):
            raise Unauthorized("forbidden")
        seen = self.parent and ("" in self.open or self.parent["metadata"]["namespace"] in instead)
        return [self.parent] if self.parent and seen else []


@pytest.mark.parametrize(
    ("cluster", "owner"),
    [
        (Cluster(OURS, ""), SetOwner("of application shop", "shop")),
        (Cluster(OURS, "fleetbeat", "shop"), SetOwner("of application shop", "shop")),
        (Cluster(OURS, "fleetbeat"), SetOwner("of application shop", "shop")),
        (Cluster(THEIRS, ""), SetOwner("shop/their-set")),
        (Cluster(THEIRS, "fleetbeat", "shop"), SetOwner("shop/their-set")),
        (Cluster(THEIRS, "fleetbeat"), SetOwner("applyset-x")),
        (Cluster(OURS), SetOwner("applyset-x")),
        (Cluster(None, ""), SetOwner("applyset-x")),
    ],
    ids=[
        "ours",
        "ours, seen in two namespaces",
        "ours, seen at home alone",
        "theirs",
        "theirs, in the application's namespace",
        "theirs, out of sight",
        "nothing may be seen",
        "no parent",
    ],
)
def test_the_name_of_an_owner(cluster: Cluster, owner: SetOwner) -> None:
    name = owner_name(cluster, "fleetbeat", "shop")  # type: ignore[arg-type]
    assert name("applyset-x") == owner
    asked = cluster.asked
    assert name("applyset-x") == owner
    assert cluster.asked == asked


def test_an_outage_makes_nobody_a_stranger() -> None:
    cluster = Cluster(OURS, "", error=ClusterUnavailable("connection refused"))
    name = owner_name(cluster, "fleetbeat", "")  # type: ignore[arg-type]
    with pytest.raises(ClusterUnavailable):
        name("applyset-x")
    cluster.error = None
    assert name("applyset-x") == SetOwner("of application shop", "shop")
