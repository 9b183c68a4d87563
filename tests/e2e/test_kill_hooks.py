"""A worker is killed while hooks run, while they are deleted, and while a failed sync runs its own.

Each object is made once in a run, and what is deleted by policy is not taken for deleted by somebody else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from breaking import at_rest, breakable, created, kept, new_namespace, stale_writes
from fleet import Fleet, config_map, words
from hooking import hook, hooks_of
from nursery import Nursery, Worker
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

Place = tuple[Fleet, Nursery]

GENERATED = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "gen-"}}


def bundle() -> list[dict[str, Any]]:
    return [
        hook("PreSync", {**GENERATED, "metadata": dict(GENERATED["metadata"])}),
        hook("PreSync", config_map("helper"), policy="HookSucceeded"),
        config_map("web"),
        hook("PostSync", config_map("done")),
    ]


#: stages: PreSync, its clean-up, Sync, PostSync
POINTS: dict[str, dict[str, Any]] = {
    "created, answer not seen": {"point": "after send", "path": "configmaps/gen-"},
    "created, results not kept": {"point": "before record"},
    "created, not advanced": {"point": "before advance", "step": "apply:0"},
    "before its policy": {"point": "before send", "path": "configmaps/helper", "nth": 2},
    "deleted by its policy, answer not seen": {"point": "after send", "path": "configmaps/helper", "nth": 2},
    "deleted by its policy, not advanced": {"point": "before advance", "step": "apply:1"},
    "all through, not noted": {"point": "before shrink"},
    "noted, not ended": {"point": "after shrink"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Place]:
    with breakable(tmp_path_factory.mktemp("hooks"), registry, cluster, lock_ttl=1.2, lease=1.2) as made:
        yield made


@pytest.fixture
def worker(place: Place) -> Iterator[Callable[..., Worker]]:
    """Starts workers of one test; none is left for the next."""
    yield place[1].worker
    place[1].end()


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in POINTS.items()])
def test_killed_while_hooks_run(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """Field cases c1, c5, c6: exactly one object for each hook, and its policy acts once."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    digest = fleet.push(app, bundle()).digest
    doomed = worker({"do": "kill", **plan})
    fleet.application(app, namespace=namespace)
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die at {plan}")
    worker()
    at_rest(fleet, app, digest)

    (entry,) = fleet.history(app)
    assert entry["phase"] == "Succeeded"
    [generated] = [name for _, name in hooks_of(entry) if "/gen-" in name]
    assert set(hooks_of(entry).values()) == {"created"}
    assert entry["hooks"] == 3
    writes = kept(fleet.writes(app))
    expected = [generated.removeprefix(f"ConfigMap {namespace}/"), "done", "helper", "web"]
    assert created(writes) == [f"patch configmaps {namespace}/{name}" for name in sorted(expected)]
    deleted = [text for text in words(writes) if text.startswith("delete")]
    assert deleted == [f"delete configmaps {namespace}/helper"]
    assert stale_writes(fleet, app) == []
    found = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/app-{app}")
    assert found is not None
    assert found["metadata"]["annotations"]["fleetbeat.dev/hooks"] == digest


def test_every_message_twice(place: Place, cluster: Cluster, worker: Callable[..., Worker]) -> None:
    """Two workers at work at the same time on the same steps."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    digest = fleet.push(app, bundle()).digest
    worker({"do": "twice"})
    worker({"do": "twice"})
    fleet.application(app, namespace=namespace)
    at_rest(fleet, app, digest)
    writes = kept(fleet.writes(app))
    assert len(created(writes)) == 4, words(writes)
    assert sum(text.startswith("delete") for text in words(writes)) == 1


FAILING: dict[str, dict[str, Any]] = {
    "failed, not advanced": {"point": "before advance", "step": "apply:0"},
    "before what deletes hooks": {"point": "before send", "path": "configmaps/cleared", "nth": 2},
    "before the hook for it": {"point": "before send", "path": "configmaps/alarm"},
    "the hook made, results not kept": {"point": "after send", "path": "configmaps/alarm"},
    "the hook done, not advanced": {"point": "before advance", "step": "apply:2"},
    "not ended": {"point": "before finish"},
}


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in FAILING.items()])
def test_killed_while_a_sync_fails(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """The first error is told, and what runs for a failed sync has run once."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    never = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "never"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    cleared = hook("Sync", config_map("cleared"), policy="HookFailed")
    fleet.push(app, [never, cleared, hook("SyncFail", config_map("alarm"))])
    doomed = worker({"do": "kill", **plan})
    fleet.application(app, namespace=namespace, timeout="1s", retry={"limit": 0})
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die at {plan}")
    worker()
    entry = fleet.wait_run(app, phase="Failed")
    assert entry["error"] == "HealthCheckTimeout"
    assert "SyncFail:" not in entry["message"]
    assert hooks_of(entry) == {
        ("Sync", f"ConfigMap {namespace}/cleared"): "created",
        ("SyncFail", f"ConfigMap {namespace}/alarm"): "created",
    }
    writes = words(kept(fleet.writes(app)))
    assert sorted(text for text in writes if "configmaps" in text) == [
        f"delete configmaps {namespace}/cleared",
        f"patch configmaps {namespace}/alarm",
        f"patch configmaps {namespace}/cleared",
    ]
