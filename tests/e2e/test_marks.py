"""Marks on objects as a sync acts on them: dependencies wait for health, what asks to be left out is left alone."""

from __future__ import annotations

from typing import Any

from fleet import Fleet, config_map, outcomes, words


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


def test_an_applied_object_that_asks_to_be_skipped_stays_as_it_is(fleet: Fleet, namespace: str) -> None:
    """Field case d13: neither written nor pruned, and told in the history."""
    name = fleet.name("skip")
    fleet.push(name, [config_map("a", namespace), config_map("b", namespace, data={"v": "1"})])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")

    skip = {"argocd.argoproj.io__hook": "Skip"}
    changed = marked(config_map("b", namespace, data={"v": "2"}), **skip)
    revision = fleet.push(name, [config_map("a", namespace, data={"v": "2"}), changed])
    fleet.ring(name)
    entry = fleet.wait_run(name, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/a": "configured"}
    [told] = entry["warnings"]
    assert told.endswith(f"ConfigMap {namespace}/b is not applied: annotation argocd.argoproj.io/hook: Skip")
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/b")
    assert live is not None
    assert live["data"] == {"v": "1"}


def test_a_bundle_with_a_hook_changes_nothing(fleet: Fleet, namespace: str) -> None:
    name = fleet.name("hooked")
    hook = {"argocd.argoproj.io__hook": "PreSync"}
    fleet.push(name, [config_map("a", namespace), marked(job("migrate", namespace), **hook)])
    fleet.application(name, namespace=namespace)
    entry = fleet.wait_run(name)
    assert (entry["phase"], entry["error"]) == ("Failed", "ManifestError")
    assert "is a hook (argocd.argoproj.io/hook: PreSync); this version does not run hooks" in entry["message"]
    assert fleet.writes(name) == []
