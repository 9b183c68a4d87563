"""The Kubernetes client's JSON patch and trial replace: what each expects to find, and what it leaves."""

from __future__ import annotations

from typing import Any

import pytest
from unhurried import UNHURRIED

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.errors import Conflict, LostLock
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import ApiResource, Body, Cluster, Credential, SecretText
from fleetbeat.ports import Absent

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)


@pytest.fixture
def kube(cluster: LocalCluster) -> KubernetesCluster:
    described = Cluster(
        name="test",
        server=cluster.server,
        ca=Credential(inline=SecretText(cluster.ca_pem)),
        token=Credential(inline=SecretText(cluster.token)),
    )
    return KubernetesCluster.connect(described, http=UNHURRIED)


@pytest.fixture
def there(kube: KubernetesCluster, namespace: str) -> Body:
    body: Body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", "namespace": namespace, "annotations": {"a/b": "1"}},
        "data": {"k": "1"},
    }
    return kube.apply(CONFIG_MAP, body, expect=Absent()).body


def seen(live: Body, *operations: dict[str, Any]) -> list[dict[str, Any]]:
    meta = live["metadata"]
    pair = [{"op": "replace", "path": f"/metadata/{key}", "value": meta[key]} for key in ("uid", "resourceVersion")]
    return [*pair, *operations]


DROP = {"op": "remove", "path": "/metadata/annotations/a~1b"}


def test_a_patch_on_what_was_seen(kube: KubernetesCluster, there: Body, namespace: str) -> None:
    written = kube.patch(CONFIG_MAP, namespace, "web", seen(there, DROP))
    assert "annotations" not in written.body["metadata"]
    assert written.body["data"] == {"k": "1"}
    assert written.audit_id


def test_a_moved_object_is_a_conflict(kube: KubernetesCluster, there: Body, namespace: str) -> None:
    kube.patch(CONFIG_MAP, namespace, "web", seen(there, DROP))
    with pytest.raises(Conflict):
        kube.patch(CONFIG_MAP, namespace, "web", seen(there))


def test_another_incarnation_is_a_conflict(kube: KubernetesCluster, there: Body, namespace: str) -> None:
    other = {"metadata": {**there["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    with pytest.raises(Conflict):
        kube.patch(CONFIG_MAP, namespace, "web", seen(other, DROP))


def test_a_vanished_object_is_a_conflict(kube: KubernetesCluster, there: Body, namespace: str) -> None:
    with pytest.raises(Conflict, match="vanished"):
        kube.patch(CONFIG_MAP, namespace, "gone", seen(there))


def test_a_patch_without_a_state_is_a_mistake(kube: KubernetesCluster, namespace: str) -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        kube.patch(CONFIG_MAP, namespace, "web", [DROP])


def test_a_patch_asks_the_guard_and_a_trial_does_not(kube: KubernetesCluster, there: Body, namespace: str) -> None:
    def lost() -> None:
        raise LostLock("taken over")

    late = kube.acting("test", lost)
    with pytest.raises(LostLock):
        late.patch(CONFIG_MAP, namespace, "web", seen(there, DROP))
    answer = late.replace(CONFIG_MAP, {**there, "data": {"k": "2"}}, dry_run=True)
    assert answer.body["data"] == {"k": "2"}
    live = kube.get(CONFIG_MAP, namespace, "web")
    assert live is not None
    assert live["metadata"]["resourceVersion"] == there["metadata"]["resourceVersion"]
