"""Hooks in tests: manifests of them, and what is left of them in a cluster."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from fleet import Fleet
from waiting import wait_for

Body = dict[str, Any]

#: no node has it: Pods with it wait for ever
NOWHERE = {"nodeSelector": {"nowhere": "to-be-found"}}


def hook(phases: str, manifest: Body, *, wave: int = 0, policy: str = "") -> Body:
    """The manifest as a hook of Argo CD's. ``policy``: its delete policies, "" = none named."""
    annotations = manifest["metadata"].setdefault("annotations", {})
    annotations["argocd.argoproj.io/hook"] = phases
    if policy:
        annotations["argocd.argoproj.io/hook-delete-policy"] = policy
    if wave:
        annotations["argocd.argoproj.io/sync-wave"] = str(wave)
    return manifest


def job(name: str, *, template: Mapping[str, Any] | None = None, **spec: Any) -> Body:
    """A Job. ``name`` that ends in "-" is a generateName. Succeeds within a second where there are controllers."""
    naming = "generateName" if name.endswith("-") else "name"
    pod = {
        "containers": [{"name": "main", "image": "example.com/work:1"}],
        "restartPolicy": "Never",
        **(template or {}),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {naming: name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def hanging(name: str, **spec: Any) -> Body:
    return job(name, template=NOWHERE, **spec)


def failing(name: str) -> Body:
    """A Job that fails after a second."""
    return job(name, template=NOWHERE, activeDeadlineSeconds=1)


def account(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}


def new_space(fleet: Fleet) -> str:
    """A namespace of its own, with its default account: Pods need one."""
    cluster = next(iter(fleet.clusters.values()))
    name = f"t-{uuid.uuid4().hex[:10]}"
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    path = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_for(lambda: fleet.get(path), what=f"the default account of {name}")
    return name


def jobs(fleet: Fleet, namespace: str) -> dict[str, Body]:
    """Jobs in the namespace by name, without those on their way out."""
    found = fleet.get(f"/apis/batch/v1/namespaces/{namespace}/jobs")
    assert found is not None
    return {j["metadata"]["name"]: j for j in found["items"] if not j["metadata"].get("deletionTimestamp")}


def run_of(body: Body | None) -> str:
    assert body is not None
    return str(body["metadata"]["annotations"]["fleetbeat.dev/run"])


def hooks_of(entry: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """``{("PreSync", "Job shop/migrate"): "created"}`` of a history entry."""
    from fleetbeat.model import ObjectId

    return {
        (result["phase"], str(ObjectId.from_key(result["id"]))): result["outcome"]
        for result in entry["results"]
        if result.get("phase")
    }
