"""The Kubernetes client's reads and discovery against a real API server."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from unhurried import UNHURRIED
from waiting import wait_for

from fleetbeat.clients import cluster as cluster_module
from fleetbeat.clients import cluster_connect, discovery
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.server_clock import ServerClock
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import ApiResource, ApiSet, Body, Cluster, Credential, SecretText
from fleetbeat.ports import Absent, Seen

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
NAMESPACE = ApiResource("", "v1", "Namespace", "namespaces", False)
CRD = ApiResource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", False)
AGENT = "fleetbeat/test of reading"  #: nobody else's: here requests are counted
UNKNOWN = ApiResource("nowhere.example.com", "v1", "Thing", "things", True)


@pytest.fixture
def kube(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> KubernetesCluster:
    monkeypatch.setattr(cluster_connect, "_connections", type(cluster_connect._connections)())  # nothing cached
    ca, token = Credential(inline=SecretText(cluster.ca_pem)), Credential(inline=SecretText(cluster.token))
    connected = KubernetesCluster.connect(
        Cluster(name="test", server=cluster.server, ca=ca, token=token), http=UNHURRIED
    )
    return connected.acting(AGENT, None)


def fill(kube: KubernetesCluster, namespace: str, count: int) -> None:
    for i in range(count):
        labels = {"app": "shop", "odd": str(i % 2)}
        meta = {"name": f"c{i}", "namespace": namespace, "labels": labels}
        body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"i": str(i)}}
        kube.apply(CONFIG_MAP, body, expect=Absent())


def requests(cluster: LocalCluster, position: int) -> list[str]:
    return [e["requestURI"] for e in cluster.audit(position) if e.get("userAgent") == AGENT]


# ── get and list ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_get_of_nothing(kube: KubernetesCluster, namespace: str) -> None:
    assert kube.get(CONFIG_MAP, namespace, "nothing") is None
    assert kube.get(CONFIG_MAP, "no-such-namespace", "nothing") is None
    assert kube.get(UNKNOWN, namespace, "nothing") is None


def test_get_of_a_cluster_scoped_object(kube: KubernetesCluster, namespace: str) -> None:
    live = kube.get(NAMESPACE, "", namespace) or {}
    assert (live["kind"], live["metadata"]["name"]) == ("Namespace", namespace)


def test_what_time_it_is_there_is_no_matter_of_the_hosts_clock(kube: KubernetesCluster, namespace: str) -> None:
    off = datetime(2031, 7, 1, tzinfo=UTC)
    kube._transport.connection.clock = ServerClock(host=lambda: off)
    assert kube.now() == off, "nothing has been heard yet"
    made = kube.create(
        CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": namespace}}
    )
    stamped = datetime.fromisoformat(made.body["metadata"]["creationTimestamp"])
    assert abs(kube.now() - stamped) < timedelta(minutes=10)
    assert kube.acting("another", None).now() >= stamped


def test_list_in_pages(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(kube, namespace, 5)
    monkeypatch.setattr(cluster_module, "PAGE", 2)
    position = cluster.audit_position()
    found = kube.list(CONFIG_MAP, namespace=namespace)
    assert [item["metadata"]["name"] for item in found] == ["c0", "c1", "c2", "c3", "c4"]
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "ConfigMap")}
    assert len(requests(cluster, position)) == 3


def test_list_by_label_everywhere_metadata_only(kube: KubernetesCluster, namespace: str) -> None:
    fill(kube, namespace, 4)
    found = kube.list(CONFIG_MAP, selector="app=shop,odd=1", metadata_only=True)
    mine = [item for item in found if item["metadata"]["namespace"] == namespace]
    assert [item["metadata"]["name"] for item in mine] == ["c1", "c3"]
    assert all(set(item) == {"apiVersion", "kind", "metadata"} for item in mine)
    assert {item["kind"] for item in mine} == {"ConfigMap"}
    assert mine[0]["metadata"]["managedFields"][0]["manager"] == "fleetbeat"


def test_list_of_a_kind_not_served_is_empty(kube: KubernetesCluster) -> None:
    assert kube.list(UNKNOWN) == []
    assert kube.list(UNKNOWN._replace(group="apps"), metadata_only=True) == []


# ── discovery ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_api_set(cluster: LocalCluster, kube: KubernetesCluster) -> None:
    position = cluster.audit_position()
    apis = kube.api_set()
    assert apis.complete
    assert apis.version.startswith("v1.")
    assert apis.find("apps", "Deployment") == ApiResource(
        "apps", "v1", "Deployment", "deployments", True, has_status=True, short_names=("deploy",)
    )
    assert apis.find("", "Namespace") == NAMESPACE._replace(has_status=True, short_names=("ns",))
    assert apis.find("", "ConfigMap") == CONFIG_MAP._replace(has_status=False, short_names=("cm",))
    hpa = ApiResource("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", True, has_status=True)
    assert apis.find("autoscaling", "HorizontalPodAutoscaler") == hpa._replace(short_names=("hpa",))
    assert apis.versions("autoscaling", "HorizontalPodAutoscaler") == ("v2", "v1")
    assert not any("/" in resource.plural for resource in apis.resources)
    assert requests(cluster, position) == ["/api", "/apis", "/version"]
    assert kube.api_set() is apis
    assert kube.acting("fleetbeat/0 app/other", None).api_set() is apis  # views share what is known
    assert len(requests(cluster, position)) == 3
    assert kube.api_set(refresh=True) == apis
    assert len(requests(cluster, position)) == 5


def test_server_without_aggregated_discovery_is_read_one_by_one(
    kube: KubernetesCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = kube.api_set()
    monkeypatch.setattr(discovery, "ACCEPT", "application/json")
    one_by_one = kube.api_set(refresh=True)
    assert one_by_one is not whole
    assert set(one_by_one.resources) == set(whole.resources)
    assert one_by_one.complete
    assert one_by_one.version == whole.version


def crd(plural: str) -> Body:
    kind = plural.capitalize()
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.read.example.com"},
        "spec": {
            "group": "read.example.com",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def refreshed_until(kube: KubernetesCluster, kind: str, *, served: bool) -> ApiSet:
    def refreshed() -> ApiSet | None:
        apis = kube.api_set(refresh=True)
        return apis if (apis.find("read.example.com", kind) is not None) is served else None

    found = wait_for(refreshed, what=f"{kind} to {'appear in' if served else 'leave'} discovery", every=0.05)
    assert found is not None
    return found


def test_new_and_removed_kinds_are_found_by_a_refresh(
    kube: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case k8. A CRD that went through this client lifts the bound on refreshes for a while."""
    monkeypatch.setattr(discovery, "BURST", 0)  # nothing else allows one
    known = kube.api_set()
    assert kube.api_set(refresh=True) is known
    monkeypatch.setattr(discovery, "CRD_SETTLES", 600.0)  # longer than any machine stands still
    kube.apply(CRD, crd("boats"), expect=Absent())
    apis = refreshed_until(kube, "Boats", served=True)
    assert apis.complete
    boats = apis.find("read.example.com", "Boats")
    assert boats
    body = {"apiVersion": "read.example.com/v1", "kind": "Boats", "metadata": {"name": "b", "namespace": namespace}}
    assert kube.apply(boats, body, expect=Absent()).created
    kube.apply(CRD, crd("trains"), expect=Absent())
    live = kube.get(CRD, "", "boats.read.example.com") or {}
    kube.delete(
        CRD, "", "boats.read.example.com", seen=Seen(live["metadata"]["uid"], live["metadata"]["resourceVersion"])
    )
    refreshed_until(kube, "Boats", served=False)
    refreshed_until(kube, "Trains", served=True)
    assert kube.list(boats) == []


def test_group_whose_server_is_gone_makes_discovery_incomplete(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    spec = {
        "group": "dead.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {"name": "nobody", "namespace": namespace},
    }
    status, answer = cluster.request("POST", path, {"metadata": {"name": "v1.dead.example.com"}, "spec": spec})
    assert status == 201, answer
    try:
        assert not _eventually_complete(kube, False).complete
    finally:
        cluster.request("DELETE", f"{path}/v1.dead.example.com")
    assert _eventually_complete(kube, True).complete


def _eventually_complete(kube: KubernetesCluster, wanted: bool) -> ApiSet:
    deadline = time.monotonic() + 120
    apis = kube.api_set(refresh=True)
    while apis.complete is not wanted and time.monotonic() < deadline:
        time.sleep(0.1)
        apis = kube.api_set(refresh=True)
    return apis
