"""The order of writes: prerequisites first, waves as announced, whatever the order of files."""

from __future__ import annotations

import contextlib
import copy
import threading
from pathlib import Path
from typing import Any

from fleet import Fleet, config_map, in_wave, outcomes, words
from people import Hands
from waiting import wait_for
from webhook import Webhook

from fleetbeat.local.cluster import Cluster

CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.hostile.example.com"},
    "spec": {
        "group": "hostile.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": {"sails": {"type": "integer"}}}},
                    }
                },
            }
        ],
    },
}


def deployment(name: str, namespace: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [
                        {
                            "name": "web",
                            "image": "registry.example.com/web:1",
                            "envFrom": [{"configMapRef": {"name": "web"}}],
                        }
                    ]
                },
            },
        },
    }


def test_hostile_file_order_syncs_at_the_first_run(controlled: Fleet) -> None:
    """Field case c2: Namespace, CRD, its CR and a Deployment, no waves, in the worst order."""
    controlled.push(
        "hostile",
        [
            {
                "apiVersion": "hostile.example.com/v1",
                "kind": "Boat",
                "metadata": {"name": "main"},
                "spec": {"sails": 3},
            },
            deployment("web", "hostile"),
            config_map("web", "hostile"),
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "crew", "namespace": "hostile"}},
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "bare", "namespace": "hostile"},
                "spec": {
                    "serviceAccountName": "crew",
                    "containers": [{"name": "c", "image": "registry.example.com/c:1"}],
                },
            },
            CRD,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "hostile"}},
        ],
    )
    controlled.application("hostile", namespace="hostile")
    entry = controlled.wait_run("hostile")
    assert entry["phase"] == "Succeeded", entry["message"]
    assert set(outcomes(entry).values()) == {"created"}
    assert len(controlled.history("hostile")) == 1
    written = words(controlled.writes("hostile"))
    assert set(written[:2]) == {
        "patch namespaces hostile",
        "patch customresourcedefinitions boats.hostile.example.com",
    }
    assert written.index("patch configmaps hostile/web") < written.index("patch deployments hostile/web")
    assert controlled.state("hostile")["health"] == "Healthy"


def becomes_available(cluster: Cluster, path: str) -> None:
    """The test plays the controller of this Deployment."""
    conditions = [
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
    ]
    generation = cluster.request("GET", path)[1]["metadata"]["generation"]
    status: dict[str, Any] = {"observedGeneration": generation, "conditions": conditions}
    status |= dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    merge = "application/merge-patch+json"
    code, answer = cluster.request("PATCH", f"{path}/status", {"status": status}, content_type=merge)
    assert code == 200, answer


def test_a_wave_waits_for_the_health_of_the_one_before(fleet: Fleet, cluster: Cluster) -> None:
    """A later wave does not begin before the Deployment of the earlier one is available, however long that takes."""
    name = fleet.name("waved")
    fleet.push(
        name,
        [
            in_wave(10, config_map("last", name)),
            in_wave(5, deployment("web", name)),
            in_wave(-3, config_map("web", name)),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        ],
    )
    fleet.application(name, namespace=name)
    # The first wait is for the Deployment, later ones tell that a look has found it not available.
    wait_for(lambda: "is Progressing" in fleet.runs.look(name).run.get("message", ""), what="a look at the Deployment")
    before = [f"patch namespaces {name}", f"patch configmaps {name}/web", f"patch deployments {name}/web"]
    assert words(fleet.writes(name)) == before
    becomes_available(cluster, f"/apis/apps/v1/namespaces/{name}/deployments/web")
    entry = fleet.wait_run(name)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert words(fleet.writes(name)) == [*before, f"patch configmaps {name}/last"]


class Gate:
    """A webhook's view of writes: none is let through before ``wide`` of them are there at the same time."""

    def __init__(self, wide: int) -> None:
        self.opened = False
        self._barrier = threading.Barrier(wide)
        self._tried: set[str] = set()

    def __call__(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        name = body["metadata"]["name"]
        if name not in self._tried:  # the dry-run
            self._tried.add(name)
        elif not self.opened:
            with contextlib.suppress(threading.BrokenBarrierError):
                self._barrier.wait(20)
                self.opened = True
        return []

    def has_seen(self, name: str) -> bool:
        return name in self._tried


def test_objects_of_a_wave_are_applied_in_parallel(
    fleet: Fleet, cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    """Four writes of one tier are under way at the same time: the API server answers none before it has the others."""
    name, gate = fleet.name("wide"), Gate(4)
    hands, configurations = Hands(cluster), "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    with Webhook(tmp_path, gate) as webhook:
        hands.create(configurations, webhook.configuration(namespace, namespace, "", "configmaps", ("CREATE",)))
        try:
            wait_for(
                lambda: hands.create(f"{maps}?dryRun=All", config_map("trial")) and gate.has_seen("trial"),
                what="the API server to know the webhook",
            )
            fleet.push(name, [config_map(f"m-{n}", namespace) for n in range(8)])
            fleet.application(name, namespace=namespace)
            assert fleet.wait_run(name)["phase"] == "Succeeded"
        finally:
            hands.delete(f"{configurations}/{namespace}")
    assert gate.opened


def test_a_definition_deleted_by_hand_comes_back_with_its_objects(controlled: Fleet) -> None:
    """Whatever a worker's discovery still remembers of the kind: the next sync brings both back, at once."""
    name = controlled.name("returning")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    definition = copy.deepcopy(CRD)
    definition["metadata"]["name"] = "rafts.returning.example.com"
    definition["spec"] |= {
        "group": "returning.example.com",
        "names": {"kind": "Raft", "plural": "rafts", "singular": "raft"},
    }
    raft = {
        "apiVersion": "returning.example.com/v1",
        "kind": "Raft",
        "metadata": {"name": "main"},
        "spec": {"sails": 1},
    }
    controlled.push(name, [raft, definition, namespace])
    controlled.application(name, namespace=name)
    controlled.wait_run(name, phase="Succeeded")
    cluster = next(iter(controlled.clusters.values()))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rafts.returning.example.com"
    assert cluster.request("DELETE", path)[0] == 200
    wait_for(lambda: cluster.request("GET", path)[0] == 404, what="the definition to go")
    entry = controlled.sync(name)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert set(outcomes(entry).values()) == {"created"}
    assert controlled.get(f"/apis/returning.example.com/v1/namespaces/{name}/rafts/main") is not None
