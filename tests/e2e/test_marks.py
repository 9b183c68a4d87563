"""Marks on objects as a sync acts on them: dependencies wait for health, what asks to be left out is left alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fleet import Fleet, config_map, words
from waiting import wait_for

from fleetbeat.local.cluster import Cluster


def marked(body: dict[str, Any], **annotations: str) -> dict[str, Any]:
    marks = {key.replace("__", "/").replace("_", "-"): value for key, value in annotations.items()}
    return {**body, "metadata": {**body["metadata"], "annotations": marks}}


def job(name: str, namespace: str) -> dict[str, Any]:
    container = {"name": "run", "image": "registry.example.com/migrate:1"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def completes(cluster: Cluster, path: str) -> None:
    """The test plays the controller of this Job."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kinds = ("SuccessCriteriaMet", "Complete")
    done = [{"type": kind, "status": "True", "lastTransitionTime": now} for kind in kinds]
    status = {"startTime": now, "completionTime": now, "conditions": done, "succeeded": 1}
    status |= {"uncountedTerminatedPods": {}}
    merge = "application/merge-patch+json"
    code, answer = cluster.request("PATCH", f"{path}/status", {"status": status}, content_type=merge)
    assert code == 200, answer


def test_a_dependency_is_healthy_before_its_dependant_is_written(fleet: Fleet, cluster: Cluster) -> None:
    """In one wave, against the order of kinds: a ConfigMap after a Job, once that is complete."""
    name = fleet.name("depends")
    needs = {"config.kubernetes.io__depends_on": f"batch/namespaces/{name}/Job/migrate"}
    fleet.push(
        name,
        [
            marked(config_map("after", name), **needs),
            job("migrate", name),
            config_map("before", name),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        ],
    )
    fleet.application(name, namespace=name)
    # The first wait is for the Job, later ones tell that a look has found it at work.
    wait_for(lambda: "is Progressing" in fleet.runs.look(name).run.get("message", ""), what="a look at the Job")
    before = [f"patch namespaces {name}", f"patch configmaps {name}/before", f"patch jobs {name}/migrate"]
    assert words(fleet.writes(name)) == before
    completes(cluster, f"/apis/batch/v1/namespaces/{name}/jobs/migrate")
    fleet.wait_run(name, phase="Succeeded")
    assert words(fleet.writes(name)) == [*before, f"patch configmaps {name}/after"]
