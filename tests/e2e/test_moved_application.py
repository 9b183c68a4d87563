"""An application whose destination changes: nothing that was decided on one cluster is carried out on another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from breaking import at_rest
from fleet import Fleet, config_map, in_wave, outcomes
from nursery import Nursery, Worker
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

#: A worker that is stopped keeps its lock for as long as a test takes.
LOCKS = {"lock_ttl": 600.0, "lease": 30.0}


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Fleet]:
    """Without workers."""
    folder = tmp_path_factory.mktemp("two")
    with (
        Cluster(name="second") as second,
        RedisServer() as redis,
        Fleet(folder, redis, registry, [cluster, second], workers=0, **LOCKS) as fleet,
    ):
        yield fleet


@pytest.fixture
def worker(two: Fleet) -> Iterator[Callable[..., Worker]]:
    """Starts workers of one test."""
    nursery = Nursery(two.env, two.folder)
    yield nursery.worker
    nursery.end()


@pytest.fixture
def namespace(two: Fleet, namespace: str) -> str:
    assert two.clusters["second"].request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    return namespace


def test_self_heal_off_does_not_take_a_move_for_a_deletion(
    two: Fleet, namespace: str, worker: Callable[..., Worker]
) -> None:
    app = two.name("moving")
    worker()
    two.push(app, [config_map("web", namespace)])
    two.application(app, cluster="test", selfHeal=False)
    two.wait_run(app, phase="Succeeded")
    two.application(app, cluster="second", selfHeal=False)
    entry = two.wait_run(app, since=1)
    assert entry["trigger"] == "Spec"
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "created"}
    assert two.get(f"/api/v1/namespaces/{namespace}/configmaps/web", "second")


def test_a_plan_is_not_carried_out_on_another_cluster(
    two: Fleet, namespace: str, worker: Callable[..., Worker]
) -> None:
    """The destination changes while the first wave is written; the plan had found an object as wanted elsewhere."""
    app = two.name("moving")
    first = [in_wave(-1, config_map(f"first-{number}", namespace)) for number in range(3)]
    kept, late = config_map("kept", namespace), in_wave(1, config_map("late", namespace))
    two.push(app, [kept])
    two.application(app, cluster="test")
    slow = worker({"point": "before send", "path": "configmaps/first-", "nth": 2, "do": "stop"})
    two.sync(app)
    revision = two.push(app, [kept, *first, late])
    since = two.clusters["second"].audit_position()
    two.request(app)
    wait_for(lambda: slow.stopped, what="the worker to stop in the first wave")
    assert two.runs.look(app).run["step"] == "apply:0"
    two.application(app, cluster="second")
    wait_for(lambda: two.catalogs.application(app)[0].destination.cluster == "second", what="the move in force")  # type: ignore[index]
    slow.resume()
    at_rest(two, app, revision.digest)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert all(two.get(f"{path}/{name}", "second") for name in ("kept", "late"))
    runs = {entry["run"]: entry["phase"] for entry in two.history(app)}
    writers = {agent.split(" run/")[1].split(" ")[0] for agent in agents(two, app, since)}
    assert {runs[run] for run in writers} == {"Succeeded"}
    assert "Superseded" in runs.values()


def agents(fleet: Fleet, app: str, since: int) -> set[str]:
    return {event["userAgent"] for event in fleet.writes(app, cluster="second", since=since)}
