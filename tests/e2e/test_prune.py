"""What leaves the bundle leaves the cluster; what is somebody else's stays."""

from __future__ import annotations

from typing import Any

import pytest
from fleet import Fleet, config_map, outcomes, run, words

from fleetbeat.decisions.inventory import PART_OF, parent_name


def test_a_dropped_object_is_pruned(fleet: Fleet, namespace: str) -> None:
    name = fleet.name("lean")
    fleet.push(name, [config_map("a", namespace), config_map("b", namespace)])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")
    start = next(iter(fleet.clusters.values())).audit_position()
    revision = fleet.push(name, [config_map("a", namespace)])
    fleet.ring(name)
    entry = fleet.wait_run(name, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/b": "pruned"}
    assert words(fleet.writes(name, since=start)) == [f"delete configmaps {namespace}/b"]
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/b") is None
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/a") is not None


def test_the_parent_lists_what_is_owned_and_shrinks_last(fleet: Fleet, namespace: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}}
    name = fleet.name("own")
    fleet.push(name, [config_map("a", namespace), secret])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")

    def parent() -> dict[str, Any]:
        found = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(name)}")
        assert found is not None
        return found["metadata"]["annotations"]

    assert parent()["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap,Secret"
    assert parent()["fleetbeat.dev/application"] == name
    revision = fleet.push(name, [config_map("a", namespace)])
    fleet.ring(name)
    fleet.wait_run(name, digest=revision.digest, phase="Succeeded")
    assert parent()["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap"


FOREIGN = [
    pytest.param(
        {"annotations": {"argocd.argoproj.io/tracking-id": "web:/ConfigMap:{ns}/taken"}}, "Argo CD", "web", id="Argo CD"
    ),
    pytest.param(
        {
            "labels": {
                "kustomize.toolkit.fluxcd.io/name": "apps",
                "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            }
        },
        "Flux",
        "apps",
        id="Flux",
    ),
    pytest.param(
        {
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "{ns}"},
        },
        "Helm",
        "web",
        id="Helm",
    ),
    pytest.param({"labels": {"kapp.k14s.io/app": "1699"}}, "kapp", "1699", id="kapp"),
]


@pytest.mark.parametrize(("marks", "tool", "owner"), FOREIGN)
def test_another_tools_object_is_refused_by_name(
    fleet: Fleet, namespace: str, marks: dict[str, dict[str, str]], tool: str, owner: str
) -> None:
    cluster = next(iter(fleet.clusters.values()))
    marks = {part: {k: v.replace("{ns}", namespace) for k, v in pairs.items()} for part, pairs in marks.items()}
    body = config_map("taken", namespace, {"theirs": "yes"}, **marks)
    assert cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0] == 201
    name = fleet.name("rival")
    fleet.push(name, [config_map("taken", namespace, {"ours": "yes"}), config_map("free", namespace)])
    fleet.application(name, namespace=namespace)
    entry = fleet.wait_run(name)
    assert entry["phase"] == "Failed"
    assert tool in entry["message"]
    assert owner in entry["message"]
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/taken")
    assert live is not None
    assert live["data"] == {"theirs": "yes"}
    # Nothing is half-applied: the other object waits too.
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/free") is None


def test_an_unowned_object_is_adopted(fleet: Fleet, namespace: str) -> None:
    cluster = next(iter(fleet.clusters.values()))
    body = config_map("web", namespace, {"greeting": "by hand", "extra": "kept"})
    path = f"/api/v1/namespaces/{namespace}/configmaps?fieldManager=kubectl-create"
    assert cluster.request("POST", path, body)[0] == 201
    uid = (fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web") or {})["metadata"]["uid"]
    name = fleet.name("adopts")
    fleet.push(name, [config_map("web", namespace, {"greeting": "hello"})])
    fleet.application(name, namespace=namespace)
    entry = fleet.wait_run(name, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "configured"}
    assert "adopted" in entry["results"][0]["reason"]
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web")
    assert live is not None
    assert live["metadata"]["uid"] == uid
    assert live["data"] == {"greeting": "hello", "extra": "kept"}
    assert PART_OF in live["metadata"]["labels"]


def test_what_asks_to_be_kept_is_kept(fleet: Fleet, namespace: str) -> None:
    keep = config_map("keep", namespace, annotations={"argocd.argoproj.io/sync-options": "Prune=false"})
    name = fleet.name("keeper")
    fleet.push(name, [config_map("a", namespace), keep])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")
    revision = fleet.push(name, [config_map("a", namespace)])
    fleet.ring(name)
    entry = fleet.wait_run(name, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/keep": "kept"}
    assert "Prune=false" in entry["results"][0]["reason"]
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/keep") is not None
    assert fleet.state(name)["sync"] == "OutOfSync"

    why = "argocd.argoproj.io/sync-options: Prune=false"
    differs = run(fleet, "diff", name)
    assert differs.returncode == 1
    assert f"keep ConfigMap {namespace}/keep   {why}" in differs.stdout
    assert f"Kept:        ConfigMap {namespace}/keep: {why}" in run(fleet, "status", name).stdout
    assert f"kept       ConfigMap {namespace}/keep   {why}" in run(fleet, "sync", name, "--wait").stdout
