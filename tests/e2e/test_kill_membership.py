"""A worker dies in the middle of a sync that brings new kinds into a new namespace, and that bundle is never completed.

The next digest wants none of it. Nothing ours is forgotten: the ApplySet parent lists every place where something of
ours is, at each moment, so it all goes. Nothing foreign is touched, whatever labels it carries.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from breaking import at_rest, breakable, kept, new_namespace, stale_writes
from fleet import Fleet, config_map, in_wave, words
from nursery import Nursery, Worker
from people import Hands
from waiting import wait_for

from fleetbeat.decisions.inventory import (
    ADDITIONAL_NAMESPACES,
    CONTAINS_GROUP_KINDS,
    PART_OF,
    applyset_id,
    parent_name,
    parse_group_kinds,
)
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "serviceaccounts": "ServiceAccount"}

#: while what is new is being created, in waves 0 and 5
GROWING: dict[str, dict[str, Any]] = {
    "parent not grown": {"point": "before advance", "step": "diff"},
    "parent grown, nothing applied": {"point": "after take"},
    "first write not sent": {"point": "before send", "path": "new-", "nth": 1},
    "in the middle of a wave": {"point": "before send", "path": "new-", "nth": 2},
    "written, answer not seen": {"point": "after send", "path": "new-", "nth": 2},
    "written, results not kept": {"point": "before record"},
    "between two waves": {"point": "after advance", "step": "apply"},
    "in the middle of the second wave": {"point": "before send", "path": "new-late", "nth": 2},
}

#: while it is pruned again
SHRINKING: dict[str, dict[str, Any]] = {
    "between two deletions": {"point": "before send", "path": "new-", "nth": 2},
    "deleted, answer not seen": {"point": "after send", "path": "new-", "nth": 3},
    "deleted, results not kept": {"point": "before record"},
    "deleted, parent not shrunk": {"point": "before shrink"},
    "parent shrunk, not ended": {"point": "after shrink"},
}


class Scene(NamedTuple):
    fleet: Fleet
    nursery: Nursery
    cluster: Cluster

    def members(self, app: str, *namespaces: str) -> dict[str, str]:
        """``{"Secret shop/key": resourceVersion}`` of what Fleetbeat applied for the application."""
        selector = f"labelSelector={PART_OF}%3D{applyset_id(parent_name(app), 'fleetbeat')}"
        found = {}
        for namespace in namespaces:
            for plural, kind in KINDS.items():
                body = self.fleet.get(f"/api/v1/namespaces/{namespace}/{plural}?{selector}")
                assert body is not None
                for item in body["items"]:
                    if any(entry["manager"] == "fleetbeat" for entry in item["metadata"]["managedFields"]):
                        found[f"{kind} {namespace}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
        return found

    def listed(self, app: str) -> tuple[frozenset[str], frozenset[str]]:
        """Kinds and namespaces the parent names, its own namespace left out."""
        parent = self.fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}")
        assert parent is not None
        notes = parent["metadata"]["annotations"]
        return parse_group_kinds(notes[CONTAINS_GROUP_KINDS]), parse_group_kinds(notes.get(ADDITIONAL_NAMESPACES, ""))

    def assert_nothing_is_forgotten(self, app: str, *namespaces: str) -> None:
        kinds, places = self.listed(app)
        for member in self.members(app, *namespaces):
            kind, where = member.split()
            assert kind in kinds, f"{member} is ours, and the parent lists only {sorted(kinds)}"
            assert where.partition("/")[0] in places, f"{member} is ours, and the parent lists only {sorted(places)}"


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Scene]:
    with breakable(tmp_path_factory.mktemp("membership"), registry, cluster, lock_ttl=1.2, lease=1.2) as made:
        yield Scene(*made, cluster)


@pytest.fixture
def worker(scene: Scene) -> Iterator[Callable[..., Worker]]:
    """Starts workers of one test; none is left for the next."""
    yield scene.nursery.worker
    scene.nursery.end()


def small(value: str) -> list[dict[str, Any]]:
    return [in_wave(0, config_map("a", data={"key": value})), in_wave(5, config_map("b", data={"key": value}))]


def grown(value: str, other: str) -> list[dict[str, Any]]:
    """With two kinds more, in another namespace too."""
    return [
        *small(value),
        in_wave(0, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "new-robot"}}),
        in_wave(0, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new-key", "namespace": other}}),
        in_wave(0, config_map("new-early", other)),
        in_wave(5, config_map("new-late-1", other)),
        in_wave(5, {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "new-late-2"}}),
    ]


def strangers(cluster: Cluster, app: str, home: str, other: str) -> dict[str, str]:
    """Path → resourceVersion of objects that are not ours: plain ones, another ApplySet's, a copy of our label.

    The copy is a ConfigMap at home, where the parent looks anyway: it lists what carries the label, whoever wrote it.
    """
    hands, found = Hands(cluster), {}
    elsewhere, copied = ({PART_OF: applyset_id(parent_name(name), "fleetbeat")} for name in ("somebody-else", app))
    wanted = [(f"{home}/configmaps", "copied", copied)]
    for namespace in (home, other):
        for plural in ("configmaps", "secrets"):
            wanted += [(f"{namespace}/{plural}", "plain", {}), (f"{namespace}/{plural}", "others", elsewhere)]
    for place, name, labels in wanted:
        path = f"/api/v1/namespaces/{place}"
        made = hands.create(path, {"metadata": {"name": name, "labels": labels}}, "some-operator")
        found[f"{path}/{name}"] = made["metadata"]["resourceVersion"]
    return found


def untouched(cluster: Cluster, found: dict[str, str]) -> bool:
    return all(cluster.request("GET", path)[1]["metadata"]["resourceVersion"] == at for path, at in found.items())


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in GROWING.items()])
def test_what_a_dead_worker_has_made_goes_with_the_next_digest(
    scene: Scene, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """Field case j6."""
    fleet = scene.fleet
    app, home, other = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster), new_namespace(cluster)
    digest = fleet.push(app, small("one")).digest
    steady = worker()
    fleet.application(app, namespace=home)
    at_rest(fleet, app, digest)
    steady.kill()
    foreign = strangers(cluster, app, home, other)

    fleet.push(app, grown("two", other))
    doomed = worker({"do": "kill", **plan})
    fleet.request(app)
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die at {plan}")
    scene.assert_nothing_is_forgotten(app, home, other)

    digest = fleet.push(app, small("three")).digest
    fleet.request(app)
    worker()
    at_rest(fleet, app, digest)
    assert scene.members(app, home, other).keys() == {f"ConfigMap {home}/a", f"ConfigMap {home}/b"}
    assert scene.listed(app) == ({"ConfigMap"}, {home})
    assert untouched(cluster, foreign)
    assert stale_writes(fleet, app) == []


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in SHRINKING.items()])
def test_killed_while_pruning_kinds_and_a_namespace(
    scene: Scene, cluster: Cluster, worker: Callable[..., Worker], plan: dict[str, Any]
) -> None:
    """Field case j6."""
    fleet = scene.fleet
    app, home, other = f"app-{uuid.uuid4().hex[:6]}", new_namespace(cluster), new_namespace(cluster)
    digest = fleet.push(app, grown("one", other)).digest
    steady = worker()
    fleet.application(app, namespace=home)
    at_rest(fleet, app, digest)
    steady.kill()
    foreign, before = strangers(cluster, app, home, other), scene.members(app, home, other)
    since = cluster.audit_position()

    digest = fleet.push(app, small("one")).digest
    doomed = worker({"do": "kill", **plan})
    fleet.request(app)
    wait_for(lambda: not doomed.alive, timeout=120, what=f"the worker to die at {plan}")
    scene.assert_nothing_is_forgotten(app, home, other)
    worker()
    at_rest(fleet, app, digest)

    staying = {f"ConfigMap {home}/a", f"ConfigMap {home}/b"}
    assert scene.members(app, home, other) == {member: before[member] for member in staying}
    assert scene.listed(app) == ({"ConfigMap"}, {home})
    assert untouched(cluster, foreign)
    deleted = kept(fleet.writes(app, since=since))
    assert sorted(words(deleted)) == [
        f"delete configmaps {other}/new-early",
        f"delete configmaps {other}/new-late-1",
        *sorted((f"delete secrets {other}/new-key", f"delete secrets {home}/new-late-2")),
        f"delete serviceaccounts {home}/new-robot",
    ]
    assert stale_writes(fleet, app) == []
