"""A worker is killed at one chosen instruction; a plain one goes on from the record. Every object is made once.

The application has two waves, several objects in each, and objects of an earlier digest to prune.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from breaking import at_rest, breakable, created, kept, new_namespace, stale_writes, versions
from fleet import Fleet, config_map, in_wave, outcomes, words
from nursery import Nursery, Worker
from people import Hands
from waiting import wait_for

from fleetbeat.clients.drift import Drifts
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

Place = tuple[Fleet, Nursery]

NAMES = ("a0", "a1", "a2", "b0", "b1", "b2")
FIRST = [in_wave(0, config_map(f"a{n}")) for n in range(3)] + [in_wave(5, config_map(f"b{n}")) for n in range(3)]
SECOND = [in_wave(0, config_map(f"a{n}", data={"key": "second"})) for n in range(3)] + [in_wave(5, config_map("b0"))]
#: the only one of its kind: when it goes the parent has to shrink
ACCOUNT = in_wave(5, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})

#: name → plan of the saboteur while the first digest is synced (everything is created)
CREATING: dict[str, dict[str, Any]] = {
    "reconcile: run written, not published": {"point": "after start"},
    "pull: turn taken": {"point": "after begin", "step": "pull"},
    "pull: worked, not advanced": {"point": "before advance", "step": "pull"},
    "pull: advanced, not published": {"point": "after advance", "step": "pull"},
    "render: worked, not advanced": {"point": "before advance", "step": "render"},
    "diff: worked, not advanced": {"point": "before advance", "step": "diff"},
    "diff: advanced, not published": {"point": "after advance", "step": "diff"},
    "apply: parent grown, nothing written": {"point": "after take"},
    "apply: before the first write": {"point": "before send", "path": "configmaps", "nth": 1},
    "apply: between two writes of a wave": {"point": "before send", "path": "configmaps", "nth": 2},
    "apply: written, answer not seen": {"point": "after send", "path": "configmaps", "nth": 2},
    "apply: written, results not kept": {"point": "before record"},
    "apply: worked, not advanced": {"point": "before advance", "step": "apply"},
    "apply: advanced, not published": {"point": "after advance", "step": "apply"},
    "report: not ended": {"point": "before finish"},
    "report: ended, not acknowledged": {"point": "after finish"},
}

#: and while the second one is: three are changed, three pruned, one stays
CHANGING: dict[str, dict[str, Any]] = {
    "apply: between two changes": {"point": "before send", "path": "configmaps/a", "nth": 2},
    "apply: changed, results not kept": {"point": "before record"},
    "prune: between two deletions": {"point": "before send", "path": "configmaps/b", "nth": 2},
    "prune: deleted, answer not seen": {"point": "after send", "path": "configmaps/b", "nth": 2},
    "prune: deleted, parent not shrunk": {"point": "before shrink"},
    "prune: parent shrunk, not ended": {"point": "after shrink"},
}

#: and while an object is put back
HEALING: dict[str, dict[str, Any]] = {
    "apply: healed, answer not seen": {"point": "after send", "path": "configmaps/a"},
    "apply: healed, results not kept": {"point": "before record"},
    "report: healed, not ended": {"point": "before finish"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Place]:
    with breakable(tmp_path_factory.mktemp("points"), registry, cluster, lock_ttl=1.2, lease=1.2) as made:
        yield made


@pytest.fixture
def worker(place: Place) -> Iterator[Callable[..., Worker]]:
    """Starts workers of one test; none is left for the next."""
    yield place[1].worker
    place[1].end()


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in CREATING.items()])
def test_killed_while_creating(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """Field case j6."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    digest = fleet.push(app, FIRST).digest
    doomed = worker({"do": "kill", **plan})
    fleet.application(app, namespace=namespace)
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die at {plan}")
    worker()
    at_rest(fleet, app, digest)

    writes = fleet.writes(app)
    assert created(writes) == [f"patch configmaps {namespace}/{name}" for name in ("a0", "a1", "a2", "b0", "b1", "b2")]
    assert len(kept(writes)) == 6, words(writes)
    assert stale_writes(fleet, app) == []
    (entry,) = fleet.history(app)
    assert entry["phase"] == "Succeeded"
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "created" for name in NAMES}


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in CHANGING.items()])
def test_killed_while_changing_and_pruning(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """Field case j6."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    digest = fleet.push(app, [*FIRST, ACCOUNT]).digest
    steady = worker()
    fleet.application(app, namespace=namespace)
    at_rest(fleet, app, digest)
    steady.kill()
    before, since = versions(fleet, namespace), cluster.audit_position()

    digest = fleet.push(app, SECOND).digest
    doomed = worker({"do": "kill", **plan})
    fleet.request(app)
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die at {plan}")
    worker()
    at_rest(fleet, app, digest)

    after = versions(fleet, namespace)
    assert sorted(after) == ["a0", "a1", "a2", "b0"]
    assert after["b0"] == before["b0"]
    writes = kept(fleet.writes(app, since=since))
    assert sorted(words(writes)) == [
        *(f"delete configmaps {namespace}/{name}" for name in ("b1", "b2")),
        f"delete serviceaccounts {namespace}/robot",
        *(f"patch configmaps {namespace}/{name}" for name in ("a0", "a1", "a2")),
    ]
    assert stale_writes(fleet, app, since=since) == []
    entry, _ = fleet.history(app)
    assert entry["phase"] == "Succeeded"
    assert outcomes(entry) == {
        **{f"ConfigMap {namespace}/{name}": "configured" for name in ("a0", "a1", "a2")},
        **{f"ConfigMap {namespace}/{name}": "pruned" for name in ("b1", "b2")},
        f"ServiceAccount {namespace}/robot": "pruned",
    }
    parent = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/app-{app}")
    assert parent is not None
    assert parent["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"] == "ConfigMap"


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in HEALING.items()])
def test_killed_while_healing(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """What the drift ledger counts is exact, and it names the editor whoever told it in the end."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    digest = fleet.push(app, FIRST).digest
    steady = worker()
    fleet.application(app, namespace=namespace)
    at_rest(fleet, app, digest)
    steady.kill()
    path = f"/api/v1/namespaces/{namespace}/configmaps/a0"
    Hands(cluster).merge(path, {"data": {"key": "theirs"}}, "kubectl-edit")
    doomed = worker({"do": "kill", **plan})
    # Again and again, as a lease would: Redis may give the message to the connection of the one killed a moment ago.
    wait_for(lambda: fleet.ring(app) or not doomed.alive, every=1.0, timeout=120, what=f"the worker to die at {plan}")
    worker()
    wait_for(lambda: len(fleet.history(app)) == 2 and not fleet.runs.look(app).run, what="the heal")

    assert Hands(cluster).get(path)["data"] == {"key": "value"}
    ((key, field, row),) = Drifts(fleet.store).read(app).each
    assert (str(key), field, row.healed, row.since) == (f"ConfigMap {namespace}/a0", "data.key", 1, 0)
    assert row.by is not None
    assert (row.by.name, row.by.operation) == ("kubectl-edit", "Update")
    assert row.run == fleet.history(app)[0]["run"]


@pytest.mark.parametrize("point", ["before record", "before wait"])
def test_the_successor_waits_for_what_was_written_before_it(
    place: Place, cluster: Cluster, worker: Callable[..., Worker], point: str
) -> None:
    """A Deployment is written, its worker dies. It never becomes ready here, so the next wave must never come."""
    fleet, _ = place
    app, namespace = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
            },
        },
    }
    fleet.push(app, [in_wave(0, deployment), in_wave(5, config_map("late"))])
    doomed = worker({"do": "kill", "point": point})
    fleet.application(app, namespace=namespace)
    wait_for(lambda: not doomed.alive, timeout=120, what="the worker to die")
    worker()
    # The first wait is for the Deployment, the second tells that a look has found it not ready.
    wait_for(lambda: "is Progressing" in fleet.runs.look(app).run.get("message", ""), what="a look")
    assert words(kept(fleet.writes(app))) == [f"patch deployments {namespace}/web"]
    assert fleet.runs.look(app).run["step"] == "apply:0"
