"""Where a watch follows a kind: everywhere, or where applications have it when everywhere is forbidden."""

from __future__ import annotations

from fleetbeat.clients.applyset import MEMBERS_HERE
from fleetbeat.decisions.inventory import ADDITIONAL_NAMESPACES, CONTAINS_GROUP_KINDS, ID
from fleetbeat.model import Body
from scheduler.watch_cluster import Parents


def parent(app: str, kinds: str, namespaces: str, *, here: bool = False) -> Body:
    annotations = {CONTAINS_GROUP_KINDS: kinds, ADDITIONAL_NAMESPACES: namespaces}
    annotations |= {MEMBERS_HERE: "true"} if here else {}
    return {"metadata": {"name": app, "labels": {ID: app}, "annotations": annotations}}


def test_places() -> None:
    parents = Parents("fleetbeat")
    parents.listed(
        [
            parent("shop", "ConfigMap,Deployment.apps", "shop,shop-jobs"),
            parent("wiki", "ConfigMap", "wiki"),
            parent("base", "Secret", "", here=True),
        ]
    )
    assert parents.places(()) == {("ConfigMap", ""), ("Deployment.apps", ""), ("Secret", "")}
    assert parents.places({"Deployment.apps", "Secret"}) == {
        ("ConfigMap", ""),
        ("Deployment.apps", "shop"),
        ("Deployment.apps", "shop-jobs"),  # and neither in wiki nor at home, where nobody has any
        ("Secret", "fleetbeat"),
    }
