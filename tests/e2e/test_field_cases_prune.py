"""Field cases, group d: what is deleted, in which order, and what never is. On the real API server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from fleet import Fleet, config_map, in_wave, outcomes, words
from people import Hands
from waiting import wait_for

FINALIZER = "hold.example.com/on"
DEPENDS_ON = "config.kubernetes.io/depends-on"


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(fleet.clusters["test"])


def config_maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}".rstrip("/")


def push_and_sync(fleet: Fleet, app: str, manifests: list[dict[str, Any]]) -> dict[str, Any]:
    fleet.push(app, manifests)
    return fleet.sync(app)


def reasons(entry: dict[str, Any]) -> dict[str, str]:
    return {result["id"].rpartition("/")[2]: result.get("reason", "") for result in entry["results"]}


def let_go(hands: Hands, path: str) -> None:
    hands.merge(path, {"metadata": {"finalizers": None}}, "operator")


# ── stages ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_way_back_is_walked_step_by_step(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """An operator of wave 0 is there until what it has to clean up in wave 1 has gone; dependants go first."""
    app = fleet.name("back")
    operator = config_map("operator", namespace)
    account = config_map("account", namespace)
    operator["metadata"]["annotations"] = {DEPENDS_ON: f"/namespaces/{namespace}/ConfigMap/account"}
    held = in_wave(1, config_map("held", namespace, finalizers=[FINALIZER]))
    rest = config_map("rest", namespace)
    fleet.application(app, namespace=namespace)
    push_and_sync(fleet, app, [operator, account, held, rest])
    start, runs = fleet.clusters["test"].audit_position(), len(fleet.history(app))
    fleet.push(app, [rest])
    fleet.request(app)

    def waits() -> bool:
        run = fleet.runs.look(app).run
        return run.get("state") == "waiting" and FINALIZER in run.get("message", "")

    wait_for(waits, timeout=30, what="the run to wait for the finalizer")
    assert words(fleet.writes(app, since=start)) == [f"delete configmaps {namespace}/held"]
    let_go(hands, config_maps(namespace, "held"))
    entry = fleet.wait_run(app, phase="Succeeded", since=runs)
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "pruned" for name in ("held", "operator", "account")}
    assert words(fleet.writes(app, since=start)) == [
        f"delete configmaps {namespace}/{name}" for name in ("held", "operator", "account")
    ]
    assert fleet.state(app)["sync"] == "Synced"


def test_what_does_not_go_is_told_and_holds_back_what_comes_after(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """A finalizer nobody runs: the first run gives up, later ones say so and act no more, until it has gone."""
    app = fleet.name("stuck")
    held = in_wave(1, config_map("held", namespace, finalizers=[FINALIZER]))
    rest = config_map("rest", namespace)
    fleet.application(app, namespace=namespace, timeout="1s")
    push_and_sync(fleet, app, [config_map("operator", namespace), held, rest])
    first = push_and_sync(fleet, app, [rest])
    assert first["phase"] == "Failed"
    assert FINALIZER in first["message"]
    start = fleet.clusters["test"].audit_position()
    later = fleet.sync(app)
    assert later["phase"] == "Succeeded"
    assert outcomes(later) == {f"ConfigMap {namespace}/{name}": "kept" for name in ("held", "operator")}
    told = reasons(later)
    assert told["held"].startswith("is being deleted since 20")
    assert told["held"].endswith(f"; finalizer {FINALIZER} holds it")
    assert told["operator"] == f"waits until ConfigMap {namespace}/held has gone"
    assert fleet.state(app)["sync"] == "OutOfSync"
    runs = len(fleet.history(app))
    fleet.ring(app)
    assert words(fleet.writes(app, since=start)) == []

    let_go(hands, config_maps(namespace, "held"))
    fleet.ring(app)
    last = fleet.wait_run(app, since=runs)
    assert outcomes(last) == {f"ConfigMap {namespace}/operator": "pruned"}
    assert fleet.state(app)["sync"] == "Synced"


# ── asking first ─────────────────────────────────────────────────────────────────────────────────────────────────


def asking(name: str, namespace: str) -> dict[str, Any]:
    return config_map(name, namespace, annotations={"argocd.argoproj.io/sync-options": "Prune=confirm"})


def test_what_asks_for_a_confirmation_waits_for_a_person(fleet: Fleet, namespace: str) -> None:
    app, rest = fleet.name("asks"), config_map("rest", namespace)
    fleet.application(app, namespace=namespace)
    push_and_sync(fleet, app, [rest, asking("precious", namespace)])
    entry = push_and_sync(fleet, app, [rest])
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "kept"}
    assert "fleetbeat sync APP --confirm-prune" in reasons(entry)["precious"]
    assert fleet.state(app)["sync"] == "OutOfSync"
    entry = fleet.sync(app, confirm_prune=True)
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "pruned"}
    assert reasons(entry)["precious"] == "not in the bundle any more; confirmed by tester"
    assert fleet.state(app)["sync"] == "Synced"


def test_an_approval_in_the_catalog_counts_for_the_bundle_that_was_known(fleet: Fleet, namespace: str) -> None:
    app, rest = fleet.name("approved"), config_map("rest", namespace)
    early = {"argocd.argoproj.io/deletion-approved": datetime.now(UTC).isoformat()}
    fleet.application(app, namespace=namespace, annotations=early)
    push_and_sync(fleet, app, [rest, asking("precious", namespace)])
    entry = push_and_sync(fleet, app, [rest])
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "kept"}
    now = datetime.now(UTC).isoformat()
    runs = len(fleet.history(app))
    fleet.application(app, namespace=namespace, annotations={"argocd.argoproj.io/deletion-approved": now})

    def approved() -> bool:
        found = fleet.catalogs.application(app)
        return found is not None and now in found[0].annotations.values()

    wait_for(approved, what="the approval in the catalog")
    fleet.ring(app)
    entry = fleet.wait_run(app, since=runs)
    assert entry["trigger"] == "Spec"
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "pruned"}
    assert reasons(entry)["precious"] == f"not in the bundle any more; approved at {now}"


@pytest.mark.parametrize(("policy", "sent"), [(None, "Background"), ("foreground", "Foreground"), ("orphan", "Orphan")])
def test_the_propagation_policy_is_sent_with_every_delete(
    fleet: Fleet, namespace: str, policy: str | None, sent: str
) -> None:
    app, rest = fleet.name("spread"), config_map("rest", namespace)
    fleet.application(app, namespace=namespace, options=[f"PrunePropagationPolicy={policy}"] if policy else [])
    push_and_sync(fleet, app, [rest, config_map("gone", namespace, finalizers=[FINALIZER])])
    runs = len(fleet.history(app))
    fleet.push(app, [rest])
    fleet.request(app)

    def finalizers() -> list[str]:
        live = fleet.get(config_maps(namespace, "gone"))
        assert live is not None
        assert "deletionTimestamp" in live["metadata"]
        return live["metadata"]["finalizers"]

    # The API server notes the policy as a finalizer of its own; the garbage collector that takes it off is not here.
    marks = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"], "Background": []}[sent]
    assert wait_for(finalizers, what="the deletion") == [FINALIZER, *marks]
    let_go(Hands(fleet.clusters["test"]), config_maps(namespace, "gone"))
    assert fleet.wait_run(app, phase="Succeeded", since=runs)["counts"]["pruned"] == 1
