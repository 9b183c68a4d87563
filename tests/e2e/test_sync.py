"""The main job: a bundle is synced, stays, is changed by a new one, heals when it drifts."""

from __future__ import annotations

from fleet import Fleet, config_map, in_wave, outcomes
from waiting import wait_for


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
    entry = fleet.wait_run(app, since=1)
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


def test_create_namespace_makes_it_and_leaves_it_unowned(fleet: Fleet) -> None:
    """The option makes the destination; nobody owns it, so pruning never takes it."""
    app = fleet.name("homeless")
    fleet.push(app, [config_map("web"), config_map("other")])
    fleet.application(app, namespace=app, options=["CreateNamespace=true"])
    entry = fleet.wait_run(app)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert outcomes(entry) == {f"ConfigMap {app}/web": "created", f"ConfigMap {app}/other": "created"}
    made = fleet.get(f"/api/v1/namespaces/{app}")
    assert made is not None
    assert "applyset.kubernetes.io/part-of" not in made["metadata"]["labels"]


def test_without_the_option_a_missing_namespace_is_an_error_that_says_what_to_do(fleet: Fleet) -> None:
    app = fleet.name("nowhere")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=app)
    entry = fleet.wait_run(app)
    assert entry["phase"] == "Failed"
    assert f"namespace {app} does not exist" in entry["message"]
    assert "CreateNamespace" in entry["message"]


def test_a_newer_digest_takes_over_a_wave_that_does_not_get_healthy(controlled: Fleet) -> None:
    """Ten pushes are one sync of the newest; a fix does not wait for the time-out of what it fixes."""
    app = controlled.name("stuck")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": app}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "never", "namespace": app},
        "spec": {
            "nodeSelector": {"no": "such-node"},
            "containers": [{"name": "c", "image": "registry.example.com/c:1"}],
        },
    }
    controlled.push(app, [namespace, in_wave(0, pod), in_wave(5, config_map("late", app))])
    controlled.application(app, namespace=app)
    wait_for(lambda: "never" in controlled.runs.look(app).run.get("message", ""), what="the wave to wait")
    for worker in controlled.workers:  # else one might look between two pushes, and be right to begin with the first
        worker.pause()
    try:
        for number in range(3):
            fixed = controlled.push(app, [namespace, in_wave(5, config_map("late", app, {"try": str(number)}))])
    finally:
        for worker in controlled.workers:
            worker.resume()
    controlled.request(app)
    entry = controlled.wait_run(app, digest=fixed.digest, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {app}/late": "created", f"Pod {app}/never": "pruned"}
    phases = [e["phase"] for e in controlled.history(app)]
    assert phases == ["Succeeded", "Superseded"]
    assert controlled.history(app)[1]["message"] == f"by {fixed.digest}"
