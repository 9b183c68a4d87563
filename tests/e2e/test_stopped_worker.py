"""A worker stands still past the end of its lock, another one finishes, and the first goes on as if nothing had been.

It stops in the middle of a wave, either before the guard is asked or in the worst moment of all: between the guard's
yes and the request. What it then sends must find that the object is not as it was.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from breaking import at_rest, breakable, execution, kept, new_namespace, stale_writes
from fleet import Fleet, config_map, words
from nursery import Nursery, Worker
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

Place = tuple[Fleet, Nursery]
Manifests = list[dict[str, Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Place]:
    with breakable(tmp_path_factory.mktemp("stopped"), registry, cluster) as made:
        yield made


@pytest.fixture
def worker(place: Place) -> Iterator[Callable[..., Worker]]:
    """Starts workers of one test; none is left for the next."""
    yield place[1].worker
    place[1].end()


def maps(value: str, *names: str) -> Manifests:
    return [config_map(name, data={"key": value}) for name in names]


OLD = maps("old", "a", "b", "c")

#: name → (what the stopped worker is about to do, where it stops, the digest it works on, the one that follows)
CASES: dict[str, tuple[dict[str, Any], Manifests, Manifests]] = {
    "changing, before the guard": (
        {"point": "before guard", "path": "configmaps/", "nth": 2},
        maps("new", "a", "b", "c"),
        maps("newer", "a", "b", "c"),
    ),
    "changing, after the guard": (
        {"point": "before send", "path": "configmaps/b"},
        maps("new", "a", "b", "c"),
        maps("newer", "a", "b", "c"),
    ),
    "changing, after the guard, to what is taken back": (
        {"point": "before send", "path": "configmaps/b"},
        maps("new", "a", "b", "c"),
        OLD,
    ),
    "creating, after the guard": (
        {"point": "before send", "path": "configmaps/d"},
        [*OLD, *maps("new", "d")],
        [*OLD, *maps("newer", "d")],
    ),
    "deleting, after the guard": (
        {"point": "before send", "path": "configmaps/c"},
        maps("old", "a", "b"),
        OLD,
    ),
    "taking the parent, before anything is written": (
        {"point": "after begin", "step": "apply"},
        maps("new", "a", "b", "c"),
        maps("newer", "a", "b", "c"),
    ),
}


def stopped_and_outrun(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], case: tuple[dict[str, Any], Manifests, Manifests]
) -> tuple[str, str, int]:
    """(application, namespace, audit position after the successor), the stopped worker having told that it is too late.

    It lives: a tick that it has taken by now is its to answer.
    """
    fleet, _ = place
    plan, working, following = case
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    steady = worker()
    digest = fleet.push(app, OLD).digest
    fleet.application(app, namespace=namespace)
    at_rest(fleet, app, digest)
    steady.kill()

    digest = fleet.push(app, working).digest
    sleeper = worker({"do": "stop", **plan})
    fleet.request(app)
    wait_for(lambda: sleeper.stopped, timeout=120, what=f"the worker to stop at {plan}")
    other = worker()
    at_rest(fleet, app, digest)
    digest = fleet.push(app, following).digest
    fleet.request(app)
    at_rest(fleet, app, digest)

    position, said = cluster.audit_position(), len(sleeper.log.read_text())
    sleeper.resume()
    wait_for(lambda: "lost its lock" in sleeper.log.read_text()[said:], what="the sleeper to notice")
    assert other.alive
    return app, namespace, position


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES.items()])
def test_nothing_is_written_after_waking_up(
    place: Place,
    cluster: Cluster,
    worker: Callable[..., Worker],
    case: tuple[dict[str, Any], Manifests, Manifests],
) -> None:
    fleet, _ = place
    app, namespace, position = stopped_and_outrun(place, cluster, worker, case)
    place[1].end()  # whatever a worker was still about to do
    late = fleet.writes(app, since=position, parents=True)
    assert words(kept(late)) == []
    assert stale_writes(fleet, app) == []
    for manifest in case[2]:
        live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/{manifest['metadata']['name']}")
        assert live is not None
        assert live["data"] == manifest["data"]


def test_what_comes_to_life_again_is_pruned_at_once(
    place: Place, cluster: Cluster, worker: Callable[..., Worker]
) -> None:
    """The one write that no precondition can stop: to create what the successor has created and pruned meanwhile.

    Kubernetes knows no "create only if nothing was here since". The sleeper asks for a look when it wakes up.
    """
    fleet, _ = place
    case = ({"point": "before send", "path": "configmaps/d"}, [*OLD, *maps("new", "d")], OLD)
    app, namespace, position = stopped_and_outrun(place, cluster, worker, case)
    path = f"/api/v1/namespaces/{namespace}/configmaps/d"
    wait_for(lambda: fleet.get(path) is None, what="d to be pruned")
    deed, undone = kept(fleet.writes(app, since=position))
    assert words([deed, undone]) == [f"patch configmaps {namespace}/d", f"delete configmaps {namespace}/d"]
    assert execution(deed)[1] < execution(undone)[1]
