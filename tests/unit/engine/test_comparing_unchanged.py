"""What has not moved costs neither a request nor a thread, however many objects there are."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.decisions.bypasses import Bypasses
from fleetbeat.decisions.changes import fingerprint
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.engine.compare import Comparer, Comparison
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Known
from fleetbeat.engine.weigh import Weigher
from fleetbeat.model import ApiResource, Application, Body, Destination, Manifest, ObjectId, Origin, Source
from fleetbeat.ports import Written

APPLICATION = Application("shop", Source("registry.example.com/shop"), Destination("local", "shop"))
OURS = "applyset-x-v1"
MANY = 1000


class Threads(ThreadPoolExecutor):
    """Counts what it is given to do."""

    def __init__(self) -> None:
        super().__init__(2)
        self.given = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.given += 1
        return super().submit(fn, *args, **kwargs)


class Cluster:
    """Holds what was applied; notes the requests."""

    name = "local"

    def __init__(self, live: dict[ObjectId, Body]) -> None:
        self.live = live
        self.asked: list[str] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    def get(self, resource: ApiResource, namespace: str, name: str) -> Body | None:
        self.asked.append(f"get {name}")
        return self.live.get(ObjectId(resource.group, resource.kind, namespace, name))

    def apply(self, resource: ApiResource, body: Body, **_: object) -> Written:
        name = body["metadata"]["name"]
        self.asked.append(f"dry-run {name}")
        there = self.live.get(ObjectId(resource.group, resource.kind, "shop", name))
        return Written({**(there or {}), **body}, created=there is None, audit_id="")


def manifest(number: int, value: str = "one") -> Manifest:
    name = f"settings-{number:04}"
    body: Body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "shop"},
        "data": {"key": value},
    }
    return Manifest(ObjectId("", "ConfigMap", "shop", name), "v1", body, Origin("a.yaml", number + 1, 1))


def applied(one: Manifest) -> Body:
    metadata = {**one.body["metadata"], "uid": one.id.name, "resourceVersion": "7", "labels": {PART_OF: OURS}}
    return {**one.body, "metadata": metadata}


def compared(
    before: list[Manifest], wanted: list[Manifest], *, moved: tuple[int, ...] = ()
) -> tuple[Comparison, list[str], int]:
    """The comparison, the requests it made, and how much was handed to threads. ``moved``: written by others since."""
    there = {one.id: applied(one) for one in before}
    cluster = Cluster(there)
    weigher = Weigher(cluster, APPLICATION, OURS)  # type: ignore[arg-type]
    known = {one.id: Known(weigher.hash(one), fingerprint(there[one.id]), "Healthy") for one in before}
    for number in moved:
        key = before[number].id
        known[key] = known[key]._replace(fingerprint=replace(known[key].fingerprint, resource_version="6"))
    with Threads() as threads:
        comparison = Comparer(
            cluster,  # type: ignore[arg-type]
            BUILTIN,
            weigher=weigher,
            judge=Judge(APPLICATION, cluster, BUILTIN),  # type: ignore[arg-type]
            live=cluster.live,
            known=known,
            bypasses=Bypasses.of(APPLICATION),
        ).compare(wanted, Requests(threads, 2))
        return comparison, cluster.asked, threads.given


def test_nothing_has_moved():
    objects = [manifest(number) for number in range(MANY)]
    comparison, asked, given = compared(objects, objects)
    assert (asked, given) == ([], 0)
    assert comparison.changes == ()
    assert [result.outcome for result in comparison.settled] == ["unchanged"] * MANY


def test_a_new_manifest_and_a_moved_object_are_asked_for_and_nothing_else():
    objects = [manifest(number) for number in range(MANY)]
    wanted = [*objects[:-1], manifest(MANY - 1, "two")]
    comparison, asked, given = compared(objects, wanted, moved=(3,))
    assert given == 2
    assert sorted(asked) == [
        "dry-run settings-0003",
        "dry-run settings-0999",
        "get settings-0003",
        "get settings-0999",
    ]
    assert [change.id.name for change in comparison.changes] == ["settings-0999"]
    assert list(comparison.verdicts) == [one.id for one in wanted]
