"""The order of writes: prerequisites first, waves as announced, whatever the order of files."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

from fleet import Fleet, config_map, in_wave, outcomes, words
from waiting import wait_for

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


def test_a_wave_waits_for_the_health_of_the_one_before(controlled: Fleet) -> None:
    """Waves are visible in the audit log's order, and a later one begins after the earlier Deployment is available."""
    name = controlled.name("waved")
    controlled.push(
        name,
        [
            in_wave(10, config_map("last", name)),
            in_wave(5, deployment("web", name)),
            in_wave(-3, config_map("web", name)),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        ],
    )
    controlled.application(name, namespace=name)
    entry = controlled.wait_run(name)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert words(controlled.writes(name)) == [
        f"patch namespaces {name}",
        f"patch configmaps {name}/web",
        f"patch deployments {name}/web",
        f"patch configmaps {name}/last",
    ]
    events = next(iter(controlled.clusters.values())).audit()
    last = next(e for e in controlled.writes(name) if e["objectRef"]["name"] == "last")
    available = [
        e
        for e in events
        if e["verb"] in ("update", "patch")
        and (e.get("objectRef") or {}).get("namespace") == name
        and e["objectRef"].get("resource") == "deployments"
        and e["objectRef"].get("subresource") == "status"
    ]
    assert available, "the controller reported a status"
    assert max(e["stageTimestamp"] for e in available) < last["requestReceivedTimestamp"]


def test_objects_of_a_wave_are_applied_in_parallel(fleet: Fleet, namespace: str) -> None:
    """Several writes of one tier are under way at the same time."""
    name = fleet.name("wide")
    fleet.push(name, [config_map(f"m-{n}", namespace) for n in range(40)])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")
    spans = sorted((e["requestReceivedTimestamp"], e["stageTimestamp"]) for e in fleet.writes(name))
    overlaps = sum(later[0] < earlier[1] for earlier, later in pairwise(spans))
    assert overlaps >= 10, f"{overlaps} of {len(spans)} writes overlapped the one before"


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
    wait_for(lambda: cluster.request("GET", path)[0] == 404, timeout=30, what="the definition to go")
    entry = controlled.sync(name)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert set(outcomes(entry).values()) == {"created"}
    assert controlled.get(f"/apis/returning.example.com/v1/namespaces/{name}/rafts/main") is not None
