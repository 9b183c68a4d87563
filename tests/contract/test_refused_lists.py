"""A LIST of everything that is refused, at a real API server: what is listed instead, and when a namespace is gone."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from waiting import wait_for

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.errors import Unauthorized
from fleetbeat.local.cluster import Cluster
from fleetbeat.model import CONFIG_MAP, NAMESPACE, Credential, SecretText
from fleetbeat.model import Cluster as ClusterEntry
from fleetbeat.settings import Http

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
def user() -> str:
    return f"tenant-{uuid.uuid4().hex[:6]}"


@pytest.fixture
def kube(cluster: Cluster, user: str) -> KubernetesCluster:
    certificate = cluster.client_certificate(user)
    entry = ClusterEntry(
        name=user,
        server=cluster.server,
        ca=Credential(inline=SecretText(cluster.ca_pem)),
        client_certificate=Credential(inline=SecretText(certificate.certificate)),
        client_key=Credential(inline=SecretText(certificate.key)),
    )
    return KubernetesCluster.connect(entry, http=Http())


def grant(cluster: Cluster, user: str, namespace: str, resource: str, verb: str) -> None:
    """``namespace``: "" for the whole cluster."""
    kind, base = ("Role", f"{RBAC}/namespaces/{namespace}") if namespace else ("ClusterRole", RBAC)
    metadata = {"name": f"{user}-{resource}"}
    rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
    reference = {"apiGroup": GROUP, "kind": kind, "name": metadata["name"]}
    bound: dict[str, Any] = {"roleRef": reference, "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}]}
    assert cluster.request("POST", f"{base}/{kind.lower()}s", {"metadata": metadata, "rules": [rule]})[0] == 201
    assert cluster.request("POST", f"{base}/{kind.lower()}bindings", {"metadata": metadata, **bound})[0] == 201


def seen(condition: Callable[[], bool]) -> None:
    """The authorizer learns of a new right a moment after the answer to whoever granted it."""

    def told() -> bool:
        try:
            return condition()
        except Unauthorized:
            return False

    wait_for(told, what="the right to come into force")


def test_namespaces_that_are_open_closed_and_gone(
    cluster: Cluster, kube: KubernetesCluster, user: str, namespace: str
) -> None:
    grant(cluster, user, namespace, "configmaps", "list")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
    assert cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0] == 201

    def names(*instead: str) -> list[str]:
        found = [body["metadata"]["name"] for body in kube.list(CONFIG_MAP, metadata_only=True, instead=instead)]
        return [name for name in found if name != "kube-root-ca.crt"]

    with pytest.raises(Unauthorized, match="at the cluster scope"):
        names()
    seen(lambda: names(namespace) == ["web"])
    never = f"never-{uuid.uuid4().hex[:6]}"
    for closed in ("default", never):  # one that is not there and one that is closed look the same
        with pytest.raises(Unauthorized, match=f'in the namespace "{closed}"'):
            names(namespace, closed)
    with pytest.raises(Unauthorized, match="namespaces is forbidden"):
        kube.list(NAMESPACE, instead=[namespace])  # nothing that would have a namespace to look in

    grant(cluster, user, "", "namespaces", "get")
    seen(lambda: names(namespace, never) == ["web"])
    with pytest.raises(Unauthorized, match='in the namespace "default"'):
        names(namespace, "default")
