"""Ten minutes before something held is written that is told to those who do not look, once. Field case f6."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fleet import Fleet, config_map
from people import Hands
from waiting import wait_for

from fleetbeat.client import Fleetbeat
from fleetbeat.clients.holds import Holds
from fleetbeat.decisions.holds import WARNING, Hold, Scope, moment
from fleetbeat.decisions.inventory import parent_name


def put(fleet: Fleet, word: str, namespace: str) -> str:
    """Looked at once an hour, so that nobody looks by chance."""
    app = fleet.name(word)
    fleet.push(app, [config_map(word)])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    return app


def hold_in_time(fleet: Fleet, app: str, scope: Scope, met: Callable[[Hold], str | None]) -> Hold:
    """A hold whose last ten minutes begin in a moment, and not before it is met, however slow this machine is.

    ``met``: None while it is not, then the moment that will be told, "" when that has gone by.
    """
    ahead = 5_000
    made = Holds(fleet.store).add("app", app, seconds=3600, scope=scope, by="ada@ops", reason="a drain")
    while True:
        now = fleet.runs.now()
        hold = replace(made, since=now - 3_600_000, until=now + WARNING + ahead)
        Holds(fleet.store).restore([hold])
        fleet.ring(app)
        found = wait_for(lambda hold=hold: (word := met(hold)) is not None and [word], what="it met")  # type: ignore[misc]
        if found != [""]:
            return hold
        ahead *= 2


def told(fleet: Fleet, app: str) -> list[str]:
    return [event.message for event in Fleetbeat(fleet.settings).events(app) if event.reason == "HoldEnds"]


def in_cluster(fleet: Fleet, app: str) -> list[dict[str, Any]]:
    found = fleet.get("/api/v1/namespaces/fleetbeat/events?limit=2000")
    assert found is not None
    mine = [one for one in found["items"] if one["involvedObject"]["name"] == parent_name(app)]
    return [one for one in mine if one["reason"] == "HoldEnds"]


def test_a_run_that_waits_and_drift_that_is_left_are_told_of_once(fleet: Fleet, namespace: str) -> None:
    waiting, left = put(fleet, "waiting", namespace), put(fleet, "left", namespace)
    fleet.push(waiting, [config_map("waiting", data={"key": "new"})])
    hands = Hands(next(iter(fleet.clusters.values())))
    hands.merge(f"/api/v1/namespaces/{namespace}/configmaps/left", {"data": {"key": "by hand"}})

    def waits(hold: Hold) -> str | None:
        run = fleet.runs.look(waiting).run
        return run.get("warn", "") if moment(hold.until) in run.get("message", "") else None

    def is_left(hold: Hold) -> str | None:
        state = fleet.state(left)
        return state.get("held_warn", "") if state.get("held_until") == str(hold.until) else None

    one = hold_in_time(fleet, waiting, "sync", waits)
    two = hold_in_time(fleet, left, "self-heal", is_left)
    for app in (waiting, left):
        wait_for(lambda app=app: told(fleet, app), timeout=60, what=f"{app} told")  # type: ignore[misc]
        wait_for(lambda app=app: in_cluster(fleet, app), timeout=60, what=f"{app} told in the cluster")  # type: ignore[misc]
        fleet.tick(app)  # a look that finds it told
    (said,) = told(fleet, waiting)
    assert said.startswith(f"{one} ends in ")
    assert said.endswith("; what differs by then is written")
    (said,) = told(fleet, left)
    assert said.startswith(
        f"what is left as it is until {moment(two.until)} is written then: ConfigMap {namespace}/left"
    )
    assert f"self-heal hold {two.id} of app {left} by ada@ops" in said
    for app in (waiting, left):
        (event,) = in_cluster(fleet, app)
        assert (event["type"], event["message"]) == ("Normal", told(fleet, app)[0])
        assert fleet.logs().count(told(fleet, app)[0]) == 1
    assert fleet.runs.look(waiting).run["blocked"] == "Hold"
    assert json.loads(fleet.state(left)["held"])


def test_a_hold_shorter_than_the_warning_is_not_told_at_its_start(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "short", namespace)
    Holds(fleet.store).add("app", app, seconds=300, scope="sync", by="ada@ops", reason="a drain")
    fleet.push(app, [config_map("short", data={"key": "new"})])
    fleet.ring(app)
    wait_for(lambda: fleet.runs.look(app).run.get("blocked") == "Hold", timeout=60, what="it to wait")
    assert fleet.runs.look(app).run["warn"] == ""
    fleet.tick(app)
    assert told(fleet, app) == []
