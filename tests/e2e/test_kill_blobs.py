"""What a step left for the next one is gone: the run goes back to the pull and comes to the same end."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from breaking import at_rest, breakable, created, kept, new_namespace, stale_writes
from fleet import Fleet, config_map, in_wave, words
from nursery import Nursery
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

Place = tuple[Fleet, Nursery]
BUNDLE = [in_wave(0, config_map("first")), in_wave(5, config_map("second"))]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Place]:
    with breakable(tmp_path_factory.mktemp("blobs"), registry, cluster, lock_ttl=1.2, lease=1.2) as made:
        yield made


@pytest.fixture
def forget(place: Place) -> Callable[[], None]:
    """Deletes every blob, as an impatient administrator or an evicting server would."""
    redis = place[0].store.redis

    def now() -> None:
        for key in redis.scan_iter(match=f"{keys.PREFIX}blob:*"):
            redis.delete(key)

    return now


@pytest.mark.parametrize("step", ["pull", "render", "diff", "apply:0", "apply:1"])
def test_blobs_are_lost_after(place: Place, cluster: Cluster, forget: Callable[[], None], step: str) -> None:
    fleet, nursery = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    digest = fleet.push(app, BUNDLE).digest
    doomed = nursery.worker({"point": "after advance", "step": step, "do": "kill"})
    fleet.application(app, namespace=namespace)
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die after {step}")
    forget()
    worker = nursery.worker()
    at_rest(fleet, app, digest)
    worker.kill()
    each = [f"patch configmaps {namespace}/{name}" for name in ("first", "second")]
    assert created(fleet.writes(app)) == sorted(words(kept(fleet.writes(app)))) == each
    assert stale_writes(fleet, app) == []
    assert [entry["phase"] for entry in fleet.history(app)] == ["Succeeded"]
    assert fleet.state(app)["objects"] == "2"


def test_the_inventory_is_lost(place: Place, cluster: Cluster, forget: Callable[[], None]) -> None:
    """What was applied is not remembered, so it is compared anew, and nothing is written or pruned."""
    fleet, nursery = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    worker = nursery.worker()
    digest = fleet.push(app, BUNDLE).digest
    fleet.application(app, namespace=namespace)
    at_rest(fleet, app, digest)
    since = cluster.audit_position()
    forget()
    fleet.ring(app)
    wait_for(lambda: len(fleet.history(app)) == 2, what="everything to be compared anew")
    at_rest(fleet, app, digest)
    assert fleet.runs.look(app).state["objects"] == "2"
    newest = fleet.history(app)[0]
    assert (newest["phase"], newest["trigger"]) == ("Succeeded", "Drift")
    assert words(kept(fleet.writes(app, since=since))) == []
    worker.kill()
