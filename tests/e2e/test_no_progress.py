"""`spec.sync.noProgressTimeout`: what gets on may take its time, what stands still ends the wave early.

The controller is the test: it writes the status of claims, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet import Fleet, config_map, in_wave, run
from hooking import hook, job
from waiting import wait_for

from fleetbeat.decisions.progress import Progress

MERGE = "application/merge-patch+json"


def claim(name: str) -> dict[str, Any]:
    """Progressing until its phase is Bound."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def report(fleet: Fleet, namespace: str, name: str, **status: Any) -> None:
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}/status"
    cluster = next(iter(fleet.clusters.values()))
    answer = cluster.request("PATCH", path, {"status": status}, content_type=MERGE)
    assert answer[0] == 200, answer


def seen(fleet: Fleet, app: str) -> Progress | None:
    """What the run's record says of its wave."""
    return Progress.from_json(fleet.runs.look(app).run.get("progress", ""))


def waits(fleet: Fleet, app: str) -> Progress:
    return wait_for(lambda: seen(fleet, app), what=f"a look at the wave of {app}")


def test_what_stands_still_fails_early(fleet: Fleet, namespace: str) -> None:
    """Nobody binds the claim: the wave's five minutes are not waited for, and what comes after it is not written."""
    app = fleet.name("stuck")
    fleet.push(app, [claim("data"), in_wave(1, config_map("after"))])
    fleet.application(app, namespace=namespace, noProgressTimeout="2s", retry={"limit": 0})
    entry = fleet.wait_run(app, phase="Failed")
    assert entry["error"] == "NoProgress"
    assert f"made no progress for 2 s: PersistentVolumeClaim {namespace}/data is Progressing" in entry["message"]
    assert "spec.sync.noProgressTimeout" in entry["message"]
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/after") is None
    events = run(fleet, "events", app).stdout
    assert "HealthCheckFailed: Failed: wave 0 has made no progress for 2 s" in events


def test_what_gets_on_may_take_longer(fleet: Fleet, namespace: str) -> None:
    """The other claim stands still all the time; that one of the two moves is enough."""
    app, limit = fleet.name("slow"), 8.0
    fleet.push(app, [claim("slow"), claim("still"), in_wave(1, config_map("after"))])
    fleet.application(app, namespace=namespace, noProgressTimeout=f"{limit:g}s", retry={"limit": 0})
    begun = waits(fleet, app).at
    steps = 0

    def gets_on() -> bool:
        nonlocal steps
        steps += 1
        report(fleet, namespace, "slow", phase="Pending", capacity={"storage": f"{steps}Mi"})
        return fleet.runs.now() / 1000 - begun > 1.5 * limit

    wait_for(gets_on, every=0.2, what="one and a half times the limit")
    for name in ("slow", "still"):
        report(fleet, namespace, name, phase="Bound")
    fleet.wait_run(app, phase="Succeeded")


def test_a_hook_whose_pod_never_starts_fails_early(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("hooked")
    fleet.push(app, [hook("PreSync", job("migrate")), config_map("web")])
    fleet.application(app, namespace=namespace, noProgressTimeout="2s", retry={"limit": 0})
    entry = fleet.wait_run(app, phase="Failed")
    assert entry["error"] == "NoProgress"
    assert f"Job {namespace}/migrate" in entry["message"]
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web") is None


def test_a_deletion_that_hangs_ends_early(fleet: Fleet, namespace: str) -> None:
    """Nobody takes the finalizer off, and what is deleted after it stays."""
    app = fleet.name("hanging")
    held = config_map("held", annotations={"argocd.argoproj.io/sync-wave": "1"}, finalizers=["example.com/keep"])
    fleet.push(app, [config_map("web"), config_map("old"), held])
    fleet.application(app, namespace=namespace, noProgressTimeout="2s", retry={"limit": 0})
    fleet.wait_run(app, phase="Succeeded")
    fleet.push(app, [config_map("web")])
    fleet.ring(app)
    entry = fleet.wait_run(app, phase="Failed")
    assert entry["error"] == "NoProgress"
    assert f"made no progress for 2 s: ConfigMap {namespace}/held" in entry["message"]
    assert "finalizer example.com/keep" in entry["message"]
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/old") is not None


def test_the_time_goes_on_over_a_killed_worker(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    """What has been seen is in the run record: the worker that comes next begins no new time."""
    fleet = make_fleet(workers=1)
    app = fleet.name("killed")
    fleet.push(app, [claim("data")])
    fleet.application(app, namespace=namespace, timeout="10m", noProgressTimeout="9m", retry={"limit": 0})
    before = waits(fleet, app)
    fleet.workers[0].kill()
    looks = int(fleet.runs.look(app).run["looks"])
    fleet.workers[0].start()
    wait_for(lambda: int(fleet.runs.look(app).run["looks"]) > looks, what="a look by the new worker")
    assert seen(fleet, app) == before
    shown = wait_for(
        lambda: (text := run(fleet, "status", app).stdout) and "no progress for" in text and text,
        timeout=60,
        what="the time it stands still in its status",
    )
    assert "s of 540 s" in shown
    report(fleet, namespace, "data", phase="Bound")
    fleet.wait_run(app, phase="Succeeded")
