"""Nodes of a cluster with controllers, and what people do to them for maintenance."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from typing import Any

from people import Hands
from waiting import wait_for

from fleetbeat.local.cluster import Cluster

NODES = "/api/v1/nodes"
Body = dict[str, Any]


def add_node(hands: Hands, name: str, *, cordoned: bool = False, **labels: str) -> None:
    """A machine that kwok plays, ready when this returns."""
    room = {"cpu": "8", "memory": "32Gi", "pods": "100"}
    kept = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "type": "kwok", **labels}
    metadata = {"name": name, "labels": kept, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    more: Body = {"status": {"allocatable": room, "capacity": room}}
    if cordoned:
        more["spec"] = {"unschedulable": True}
    hands.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata, **more})

    def ready() -> bool:
        live = hands.get(f"{NODES}/{name}")
        taints = {taint["key"] for taint in live["spec"].get("taints", ())}
        return is_ready(live) and taints <= {"node.kubernetes.io/unschedulable"}

    wait_for(ready, timeout=120, what=f"{name} to be ready")


def is_ready(live: Body) -> bool:
    """A node or a pod."""
    conditions = live.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def cordon(hands: Hands, name: str, *, on: bool = True) -> None:
    hands.merge(f"{NODES}/{name}", {"spec": {"unschedulable": on or None}}, "kubectl-cordon")


def nothing_fits(hands: Hands, namespace: str, pool: str) -> None:
    """Wait until the scheduler has heard that every node of the pool is cordoned: it hears of nodes by one watch and of
    pods by another, and might put one more pod there. A pod that finds no place proves it."""
    path = f"/api/v1/namespaces/{namespace}/pods"

    def refused() -> bool:
        name = f"probe-{uuid.uuid4().hex[:6]}"
        spec = {"containers": [{"name": "c", "image": "none:1"}], "nodeSelector": {"pool": pool}}
        hands.create(path, {"metadata": {"name": name}, "spec": spec})
        placed = wait_for(lambda: _placed(hands.get(f"{path}/{name}")), timeout=120, what="the scheduler's word")
        hands.delete(f"{path}/{name}?gracePeriodSeconds=0")
        return placed == "no"

    wait_for(refused, timeout=120, what="no place for a pod")


def _placed(pod: Body) -> str:
    """`yes`, `no`, or nothing while the scheduler has not said."""
    conditions = pod.get("status", {}).get("conditions", ())
    if pod["spec"].get("nodeName"):
        return "yes"
    return "no" if any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions) else ""


def pods_on(hands: Hands, namespace: str, node: str) -> list[Body]:
    """All there, those of DaemonSets included."""
    found: list[Body] = hands.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    return [
        pod for pod in found if pod["spec"].get("nodeName") == node and not pod["metadata"].get("deletionTimestamp")
    ]


def of_daemon(pod: Body) -> bool:
    return any(owner["kind"] == "DaemonSet" for owner in pod["metadata"].get("ownerReferences", ()))


def evict(cluster: Cluster, pod: Body) -> bool:
    """As ``kubectl drain`` asks: False when a PodDisruptionBudget is against it for now."""
    place, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": place}}
    path = f"/api/v1/namespaces/{place}/pods/{name}/eviction"
    status, answer = cluster.request("POST", path, eviction, user_agent="kubectl")
    assert status in (HTTPStatus.CREATED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.NOT_FOUND), answer
    return status != HTTPStatus.TOO_MANY_REQUESTS
