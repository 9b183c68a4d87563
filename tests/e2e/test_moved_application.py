"""An application whose destination changes: nothing that was decided on one cluster is carried out on another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from breaking import at_rest
from fleet import Fleet, config_map, in_wave, outcomes
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("two")
    with (
        Cluster(name="second") as second,
        RedisServer() as redis,
        Fleet(folder, redis, registry, [cluster, second], workers=1, FLEETBEAT_STEPS_PARALLEL="1") as fleet,
    ):
        yield fleet


@pytest.fixture
def namespace(two: Fleet, namespace: str) -> str:
    assert two.clusters["second"].request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    return namespace


def test_self_heal_off_does_not_take_a_move_for_a_deletion(two: Fleet, namespace: str) -> None:
    app = two.name("moving")
    two.push(app, [config_map("web", namespace)])
    two.application(app, cluster="test", selfHeal=False)
    two.wait_run(app, phase="Succeeded")
    two.application(app, cluster="second", selfHeal=False)
    entry = two.wait_run(app, since=1)
    assert entry["trigger"] == "Spec"
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "created"}
    assert two.get(f"/api/v1/namespaces/{namespace}/configmaps/web", "second")


def test_a_plan_is_not_carried_out_on_another_cluster(two: Fleet, namespace: str) -> None:
    """The destination changes while the first wave is written; the plan had found most objects as wanted elsewhere."""
    app = two.name("moving")
    first = [in_wave(-1, config_map(f"first-{number}", namespace)) for number in range(700)]  # seconds of one wave
    kept, late = config_map("kept", namespace), in_wave(1, config_map("late", namespace))
    two.push(app, [kept])
    two.application(app, cluster="test")
    two.sync(app)
    revision = two.push(app, [kept, *first, late])
    since = two.clusters["second"].audit_position()
    two.request(app)
    wait_for(lambda: two.runs.look(app).run.get("step") == "apply:0", timeout=30, every=0.002)
    two.application(app, cluster="second")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    wait_for(lambda: two.get(f"{path}/kept", "second") and two.get(f"{path}/late", "second"), timeout=90, every=0.1)
    at_rest(two, app, revision.digest)
    runs = {entry["run"]: entry["phase"] for entry in two.history(app)}
    writers = {agent.split(" run/")[1].split(" ")[0] for agent in agents(two, app, since)}
    assert {runs[run] for run in writers} == {"Succeeded"}
    assert "Superseded" in runs.values()


def agents(fleet: Fleet, app: str, since: int) -> set[str]:
    return {event["userAgent"] for event in fleet.writes(app, cluster="second", since=since)}
