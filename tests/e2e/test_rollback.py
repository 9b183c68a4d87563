"""Going back: a pin holds whatever is pushed, a veto keeps a bundle out of the fleet. Field case f7."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import orjson
import pytest
import urllib3
from fleet import Fleet, config_map, run
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.cli.exits import Exit
from fleetbeat.clients.orders import Orders
from fleetbeat.decisions.inventory import parent_name


def version(fleet: Fleet, namespace: str) -> str:
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web")
    return live["data"]["version"] if live else ""


@pytest.fixture
def two(fleet: Fleet, namespace: str) -> tuple[Fleet, str, str, list[str]]:
    """(fleet, application, namespace, digests) of two versions, the second in force; it brought an object more."""
    app = fleet.name("shop")
    return fleet, app, namespace, [push(fleet, app, namespace, number) for number in ("1", "2")]


def push(fleet: Fleet, app: str, namespace: str, number: str) -> str:
    objects = [config_map("web", namespace, {"version": number})]
    if number == "2":
        objects.append(config_map("new-in-2", namespace))
    digest = fleet.push(app, objects).digest
    if not fleet.state(app):
        fleet.application(app, namespace=namespace)
    fleet.ring(app)
    fleet.wait_run(app, digest=digest, phase="Succeeded")
    return digest


def test_it_shows_what_would_change_and_asks(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, digests = two
    shown = run(fleet, "rollback", app)
    assert shown.returncode == 1, shown.stderr
    assert f"back to stable@{digests[0]}" in shown.stdout
    assert '-  version: "2"' in shown.stdout or "-  version: '2'" in shown.stdout
    assert f"prune ConfigMap {namespace}/new-in-2" in shown.stdout
    assert version(fleet, namespace) == "2", "nothing was agreed to"
    assert Orders(fleet.store).pins(app) is None


def test_a_rollback_prunes_stays_is_healed_and_ends_with_unpin(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, digests = two
    done = run(fleet, "rollback", app, "--yes", "--wait", "--reason", "2 loses orders")
    assert done.returncode == 0, done.stdout + done.stderr
    assert version(fleet, namespace) == "1"
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/new-in-2") is None, "prune rules hold for it too"
    entry = fleet.history(app)[0]
    assert (entry["trigger"], entry["reason"]) == ("Request", f"rollback to {digests[0][7:19]}: 2 loses orders")

    third = fleet.push(app, [config_map("web", namespace, {"version": "3"})]).digest
    fleet.ring(app)
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    cluster = next(iter(fleet.clusters.values()))
    cluster.request("PATCH", path, {"data": {"version": "9"}}, content_type="application/merge-patch+json")
    fleet.ring(app)
    wait_for(lambda: version(fleet, namespace) == "1", what="drift to be healed to the pinned bundle")
    told = run(fleet, "status", app).stdout
    assert f"pinned to {digests[0][7:19]} by " in told
    assert "2 loses orders" in told

    planned = run(fleet, "plan", app)
    assert "note: not what the source means now: pinned to" in planned.stderr
    plan_id = planned.stdout.rpartition(" ")[2].strip()
    carried = run(fleet, "sync", app, "--plan", plan_id, "--wait")
    assert carried.returncode == 0, "a plan is of the bundle that a sync would have" + carried.stderr

    assert run(fleet, "unpin", app, "--wait").returncode == 0
    assert version(fleet, namespace) == "3"
    assert fleet.history(app)[0]["revision"]["digest"] == third
    assert "pinned" not in run(fleet, "status", app).stdout


def test_back_to_a_run_or_the_beginning_of_a_digest(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, digests = two
    first = next(entry for entry in fleet.history(app) if entry["revision"]["digest"] == digests[0])
    assert run(fleet, "rollback", app, first["run"], "--yes", "--wait").returncode == 0
    assert version(fleet, namespace) == "1"
    assert run(fleet, "rollback", app, digests[1][7:15], "--yes", "--wait").returncode == 0
    assert version(fleet, namespace) == "2"
    unknown = run(fleet, "rollback", app, "20260101T000000Z-abcdef", "--yes")
    assert unknown.returncode != 0
    assert "no run and no bundle of its history" in unknown.stderr
    run(fleet, "unpin", app)


def test_a_digest_the_registry_never_had_pins_nothing(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, _ = two
    gone = run(fleet, "rollback", app, "sha256:" + "0" * 64, "--yes")
    assert gone.returncode == Exit.FAILED
    assert "0000" in gone.stderr
    assert Orders(fleet.store).pins(app) is None
    assert version(fleet, namespace) == "2"


def test_a_bundle_that_the_registry_has_deleted_since_pins_nothing(two: tuple[Fleet, str, str, list[str]]) -> None:
    """It was in force once, and history offers it: it is missed before anything is pinned or written."""
    fleet, app, namespace, digests = two
    place = fleet.repository(app).removeprefix(fleet.registry.host)
    with urllib3.PoolManager(retries=False) as http:
        status = http.request("DELETE", f"{fleet.registry.url}/v2{place}/manifests/{digests[0]}").status
    assert status == HTTPStatus.ACCEPTED
    redis = fleet.store.redis
    for key in redis.scan_iter(match=keys.pulled("*")):  # nor do workers have it any more
        redis.delete(key, keys.blob(orjson.loads(redis.get(key))[0]))
    (cluster,) = fleet.clusters.values()
    position = cluster.audit_position()
    gone = run(fleet, "rollback", app, "--yes", "--wait")
    assert gone.returncode == Exit.FAILED, gone.stdout + gone.stderr
    assert digests[0] in gone.stderr
    assert "the registry has no such repository, tag or digest" in gone.stderr
    assert "Traceback" not in gone.stderr
    assert Orders(fleet.store).pins(app) is None
    assert fleet.sync(app)["revision"]["digest"] == digests[1]
    assert fleet.writes(app, since=position) == []
    assert version(fleet, namespace) == "2"


def test_a_vetoed_bundle_is_kept_out_until_something_newer_comes(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, _ = two
    bad = fleet.push(app, [config_map("web", namespace, {"version": "bad"})]).digest
    assert run(fleet, "veto", bad, "--reason", "loses orders").returncode == 0
    entry = fleet.sync(app)
    assert entry["revision"]["digest"] != bad
    assert version(fleet, namespace) == "2"
    assert f"{bad[7:19]} is vetoed by " in run(fleet, "status", app).stdout
    assert bad in run(fleet, "veto").stdout
    refused = run(fleet, "rollback", app, bad, "--yes")
    assert refused.returncode != 0
    assert "is vetoed by" in refused.stderr

    push(fleet, app, namespace, "3")
    assert version(fleet, namespace) == "3"
    assert "vetoed" not in run(fleet, "status", app).stdout
    assert run(fleet, "veto", "--lift", bad).returncode == 0
    assert bad not in run(fleet, "veto").stdout


def test_what_a_veto_held_back_goes_on_at_once_when_it_is_lifted(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, _ = two
    late = fleet.push(app, [config_map("web", namespace, {"version": "late"})]).digest
    run(fleet, "veto", late)
    fleet.sync(app)
    assert version(fleet, namespace) == "2"
    assert run(fleet, "veto", "--lift", late).returncode == 0
    fleet.wait_run(app, digest=late, phase="Succeeded")  # its next look is an hour away
    assert version(fleet, namespace) == "late"


def test_a_veto_of_what_is_in_force_leaves_it_there_and_says_so(two: tuple[Fleet, str, str, list[str]]) -> None:
    fleet, app, namespace, digests = two
    vetoed = run(fleet, "veto", digests[1])
    assert f"In force already, and stays: {app}" in vetoed.stdout
    fleet.sync(app)
    assert version(fleet, namespace) == "2"
    run(fleet, "veto", "--lift", digests[1])


def test_a_flush_of_redis_does_not_undo_a_rollback(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet()
    app = fleet.name("shop")
    first, second = (push(fleet, app, namespace, number) for number in ("1", "2"))
    assert run(fleet, "rollback", app, first, "--yes", "--wait").returncode == 0
    parent = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}") or {}
    assert parent["metadata"]["annotations"]["fleetbeat.dev/pinned"] == first
    fleet.store.redis.flushall()
    entry = fleet.wait_run(app, phase="Succeeded")
    assert entry["revision"]["digest"] == first != second
    assert version(fleet, namespace) == "1"
    assert f"pinned to {first[7:19]} by the cluster" in run(fleet, "status", app).stdout
    assert run(fleet, "unpin", app, "--wait").returncode == 0
    assert version(fleet, namespace) == "2"
    parent = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}") or {}
    assert "fleetbeat.dev/pinned" not in parent["metadata"]["annotations"]
