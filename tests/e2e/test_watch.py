"""`fleetbeat watch`: what somebody changes in a cluster is healed at once, not at the next tick.

Every application here has an interval of an hour, if nothing else is said: whatever is healed was noticed by the watch.
What is healed, of twelve kinds, is in test_drift_kinds.py.
"""

from __future__ import annotations

import itertools
import statistics
import warnings
from bisect import bisect
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from fleet import Fleet, config_map
from people import Hands
from storm import Storm, received
from waiting import wait_for
from watching import watching

from fleetbeat.clients.watch_lease import watchers
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]


@pytest.fixture
def shop(fleet: Fleet, namespace: str) -> tuple[Fleet, str, str]:
    """(fleet, application, path of its ConfigMap); nobody watches yet."""
    app = fleet.name("shop")
    fleet.push(app, [config_map("web", namespace, FIELDS)])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    return fleet, app, f"/api/v1/namespaces/{namespace}/configmaps/web"


#: Each edit is of another field: one that somebody rewrites again and again would be left to them for a while.
FIELDS = {f"field-{number:02}": "hello" for number in range(40)}
_next = itertools.cycle(FIELDS)


def heals(fleet: Fleet, path: str) -> None:
    field = next(_next)
    Hands(next(iter(fleet.clusters.values()))).merge(path, {"data": {field: "hacked"}})
    wait_for(lambda: data(fleet, path).get(field) == "hello", what=f"the heal of {field}")


def follows(cluster: Cluster, since: int) -> None:
    """A watch of all ConfigMaps has begun since then: an edit made before its first list would be for the tick."""

    def begun() -> bool:
        return any(
            event["verb"] == "watch"
            and event["stage"] == "ResponseStarted"
            and event["userAgent"].endswith(" watch")
            and event["requestURI"].startswith("/api/v1/configmaps?")
            for event in cluster.audit(since)
        )

    wait_for(begun, what="the watch of ConfigMaps", every=0.1)


def data(fleet: Fleet, path: str) -> dict[str, str]:
    return dict((fleet.get(path) or {}).get("data") or {})


def lived(fleet: Fleet, app: str, path: str, *, ring: bool = False) -> float:
    """Seconds from an edit to the write that heals it, both as the API server received them."""
    (cluster,) = fleet.clusters.values()
    wait_for(lambda: not fleet.runs.look(app).run, what="the run before to end")
    position, field = cluster.audit_position(), next(_next)
    Hands(cluster).merge(path, {"data": {field: "hacked"}})
    if ring:
        fleet.ring(app)
    wait_for(lambda: data(fleet, path).get(field) == "hello", what=f"the heal of {field}")
    (edit, *_) = (event for event in cluster.audit(position) if "fieldManager=kubectl-edit" in event["requestURI"])
    heal, *_ = wait_for(lambda: fleet.writes(app, since=position), what="the heal in the audit log")
    return received(heal) - received(edit)


def test_a_drift_lives_for_less_than_a_second(shop: tuple[Fleet, str, str]) -> None:
    """The median of seven, beside that of five that a person rings for at once: so busy is this machine."""
    fleet, app, path = shop
    (cluster,) = fleet.clusters.values()
    rung = statistics.median(lived(fleet, app, path, ring=True) for _ in range(5))
    begin = cluster.audit_position()
    with watching(fleet, FLEETBEAT_WATCH_GAP="0.05"):  # one edit after the other is no storm here
        follows(cluster, begin)
        watched = statistics.median(lived(fleet, app, path) for _ in range(7))
    print(f"{watched:.3f} s, and {rung:.3f} s where it is rung for")
    assert watched < 1 + 3 * rung


def test_another_process_takes_over_from_a_dead_one(shop: tuple[Fleet, str, str]) -> None:
    fleet, _, path = shop
    (cluster,) = fleet.clusters.values()
    begin = cluster.audit_position()
    lease = {"FLEETBEAT_WATCH_LEASE": "7"}  # no other process has it for a moment of standing still
    with watching(fleet, 1, **lease) as first, watching(fleet, 2, **lease) as second:
        follows(cluster, begin)
        (leader,) = watchers(fleet.store, fleet.clusters).values()
        assert leader.endswith(f":{first.pid}")
        heals(fleet, path)
        end = cluster.audit_position()
        first.kill()
        wait_for(
            lambda: all(token.endswith(f":{second.pid}") for token in watchers(fleet.store, fleet.clusters).values()),
            timeout=120,
            what="the other process to take the lease",
        )
        follows(cluster, end)
        heals(fleet, path)


def test_a_stopped_watch_gives_its_clusters_back(shop: tuple[Fleet, str, str]) -> None:
    fleet, _, _ = shop
    with watching(fleet) as process:
        process.stop(grace=60)
        assert not any(watchers(fleet.store, fleet.clusters).values())
        assert process.exit_code == 0


