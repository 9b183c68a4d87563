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
