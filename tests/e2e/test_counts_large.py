"""What one application of 200 objects costs, counted in the API server's audit log: exact numbers."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from fleet import PATIENT, Fleet, config_map, in_wave, outcomes
from people import Hands

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

BIG = 200
KINDS = 4  # of ``big``


def big(namespace: str, *, waves: int = 1, changed: int | None = None) -> list[dict[str, Any]]:
    """200 objects of four kinds, in as many waves. ``changed``: number of a ConfigMap with another value."""
    found: list[dict[str, Any]] = []
    for number in range(BIG):
        metadata: dict[str, Any] = {"name": f"o-{number:03}", "namespace": namespace}
        match number % 20:
            case 0:
                body: dict[str, Any] = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
            case 1:
                body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"token": "x"}}
            case 2:
                spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
                body = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
            case _:
                body = config_map(f"o-{number:03}", namespace, {"value": "two" if number == changed else "one"})
        found.append(in_wave(number * waves // BIG, body))
    return found


def verbs(fleet: Fleet, app: str, since: int) -> tuple[Counter[str], Counter[str]]:
    """Fleetbeat's requests for one application by verb ("dry-run" apart): to its objects, and to everything else."""
    objects: Counter[str] = Counter()
    beside: Counter[str] = Counter()
    for event in next(iter(fleet.clusters.values())).audit(since):
        if f"app/{app}" not in event.get("userAgent", "").split():
            continue
        if "continue=" in event["requestURI"]:
            continue  # further pages of the sweep are about objects that other tests have left in this cluster
        reference = event.get("objectRef") or {}
        ours = not reference or "fleetbeat" in (reference.get("namespace"), reference.get("name"))
        verb = "dry-run" if "dryRun=All" in event["requestURI"] else event["verb"]
        if ours:
            beside[f"{verb} {reference.get('resource') or event['requestURI'].partition('?')[0]}"] += 1
        else:
            objects[verb] += 1
    return objects, beside


@contextmanager
def roomy_namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace that is empty again afterwards: other tests count the pages of their lists."""
    namespace = f"t-{uuid.uuid4().hex[:10]}"
    assert cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})[0] == 201
    yield namespace
    for plural in ("configmaps", "secrets", "serviceaccounts", "services"):
        status, answer = cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/{plural}")
        assert status == 200, answer


@pytest.fixture
def roomy(cluster: Cluster) -> Iterator[str]:
    with roomy_namespace(cluster) as namespace:
        yield namespace


class Large(NamedTuple):
    fleet: Fleet
    app: str
    namespace: str


@pytest.mark.parametrize(
    ("waves", "parent"),
    [
        pytest.param(1, {"get configmaps": 1, "create configmaps": 1}, id="no waves: 406 requests"),
        # A wave takes the parent anew: it is another execution, perhaps of another worker.
        pytest.param(
            3, {"get configmaps": 3, "create configmaps": 1, "update configmaps": 2}, id="three waves: 410 requests"
        ),
    ],
)
def test_a_first_sync_of_200_objects(
    roomy: str, make_fleet: Callable[..., Fleet], cluster: Cluster, waves: int, parent: dict[str, int]
) -> None:
    """At most 2N + 15 requests in all: a dry-run and an apply for each object; beside them discovery and the parent."""
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "fleetbeat"}})  # made at the very first sync
    fleet = make_fleet(workers=1, **PATIENT)
    app = fleet.name("big")
    fleet.push(app, big(roomy, waves=waves))
    start = cluster.audit_position()
    fleet.application(app, namespace=roomy)
    assert fleet.wait_run(app, phase="Succeeded")["counts"] == {"created": BIG}
    objects, beside = verbs(fleet, app, start)
    assert objects == {"dry-run": BIG, "patch": BIG}
    assert beside == {"get /api": 1, "get /apis": 1, "get /version": 1, "patch events": 1, **parent}
    assert (objects + beside).total() <= 2 * BIG + 15


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Large]:
    """An application of 200 objects in sync."""
    with (
        roomy_namespace(cluster) as namespace,
        RedisServer() as redis,
        Fleet(tmp_path_factory.mktemp("large"), redis, registry, [cluster], **PATIENT) as fleet,
    ):
        app = fleet.name("large")
        fleet.push(app, big(namespace))
        fleet.application(app, namespace=namespace)
        fleet.wait_run(app, phase="Succeeded")
        yield Large(fleet, app, namespace)


def test_one_changed_object_of_200(large: Large, cluster: Cluster) -> None:
    """Beside the comparison's LIST per kind: one read, one dry-run, one apply."""
    fleet, app, namespace = large
    start = cluster.audit_position()
    digest = fleet.push(app, big(namespace, changed=33)).digest
    fleet.ring(app)
    entry = fleet.wait_run(app, digest=digest, phase="Succeeded")
    assert entry["counts"] == {"configured": 1, "unchanged": BIG - 1}
    assert verbs(fleet, app, start)[0] == {"list": KINDS, "get": 1, "dry-run": 1, "patch": 1}


def test_one_drifted_object_of_200(large: Large, cluster: Cluster) -> None:
    """The same, and the LIST per kind of the look that found it."""
    fleet, app, namespace = large
    runs = fleet.runs_ended(app)
    Hands(cluster).merge(f"/api/v1/namespaces/{namespace}/configmaps/o-055", {"data": {"value": "edited"}})
    start = cluster.audit_position()
    fleet.ring(app)
    entry = fleet.wait_run(app, phase="Succeeded", since=runs)
    assert outcomes(entry)[f"ConfigMap {namespace}/o-055"] == "configured"
    assert entry["counts"] == {"configured": 1, "unchanged": BIG - 1}
    assert verbs(fleet, app, start)[0] == {"list": 2 * KINDS, "get": 1, "dry-run": 1, "patch": 1}


def test_one_deleted_object_of_200(large: Large, cluster: Cluster) -> None:
    """An absent object needs no read: the dry-run's answer says that it would be created."""
    fleet, app, namespace = large
    runs = fleet.runs_ended(app)
    assert cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/o-077")[0] == 200
    start = cluster.audit_position()
    fleet.ring(app)
    entry = fleet.wait_run(app, phase="Succeeded", since=runs)
    assert entry["counts"] == {"created": 1, "unchanged": BIG - 1}
    assert verbs(fleet, app, start)[0] == {"list": 2 * KINDS, "dry-run": 1, "patch": 1}
