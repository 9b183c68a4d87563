"""What somebody with only kubectl says on the ApplySet parent while a run waits for something else. Field case e5."""

from __future__ import annotations

from typing import Any

import pytest
from fleet import Fleet, config_map, in_wave, outcomes
from people import Hands
from waiting import wait_for

from fleetbeat.clients.holds import Holds
from fleetbeat.decisions.hand_holds import HOLD_UNTIL
from fleetbeat.decisions.holds import moment
from fleetbeat.decisions.inventory import parent_name

SHUT = {"kind": "deny", "schedule": "* * * * *", "duration": "1h"}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(next(iter(fleet.clusters.values())))


def maps(namespace: str, name: str = "web") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def value(fleet: Fleet, namespace: str, name: str = "web") -> str:
    live = fleet.get(maps(namespace, name))
    return live["data"]["v"] if live else ""


def say(hands: Hands, app: str, **annotations: str | None) -> None:
    """``hold_until="…"`` on the parent; None takes it away."""
    named = {f"fleetbeat.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    hands.merge(maps("fleetbeat", parent_name(app)), {"metadata": {"annotations": named}}, "kubectl-annotate")


def waits(fleet: Fleet, app: str, blocked: str) -> str:
    """What its run says once it waits for that."""

    def waiting() -> str:
        run = fleet.runs.look(app).run
        return run["message"] if run.get("state") == "waiting" and run.get("blocked") == blocked else ""

    try:
        return wait_for(waiting, what=f"{app} to wait: {blocked}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{fleet.runs.look(app)}\n{fleet.history(app)}\n{fleet.logs()[-5000:]}") from None


def put(fleet: Fleet, word: str, namespace: str, *objects: dict[str, Any], **options: Any) -> str:
    app = fleet.name(word)
    fleet.push(app, objects)
    fleet.application(app, namespace=namespace, **options)
    fleet.wait_run(app, phase="Succeeded")
    return app


def shut(fleet: Fleet, app: str, namespace: str) -> None:
    fleet.application(app, namespace=namespace, windows=[SHUT])
    wait_for(lambda: (e := fleet.catalogs.application(app)) and e[0].windows, what="the window in force")


def bind(hands: Hands, namespace: str) -> None:
    """What makes wave 0 healthy."""
    hands.merge(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data/status", {"status": {"phase": "Bound"}})


def in_an_hour(fleet: Fleet) -> str:
    return moment(fleet.runs.now() + 3_600_000)


def test_a_hold_set_while_a_run_waits_for_a_window_is_met_before_it_writes(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    app = put(fleet, "window", namespace, config_map("web", data={"v": "1"}))
    shut(fleet, app, namespace)
    fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    waits(fleet, app, "SyncWindow")
    run, until = fleet.runs.look(app).run["run"], in_an_hour(fleet)
    say(hands, app, hold_until=until, hold_reason="moving the database")
    before = len(fleet.writes(app, parents=True))
    fleet.application(app, namespace=namespace)  # it opens
    assert f"by kubectl-annotate until {until}: moving the database" in waits(fleet, app, "Hold")
    assert (value(fleet, namespace), len(fleet.writes(app, parents=True))) == ("1", before)
    assert fleet.runs.look(app).run["run"] == run
    say(hands, app, hold_until=None, hold_reason=None)
    fleet.ring(app)
    entry = wait_for(lambda: next((e for e in fleet.history(app) if e["run"] == run), None), what="its end")
    assert (value(fleet, namespace), entry["phase"]) == ("2", "Succeeded")
    assert "moving the database" in entry["waited"]


def test_a_hold_set_between_two_waves_stops_the_next_one(fleet: Fleet, namespace: str, hands: Hands) -> None:
    app = fleet.name("waves")
    fleet.push(app, [CLAIM, in_wave(1, config_map("late", data={"v": "1"}))])
    fleet.application(app, namespace=namespace)
    wait_for(lambda: fleet.runs.look(app).run.get("written") == "0", what="wave 0 to be written")
    say(hands, app, hold_until=in_an_hour(fleet), hold_reason="stop now")
    bind(hands, namespace)
    message = waits(fleet, app, "Hold")
    assert message.startswith("wave 1 waits: hold ")
    assert message.endswith("stop now. What came before it is written.")
    assert value(fleet, namespace, "late") == ""
    (one,) = (one for one in Holds(fleet.store).read().holds if one.target == app)
    assert (one.by, one.scope) == ("kubectl-annotate", "sync")


def test_self_heal_disabled_on_the_parent_while_a_heal_waits_for_a_window(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    app = put(fleet, "heal", namespace, config_map("web", data={"v": "1"}))
    shut(fleet, app, namespace)
    hands.merge(maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    waits(fleet, app, "SyncWindow")
    say(hands, app, self_heal="disabled")
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, since=1)
    assert (entry["phase"], entry["error"], entry["trigger"]) == ("Succeeded", "Held", "Drift")
    assert "on the application's ApplySet parent (set by kubectl-annotate" in fleet.state(app)["held"]
    assert value(fleet, namespace) == "by hand"


def test_self_heal_disabled_on_the_parent_between_two_waves_of_a_heal(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    """What it comes too late for is healed; the next look finds the rest, and for how long it stays."""
    app = fleet.name("healing")
    fleet.push(app, [CLAIM, in_wave(1, config_map("late", data={"v": "1"}))])
    fleet.application(app, namespace=namespace)
    wait_for(lambda: fleet.runs.look(app).run.get("written") == "0", what="wave 0 to be written")
    bind(hands, namespace)
    fleet.wait_run(app, phase="Succeeded")
    claim = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"
    # By another one than who bound it: the server's times of writes are whole seconds.
    hands.merge(f"{claim}/status", {"status": {"phase": "Pending"}}, "provisioner")
    fleet.tick(app)
    assert fleet.state(app)["health"] == "Progressing", "which the next run goes by"
    ended = fleet.runs_ended(app)
    hands.merge(maps(namespace, "late"), {"data": {"v": "by hand"}})
    fleet.ring(app)
    wait_for(lambda: fleet.runs.look(app).run.get("state") == "waiting", what="wave 0 to be waited for")
    say(hands, app, self_heal="disabled")
    bind(hands, namespace)
    entry = fleet.wait_run(app, since=ended)
    assert outcomes(entry) == {f"ConfigMap {namespace}/late": "skipped"}
    fleet.tick(app)
    assert "on the application's ApplySet parent" in fleet.state(app)["held"]
    assert value(fleet, namespace, "late") == "by hand"
    say(hands, app, self_heal=None)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace, "late") == "1", what="the heal")


def test_a_hold_that_is_changed_to_what_cannot_be_meant_refuses_the_write(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    """Decision 0025: somebody wanted something kept, so nothing is written when the hold that was understood ends."""
    app = put(fleet, "unreadable", namespace, config_map("web", data={"v": "1"}))
    say(hands, app, hold_until=in_an_hour(fleet))
    fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    waits(fleet, app, "Hold")
    say(hands, app, hold_until="2999-01-01T00:00:00Z")
    # A look that cannot reach the cluster at that moment leaves it to the next one.
    wait_for(lambda: fleet.ring(app) or fleet.runs_ended(app) > 1, what="a look to meet it", every=1)
    entry = fleet.wait_run(app, since=1)
    assert (entry["phase"], entry["error"]) == ("Failed", "Refused")
    assert entry["message"].startswith(f"annotation {HOLD_UNTIL} on the application's ApplySet parent is more than 30")
    assert value(fleet, namespace) == "1"


def test_a_hold_set_while_a_deletion_waits_for_another_one(fleet: Fleet, namespace: str, hands: Hands) -> None:
    app = put(fleet, "leaving", namespace, config_map("web", data={"v": "1"}), spec={"deletionPolicy": "Delete"})
    made = Holds(fleet.store).add("app", app, seconds=3600, scope="prune", by="ada", reason="a test")
    fleet.leave(app)
    assert made.id in waits(fleet, app, "Hold")
    say(hands, app, hold_until=in_an_hour(fleet), hold_reason="backup first")
    Holds(fleet.store).lift(made.id)
    fleet.ring(app)
    wait_for(lambda: "backup first" in fleet.runs.look(app).run.get("message", ""), what="the other hold")
    assert value(fleet, namespace) == "1"
    say(hands, app, hold_until=None, hold_reason=None)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "", what="the deletion")
