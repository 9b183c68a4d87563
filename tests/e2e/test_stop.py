"""`fleetbeat stop`: a person ends what is under way, whatever it waits for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fleet import Fleet, config_map, in_wave, outcomes, run
from hooking import hook, job
from waiting import wait_for

from fleetbeat import keys

Body = dict[str, Any]
SHUT = {"kind": "deny", "schedule": "* * * * *", "duration": "24h", "manualSync": False}


def never_ready(name: str) -> Body:
    """Nothing here makes it available."""
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def waits(fleet: Fleet, app: str) -> None:
    wait_for(lambda: fleet.runs.look(app).run.get("state") == "waiting", what="it to wait")


def stopped(fleet: Fleet, app: str) -> Body:
    said = run(fleet, "stop", app, "--reason", "it locks a table")
    assert said.returncode == 0, said.stderr
    assert f"{app}: run {fleet_run(said.stdout)} ends before its next wave" in said.stdout
    entry = wait_for(lambda: next((e for e in fleet.history(app) if e["error"] == "Stopped"), None), what="its end")
    assert entry["phase"] == "Failed"
    assert entry["message"].startswith("stopped by ")
    assert entry["message"].endswith(": it locks a table")
    wait_for(lambda: not fleet.runs.look(app).run, what="the record to go")
    assert not fleet.store.redis.exists(keys.lock(app))
    return entry


def fleet_run(said: str) -> str:
    return said.partition("run ")[2].split()[0]


def test_a_wave_that_hangs(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("hangs")
    fleet.push(app, [never_ready("web"), in_wave(1, config_map("after"))])
    fleet.application(app, namespace=namespace, timeout="10m")
    waits(fleet, app)
    entry = stopped(fleet, app)
    assert outcomes(entry) == {f"Deployment {namespace}/web": "created", f"ConfigMap {namespace}/after": "skipped"}
    why = run(fleet, "why", app)
    assert "Stopped" in why.stdout
    assert f"fleetbeat sync {app}" in why.stdout

    assert fleet.tick(app).startswith("not tried again: stopped by ")
    assert len(fleet.history(app)) == 1
    good = fleet.push(app, [config_map("after")])
    fleet.ring(app)
    assert fleet.wait_run(app, digest=good.digest)["phase"] == "Succeeded"


def test_a_sync_at_a_shut_window(fleet: Fleet, namespace: str) -> None:
    """Field case e4: it can be ended while the window is shut, and the application can leave after that."""
    app = fleet.name("shut")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, spec={"deletionPolicy": "Delete"}, windows=[SHUT])
    waits(fleet, app)
    entry = stopped(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "skipped"}
    told = [json.loads(line)["reason"] for line in run(fleet, "events", app, "-o", "json").stdout.splitlines()]
    assert "SyncWindow" in told
    assert "Unblocked" not in told
    assert told[-1] == "Stopped"
    fleet.leave(app)
    wait_for(lambda: any(e["trigger"] == "Removed" for e in fleet.history(app)), timeout=120, what="the deletion")


def test_a_hook_at_work_goes_on_by_itself(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("migrates")
    fleet.push(app, [hook("PreSync", job("migrate")), config_map("web")])
    fleet.application(app, namespace=namespace, timeout="10m")
    wait_for(lambda: fleet.runs.look(app).run.get("hooking") == "1", what="the hook to be at work")
    stopped(fleet, app)
    assert fleet.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/migrate") is not None
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web") is None


def test_a_deletion_that_hangs_and_goes_on_when_asked(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("stuck")
    fleet.push(app, [config_map("web", finalizers=["example.com/stays"])])
    fleet.application(app, namespace=namespace, timeout="10m", spec={"deletionPolicy": "Delete"})
    fleet.wait_run(app, phase="Succeeded")
    fleet.leave(app)
    wait_for(lambda: fleet.runs.look(app).run.get("trigger") == "Removed", what="the deletion to begin")
    waits(fleet, app)
    entry = stopped(fleet, app)
    assert entry["trigger"] == "Removed"
    assert fleet.tick(app).startswith("not tried again: stopped by ")
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    next(iter(fleet.clusters.values())).request("PATCH", path, {"metadata": {"finalizers": None}})
    assert run(fleet, "delete", app).returncode == 0
    wait_for(lambda: fleet.get(path) is None, what="it to be gone")


@pytest.mark.parametrize("known", [True, False])
def test_nothing_to_stop(fleet: Fleet, namespace: str, known: bool) -> None:
    app = fleet.name("idle")
    if known:
        fleet.push(app, [config_map("web")])
        fleet.application(app, namespace=namespace)
        fleet.wait_run(app, phase="Succeeded")
    said = run(fleet, "stop", app)
    assert said.returncode == (1 if known else 3)
    assert ("no sync is under way" if known else "no application") in said.stderr
