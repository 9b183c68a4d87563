"""Vetoes and holds of the whole fleet are noted in each cluster, and outlive the data of Redis there."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from breaking import breakable
from fleet import PATIENT, Fleet, config_map, run, words
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.clients.holds import Holds
from fleetbeat.clients.orders import Orders
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

MERGE = "application/merge-patch+json"


@pytest.fixture
def home(make_fleet: Callable[..., Fleet]) -> tuple[Fleet, str]:
    """An installation with records in a namespace of its own, as its cluster serves others too."""
    own = f"records-{uuid.uuid4().hex[:6]}"
    return make_fleet(workers=1, FLEETBEAT_NAMESPACE=own, **PATIENT), own


def put(fleet: Fleet, word: str, namespace: str, name: str = "web") -> str:
    app = fleet.name(word)
    fleet.push(app, [config_map(name, data={"v": "1"})])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    return app


def note(fleet: Fleet, own: str) -> dict[str, list[dict[str, Any]]]:
    """The orders that somebody with only kubectl sees."""
    body = fleet.get(place(own)) or {"data": {}}
    lists = {name: body["data"].get(name, "").splitlines() for name in ("vetoes", "holds")}
    return {name: [json.loads(line) for line in lines] for name, lines in lists.items()}


def place(own: str) -> str:
    return f"/api/v1/namespaces/{own}/configmaps/fleetbeat-orders"


def cluster_of(fleet: Fleet) -> Cluster:
    return next(iter(fleet.clusters.values()))


def written(fleet: Fleet, app: str, since: int, own: str) -> list[str]:
    return [word for word in words(fleet.writes(app, since=since)) if own not in word]


def known_again(fleet: Fleet) -> None:
    field = f"cluster/{cluster_of(fleet).name}"
    wait_for(lambda: fleet.store.redis.hexists(keys.FLEET_ORDERS, field), timeout=120, what="the cluster to be known")


def test_a_veto_and_a_hold_of_the_cluster_outlive_redis_and_what_was_lifted_does_not(
    home: tuple[Fleet, str], namespace: str, tmp_path: Path
) -> None:
    fleet, own = home
    cluster, orders = cluster_of(fleet), Orders(fleet.store)
    began = cluster.audit_position()
    app, drained = put(fleet, "kept", namespace), put(fleet, "drained", namespace, "drained")
    bad = fleet.push(app, [config_map("web", data={"v": "bad"})]).digest
    other = "sha256:" + "1" * 64
    for digest in (bad, other):
        assert run(fleet, "veto", digest, "--reason", "loses orders").returncode == 0
    wait_for(lambda: len(note(fleet, own)["vetoes"]) == 2, what="the vetoes in the cluster")
    assert run(fleet, "veto", "--lift", other).returncode == 0
    wait_for(lambda: [one["digest"] for one in note(fleet, own)["vetoes"]] == [bad], what="the lifted one to go")
    (told,) = note(fleet, own)["vetoes"]
    assert told["reason"] == "loses orders"
    assert told["says"].startswith(f"{bad[:19]} is kept out of the fleet since ")

    # a look that finds nothing changed asks nothing and writes nothing more
    since = cluster.audit_position()
    assert fleet.tick(app) == "nothing to do"
    assert [e for e in cluster.audit(since) if "fleetbeat-orders" in e["requestURI"]] == []

    made = run(fleet, "hold", "cluster", cluster.name, "--for", "2h", "--reason", "drain", "-o", "json")
    hold = json.loads(made.stdout)["id"]
    wait_for(lambda: [one["id"] for one in note(fleet, own)["holds"]] == [hold], what="the hold in the cluster")
    assert note(fleet, own)["holds"][0]["says"].startswith(f"cluster {cluster.name} is held (sync) until ")

    # each note is in the ledger, and the API server's own log has no other
    with cluster.audit_log.open("rb") as log:
        log.seek(began)
        (tmp_path / "audit.log").write_bytes(log.read())
    name = f"orders@{cluster.name}"
    joined = run(fleet, "audit", name, "--join", str(tmp_path / "audit.log"))
    assert (joined.returncode, run(fleet, "audit", name, "--verify").returncode) == (0, 0), joined.stdout
    noted = run(fleet, "audit", name, "-o", "json").stdout.splitlines()
    assert [json.loads(line)["verb"] for line in noted] == ["create", *["replace"] * (len(noted) - 1)]
    assert len(noted) in (3, 4)  # two vetoes, one of them lifted, and a hold: two orders at once may be one note

    web, other_map = (f"/api/v1/namespaces/{namespace}/configmaps/{name}" for name in ("web", "drained"))
    for path in (web, other_map):
        cluster.request("PATCH", path, {"data": {"v": "by hand"}}, content_type=MERGE)
    since = cluster.audit_position()
    fleet.store.redis.flushall()
    known_again(fleet)
    assert [order.digest for order in orders.vetoes()] == [bad]
    assert [one.id for one in Holds(fleet.store).read().holds] == [hold]
    fleet.ring(app)
    wait_for(lambda: fleet.state(app).get("held_back"), timeout=120, what="the veto to hold something back")
    assert "is vetoed by" in fleet.state(app)["held_back"]
    fleet.ring(drained)
    wait_for(lambda: hold in fleet.runs.look(drained).run.get("waited", ""), timeout=120, what="a run held by the hold")
    for path in (web, other_map):
        assert fleet.get(path)["data"] == {"v": "by hand"}  # type: ignore[index]
    assert written(fleet, app, since, own) + written(fleet, drained, since, own) == []

    # lifted now, and lifted it stays when Redis is lost again; the good bundle goes on
    good = fleet.push(app, [config_map("web", data={"v": "2"})]).digest
    assert run(fleet, "hold", "--lift", hold).returncode == 0
    wait_for(lambda: note(fleet, own)["holds"] == [], what="nothing held in the note")
    fleet.ring(app)
    fleet.wait_run(app, digest=good, phase="Succeeded")
    fleet.wait_run(drained, phase="Succeeded")
    assert fleet.get(other_map)["data"] == {"v": "1"}  # type: ignore[index]
    fleet.store.redis.flushall()
    known_again(fleet)
    assert Holds(fleet.store).read().holds == ()
    assert [order.digest for order in orders.vetoes()] == [bad]


def test_a_first_sync_gives_way_to_a_veto_that_is_known_only_when_its_plan_is_made(
    tmp_path: Path, registry: Registry, cluster: Cluster, namespace: str
) -> None:
    """As when Redis has lost its data and the cluster did not answer the look that has chosen the bundle."""
    own, gate = f"records-{uuid.uuid4().hex[:6]}", tmp_path / "gate"
    gate.touch()
    with breakable(tmp_path, registry, cluster, FLEETBEAT_NAMESPACE=own, **PATIENT) as (fleet, nursery):
        nursery.worker({"point": "in render", "do": "hold", "always": True, "while": str(gate)})
        app, since = fleet.name("chosen"), cluster.audit_position()
        bad = fleet.push(app, [config_map("web")]).digest
        fleet.application(app, namespace=namespace)
        wait_for(lambda: fleet.runs.look(app).run.get("step") == "render", timeout=120, what="the run to stand still")
        Orders(fleet.store).veto(bad, by="ada", reason="loses orders")
        gate.unlink()
        entry = fleet.wait_run(app, phase="Superseded")
        assert entry["message"] == "by a veto"
        wait_for(lambda: "is vetoed by" in fleet.state(app).get("held_back", ""), timeout=120, what="the next look")
        assert written(fleet, app, since, own) == []


def test_a_note_that_was_damaged_is_told_once_and_overwritten(home: tuple[Fleet, str], namespace: str) -> None:
    """Field case f5."""
    fleet, own = home
    cluster = cluster_of(fleet)
    put(fleet, "damaged", namespace)
    good = "sha256:" + "2" * 64
    assert run(fleet, "veto", good, "--reason", "loses orders").returncode == 0
    wait_for(lambda: note(fleet, own)["vetoes"], what="the veto in the cluster")
    lines = (fleet.get(place(own)) or {})["data"]["vetoes"]

    thief = fleet.name("thief")
    fleet.push(thief, [config_map("fleetbeat-orders", own)])
    fleet.application(thief)
    refused = fleet.wait_run(thief, phase="Failed")
    assert "as its record of orders" in json.dumps(refused)
    fleet.leave(thief)

    now = fleet.runs.now()
    long = {"id": "abc", "kind": "cluster", "target": cluster.name, "scope": "sync", "by": "x", "reason": "x"}
    long |= {"since": now, "until": now + 100 * 365 * 86_400_000, "cluster": ""}
    damaged = {"vetoes": lines + "{garbage\n", "holds": json.dumps(long) + "\n"}
    cluster.request("PATCH", place(own), {"data": damaged}, content_type=MERGE)
    fleet.store.redis.flushall()
    known_again(fleet)
    assert [order.digest for order in Orders(fleet.store).vetoes()] == [good]
    assert Holds(fleet.store).read().holds == ()
    wait_for(lambda: (fleet.get(place(own)) or {})["data"]["vetoes"] == lines, what="the note as it was")
    assert note(fleet, own)["holds"] == []
    assert fleet.logs().count("not taken from there, and overwritten: vetoes: line 2 is none of ours") == 1
