"""The end of a run is an Event on the application's ConfigMap: what people with kubectl alone can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet import Fleet, config_map
from waiting import wait_for

from fleetbeat.decisions.inventory import parent_name

Body = dict[str, Any]


def told(fleet: Fleet, app: str) -> list[Body]:
    """As `kubectl describe configmap` finds them: by name, namespace, kind and uid."""
    parent = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}")
    found = fleet.get(f"/api/v1/namespaces/fleetbeat/events?fieldSelector=involvedObject.name={parent_name(app)}")
    assert found is not None
    if parent is None:
        return []
    wanted = {"kind": "ConfigMap", "name": parent_name(app), "uid": parent["metadata"]["uid"]}
    events = [one for one in found["items"] if wanted.items() <= one["involvedObject"].items()]
    return sorted(events, key=lambda one: str(one["metadata"]["name"]))


def test_what_changed_is_told_and_what_did_not_is_not(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("told")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Succeeded")
    (first,) = told(fleet, app)
    assert (first["type"], first["reason"], first["count"]) == ("Normal", "ReconciliationSucceeded", 1)
    assert first["message"] == "Succeeded: 1 created"
    assert (first["reportingComponent"], first["reportingInstance"]) == ("fleetbeat", entry["run"])
    assert fleet.sync(app)["counts"] == {"unchanged": 1}
    assert fleet.tick(app) == "nothing to do"
    assert told(fleet, app) == [first]
    fleet.push(app, [config_map("web", data={"key": "two"})])
    fleet.tick(app)
    assert [one["message"] for one in told(fleet, app)] == ["Succeeded: 1 created", "Succeeded: 1 configured"]


def test_a_name_that_leaves_no_room_for_the_time_is_told_of_as_well(fleet: Fleet, namespace: str) -> None:
    """Field case d12: valid as an application's and as the parent's name, not with a time behind it."""
    short = fleet.name("long")
    app = f"{short}-{'a' * (239 - len(short))}"
    fleet.push(short, [config_map("web")])
    fleet.application(app, namespace=namespace, source={"oci": fleet.repository(short)})
    fleet.wait_run(app, phase="Succeeded")
    assert len(parent_name(app)) == 244
    assert [one["message"] for one in told(fleet, app)] == ["Succeeded: 1 created"]


def test_a_failure_that_repeats_is_one_event_with_a_count(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("failing")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, retry={"limit": 0})  # as often as it is rung, and no more
    fleet.wait_run(app, phase="Succeeded")
    fleet.push(app, [{**config_map("web"), "kind": "Nonsense", "apiVersion": "shop.example.com/v1"}])
    for _ in range(3):
        fleet.tick(app)
    assert fleet.history(app)[0]["count"] == 3
    _, failed = told(fleet, app)
    assert (failed["type"], failed["count"]) == ("Warning", 3)
    assert "Nonsense" in failed["message"]
    assert failed["firstTimestamp"] <= failed["lastTimestamp"]


def test_what_a_sync_waits_for_is_told_when_the_wait_begins_and_not_again(fleet: Fleet, namespace: str) -> None:
    """Argo CD says SyncWindow only in its own status; who has kubectl alone saw nothing until the end."""
    app = fleet.name("waiting")
    shut = {"kind": "deny", "schedule": "* * * * *", "duration": "1h", "manualSync": True}
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, windows=[shut])
    fleet.sync(app)
    fleet.push(app, [config_map("web", data={"key": "two"})])

    def waits() -> list[Body]:
        return [one for one in told(fleet, app) if one["reason"] == "SyncWindow"]

    fleet.ring(app)
    (event,) = wait_for(waits, what="the wait to be told")
    assert (event["type"], event["reportingInstance"]) == ("Normal", fleet.runs.look(app).run["run"])
    assert 'deny "* * * * *" for 1h' in event["message"]
    for _ in range(2):
        fleet.tick(app)
    assert waits() == [event]
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert [one["message"] for one in told(fleet, app)][-1] == "Succeeded: 1 configured"
    assert waits() == [event]


def test_it_can_be_turned_off(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet(FLEETBEAT_EVENTS_IN_CLUSTERS="false")
    app = fleet.name("silent")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    assert told(fleet, app) == []
