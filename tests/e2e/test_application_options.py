"""Sync options of a whole application: they hold for every object that does not say otherwise itself, as in Argo CD."""

from __future__ import annotations

from typing import Any

from departing import DELETE, objects, parent, removed
from fleet import Fleet, config_map, outcomes
from people import LAST_APPLIED, Hands
from waiting import wait_for

from fleetbeat.decisions.inventory import PART_OF

OPTIONS = "argocd.argoproj.io/sync-options"


def published(fleet: Fleet, app: str, namespace: str, options: list[str], **spec: Any) -> None:
    """In the catalog with these options, and seen by beat."""
    fleet.application(app, namespace=namespace, options=options, spec=spec)

    def is_in_force() -> bool:
        entry = fleet.catalogs.application(app) if app in fleet.catalogs.names() else None
        if entry is None:
            return False
        sync = entry[0].sync
        said = {"Prune": sync.prune_objects, "Delete": sync.delete_objects, "ClientSideApplyMigration": sync.migrate}
        return all(str(said[name]).lower() == value for name, _, value in (one.partition("=") for one in options))

    wait_for(is_in_force, timeout=30, what=f"{options} in the catalog")


def synced(fleet: Fleet, app: str, *manifests: dict[str, Any], confirm: bool = False) -> dict[str, Any]:
    fleet.push(app, manifests)
    return fleet.sync(app, confirm_prune=confirm)


def test_prune_of_the_application(fleet: Fleet, namespace: str) -> None:
    """``Prune=false`` and ``Prune=confirm``; an object's own ``Prune=true`` counts first."""
    app, rest = fleet.name("prunes"), config_map("rest")
    published(fleet, app, namespace, ["Prune=false"])
    synced(fleet, app, rest, config_map("stays"), config_map("goes", annotations={OPTIONS: "Prune=true"}))
    entry = synced(fleet, app, rest)
    assert outcomes(entry) == {f"ConfigMap {namespace}/goes": "pruned", f"ConfigMap {namespace}/stays": "kept"}
    (kept,) = (one for one in entry["results"] if one["outcome"] == "kept")
    assert kept["reason"] == "spec.sync.options: Prune=false"
    assert fleet.state(app)["sync"] == "OutOfSync"
    assert fleet.sync(app, confirm_prune=True)["counts"]["kept"] == 1

    published(fleet, app, namespace, ["Prune=confirm"])
    entry = fleet.sync(app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/stays": "kept"}
    assert entry["results"][-1]["reason"].endswith("(spec.sync.options: Prune=confirm)")
    entry = fleet.sync(app, confirm_prune=True)
    assert outcomes(entry) == {f"ConfigMap {namespace}/stays": "pruned"}
    assert fleet.state(app)["sync"] == "Synced"


def test_delete_of_the_application(fleet: Fleet, namespace: str) -> None:
    """``Delete=false``: its objects outlive it, but for one that says ``Delete=true``."""
    app = fleet.name("deletes")
    published(fleet, app, namespace, ["Delete=false"], **DELETE)
    synced(fleet, app, config_map("stays"), config_map("goes", annotations={OPTIONS: "Delete=true"}))
    fleet.leave(app)
    entry = removed(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/goes": "pruned", f"ConfigMap {namespace}/stays": "kept"}
    assert objects(fleet, namespace) == ["stays"]
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/stays")
    assert live is not None
    assert PART_OF not in live["metadata"].get("labels", {})
    assert parent(fleet, app) is None


def test_client_side_apply_migration_of_the_application(fleet: Fleet, namespace: str) -> None:
    """Turned off, kubectl keeps what it holds, but by an object's own word. Turned on again, all is taken over."""
    app, hands = fleet.name("migrates"), Hands(fleet.clusters["test"])
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    bundle = [config_map("a"), config_map("b", annotations={OPTIONS: "ClientSideApplyMigration=true"})]
    for one in bundle:
        hands.client_side_apply(maps, one)
    published(fleet, app, namespace, ["ClientSideApplyMigration=false"])
    synced(fleet, app, *bundle)
    assert holders(hands, f"{maps}/a") == {"fleetbeat", "kubectl-client-side-apply"}
    assert LAST_APPLIED in hands.get(f"{maps}/a")["metadata"]["annotations"]
    assert holders(hands, f"{maps}/b") == {"fleetbeat"}

    published(fleet, app, namespace, ["ClientSideApplyMigration=true"])
    fleet.sync(app)
    assert holders(hands, f"{maps}/a") == {"fleetbeat"}


def test_a_field_manager_that_is_named_is_taken_over_as_well(fleet: Fleet, namespace: str) -> None:
    app, hands = fleet.name("named"), Hands(fleet.clusters["test"])
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    hands.create(path, config_map("a"), "my-tool")
    fleet.push(app, [config_map("a")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    assert holders(hands, f"{path}/a") == {"fleetbeat", "my-tool"}
    manager = {"argocd.argoproj.io/client-side-apply-migration-manager": "my-tool"}
    fleet.application(app, namespace=namespace, annotations=manager)
    assert fleet.wait_run(app, phase="Succeeded", since=1)["trigger"] == "Spec"
    assert holders(hands, f"{path}/a") == {"fleetbeat"}


def test_a_refresh_is_one_sync_for_each_time_it_is_set(fleet: Fleet, namespace: str) -> None:
    """A catalog is a file: nobody takes the annotation away, and left standing it asks for nothing more."""
    app = fleet.name("refresh")
    fleet.push(app, [config_map("a")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    refresh = {"argocd.argoproj.io/refresh": "hard"}
    fleet.application(app, namespace=namespace, annotations=refresh)
    entry = fleet.wait_run(app, phase="Succeeded", since=1)
    assert (entry["trigger"], entry["counts"]) == ("Spec", {"unchanged": 1})
    assert fleet.tick(app) == "nothing to do"
    again = refresh | {"argocd.argoproj.io/refresh-timestamp": "2026-11-30T12:00:00Z"}
    fleet.application(app, namespace=namespace, annotations=again)
    assert fleet.wait_run(app, phase="Succeeded", since=2)["trigger"] == "Spec"
    assert fleet.tick(app) == "nothing to do"
    assert fleet.runs_ended(app) == 3


def holders(hands: Hands, path: str) -> set[str]:
    return {entry["manager"] for entry in hands.get(path)["metadata"]["managedFields"]}
