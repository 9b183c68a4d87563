"""Drift of twelve kinds in all the ways others make it: healed once and never twice, with the watch and without.

Which change of which kind is drift, and which is somebody's own business, is told in ``tests/support/twelve.py``.
Writes are counted in the API server's audit log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from fleet import Fleet, config_map, outcomes
from people import Hands
from twelve import KINDS, WAYS, Drifting, Object, content
from waiting import wait_for
from watching import watching

from fleetbeat.clients.watch_lease import watchers
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]


@contextmanager
def nobody_looks(fleet: Fleet) -> Iterator[None]:
    """Until the end what happens in the cluster is seen by no worker: it lies there as a whole for the next look."""
    for worker in fleet.workers:
        worker.pause()
    try:
        yield
    finally:
        for worker in fleet.workers:
            worker.resume()


def make_namespace(cluster: Cluster, name: str) -> str:
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    return name


def written(fleet: Fleet, app: str, since: int) -> Counter[str]:
    """How often each object was written: ``{"roles/role-edited": 1}``. Two writes of one heal that first takes fields
    over from their owners are one."""
    events = fleet.writes(app, since=since)
    heals = {(e["userAgent"], e["objectRef"]["resource"], e["objectRef"]["name"]) for e in events}
    takeovers = Counter((e["objectRef"]["resource"], e["objectRef"]["name"]) for e in events)
    assert max(takeovers.values(), default=0) <= 2, takeovers
    return Counter(f"{resource}/{name}" for _, resource, name in heals)


def key(one: Object) -> str:
    return f"{one.kind.plural}/{one.name}"


# ── without the watch, which comes first: the fixture below lives to the end of the module ───────────────────────


def test_without_a_watch_the_next_tick_heals_all_of_it_once(fleet: Fleet, cluster: Cluster, namespace: str) -> None:
    """All kinds in all ways at once: one run that writes each object once, and nothing of what is somebody else's."""
    wait_for(lambda: not any(watchers(fleet.store, fleet.clusters).values()), what="the last watch to be over")
    app, hands, drifting = fleet.name("ticking"), Hands(cluster), Drifting.make(namespace)
    fleet.push(app, [*(one.manifest for one in drifting.objects), config_map("calm", namespace)])
    fleet.application(app, namespace=namespace, interval="2s")
    fleet.wait_run(app, phase="Succeeded")
    before = {one.path: hands.get(one.path) for one in drifting.objects}
    start = cluster.audit_position()
    with nobody_looks(fleet):
        runs = fleet.runs_ended(app)
        for name, way in WAYS.items():
            for one in drifting.ways[name]:
                way.act(hands, one)
        theirs = {one.path: hands.get(one.path) for one in drifting.ways["theirs"]}
    entry = fleet.wait_run(app, since=runs)
    assert (entry["trigger"], entry["phase"]) == ("Drift", "Succeeded"), entry
    healed = [one for name, way in WAYS.items() if way.healed for one in drifting.ways[name]]
    assert outcomes(entry) == {
        one.words: "created" if one in drifting.ways["deleted"] else "configured" for one in healed
    }
    results = dict(zip(outcomes(entry), entry["results"], strict=True))
    for name, way in WAYS.items():
        for one in drifting.ways[name]:
            after = hands.get(one.path)
            if not way.healed:
                assert after == theirs[one.path]
                continue
            assert content(after) == content(before[one.path]), one.words
            assert (after["metadata"]["uid"] != before[one.path]["metadata"]["uid"]) is way.anew
            assert results[one.words].get("managers", []) == ([way.manager] if way.manager else []), one.words
    for _ in range(2):
        assert fleet.tick(app) == "nothing to do"
    assert written(fleet, app, start) == {key(one): 1 for one in healed}
    assert fleet.runs_ended(app) == runs + 1
    fleet.leave(app)  # its short interval would disturb the tests that follow


# ── with it ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def watched(fleet: Fleet, cluster: Cluster) -> Iterator[tuple[str, Drifting]]:
    """(application, its objects), each kind of them followed by a watch. No tick helps: the next one is hours away."""
    drifting = Drifting.make(make_namespace(cluster, fleet.name("watched")))
    app = fleet.name("watched")
    position = cluster.audit_position()
    with watching(fleet, FLEETBEAT_WATCH_GAP="0.05"):  # one edit after the other is no storm here
        fleet.push(app, [one.manifest for one in drifting.objects])
        fleet.application(app, namespace=drifting.namespace)
        fleet.wait_run(app, phase="Succeeded")

        def followed() -> bool:
            events = [event for event in cluster.audit(position) if event.get("userAgent", "").endswith(" watch")]
            return {kind.plural for kind in KINDS} <= {
                event["objectRef"]["resource"] for event in events if event["verb"] == "watch"
            }

        wait_for(followed, timeout=120, what="a watch of each kind", every=0.2)
        yield app, drifting


def one_run(fleet: Fleet, app: str, what: str, act: Callable[[], object]) -> Body:
    """Do it, and wait for the one run that comes of it."""
    known = {entry["run"] for entry in fleet.history(app)}
    act()
    wait_for(
        lambda: fleet.history(app)[0]["run"] not in known and not fleet.runs.look(app).run,
        timeout=120,
        what=f"the run that {what} begins",
    )
    (entry,) = [entry for entry in fleet.history(app) if entry["run"] not in known]
    assert (entry["trigger"], entry["phase"]) == ("Drift", "Succeeded"), entry
    return entry


@pytest.mark.parametrize("name", [name for name, way in WAYS.items() if way.healed])
def test_it_is_healed_at_once_and_only_once(
    fleet: Fleet, cluster: Cluster, watched: tuple[str, Drifting], name: str
) -> None:
    """Each by one run that touches nothing else. Field case b11."""
    (app, drifting), way, hands = watched, WAYS[name], Hands(cluster)
    start = cluster.audit_position()

    def act(one: Object) -> None:
        if way.slow:
            with nobody_looks(fleet):
                way.act(hands, one)
        else:
            way.act(hands, one)

    for one in drifting.ways[name]:
        before, position = hands.get(one.path), cluster.audit_position()
        entry = one_run(fleet, app, f"{one.words}, {name},", partial(act, one))
        assert outcomes(entry) == {one.words: "created" if name == "deleted" else "configured"}
        assert entry["results"][0].get("managers", []) == ([way.manager] if way.manager else [])
        assert written(fleet, app, position) == {key(one): 1}
        after = hands.get(one.path)
        assert content(after) == content(before)
        assert (after["metadata"]["uid"] != before["metadata"]["uid"]) is way.anew
    assert fleet.tick(app) == "nothing to do"
    assert written(fleet, app, start) == {key(one): 1 for one in drifting.ways[name]}
    assert fleet.state(app)["last_run"] == entry["run"]


def test_what_is_somebody_elses_costs_a_look_and_no_write(
    fleet: Fleet, cluster: Cluster, watched: tuple[str, Drifting]
) -> None:
    """Field case b11: a foreign key beside ours is left alone."""
    (app, drifting), way, hands = watched, WAYS["theirs"], Hands(cluster)
    start = cluster.audit_position()
    left: list[object] = []
    for one in drifting.ways["theirs"]:
        entry = one_run(fleet, app, f"the foreign key in {one.words}", lambda one=one: left.append(way.act(hands, one)))
        assert set(entry["counts"]) == {"unchanged"}
        assert hands.get(one.path) == left[-1]
    assert fleet.tick(app) == "nothing to do"
    assert fleet.writes(app, since=start, parents=True) == []
