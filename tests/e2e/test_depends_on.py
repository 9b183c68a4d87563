"""``spec.dependsOn``: an application is written when those it depends on have theirs, and are healthy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fleet import Fleet, config_map
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]


def deployment(name: str, namespace: str) -> Body:
    """Nothing in the cluster without controllers ever makes it available: the tests play the controller."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def become_available(fleet: Fleet, namespace: str, name: str) -> None:
    cluster = next(iter(fleet.clusters.values()))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    live = wait_for(lambda: fleet.get(path), what=f"Deployment {name}")
    conditions = [
        {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
        {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
    ]
    status: Body = {"observedGeneration": live["metadata"]["generation"], "conditions": conditions}
    status |= dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    code, answer = cluster.request(
        "PATCH", f"{path}/status", {"status": status}, content_type="application/merge-patch+json"
    )
    assert code == 200, answer


def waiting_for(fleet: Fleet, app: str, text: str) -> None:
    def waits() -> bool:
        run = fleet.runs.look(app).run
        return run.get("state") == "waiting" and text in run.get("message", "")

    wait_for(waits, what=f"{app} to wait: {text}")


def test_it_waits_until_the_other_is_applied_and_healthy_and_goes_on_at_once(fleet: Fleet, namespace: str) -> None:
    db, shop = fleet.name("db"), fleet.name("shop")
    fleet.push(shop, [config_map("shop", namespace)])
    fleet.push(db, [deployment("db", namespace)])
    fleet.application(shop, namespace=namespace, spec={"dependsOn": [{"name": db}]})
    fleet.application(db, namespace=namespace)
    waiting_for(fleet, shop, f"{db} ")
    waiting_for(fleet, db, "Deployment")
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/shop") is None
    assert fleet.state(shop)["sync"] == "OutOfSync"
    # Rung by the end of the other's run, not by its own next look in 30 s.
    wait_for(lambda: fleet.store.redis.smembers(keys.waiters(db)) == {shop.encode()}, what="it to be noted as waiting")
    become_available(fleet, namespace, "db")
    fleet.wait_run(db, phase="Succeeded")
    entry = fleet.wait_run(shop, phase="Succeeded")
    assert entry["trigger"] == "First"
    assert entry["started"] < fleet.history(db)[0]["finished"] <= entry["finished"]


def test_something_newer_pushed_for_both_is_applied_in_order(fleet: Fleet, namespace: str) -> None:
    """The one that depends is rung first, and still waits: the other has something newer to apply."""
    db, shop = fleet.name("db"), fleet.name("shop")
    for app in (db, shop):
        fleet.push(app, [config_map(app, namespace, {"version": "1"})])
    fleet.application(db, namespace=namespace)
    fleet.application(shop, namespace=namespace, spec={"dependsOn": [{"name": db}]})
    fleet.wait_run(shop, phase="Succeeded")
    newer = {app: fleet.push(app, [config_map(app, namespace, {"version": "2"})]).digest for app in (db, shop)}
    fleet.ring(shop)
    waiting_for(fleet, shop, f"{db} has not applied {newer[db].removeprefix('sha256:')[:12]} yet")
    fleet.ring(db)
    first = fleet.wait_run(db, digest=newer[db], phase="Succeeded")
    second = fleet.wait_run(shop, digest=newer[shop], phase="Succeeded")
    assert first["finished"] <= second["finished"]


def test_a_failed_dependency_holds_up_the_new_version_but_not_the_heal(fleet: Fleet, namespace: str) -> None:
    db, shop = fleet.name("db"), fleet.name("shop")
    fleet.push(db, [config_map(db, namespace)])
    fleet.push(shop, [config_map(shop, namespace, {"version": "1"})])
    fleet.application(db, namespace=namespace, retry={"limit": 0})
    fleet.application(shop, namespace=namespace, spec={"dependsOn": [{"name": db}]})
    fleet.wait_run(shop, phase="Succeeded")

    bad = fleet.push(db, [{"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}])
    fleet.ring(db)
    fleet.wait_run(db, digest=bad.digest, phase="Failed")
    cluster = next(iter(fleet.clusters.values()))
    path = f"/api/v1/namespaces/{namespace}/configmaps/{shop}"
    cluster.request("PATCH", path, {"data": {"version": "9"}}, content_type="application/merge-patch+json")
    fleet.tick(shop)
    assert (fleet.get(path) or {})["data"]["version"] == "1", "healed"

    newer = fleet.push(shop, [config_map(shop, namespace, {"version": "2"})])
    fleet.ring(shop)
    waiting_for(fleet, shop, f"the last sync of {db} ended as Failed")
    good = fleet.push(db, [config_map(db, namespace, {"mended": "yes"})])
    fleet.ring(db)
    fleet.wait_run(db, digest=good.digest, phase="Succeeded")
    fleet.wait_run(shop, digest=newer.digest, phase="Succeeded")


def test_the_wait_survives_the_death_of_every_process(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet()
    db, shop = fleet.name("db"), fleet.name("shop")
    fleet.push(shop, [config_map(shop, namespace)])
    fleet.push(db, [deployment(db, namespace)])
    fleet.application(shop, namespace=namespace, spec={"dependsOn": [{"name": db}]})
    fleet.application(db, namespace=namespace)
    waiting_for(fleet, shop, f"{db} ")
    waiting_for(fleet, db, "Deployment")
    for process in (*fleet.beats, *fleet.workers):
        process.kill()
    become_available(fleet, namespace, db)
    for process in (*fleet.beats, *fleet.workers):
        process.start()
    fleet.wait_run(db, phase="Succeeded")
    fleet.wait_run(shop, phase="Succeeded")
    assert len(fleet.history(shop)) == 1, "one run, which waited"


def test_health_is_told_while_it_waits(fleet: Fleet, namespace: str) -> None:
    db, shop = fleet.name("db"), fleet.name("shop")
    fleet.push(db, [config_map(db, namespace)])
    fleet.push(shop, [deployment("web", namespace)])
    fleet.application(db, namespace=namespace)
    fleet.application(shop, namespace=namespace, spec={"dependsOn": [{"name": db}]}, interval="1s")
    become_available(fleet, namespace, "web")
    fleet.wait_run(shop, phase="Succeeded")
    fleet.push(db, [deployment("never", namespace)])
    fleet.ring(db)
    waiting_for(fleet, db, "Deployment")
    newer = fleet.push(shop, [deployment("web", namespace), config_map(shop, namespace)])
    fleet.ring(shop)
    waiting_for(fleet, shop, f"{db} ")
    run = fleet.runs.look(shop).run["run"]
    broken: Body = {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web/status"
    kind = "application/merge-patch+json"
    next(iter(fleet.clusters.values())).request("PATCH", path, {"status": broken}, content_type=kind)

    def told() -> bool:
        fleet.tick(shop)
        return fleet.state(shop)["health"] == "Degraded"

    wait_for(told, what="the broken Deployment in the status")
    assert fleet.runs.look(shop).run["run"] == run
    become_available(fleet, namespace, "web")
    become_available(fleet, namespace, "never")
    assert fleet.wait_run(shop, digest=newer.digest, phase="Succeeded")["run"] == run
    fleet.leave(shop)  # its short interval would disturb the tests that follow


def test_it_waits_for_one_in_another_cluster(
    fleet: Fleet, cluster: Cluster, cluster_with_controllers: Cluster, namespace: str
) -> None:
    """Two API servers: what is written in the one waits for what becomes available in the other."""
    db, shop, there = fleet.name("db"), fleet.name("shop"), cluster_with_controllers
    fleet.describe_cluster(there)
    position = there.audit_position()
    fleet.push(db, [deployment("db", namespace)])
    fleet.push(shop, [config_map("shop", shop)])
    fleet.application(db, namespace=namespace, cluster=cluster.name)
    options = ["CreateNamespace=true"]
    depends = {"dependsOn": [{"name": db}]}
    fleet.application(shop, namespace=shop, cluster=there.name, spec=depends, options=options)
    waiting_for(fleet, db, "Deployment")
    waiting_for(fleet, shop, f"{db} ")
    wait_for(lambda: fleet.store.redis.smembers(keys.waiters(db)) == {shop.encode()}, what="it to be noted as waiting")
    path = f"/api/v1/namespaces/{shop}/configmaps/shop"
    assert there.request("GET", path)[0] == 404
    become_available(fleet, namespace, "db")
    fleet.wait_run(db, phase="Succeeded")
    entry = fleet.wait_run(shop, phase="Succeeded")
    assert entry["started"] < fleet.history(db)[0]["finished"] <= entry["finished"]

    assert there.request("GET", path)[0] == 200
    assert there.request("GET", f"/apis/apps/v1/namespaces/{namespace}/deployments/db")[0] == 404
    assert fleet.get(f"/api/v1/namespaces/{shop}") is None
    agents = {event["userAgent"] for event in there.audit(position) if f" app/{db} " in f"{event['userAgent']} "}
    assert agents == set(), "nothing of the other's was asked there"
    fleet.leave(shop)
    wait_for(lambda: shop not in fleet.catalogs.names(), what="it to be gone")
    (fleet.catalog / f"cluster-{there.name}.yaml").unlink()
