"""Hooks before and after the deletion of an application, on a cluster where Jobs end."""

from __future__ import annotations

import pytest
from departing import DELETE, command, objects, parent, removed, synced
from fleet import Fleet, config_map, outcomes, words
from hooking import failing, hanging, hook, hooks_of, job, new_space
from waiting import wait_for

from fleetbeat import keys


def everything_of(fleet: Fleet, namespace: str) -> list[str]:
    """Jobs and ConfigMaps that are left."""
    jobs = fleet.get(f"/apis/batch/v1/namespaces/{namespace}/jobs") or {"items": []}
    return sorted(item["metadata"]["name"] for item in jobs["items"]) + objects(fleet, namespace)


def test_hooks_run_before_and_after_and_none_of_their_objects_stays(controlled: Fleet) -> None:
    space = new_space(controlled)
    manifests = [
        config_map("web"),
        hook("PreSync", job("migrate")),
        hook("PreDelete", job("backup")),
        hook("PostDelete", job("say-"), policy="HookFailed"),
    ]
    app = synced(controlled, "hooked", manifests, space)
    assert everything_of(controlled, space) == ["migrate", "web"], "hooks of the deletion are no part of a sync"
    start = next(iter(controlled.clusters.values())).audit_position()
    controlled.leave(app)
    entry = removed(controlled, app)
    ran = hooks_of(entry)
    assert ran["PreDelete", f"Job {space}/backup"] == "created"
    (after,) = (name for phase, name in ran if phase == "PostDelete")
    assert outcomes(entry)[f"ConfigMap {space}/web"] == "pruned"
    written = [word for word in words(controlled.writes(app, since=start)) if "configmaps fleetbeat/" not in word]
    said = after.removeprefix("Job ")
    assert written[:3] == [f"patch jobs {space}/backup", f"delete configmaps {space}/web", f"patch jobs {said}"]
    assert sorted(written[3:]) == sorted(
        f"delete jobs {name}" for name in (f"{space}/backup", f"{space}/migrate", said)
    )
    wait_for(lambda: everything_of(controlled, space) == [], what="the hooks to be gone")
    assert parent(controlled, app) is None


def test_a_failing_hook_before_it_stops_the_deletion(controlled: Fleet) -> None:
    space = new_space(controlled)
    app = synced(controlled, "stuck", [config_map("web"), hook("PreDelete", failing("backup"))], space)
    controlled.leave(app)
    entry = removed(controlled, app, phase="Failed")
    assert "PreDelete wave 0: Job" in entry["message"]
    assert outcomes(entry)[f"ConfigMap {space}/web"] == "skipped"
    assert objects(controlled, space) == ["web"]
    shown = command(controlled, "status", app).output
    assert "Deleting" in shown
    command(controlled, "delete", app, "--skip-hooks")
    removed(controlled, app)
    assert objects(controlled, space) == []
    assert parent(controlled, app) is None


def test_hooks_that_have_run_are_not_run_again_by_the_next_try(controlled: Fleet) -> None:
    """What backs something up must not do it again when half of it is gone."""
    space = new_space(controlled)
    held = config_map("web", finalizers=["example.com/slow"])
    backup = {**config_map(""), "metadata": {"generateName": "backup-"}}  # done as soon as it is made, unlike a Job
    app = synced(controlled, "once", [held, hook("PreDelete", backup)], space, timeout="2s")
    controlled.leave(app)
    assert list(hooks_of(removed(controlled, app, phase="Failed")).values()) == ["created"]
    cluster = next(iter(controlled.clusters.values()))
    path = f"/api/v1/namespaces/{space}/configmaps/web"
    patch = {"metadata": {"finalizers": None}}
    cluster.request("PATCH", path, patch, content_type="application/merge-patch+json")
    command(controlled, "delete", app)
    entry = removed(controlled, app)
    assert hooks_of(entry) == {}
    assert parent(controlled, app) is None


def test_a_hook_after_it_runs_in_a_namespace_that_goes_then(controlled: Fleet) -> None:
    """In Argo CD the namespace is gone by then."""
    space = controlled.name("t")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    manifests = [namespace, config_map("web", space), hook("PostDelete", config_map("note", space))]
    app = synced(controlled, "inside", manifests, space)
    controlled.leave(app)
    entry = removed(controlled, app)
    assert hooks_of(entry) == {("PostDelete", f"ConfigMap {space}/note"): "created"}
    assert outcomes(entry)[f"Namespace {space}"] == "pruned"
    assert controlled.get(f"/api/v1/namespaces/{space}") is None
    assert parent(controlled, app) is None


def test_the_applied_bundle_counts_not_what_its_tag_means_now(controlled: Fleet) -> None:
    space = new_space(controlled)
    app = synced(controlled, "pinned", [config_map("web"), hook("PreDelete", config_map("before"))], space)
    controlled.leave(app)
    controlled.push(app, [config_map("web"), hook("PreDelete", config_map("never"))])
    assert hooks_of(removed(controlled, app)) == {("PreDelete", f"ConfigMap {space}/before"): "created"}


@pytest.mark.parametrize("hooks", [True, False], ids=["with hooks", "without"])
def test_a_bundle_that_is_gone_is_needed_for_its_hooks_alone(controlled: Fleet, hooks: bool) -> None:
    space = new_space(controlled)
    app = controlled.name("gone")
    manifests = [config_map("web"), *([hook("PreDelete", config_map("before"))] if hooks else [])]
    controlled.push(app, manifests)
    source = {"oci": controlled.repository(app), "tag": "stable"}
    controlled.application(app, namespace=space, spec=DELETE, source=source)
    controlled.wait_run(app, phase="Succeeded")
    # Its source moves to where nothing is; the bundle that was pulled is forgotten.
    source["oci"] = f"{controlled.registry.host}/nothing-here"
    runs = len(controlled.history(app))
    controlled.application(app, namespace=space, spec=DELETE, source=source)
    wait_for(lambda: controlled.state(app).get("reason") == "SourceNotFound", what="the source to be missed")
    assert len(controlled.history(app)) == runs
    for key in controlled.store.redis.scan_iter(match=keys.pulled("*")):
        controlled.store.redis.delete(key)
    controlled.leave(app)
    if hooks:
        entry = removed(controlled, app, phase="Failed")
        assert entry["error"] == "BundleUnavailable"
        assert f"fleetbeat delete {app} --skip-hooks" in entry["message"]
        assert objects(controlled, space) == ["web"]
        command(controlled, "delete", app, "--skip-hooks")
    removed(controlled, app)
    assert objects(controlled, space) == []


def test_it_comes_back_while_a_hook_before_it_runs(controlled: Fleet) -> None:
    space = new_space(controlled)
    app = synced(controlled, "undecided", [config_map("web"), hook("PreDelete", hanging("backup"))], space)
    controlled.leave(app)
    path = f"/apis/batch/v1/namespaces/{space}/jobs/backup"
    wait_for(lambda: controlled.get(path), what="the hook to run")
    controlled.application(app, namespace=space, spec=DELETE)
    removed(controlled, app, phase="Superseded")
    wait_for(lambda: controlled.state(app).get("sync") == "Synced", what="it to be synced again")
    assert objects(controlled, space) == ["web"]
