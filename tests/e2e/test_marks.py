"""Marks on objects as a sync acts on them: dependencies wait for health, what asks to be left out is left alone."""

from __future__ import annotations

from typing import Any

from fleet import Fleet, config_map, words


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


def test_a_dependency_is_healthy_before_its_dependant_is_written(controlled: Fleet) -> None:
    """In one wave, against the order of kinds: a ConfigMap after a Job, once that is complete."""
    name = controlled.name("depends")
    needs = {"config.kubernetes.io__depends_on": f"batch/namespaces/{name}/Job/migrate"}
    controlled.push(
        name,
        [
            marked(config_map("after", name), **needs),
            job("migrate", name),
            config_map("before", name),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        ],
    )
    controlled.application(name, namespace=name)
    controlled.wait_run(name, phase="Succeeded")
    writes = controlled.writes(name)
    assert words(writes) == [
        f"patch namespaces {name}",
        f"patch configmaps {name}/before",
        f"patch jobs {name}/migrate",
        f"patch configmaps {name}/after",
    ]
    cluster = next(iter(controlled.clusters.values()))
    finished = [
        event["stageTimestamp"]
        for event in cluster.audit()
        if (event.get("objectRef") or {}).get("namespace") == name
        and event["objectRef"].get("resource") == "jobs"
        and event["objectRef"].get("subresource") == "status"
    ]
    assert finished, "the controller reported a status"
    assert max(finished) < writes[-1]["requestReceivedTimestamp"]
