"""Windows, holds, pins, vetoes and plans used as nobody meant them to be: each is told, and nothing is half done.

What is refused before any process hears of it is in ``tests/contract/test_hostile_orders.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result
from fleet import Fleet, config_map, outcomes
from people import Hands
from waiting import wait_for

from fleetbeat.clients.holds import Holds
from fleetbeat.clients.orders import Orders
from fleetbeat.decisions.inventory import parent_name
from fleetbeat.decisions.self_heal import SELF_HEAL, SELF_HEAL_UNTIL

SHUT = {"kind": "deny", "schedule": "* * * * *", "duration": "1h"}
Command = Callable[..., Result]


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(next(iter(fleet.clusters.values())))


def web(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/web"


def value(fleet: Fleet, namespace: str) -> str:
    live = fleet.get(web(namespace))
    return live["data"]["v"] if live else ""


def synced(fleet: Fleet, namespace: str, v: str = "1", **options: Any) -> tuple[str, str]:
    """An application with ConfigMap ``web``, and the digest it has."""
    app = fleet.name("hostile")
    digest = fleet.push(app, [config_map("web", data={"v": v})]).digest
    fleet.application(app, namespace=namespace, **options)
    fleet.wait_run(app, phase="Succeeded")
    return app, digest


def waiting(fleet: Fleet, app: str, text: str, digest: str = "") -> dict[str, str]:
    """The record of its run, once it waits and says so."""

    def found() -> dict[str, str] | None:
        run = fleet.runs.look(app).run
        there = run.get("state") == "waiting" and text in run.get("message", "") and digest in ("", run.get("digest"))
        return run if there else None

    return wait_for(found, what=f"{app} to wait: {text}")


def test_a_veto_of_what_waits_for_a_window_ends_that_run_at_once(
    fleet: Fleet, namespace: str, command: Command
) -> None:
    app, first = synced(fleet, namespace)
    fleet.application(app, namespace=namespace, windows=[SHUT])
    wait_for(lambda: fleet.catalogs.application(app)[0].windows, what="the window in force")  # type: ignore[index]
    bad = fleet.push(app, [config_map("web", data={"v": "bad"})]).digest
    fleet.ring(app)
    waiting(fleet, app, "waits for a sync window", bad)
    assert command("veto", bad, "--reason", "loses orders").exit_code == 0
    entry = fleet.wait_run(app, digest=bad, phase="Superseded")  # its next look would be an hour away
    assert entry["message"] == f"by {first}"
    fleet.application(app, namespace=namespace)
    fleet.sync(app)
    assert value(fleet, namespace) == "1"
    assert command("veto", "--lift", bad).exit_code == 0
    fleet.wait_run(app, digest=bad, phase="Succeeded")
    assert value(fleet, namespace) == "bad"


def test_where_a_veto_leaves_nothing_to_sync_whoever_waits_is_told(
    fleet: Fleet, namespace: str, command: Command
) -> None:
    app = fleet.name("hostile")
    only = fleet.push(app, [config_map("web", data={"v": app})]).digest
    assert command("veto", only, "--reason", "not yet").exit_code == 0
    fleet.application(app, namespace=namespace)
    wait_for(lambda: fleet.state(app).get("held_back"), what="the veto in the state")
    done = command("sync", app, "--wait", "--timeout", "1")
    assert done.exit_code == 5
    assert re.search(r"is vetoed by \S+: not yet; nothing else was ever synced", done.stderr), done.output
    assert "Do workers run?" not in done.stderr
    assert command("veto", "--lift", only).exit_code == 0
    fleet.wait_run(app, digest=only, phase="Succeeded")


def test_back_to_another_repositorys_bundle_pins_nothing(fleet: Fleet, namespace: str, command: Command) -> None:
    app, _ = synced(fleet, namespace)
    elsewhere = fleet.push(fleet.name("elsewhere"), [config_map("web", data={"v": fleet.name("x")})]).digest
    done = command("rollback", app, elsewhere, "--yes")
    assert done.exit_code == 1
    assert f"@{elsewhere}: the registry has no such repository, tag or digest" in done.stderr
    assert Orders(fleet.store).pins(app) is None
    assert fleet.runs.look(app).request == {}


def test_a_plan_is_good_for_its_own_application_and_the_state_it_was_made_of(
    fleet: Fleet, namespace: str, command: Command
) -> None:
    app, _ = synced(fleet, namespace)
    fleet.push(app, [config_map("web", data={"v": "2"})])
    plan = str(re.findall(r"^plan ([0-9a-f]{12}),", command("plan", app).stdout, re.MULTILINE)[0])
    done = command("sync", app, "--plan", plan, "--wait")
    assert (done.exit_code, value(fleet, namespace)) == (0, "2"), done.output
    since = len(fleet.writes(app))
    again = command("sync", app, "--plan", plan, "--wait")
    assert again.exit_code == 1
    assert f"plan {plan} is not carried out: ConfigMap {namespace}/web need not be configured any more" in again.stderr
    assert len(fleet.writes(app)) == since


def test_drift_and_a_new_bundle_under_a_hold_are_one_write_at_its_end(
    fleet: Fleet, namespace: str, command: Command, hands: Hands
) -> None:
    app, _ = synced(fleet, namespace)
    made = command("hold", "app", app, "--for", "1h", "--reason", "looking")
    assert made.exit_code == 0, made.output
    hold = made.stdout.split(":")[0]
    wait_for(lambda: fleet.history(app)[0]["trigger"] == "Hold", what="the hold to be noted")  # a ring now is heard
    hands.merge(web(namespace), {"data": {"v": "by hand"}})
    newer = fleet.push(app, [config_map("web", data={"v": "2"}), config_map("more")]).digest
    fleet.ring(app)
    waiting(fleet, app, "waits: hold", newer)
    before = len(fleet.writes(app))
    assert value(fleet, namespace) == "by hand"
    assert command("hold", "--lift", hold).exit_code == 0
    entry = fleet.wait_run(app, digest=newer, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "configured", f"ConfigMap {namespace}/more": "created"}
    assert len(fleet.writes(app)) == before + 2


def test_a_hold_says_whether_it_is_about_anything(fleet: Fleet, namespace: str, command: Command) -> None:
    synced(fleet, namespace)
    for name, told in (("web", False), ("wbe", True)):
        done = command("hold", "object", f"ConfigMap/{name}", "-n", namespace, "--for", "1h", "--reason", "x")
        assert (done.exit_code, "note: no application is known" in done.stderr) == (0, told), done.output
    for one in Holds(fleet.store).read().holds:
        if namespace in one.target:
            Holds(fleet.store).lift(one.id)


@pytest.mark.parametrize(
    "annotations",
    [
        {SELF_HEAL: "x" * 100_000},
        {SELF_HEAL: "disabled", SELF_HEAL_UNTIL: "0000-01-01T00:00:00Z"},
        {SELF_HEAL: "disabled", SELF_HEAL_UNTIL: "9999-12-31T23:59:59Z"},
        {SELF_HEAL: "disabled", SELF_HEAL_UNTIL: "2026-11-30T12:00:00"},
        {SELF_HEAL_UNTIL: "9999-12-31T23:59:59-14:00"},
        {"fleetbeat.dev/holds": '[{"id": ["x"], "until": 1e308}]', SELF_HEAL: "disabled"},
    ],
    ids=["100 kB", "year 0", "year 9999", "no zone", "until alone, beyond all calendars", "holds that are none"],
)
def test_whatever_stands_on_the_parent_keeps_drift_and_lets_a_new_bundle_through(
    fleet: Fleet, namespace: str, hands: Hands, annotations: dict[str, str]
) -> None:
    app, _ = synced(fleet, namespace)
    hands.merge(
        f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}", {"metadata": {"annotations": annotations}}
    )
    hands.merge(web(namespace), {"data": {"v": "by hand"}})
    fleet.tick(app)
    assert value(fleet, namespace) == "by hand"
    assert "ApplySet parent" in fleet.state(app)["held"]
    assert len(fleet.state(app)["held"]) < 2000
    newer = fleet.push(app, [config_map("web", data={"v": "2"})]).digest
    fleet.ring(app)
    fleet.wait_run(app, digest=newer, phase="Succeeded")
    assert value(fleet, namespace) == "2"


def test_a_self_heal_until_in_the_past_holds_nothing(fleet: Fleet, namespace: str, hands: Hands) -> None:
    app, _ = synced(fleet, namespace)
    past = {SELF_HEAL: "disabled", SELF_HEAL_UNTIL: "2020-01-01T00:00:00Z"}
    hands.merge(web(namespace), {"metadata": {"annotations": past}, "data": {"v": "by hand"}})
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal")
