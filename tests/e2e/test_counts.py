"""What a sync costs, counted in the API server's audit log. Counts are exact, so they are asserted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from fleet import PATIENT, WRITE_VERBS, Fleet, config_map, outcomes, words
from waiting import wait_for

from fleetbeat.local.cluster import Cluster

OBJECTS = 20


def bundle(namespace: str, **changed: str) -> list[dict[str, Any]]:
    """20 objects of four kinds; ``changed``: name of a ConfigMap → another value."""
    maps = [
        config_map(f"cm-{n:02}", namespace, {"value": changed.get(f"cm_{n:02}", "one")}) for n in range(OBJECTS - 3)
    ]
    return [
        *maps,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        },
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"token": "x"}},
    ]


def requests(fleet: Fleet, app: str, namespace: str, since: int) -> Counter[str]:
    """Fleetbeat's requests for one application: to objects' endpoints, and beside them."""
    counted: Counter[str] = Counter()
    for event in next(iter(fleet.clusters.values())).audit(since):
        if f"app/{app}" not in event.get("userAgent", "").split() or "continue=" in event["requestURI"]:
            continue  # further pages are about objects that other tests have left in this cluster
        reference = event.get("objectRef") or {}
        to_parent = reference.get("namespace") == "fleetbeat" or reference.get("name") == "fleetbeat"
        counted["objects" if reference and not to_parent else "beside"] += 1
    return counted


def test_first_sync_unchanged_tick_and_one_change(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    """First sync ≤ 2N + 12 requests to objects; an unchanged tick writes nothing; v2 writes the changed object only."""
    fleet = make_fleet(workers=1, **PATIENT)
    cluster = next(iter(fleet.clusters.values()))
    fleet.push("counted", bundle(namespace))
    start = cluster.audit_position()
    fleet.application("counted", namespace=namespace)
    first = fleet.wait_run("counted", phase="Succeeded")
    assert first["counts"] == {"created": OBJECTS}
    counted = requests(fleet, "counted", namespace, start)
    assert counted["objects"] <= 2 * OBJECTS + 12, counted
    assert counted["objects"] == 2 * OBJECTS  # one dry-run and one write each: nothing here has to become healthy
    assert counted["beside"] <= 12, counted
    assert len(fleet.writes("counted", since=start)) == OBJECTS

    versions = live_versions(fleet, namespace)
    start = cluster.audit_position()
    before_all = fleet.logs().count("'nothing to do'")
    for _ in range(3):
        done = fleet.logs().count("'nothing to do'")
        fleet.ring("counted")
        wait_for(lambda before=done: fleet.logs().count("'nothing to do'") > before, what="an unchanged tick")
    assert fleet.writes("counted", since=start, parents=True) == []
    assert live_versions(fleet, namespace) == versions
    kinds = 4
    # A metadata list per kind and tick.
    assert fleet.logs().count("'nothing to do'") - before_all == 3
    assert requests(fleet, "counted", namespace, start)["objects"] == 3 * kinds
    assert len(fleet.history("counted")) == 1

    start = cluster.audit_position()
    second_revision = fleet.push("counted", bundle(namespace, cm_07="two"))
    fleet.ring("counted")
    second = fleet.wait_run("counted", digest=second_revision.digest, phase="Succeeded")
    assert outcomes(second) == {f"ConfigMap {namespace}/cm-07": "configured"}
    assert second["counts"] == {"configured": 1, "unchanged": OBJECTS - 1}
    assert words(fleet.writes("counted", since=start)) == [f"patch configmaps {namespace}/cm-07"]
    # The comparison lists each kind once; beside that: read, dry-run, apply.
    assert requests(fleet, "counted", namespace, start)["objects"] == kinds + 3


def live_versions(fleet: Fleet, namespace: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for plural in ("configmaps", "serviceaccounts", "services", "secrets"):
        listed = fleet.get(f"/api/v1/namespaces/{namespace}/{plural}") or {}
        for item in listed["items"]:
            found[f"{plural}/{item['metadata']['name']}"] = item["metadata"]["resourceVersion"]
    return found


def test_every_write_says_who_wrote_and_why(fleet: Fleet, namespace: str) -> None:
    """User-Agent names application, run and digest; the Audit-Id of each write is in the history."""
    app = fleet.name("traced")
    revision = fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Succeeded")
    (event,) = fleet.writes(app)
    agent = event["userAgent"].split()
    assert f"run/{entry['run']}" in agent
    assert f"rev/{revision.short}" in agent
    assert entry["results"][0]["auditId"] == event["auditID"]


def test_an_unchanged_fleet_costs_one_list_per_kind(make_fleet: Callable[..., Fleet], cluster: Cluster) -> None:
    """50 applications × 5 kinds on one cluster: at most kinds + 2 requests per sweep in total, and no write at all."""
    fleet = make_fleet(FLEETBEAT_OBSERVE_LONGEST="3600", **PATIENT)
    apps = [fleet.name(f"fleet-{number}") for number in range(50)]
    home = fleet.name("fleet-home")
    assert cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": home}})[0] == 201
    rbac = "rbac.authorization.k8s.io/v1"
    for app in apps:
        fleet.push(
            app,
            [
                config_map(app),
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": app}, "stringData": {"k": "v"}},
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": app}},
                {"apiVersion": "v1", "kind": "Service", "metadata": {"name": app}, "spec": {"ports": [{"port": 80}]}},
                {"apiVersion": rbac, "kind": "Role", "metadata": {"name": app}, "rules": []},
            ],
        )
        fleet.application(app, namespace=home)
    for app in apps:
        assert fleet.wait_run(app, phase="Succeeded", timeout=120)["counts"] == {"created": 5}

    start, before = cluster.audit_position(), fleet.logs().count("'nothing to do'")
    for app in apps:
        fleet.ring(app)
    wait_for(
        lambda: fleet.logs().count("'nothing to do'") >= before + len(apps), timeout=120, what="50 unchanged ticks"
    )
    agents = {f"app/{app}" for app in apps}
    ours = [e for e in cluster.audit(start) if agents & set(e.get("userAgent", "").split())]
    ours = [e for e in ours if "continue=" not in e["requestURI"]]  # pages of what other tests have left
    assert len(ours) <= 5 + 2, "\n".join(f"{e['verb']} {e['requestURI']} {e['userAgent']}" for e in ours)
    assert sorted({e["objectRef"]["resource"] for e in ours if e["verb"] == "list"}) == [
        "configmaps",
        "roles",
        "secrets",
        "serviceaccounts",
        "services",
    ]
    assert [e for e in ours if e["verb"] in WRITE_VERBS] == []
