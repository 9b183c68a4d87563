"""`fleetbeat plan` and `sync --plan`: exactly what was looked at, or nothing."""

from __future__ import annotations

import json
import re

import pytest
from fleet import Fleet, config_map, run, words
from people import Hands

from fleetbeat import keys
from fleetbeat.clients.holds import Holds

Prepared = tuple[Fleet, str, str]


@pytest.fixture
def shop(fleet: Fleet, namespace: str) -> Prepared:
    """(fleet, application, namespace): version 1 in force, self-heal off, version 2 pushed and not looked at."""
    app = fleet.name("shop")
    fleet.push(app, [config_map("web", namespace, {"version": "1"}), config_map("old", namespace)])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    fleet.push(app, [config_map("web", namespace, {"version": "2"}), config_map("new", namespace)])
    return fleet, app, namespace


def plan(fleet: Fleet, app: str) -> str:
    shown = run(fleet, "plan", app)
    assert shown.returncode == 0, shown.stderr
    found = re.search(r"^plan ([0-9a-f]{12}), kept for a day", shown.stdout, re.MULTILINE)
    assert found, shown.stdout
    return found[1]


def web(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/web"


def test_exactly_what_was_shown_is_done(shop: Prepared) -> None:
    fleet, app, namespace = shop
    plan_id = plan(fleet, app)
    start = next(iter(fleet.clusters.values())).audit_position()
    done = run(fleet, "sync", app, "--plan", plan_id, "--wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(words(fleet.writes(app, since=start))) == [
        f"delete configmaps {namespace}/old",
        f"patch configmaps {namespace}/new",
        f"patch configmaps {namespace}/web",
    ]


def test_an_object_changed_in_between_is_named_and_nothing_is_written(shop: Prepared) -> None:
    fleet, app, namespace = shop
    plan_id = plan(fleet, app)
    cluster = next(iter(fleet.clusters.values()))
    Hands(cluster).merge(web(namespace), {"metadata": {"labels": {"looked": "at"}}})
    start = cluster.audit_position()
    refused = run(fleet, "sync", app, "--plan", plan_id, "--wait")
    assert refused.returncode == 1
    assert f"plan {plan_id} is not carried out: ConfigMap {namespace}/web was changed" in refused.stderr
    assert f"fleetbeat plan {app}" in refused.stderr
    assert not fleet.writes(app, since=start)


def test_a_refused_plan_leaves_the_application_as_it_was(shop: Prepared) -> None:
    """Nothing is tried again without the plan: the next look is the one that would have come anyway."""
    fleet, app, namespace = shop
    before = fleet.state(app)
    plan_id = plan(fleet, app)
    Hands(next(iter(fleet.clusters.values()))).merge(web(namespace), {"metadata": {"labels": {"looked": "at"}}})
    refused = run(fleet, "sync", app, "--plan", plan_id, "--wait", "--reason", "release 2")
    assert refused.returncode == 1
    entry = fleet.history(app)[0]
    assert (entry["phase"], entry["error"], entry["reason"]) == ("Failed", "PlanRefused", "release 2")
    assert "RequestRefused: Failed: plan" in run(fleet, "events", app).stdout

    after = fleet.state(app)
    told = ("phase", "message", "reason", "failures", "attempted", "digest", "sync", "health", "inventory")
    assert {word: after.get(word) for word in told} == {word: before.get(word) for word in told}
    period, offset = (int(part) for part in fleet.store.redis.hget(keys.PERIODS, app).split(b":"))  # type: ignore[union-attr]
    due = fleet.store.redis.zscore(keys.DUE, app)
    assert due is not None
    assert (int(due) - offset) % period == 0, "its regular slot, no retry"
    assert "began: Revision" in fleet.tick(app)


def test_an_object_held_in_between_is_told_with_who_holds_it(shop: Prepared) -> None:
    fleet, app, namespace = shop
    plan_id = plan(fleet, app)
    target = f"/ConfigMap/{namespace}/web"
    made = Holds(fleet.store).add("object", target, seconds=3600, scope="sync", by="ann", reason="a look at the leak")
    refused = run(fleet, "sync", app, "--plan", plan_id, "--wait")
    assert refused.returncode == 1
    assert (
        f"plan {plan_id} is not carried out: ConfigMap {namespace}/web would not be configured: {made}"
        in refused.stderr
    )


def test_another_bundle_in_between(shop: Prepared) -> None:
    fleet, app, namespace = shop
    plan_id = plan(fleet, app)
    fleet.push(app, [config_map("web", namespace, {"version": "3"})])
    refused = run(fleet, "sync", app, "--plan", plan_id, "--wait")
    assert refused.returncode == 1
    assert "and the application is to have" in refused.stderr


def test_a_plan_nobody_has_saved(shop: Prepared) -> None:
    fleet, app, _ = shop
    refused = run(fleet, "sync", app, "--plan", "0123456789ab", "--wait")
    assert refused.returncode == 1
    assert "plan 0123456789ab is not carried out: it has expired, or never was" in refused.stderr


def test_what_would_change_as_a_program_reads_it(shop: Prepared) -> None:
    fleet, app, namespace = shop
    shown = run(fleet, "diff", app, "-o", "json")
    assert shown.returncode == 1, shown.stderr
    told = json.loads(shown.stdout)
    assert (told["refusal"], told["notes"]) == ("", [])
    assert [(change["action"], change["name"], change["fields"]) for change in told["changes"]] == [
        ("configure", "web", ["data.version"]),
        ("create", "new", []),
        ("prune", "old", []),
    ]
    assert {(change["group"], change["kind"], change["namespace"]) for change in told["changes"]} == {
        ("", "ConfigMap", namespace)
    }
    assert "+  version: '2'" in told["changes"][0]["diff"]
