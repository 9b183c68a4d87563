"""A digest is taken back while its first wave still waits: what it had changed is changed back."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from breaking import at_rest, breakable, new_namespace
from fleet import config_map, in_wave
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

#: Progressing for ever: no controller runs in this cluster
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
        },
    },
}


def test_back_to_the_digest_before(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """The run that is broken off has written, and the digest that takes over is the one that was in force before it."""
    with breakable(tmp_path, registry, cluster) as (fleet, nursery):
        nursery.worker()
        app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
        old = [config_map("settings", data={"key": "old"})]
        digest = fleet.push(app, old).digest
        fleet.application(app, namespace=namespace)
        at_rest(fleet, app, digest)

        fleet.push(app, [in_wave(0, config_map("settings", data={"key": "new"})), in_wave(0, DEPLOYMENT)])
        fleet.request(app)
        wait_for(lambda: "Deployment" in fleet.runs.look(app).run.get("message", ""), what="the wave")
        assert fleet.push(app, old).digest == digest
        wait_for(lambda: len(fleet.history(app)) == 3, timeout=120, what="the run that changes it back")
        back, broken_off, _ = (entry["phase"] for entry in fleet.history(app))
        assert (back, broken_off) == ("Succeeded", "Superseded")

        at_rest(fleet, app, digest)
        live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/settings")
        assert live is not None
        assert live["data"] == {"key": "old"}
        assert fleet.get(f"/apis/apps/v1/namespaces/{namespace}/deployments/web") is None
