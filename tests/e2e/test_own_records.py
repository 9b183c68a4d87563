"""What Fleetbeat keeps in a cluster is nobody's object: no bundle takes it over, none takes it along when it goes."""

from __future__ import annotations

from fleet import Fleet, config_map, outcomes


def test_the_namespace_of_the_parents_is_never_pruned(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("homely")
    web = config_map("web", namespace)
    fleet.push(app, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleetbeat"}}, web])
    fleet.application(app)
    fleet.sync(app)
    fleet.push(app, [web])
    entry = fleet.sync(app)
    assert outcomes(entry) == {"Namespace fleetbeat": "kept"}
    home = fleet.get("/api/v1/namespaces/fleetbeat")
    assert home is not None
    assert "deletionTimestamp" not in home["metadata"]
    fleet.clusters["test"].request(
        "PATCH",
        "/api/v1/namespaces/fleetbeat",
        {"metadata": {"labels": {"applyset.kubernetes.io/part-of": None}}},
        content_type="application/merge-patch+json",
    )


def test_the_parent_of_another_application_is_not_taken_over(fleet: Fleet, namespace: str) -> None:
    victim, thief = fleet.name("victim"), fleet.name("thief")
    fleet.push(victim, [config_map("web", namespace)])
    fleet.application(victim)
    fleet.sync(victim)
    fleet.push(thief, [config_map(f"app-{victim}", "fleetbeat")])
    fleet.application(thief)
    entry = fleet.sync(thief)
    assert entry["phase"] == "Failed"
    assert f"record of application {victim}" in entry["message"]
