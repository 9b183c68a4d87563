"""A retry is what the run it repeats was: as much somebody's, and no more allowed. Field case e5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from fleet import Fleet, config_map, in_wave
from people import Hands
from waiting import wait_for

SHUT = {"kind": "deny", "schedule": "* * * * *", "duration": "1h"}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
}
#: often enough for a namespace to be made meanwhile
OFTEN = {"limit": 100, "backoff": {"duration": "1s", "factor": 1}}
NEVER = {"limit": 0}
#: when the test rings
LATER = {"limit": 5, "backoff": {"duration": "10m", "factor": 1, "maxDuration": "10m"}}


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(next(iter(fleet.clusters.values())))


@pytest.fixture
def missing(fleet: Fleet) -> str:
    """The name of a namespace that is not there yet: a sync into it fails for now."""
    return fleet.name("missing")


def waits(fleet: Fleet, app: str) -> dict[str, str]:
    """The record of its run, once it waits for a sync window."""

    def waiting() -> dict[str, str] | None:
        run = fleet.runs.look(app).run
        return run if run.get("state") == "waiting" and run.get("blocked") == "SyncWindow" else None

    return wait_for(waiting, timeout=60, what=f"{app} to wait for its window")


def put(fleet: Fleet, word: str, namespace: str, *objects: dict[str, Any], **options: Any) -> str:
    app = fleet.name(word)
    fleet.push(app, objects)
    fleet.application(app, namespace=namespace, **options)
    wait_for(lambda: app in fleet.catalogs.names(), timeout=30, what="it in the catalog")
    return app


def failed(fleet: Fleet, app: str, reason: str) -> bool:
    """Has the sync that was asked for with this reason?"""
    return any(e["phase"] == "Failed" and e["reason"] == reason for e in fleet.history(app))


def made(hands: Hands, name: str) -> None:
    hands.create("/api/v1/namespaces", {"metadata": {"name": name}})


def test_the_retry_of_a_heal_is_held_back_by_a_window_for_self_healing(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    app = fleet.name("heal")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, retry=NEVER)
    fleet.wait_run(app, phase="Succeeded")
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    hands.merge(path, {"data": {"key": "by hand"}, "immutable": True})  # cannot be put back
    fleet.ring(app)
    assert fleet.wait_run(app, since=1, phase="Failed")["trigger"] == "Drift"
    fleet.application(app, namespace=namespace, retry=NEVER, windows=[{**SHUT, "scope": "self-heal"}])
    wait_for(lambda: (e := fleet.catalogs.application(app)) and e[0].windows, timeout=30, what="the window in force")
    hands.delete(path)
    fleet.ring(app)
    run = waits(fleet, app)
    assert (run["trigger"], run["repeats"]) == ("Retry", "Drift")
    assert fleet.get(path) is None
    fleet.application(app, namespace=namespace, retry=NEVER)
    entry = fleet.wait_run(app, since=2, phase="Succeeded")
    assert (entry["trigger"], entry["repeats"]) == ("Retry", "Drift")
    assert fleet.get(path) is not None


def test_the_retry_of_a_sync_that_somebody_asked_for_passes_where_that_may(
    fleet: Fleet, namespace: str, hands: Hands, missing: str, command: Callable[..., Result]
) -> None:
    app = put(
        fleet, "manual", namespace, config_map("web", missing), retry=OFTEN, windows=[{**SHUT, "manualSync": True}]
    )
    fleet.request(app, reason="release 2")
    wait_for(lambda: failed(fleet, app, "release 2"), timeout=60, what="its failure")
    made(hands, missing)
    entry = fleet.wait_run(app, phase="Succeeded")
    assert (entry["trigger"], entry["repeats"], entry["request"]) == ("Retry", "Request", "")
    assert (entry["by"], entry["reason"]) == ("tester", "release 2")
    shown = command("history", app, "--run", entry["run"]).stdout
    assert f"Retry of {entry['retry_of']}, Request (tester, release 2)" in shown


def test_the_retry_of_an_override_passes_with_its_reason_and_another_bundle_does_not(
    fleet: Fleet, namespace: str, hands: Hands, missing: str, command: Callable[..., Result]
) -> None:
    app = put(fleet, "override", namespace, config_map("web", missing), retry=OFTEN, windows=[SHUT])
    assert command("sync", app, "--override-windows", "--reason", "mends the outage").exit_code == 0
    wait_for(lambda: failed(fleet, app, "mends the outage"), timeout=60, what="its failure")
    made(hands, missing)
    entry = fleet.wait_run(app, phase="Succeeded")
    assert (entry["trigger"], entry["repeats"], entry["reason"]) == ("Retry", "Request", "mends the outage")
    assert "deny" in entry["overrode"]
    assert fleet.state(app)["repeat"] == ""

    fleet.push(app, [config_map("web", fleet.name("missing"))])
    assert command("sync", app, "--override-windows", "--reason", "once more").exit_code == 0
    wait_for(lambda: failed(fleet, app, "once more"), timeout=60, what="its failure")
    fleet.push(app, [config_map("web", missing, {"another": "bundle"})])
    fleet.ring(app)

    def another() -> bool:
        run = fleet.runs.look(app).run
        return run.get("blocked") == "SyncWindow" and run.get("trigger") == "Revision" and not run.get("by")

    wait_for(another, timeout=60, what="the other bundle to wait")


def test_the_retry_of_a_saved_plan_does_no_more_than_that(
    fleet: Fleet, namespace: str, command: Callable[..., Result]
) -> None:
    """Where the plan holds no more it is refused; what is tried next is an automated sync, which waits."""
    window, web = {**SHUT, "manualSync": True}, in_wave(1, config_map("web"))
    app = put(fleet, "plan", namespace, CLAIM, web, retry=LATER, timeout="1s", windows=[window])
    waits(fleet, app)
    shown = command("plan", app).stdout
    plan_id = shown.split()[-1]
    assert command("sync", app, "--plan", plan_id, "--reason", "release 2").exit_code == 0, shown
    assert fleet.wait_run(app, phase="Failed")["reason"] == "release 2"
    before = fleet.runs_ended(app)
    fleet.ring(app)
    refused = fleet.wait_run(app, since=before, phase="Failed")
    assert (refused["trigger"], refused["error"], refused["reason"]) == ("Retry", "PlanRefused", "release 2")
    claim = f"PersistentVolumeClaim {namespace}/data"
    assert f"plan {plan_id} is not carried out: {claim} need not be created any more" in refused["message"]
    fleet.ring(app)
    run = waits(fleet, app)
    assert (run["trigger"], run["by"], run["promise"]) == ("Retry", "", "")
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web") is None
