"""What happens to a shop on an ordinary day, one scenario each, on a cluster whose controllers are at work.

Elsewhere: a node drained under a hold, and debugging out of band with the temporary annotation (test_holds.py). A
ConfigMap changed by hand, whose editor the ledger names, and a change outside its window that is let through with a
reason stand beside the other tests of the ledger and of the windows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fleet import Fleet, outcomes
from nodes import NODES, add_node
from people import Hands
from waiting import wait_for

Body = dict[str, Any]
COMMIT = "8b1d7e0c35a94f62b1f0d6c2a7e9135b40c8f2ad"


@pytest.fixture
def hands(controlled: Fleet) -> Hands:
    return Hands(controlled.clusters["test-controllers"])


@pytest.fixture
def shop(controlled: Fleet) -> Callable[..., tuple[str, str]]:
    """``shop(deployment)``: (application, namespace) with it in place and healthy."""

    def put(body: Body) -> tuple[str, str]:
        app = namespace = controlled.name("shop")
        controlled.push(app, [body])
        controlled.application(app, namespace=namespace, options=["CreateNamespace=true"])
        controlled.wait_run(app, phase="Succeeded", timeout=200)
        assert controlled.state(app)["health"] == "Healthy"
        return app, namespace

    return put


def deployment(image: str = "web:1", *, node: str = "") -> Body:
    """Two replicas; ``node``: where they rather run than elsewhere."""
    pod: Body = {"containers": [{"name": "web", "image": image}], "terminationGracePeriodSeconds": 0}
    if node:
        there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
        rather = {"weight": 100, "preference": {"matchExpressions": [there]}}
        pod["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [rather]}}
    labels = {"app": "web"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def pods(hands: Hands, namespace: str) -> dict[str, str]:
    """Name → node of those that are ready."""
    found = hands.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return {
        pod["metadata"]["name"]: pod["spec"]["nodeName"]
        for pod in found
        if not pod["metadata"].get("deletionTimestamp")
        and any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
    }


@pytest.fixture
def node(controlled: Fleet, hands: Hands) -> str:
    """A second node, ready for pods."""
    name = controlled.name("node")
    add_node(hands, name)
    # The scheduler hears of it by a watch of its own: a pod that runs nowhere else proves that it has.
    body = {"containers": [{"name": "c", "image": "web:1"}], "nodeSelector": {"kubernetes.io/hostname": name}}
    hands.create("/api/v1/namespaces/default/pods", {"metadata": {"name": name}, "spec": body})
    pod = f"/api/v1/namespaces/default/pods/{name}"
    wait_for(lambda: hands.get(pod)["spec"].get("nodeName"), timeout=120, what="a pod there")
    hands.delete(f"{pod}?gracePeriodSeconds=0")
    return name


def fails(hands: Hands, node: str, _namespace: str) -> None:
    """A machine that is gone for good is taken out of service, so that nothing waits for its kubelet."""
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    hands.merge(f"{NODES}/{node}", {"spec": {"taints": [taint]}}, "kubectl-taint")


def drained(hands: Hands, node: str, namespace: str) -> None:
    """``kubectl drain``: no new pods there, and those that are there evicted."""
    hands.merge(f"{NODES}/{node}", {"spec": {"unschedulable": True}}, "kubectl-cordon")
    for name in pods(hands, namespace):
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
        hands.create(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)


@pytest.mark.parametrize("end", [fails, drained], ids=["fails", "is drained"])
def test_a_node_is_gone_and_its_pods_come_back_elsewhere_without_us(
    controlled: Fleet, hands: Hands, node: str, shop: Callable[..., tuple[str, str]], end: Callable[..., None]
) -> None:
    """Seed scenario: the controller makes the pods anew. Nothing drifted, so nothing is written and no run begins."""
    cluster = controlled.clusters["test-controllers"]
    app, namespace = shop(deployment(node=node))
    before = wait_for(lambda: pods(hands, namespace), timeout=120, what="pods")
    assert set(before.values()) == {node}
    start, ended = cluster.audit_position(), controlled.runs_ended(app)

    end(hands, node, namespace)
    assert controlled.tick(app) == "nothing to do"  # whatever its state is by now

    def moved() -> bool:
        now = pods(hands, namespace)
        return len(now) == 2 and not set(now) & set(before) and node not in now.values()

    wait_for(moved, timeout=200, what="pods on another node")
    hands.delete(f"{NODES}/{node}")

    def healthy() -> bool:
        assert controlled.tick(app) == "nothing to do"
        return controlled.state(app)["health"] == "Healthy"

    wait_for(healthy, timeout=120, what="its health", every=0.2)
    assert controlled.state(app)["sync"] == "Synced"
    assert controlled.writes(app, cluster="test-controllers", since=start, parents=True) == []
    assert controlled.runs_ended(app) == ended


def test_a_new_commit_rolls_the_deployment(
    controlled: Fleet, hands: Hands, shop: Callable[..., tuple[str, str]]
) -> None:
    """Seed scenario: new pods come, old ones go, the history names the commit, and the sync ends when all is well."""
    app, namespace = shop(deployment())
    names = {"revision": COMMIT, "source": "https://git.example.com/shop.git", "created": "2026-11-30T12:00:00Z"}
    annotations = {f"org.opencontainers.image.{name}": value for name, value in names.items()}
    digest = controlled.push(app, [deployment("web:2")], annotations=annotations).digest
    controlled.ring(app)
    entry = controlled.wait_run(app, digest=digest, phase="Succeeded", timeout=200)
    assert (entry["trigger"], entry["health"]) == ("Revision", "Healthy")
    assert outcomes(entry) == {f"Deployment {namespace}/web": "configured"}
    told = {name: entry["revision"][name] for name in names}
    assert told == names

    sets = hands.get(f"/apis/apps/v1/namespaces/{namespace}/replicasets")["items"]
    found = {one["spec"]["template"]["spec"]["containers"][0]["image"]: one["spec"]["replicas"] for one in sets}
    assert found == {"web:1": 0, "web:2": 2}
    status = hands.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web")["status"]
    assert (status["updatedReplicas"], status["availableReplicas"]) == (2, 2)
    state = controlled.state(app)
    assert (state["sync"], state["health"], state["revision"]) == ("Synced", "Healthy", COMMIT)
    assert controlled.tick(app) == "nothing to do"
