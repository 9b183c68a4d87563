"""`fleetbeat watch`: what somebody changes in a cluster is healed at once, not at the next tick.

Every application here has an interval of an hour: whatever is healed was noticed by the watch.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fleet import Fleet, config_map, outcomes, words
from people import Hands
from waiting import wait_for

from fleetbeat.clients.watch_lease import watchers
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import Process

Body = dict[str, Any]


@contextmanager
def watching(fleet: Fleet, number: int = 1, **env: str) -> Iterator[Process]:
    """A watch process of this installation. Every cluster has one when the block begins."""
    process = Process(
        f"watch-{number}",
        [sys.executable, "-m", "scheduler.watch"],
        log=fleet.folder / f"watch-{number}.log",
        env={**fleet.env, **env},
    )
    process.start()
    try:
        wait_for(lambda: all(watchers(fleet.store, fleet.clusters).values()), timeout=30, what="the watch to begin")
        yield process
    finally:
        process.stop(grace=10)  # in good order: its leases are free for the next test


#: nothing here makes a Deployment available or gives an Ingress an address
NO_WAIT = {"argocd.argoproj.io/ignore-healthcheck": "true"}


def kinds(ns: str) -> list[Body]:
    """One small object of twelve kinds."""

    def named(api: str, kind: str, **more: Any) -> Body:
        metadata = {"name": kind.lower(), "namespace": ns, "labels": {"team": "web"}, "annotations": NO_WAIT}
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}

    pod = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}}
    selector = {"matchLabels": {"app": "x"}}
    backend = {"service": {"name": "x", "port": {"number": 80}}}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role"}
    job = {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none:1"}]}}}}
    return [
        config_map("configmap", ns, {"greeting": "hello"}, labels={"team": "web"}),
        named("v1", "Secret", stringData={"password": "hunter2"}),
        named("v1", "Service", spec={"ports": [{"port": 80}], "selector": {"app": "x"}}),
        named("v1", "ServiceAccount"),
        named("v1", "LimitRange", spec={"limits": [{"type": "Pod", "max": {"cpu": "4"}}]}),
        named("apps/v1", "Deployment", spec={"replicas": 1, "selector": selector, "template": pod}),
        named("batch/v1", "CronJob", spec={"schedule": "0 3 * * *", "jobTemplate": job, "suspend": True}),
        named("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 0, "selector": selector}),
        named("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": selector}),
        named("networking.k8s.io/v1", "Ingress", spec={"defaultBackend": backend}),
        named("rbac.authorization.k8s.io/v1", "Role", rules=rules),
        named("rbac.authorization.k8s.io/v1", "RoleBinding", roleRef=role, subjects=[]),
    ]


def path_of(cluster: Cluster, body: Body) -> str:
    group, _, version = body["apiVersion"].rpartition("/")
    plural = PLURALS.get(body["kind"], body["kind"].lower() + "s")
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{body['metadata']['namespace']}/{plural}/{body['metadata']['name']}"


PLURALS = {"NetworkPolicy": "networkpolicies", "Ingress": "ingresses"}


@pytest.fixture
def team(fleet: Fleet, namespace: str) -> Iterator[tuple[Fleet, str, list[tuple[str, Body]]]]:
    """(fleet, application, [(path, body)]) with the twelve kinds in place, each of them watched."""
    app, bodies = fleet.name("twelve"), kinds(namespace)
    cluster = next(iter(fleet.clusters.values()))
    objects = [(path_of(cluster, body), body) for body in bodies]
    wanted = {path.split("/")[-2] for path, _ in objects}
    position = cluster.audit_position()
    with watching(fleet):
        fleet.push(app, bodies)
        fleet.application(app, namespace=namespace)
        fleet.wait_run(app, phase="Succeeded")

        def followed() -> bool:
            events = [event for event in cluster.audit(position) if event.get("userAgent", "").endswith(" watch")]
            return wanted <= {event["objectRef"]["resource"] for event in events if event["verb"] == "watch"}

        wait_for(followed, timeout=60, what="a watch of each kind", every=0.2)
        yield fleet, app, objects


def test_drift_of_twelve_kinds_is_healed_at_once_and_only_once(team: tuple[Fleet, str, list[tuple[str, Body]]]) -> None:
    """A label changed, a label removed, the object deleted: each is healed by one run that touches nothing else."""
    fleet, app, objects = team
    cluster = next(iter(fleet.clusters.values()))
    hands = Hands(cluster)

    def healed(path: str, uid: str = "") -> Callable[[], bool]:
        def look() -> bool:
            status, live = cluster.request("GET", path)
            return status == 200 and live["metadata"]["labels"].get("team") == "web" and live["metadata"]["uid"] != uid

        return look

    for path, _ in objects:
        uid = hands.get(path)["metadata"]["uid"]
        drifts: dict[str, Callable[[], object]] = {
            "label changed": lambda p=path: label(hands, p, "mine"),
            "label removed": lambda p=path: label(hands, p, None),
            "deleted": lambda p=path: hands.delete(p),
        }
        for what, act in drifts.items():
            drift = f"{path}: {what}"
            wait_for(lambda: not fleet.runs.look(app).run, what="the run before to end")
            known, position = {entry["run"] for entry in fleet.history(app)}, cluster.audit_position()
            act()
            wait_for(healed(path, uid if what == "deleted" else ""), timeout=30, what=f"{drift}: the heal", every=0.005)
            wait_for(lambda: not fleet.runs.look(app).run, what="the run to end")
            healing = [entry for entry in fleet.history(app) if entry["run"] not in known]
            assert [len(outcomes(entry)) for entry in healing if outcomes(entry)] == [1], (drift, healing)
            written = words(fleet.writes(app, since=position))
            assert len(set(written)) == 1, (drift, written)
            assert len(written) <= 2, (drift, written)  # the owners of its fields are mended first, where they changed


def label(hands: Hands, path: str, value: str | None) -> None:
    hands.merge(path, {"metadata": {"labels": {"team": value}}}, "kubectl-label")


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


def edit_and_wait(fleet: Fleet, path: str, *, timeout: float = 10) -> None:
    field = next(_next)
    Hands(next(iter(fleet.clusters.values()))).merge(path, {"data": {field: "hacked"}})
    wait_for(lambda: data(fleet, path).get(field) == "hello", timeout=timeout, what=f"the heal of {field}")


def data(fleet: Fleet, path: str) -> dict[str, str]:
    return dict((fleet.get(path) or {}).get("data") or {})


def test_another_process_takes_over_from_a_dead_one(shop: tuple[Fleet, str, str]) -> None:
    fleet, _, path = shop
    short = {"FLEETBEAT_WATCH_LEASE": "2"}
    with watching(fleet, 1, **short) as first, watching(fleet, 2, **short):
        leader = watchers(fleet.store, fleet.clusters)
        assert all(token.endswith(f":{first.pid}") for token in leader.values())
        heals(fleet, path)
        first.kill()
        wait_for(
            lambda: (
                all(watchers(fleet.store, fleet.clusters).values()) and watchers(fleet.store, fleet.clusters) != leader
            ),
            what="the other process to take the lease",
        )
        wait_for(lambda: "watching" in (fleet.folder / "watch-2.log").read_text(), what="it to say so")
        heals(fleet, path)


def heals(fleet: Fleet, path: str) -> None:
    """The watch has just begun: an edit made before its first list would be for the tick."""

    def healed() -> bool:
        edit_and_wait(fleet, path, timeout=3)
        return True

    wait_for(healed, timeout=30, what="an edit that is healed at once")


def test_a_stopped_watch_gives_its_clusters_back(shop: tuple[Fleet, str, str]) -> None:
    fleet, _, _ = shop
    with watching(fleet) as process:
        process.stop(grace=10)
        assert not any(watchers(fleet.store, fleet.clusters).values())
        assert process.exit_code == 0


def test_redis_back_after_a_restart_finds_the_watch_alive(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet()
    app = fleet.name("shop")
    fleet.push(app, [config_map("web", namespace, FIELDS)])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    with watching(fleet):
        path = f"/api/v1/namespaces/{namespace}/configmaps/web"
        heals(fleet, path)
        fleet.redis.kill()
        fleet.redis.start()
        heals(fleet, path)


def test_a_storm_on_one_application_leaves_the_others_their_ticks(shop: tuple[Fleet, str, str], namespace: str) -> None:
    fleet, app, path = shop
    other = fleet.name("calm")
    fleet.push(other, [config_map("calm", namespace, FIELDS)])
    fleet.application(other, namespace=namespace)
    fleet.wait_run(other, phase="Succeeded")
    hands = Hands(next(iter(fleet.clusters.values())))
    calm = f"/api/v1/namespaces/{namespace}/configmaps/calm"
    with watching(fleet):
        heals(fleet, calm)
        stop = threading.Event()

        def storm() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                hands.merge(path, {"data": {"field-00": f"hacked {number}"}})
                stop.wait(0.005)  # 200 edits a second

        thread = threading.Thread(target=storm)
        thread.start()
        try:
            for _ in range(3):
                edit_and_wait(fleet, calm, timeout=30)
        finally:
            stop.set()
            thread.join()
        fleet.sync(app)  # the field may have been left to whoever rewrites it all the time; a person has it put back
        assert data(fleet, path) == FIELDS
