"""Workers whose clocks differ by hours take turns at one wait: how long it lasts is told by one clock, Redis'."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from breaking import breakable, new_namespace
from fleet import Fleet
from waiting import wait_for
from wrong_clock import WrongClock

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

HOUR = 3600.0
CLAIM: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
}


def test_a_wave_is_not_given_up_by_a_worker_whose_clock_is_wrong(
    tmp_path: Path, registry: Registry, cluster: Cluster
) -> None:
    with breakable(tmp_path, registry, cluster) as (fleet, nursery):
        namespace, app = new_namespace(cluster), fleet.name("clock")
        fleet.push(app, [CLAIM])
        fleet.application(app, namespace=namespace, timeout="5m")
        first = nursery.worker()
        wait_for(lambda: looks(fleet, app) >= 1, timeout=120, what="the wave to be waited for")
        first.kill()
        before = looks(fleet, app)
        clock = WrongClock(tmp_path, HOUR)
        second = nursery.worker(**clock.env)
        wait_for(lambda: looks(fleet, app) > before + 1 or fleet.history(app), timeout=120, what="the other's looks")
        clock.jump(-HOUR)
        before = looks(fleet, app)
        wait_for(lambda: looks(fleet, app) > before + 1 or fleet.history(app), timeout=120, what="its looks after that")
        assert fleet.history(app) == []
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data/status"
        cluster.request("PATCH", path, {"status": {"phase": "Bound"}}, content_type="application/merge-patch+json")
        assert fleet.wait_run(app, phase="Succeeded")["counts"] == {"created": 1}
        second.kill()


def looks(fleet: Fleet, app: str) -> int:
    return int(fleet.runs.look(app).run.get("looks") or 0)