def test_redis_back_after_a_restart_finds_the_watch_alive(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet()
    app = fleet.name("shop")
    fleet.push(app, [config_map("web", namespace, FIELDS)])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    (cluster,) = fleet.clusters.values()
    begin = cluster.audit_position()
    with watching(fleet):
        path = f"/api/v1/namespaces/{namespace}/configmaps/web"
        follows(cluster, begin)
        heals(fleet, path)
        fleet.redis.kill()
        fleet.redis.start()
        heals(fleet, path)


def test_a_storm_on_one_application_leaves_the_others_their_interval(fleet: Fleet, namespace: str) -> None:
    """200 edits a second: others are looked at in each of their slots, and healed at once meanwhile.

    What is counted is the API server's log. Where it cannot take twice as many edits from somebody who does nothing
    else, it is half of what it can take, and a warning says so.
    """
    cluster = next(iter(fleet.clusters.values()))
    app, healed, regular = fleet.name("shop"), fleet.name("healed"), fleet.name("regular")
    calm, *paths = (f"/api/v1/namespaces/{namespace}/configmaps/{name}" for name in ("calm", *HIT))
    fleet.push(app, [config_map(name, namespace, FIELDS) for name in HIT])
    fleet.application(app, namespace=namespace)
    fleet.push(healed, [config_map("calm", namespace, FIELDS)])
    fleet.application(healed, namespace=namespace)
    # Of another kind: who has looked at it is told by the API server's log, for no other application shares its list.
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "calm"}, "stringData": {"password": "x"}}
    fleet.push(regular, [body])
    fleet.application(regular, namespace=namespace, interval=f"{INTERVAL}s")
    for name in (app, healed, regular):
        fleet.wait_run(name, phase="Succeeded")
    most = takes(cluster, namespace)
    wanted = min(200.0, most / 2)
    if wanted < 200:
        warnings.warn(f"a storm of {wanted:.0f} edits a second: {most:.0f} are all this machine takes", stacklevel=1)
    begin = cluster.audit_position()
    with watching(fleet):
        follows(cluster, begin)
        heals(fleet, paths[0])
        start = cluster.audit_position()
        with Storm(cluster, paths, rate=wanted * 1.1, field="field-00") as storm:
            wait_for(lambda: len(storm.edits()) > 50, timeout=120, what="the storm to be under way", every=0.2)
            position = cluster.audit_position()
            for _ in range(3):
                heals(fleet, calm)

            def slots() -> list[tuple[float, float]]:
                """(seconds from one look to the next, edits a second meanwhile) where it blew at full strength."""
                at, edits = looks(cluster, regular, position), storm.edits()
                every = [(end - begun, bisect(edits, end) - bisect(edits, begun)) for begun, end in pairwise(at)]
                return [(gap, count / gap) for gap, count in every if gap > INTERVAL / 2 and count / gap >= wanted]

            what = f"three slots with {wanted:.0f} edits a second"
            found = wait_for(lambda: len(found := slots()) >= 3 and found, timeout=180, what=what, every=1)
        # The median: where the machine itself stands still for a while, one gap is longer.
        gaps = [round(gap, 2) for gap, _ in found]
        assert statistics.median(gaps) < 2 * INTERVAL, ("slots were missed", gaps)
        tries = Counter(event["userAgent"] for event in fleet.writes(app, since=start))
        print(f"{[round(rate) for _, rate in found]} edits a second of {most:.0f}, {gaps} s a slot, {len(tries)} tries")
        # Each object three heals and a truce of a minute; or failures, when it moved at each try, 5 s apart and more.
        assert len(tries) <= 1 + 3 * len(HIT) + storm.seconds / 5, tries
        fleet.sync(app)  # the field may have been left to whoever rewrites it all the time; a person has it put back
        assert [data(fleet, path) for path in paths] == [FIELDS for _ in paths]
    fleet.leave(regular)  # nobody shall be looked at every three seconds from now on
    wait_for(lambda: regular not in fleet.catalogs.names(), what="it to be gone")


#: Seconds; of the application that is only looked at.
INTERVAL = 3

#: The objects that the storm is about.
HIT = ("web-1", "web-2", "web-3", "web-4")


def takes(cluster: Cluster, namespace: str) -> float:
    """How many edits a second the API server takes now, of as many objects of nobody's."""
    hands = Hands(cluster)
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in HIT:
        hands.create(maps, config_map(f"nobodys-{name}", data=FIELDS))
    with Storm(cluster, [f"{maps}/nobodys-{name}" for name in HIT], field="field-00") as storm:
        edits = wait_for(lambda: len(edits := storm.edits()) >= 400 and edits, timeout=120, what="400 edits", every=0.2)
    return (len(edits) - 1) / (edits[-1] - edits[0])


def looks(cluster: Cluster, app: str, since: int) -> list[float]:
    """When the application's kind was listed for it, seconds since the epoch."""
    events = [event for event in cluster.audit(since) if f" app/{app} " in f"{event.get('userAgent', '')} "]
    return [
        received(event) for event in events if (event["verb"], event["objectRef"]["resource"]) == ("list", "secrets")
    ]
