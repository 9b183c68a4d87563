"""The main job: a bundle is synced, stays, is changed by a new one, heals when it drifts."""

from __future__ import annotations

from fleet import Fleet, config_map, outcomes


def test_a_pushed_bundle_is_synced(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("shop")
    revision = fleet.push(app, [config_map("web", data={"greeting": "hello"})])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "created"}
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web")
    assert live is not None
    assert live["data"] == {"greeting": "hello"}
    assert fleet.state(app)["sync"] == "Synced"
    assert fleet.state(app)["health"] == "Healthy"


def test_an_edited_catalog_entry_is_acted_on_at_once(fleet: Fleet, namespace: str) -> None:
    """Nobody waits for the interval after editing the catalog."""
    app = fleet.name("edited")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    other = fleet.name("other-namespace")
    assert (
        next(iter(fleet.clusters.values())).request("POST", "/api/v1/namespaces", {"metadata": {"name": other}})[0]
        == 201
    )
    fleet.application(app, namespace=other)
    entry = fleet.wait_run(app, since=1, timeout=15)
    assert entry["trigger"] == "Spec"
    assert outcomes(entry) == {f"ConfigMap {other}/web": "created", f"ConfigMap {namespace}/web": "pruned"}


def test_what_a_bundle_leaves_out_is_told(fleet: Fleet, namespace: str) -> None:
    """Field case i7: files that are not manifests are listed with the run, not dropped in silence."""
    app = fleet.name("noted")
    files = {
        "web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {a: b}\n",
        ".github/workflow.yml": "on: push\n",
        "role.yaml": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
        f"metadata: {{name: {app}, namespace: x}}\nrules: []\n",
    }
    fleet.push(app, files)
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Succeeded")
    assert set(outcomes(entry)) == {f"ConfigMap {namespace}/web", f"ClusterRole {app}"}
    assert any(".github" in line for line in entry["warnings"])
    assert any(app in line and "namespace" in line for line in entry["warnings"])
