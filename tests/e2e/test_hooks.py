"""When hooks run, whose objects they may take the place of, what a failed sync does, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from fleet import PATIENT, Fleet, config_map, outcomes, words
from hooking import failing, hanging, hook, hooks_of, job, jobs, new_space, run_of
from people import differences
from waiting import wait_for

from fleetbeat.local.cluster import Cluster


def note(name: str, phases: str = "PreSync", **options: Any) -> dict[str, Any]:
    """A hook that is done when it is there."""
    return hook(phases, config_map(name), **options)


def parent(fleet: Fleet, app: str) -> dict[str, str]:
    found = fleet.get(f"/api/v1/namespaces/fleetbeat/configmaps/app-{app}")
    assert found is not None
    return dict(found["metadata"]["annotations"])


def maps(fleet: Fleet, namespace: str) -> dict[str, dict[str, Any]]:
    found = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps")
    assert found is not None
    return {item["metadata"]["name"]: item for item in found["items"]}


def test_hooks_run_for_a_new_bundle_and_for_who_asks(fleet: Fleet, namespace: str) -> None:
    """Not for a changed catalog entry; and again on the way back to a bundle from before."""
    app = fleet.name("when")
    first = fleet.push(app, [note("migrate"), config_map("web", data={"key": "1"})])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Succeeded")
    assert hooks_of(entry) == {("PreSync", f"ConfigMap {namespace}/migrate"): "created"}
    assert (entry["message"], entry["counts"], entry["hooks"]) == ("1 created, 1 hook run", {"created": 1}, 1)
    assert parent(fleet, app)["fleetbeat.dev/hooks"] == first.digest
    assert parent(fleet, app)["fleetbeat.dev/hook-group-kinds"] == "ConfigMap"
    assert fleet.state(app)["objects"] == "1"
    made = maps(fleet, namespace)["migrate"]["metadata"]
    assert "applyset.kubernetes.io/part-of" not in made["labels"]
    assert made["annotations"]["fleetbeat.dev/hook"] == "PreSync"

    fleet.application(app, namespace=namespace, timeout="4m")
    fleet.ring(app)
    entry = fleet.wait_run(app, since=1)
    assert (entry["trigger"], hooks_of(entry)) == ("Spec", {})

    second = fleet.push(app, [config_map("web", data={"key": "2"})])  # has none
    fleet.ring(app)
    fleet.wait_run(app, digest=second.digest, phase="Succeeded")
    assert parent(fleet, app)["fleetbeat.dev/hooks"] == second.digest
    assert "migrate" in maps(fleet, namespace)  # a hook's object is not pruned
    assert fleet.state(app)["sync"] == "Synced"

    fleet.push(app, [note("migrate"), config_map("web", data={"key": "1"})])
    fleet.ring(app)
    back = fleet.wait_run(app, digest=first.digest, phase="Succeeded", since=3)
    assert hooks_of(back) == {("PreSync", f"ConfigMap {namespace}/migrate"): "created"}
    assert run_of(maps(fleet, namespace)["migrate"]) == back["run"]


def test_hooks_are_not_repeated_when_redis_has_lost_everything(
    make_fleet: Callable[..., Fleet], namespace: str
) -> None:
    """The ApplySet parent says which bundle's hooks have gone through."""
    fleet = make_fleet()
    fleet.push("flushed", [note("migrate"), config_map("web")])
    fleet.application("flushed", namespace=namespace)
    first = fleet.wait_run("flushed", phase="Succeeded")
    fleet.store.redis.flushall()
    entry = fleet.wait_run("flushed", phase="Succeeded")
    assert (entry["trigger"], hooks_of(entry)) == ("First", {})
    assert run_of(maps(fleet, namespace)["migrate"]) == first["run"]


def test_a_requested_sync_that_fails_runs_its_hooks_again_when_it_is_tried_again(controlled: Fleet) -> None:
    """Although its bundle's hooks had gone through before."""
    app, space = controlled.name("owed"), new_space(controlled)
    controlled.push(app, [hook("PreSync", hanging("wait")), config_map("web")])
    controlled.application(app, namespace=space, retry={"limit": 0})

    def finish() -> None:
        """Play the kubelet and the controller behind it."""
        path = f"/apis/batch/v1/namespaces/{space}/jobs/wait/status"
        began = wait_for(
            lambda: jobs(controlled, space).get("wait", {}).get("status", {}).get("startTime"), what="start"
        )
        kinds = ("SuccessCriteriaMet", "Complete")
        done = [{"type": kind, "status": "True", "lastTransitionTime": began} for kind in kinds]
        status = {"completionTime": began, "conditions": done, "active": 0, "ready": 0, "succeeded": 1}
        code, answer = next(iter(controlled.clusters.values())).request(
            "PATCH",
            path,
            {"status": status | {"uncountedTerminatedPods": {}}},
            content_type="application/merge-patch+json",
        )
        assert code == 200, answer

    wait_for(lambda: jobs(controlled, space), what="the hook")
    finish()
    controlled.wait_run(app, phase="Succeeded")
    old = run_of(jobs(controlled, space)["wait"])
    controlled.request(app)
    wait_for(
        lambda: (made := jobs(controlled, space).get("wait")) and run_of(made) != old, what="the hook of the request"
    )
    path = f"/apis/batch/v1/namespaces/{space}/jobs/wait?propagationPolicy=Background"
    next(iter(controlled.clusters.values())).request("DELETE", path)
    failed = controlled.wait_run(app, phase="Failed")
    assert "deleted externally" in failed["message"]
    controlled.ring(app)
    made = wait_for(lambda: jobs(controlled, space).get("wait"), what="the hook of the next try")
    assert run_of(made) != failed["run"]
    finish()
    entry = controlled.wait_run(app, phase="Succeeded", since=2)
    assert (entry["trigger"], len(hooks_of(entry))) == ("Retry", 1)
    controlled.ring(app)


def test_a_hook_the_server_would_refuse_stops_the_sync_before_its_first_write(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("refused")
    start = next(iter(fleet.clusters.values())).audit_position()
    broken = hook("PostSync", job("notify", completionz=1))
    fleet.push(app, [note("migrate"), broken, config_map("web")])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Failed")
    assert "completionz" in entry["message"]
    assert hooks_of(entry) == {("PostSync", f"Job {namespace}/notify"): "failed"}
    assert fleet.writes(app, since=start, parents=True) == []


def test_an_object_of_somebody_else_is_never_taken_for_the_hook(fleet: Fleet, namespace: str) -> None:
    cluster = next(iter(fleet.clusters.values()))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    theirs = {"argocd.argoproj.io/instance": "other"}
    for name, labels in (("theirs", theirs), ("nobodys", {})):
        assert cluster.request("POST", path, config_map(name, labels=labels))[0] == 201
    app = fleet.name("owners")
    fleet.push(app, [note("theirs"), note("mine", wave=-1), config_map("web")])
    fleet.application(app, namespace=namespace, retry={"limit": 0})
    entry = fleet.wait_run(app, phase="Failed")
    assert f"ConfigMap {namespace}/theirs belongs to Argo CD application other" in entry["message"]
    fixed = fleet.push(app, [note("nobodys", policy="HookSucceeded"), config_map("web")])
    fleet.ring(app)
    entry = fleet.wait_run(app, digest=fixed.digest, phase="Failed")
    assert "no hook of this application made it" in entry["message"]
    assert "web" not in maps(fleet, namespace)
    assert {"theirs", "nobodys"} <= maps(fleet, namespace).keys()

    other = fleet.name("second")
    fleet.push(other, [note("mine")])
    fleet.application(other, namespace=namespace, retry={"limit": 0})
    entry = fleet.wait_run(other, phase="Failed")
    assert f"ConfigMap {namespace}/mine belongs to application {app}; it is not touched" in entry["message"]


def test_an_object_may_become_a_hook_and_a_member_again(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("turns")
    fleet.push(app, [config_map("both"), config_map("web")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    turned = fleet.push(app, [note("both"), config_map("web")])
    fleet.ring(app)
    entry = fleet.wait_run(app, digest=turned.digest, phase="Succeeded")
    assert hooks_of(entry) == {("PreSync", f"ConfigMap {namespace}/both"): "created"}
    assert "applyset.kubernetes.io/part-of" not in maps(fleet, namespace)["both"]["metadata"]["labels"]
    assert fleet.tick(app) == "nothing to do"
    back = fleet.push(app, [config_map("both"), config_map("web")])
    fleet.ring(app)
    fleet.wait_run(app, digest=back.digest, phase="Succeeded", since=2)
    assert "applyset.kubernetes.io/part-of" in maps(fleet, namespace)["both"]["metadata"]["labels"]
    assert [e["trigger"] for e in fleet.history(app)] == ["Revision", "Revision", "First"]


def test_a_failed_sync_runs_what_is_there_for_it(controlled: Fleet) -> None:
    """The first error stays the reason; hooks of a good sync that come later do not run."""
    app, space = controlled.name("alarm"), new_space(controlled)
    bundle = [
        failing("broken"),
        hook("SyncFail", job("alarm")),
        hook("SyncFail", config_map("log"), wave=1, policy="HookSucceeded"),
        hook("PostSync", config_map("notify")),
    ]
    controlled.push(app, bundle)
    controlled.application(app, namespace=space, retry={"limit": 0})
    entry = controlled.wait_run(app, phase="Failed")
    assert entry["error"] == "HealthCheckFailed"
    assert f"Job {space}/broken is Degraded" in entry["message"]
    assert hooks_of(entry) == {
        ("PostSync", f"ConfigMap {space}/notify"): "skipped",
        ("SyncFail", f"Job {space}/alarm"): "created",
        ("SyncFail", f"ConfigMap {space}/log"): "created",
    }
    assert {"notify", "log"}.isdisjoint(maps(controlled, space))
    good = controlled.push(app, [job("broken-no-more"), *bundle[1:]])
    controlled.ring(app)
    entry = controlled.wait_run(app, digest=good.digest, phase="Succeeded")
    assert {phase for phase, _ in hooks_of(entry)} == {"PostSync"}


def test_what_goes_wrong_in_syncfail_is_told_beside_the_failure(controlled: Fleet) -> None:
    app, space = controlled.name("alarm"), new_space(controlled)
    controlled.push(app, [hook("PreSync", failing("migrate")), hook("SyncFail", failing("alarm")), config_map("web")])
    controlled.application(app, namespace=space, retry={"limit": 0})
    entry = controlled.wait_run(app, phase="Failed")
    first, second = entry["message"].split("\nSyncFail: ")
    assert f"PreSync wave 0: Job {space}/migrate is Degraded" in first
    assert f"SyncFail wave 0: Job {space}/alarm is Degraded" in second
    assert entry["error"] == "HealthCheckFailed"


def test_a_newer_bundle_waits_until_a_hook_has_ended(controlled: Fleet) -> None:
    """Half a migration is worse than a late one; the objects after it are those of the newer bundle at once."""
    app, space = controlled.name("newer"), new_space(controlled)
    slow = hook("PreSync", hanging("migrate"), policy="HookFailed")
    old = controlled.push(app, [slow, config_map("web", data={"key": "old"})])
    controlled.application(app, namespace=space, retry={"limit": 0})
    wait_for(lambda: jobs(controlled, space), what="the hook")
    new = controlled.push(app, [config_map("web", data={"key": "new"})])
    controlled.ring(app)
    wait_for(lambda: controlled.runs.look(app).run.get("next") == new.digest, what="the newer one seen")
    cluster, path = next(iter(controlled.clusters.values())), f"/apis/batch/v1/namespaces/{space}/jobs/migrate"
    limit = {"spec": {"activeDeadlineSeconds": 1}}  # from now on it fails
    assert cluster.request("PATCH", path, limit, content_type="application/merge-patch+json")[0] == 200
    ended = controlled.wait_run(app, digest=old.digest)
    assert (ended["phase"], ended["error"]) == ("Failed", "HealthCheckFailed")  # was seen to its end
    controlled.wait_run(app, digest=new.digest, phase="Succeeded")


def test_what_hooks_cost(make_fleet: Callable[..., Fleet], cluster: Cluster, namespace: str) -> None:
    """A dry-run and a create for each, a read and a delete where it is deleted, two to note that they are through."""
    fleet = make_fleet(**PATIENT)  # nothing is asked twice
    fleet.push("plain", [config_map("web")])
    fleet.push(
        "hooked", [config_map("web2"), note("a", wave=-1), note("b"), note("c", "PostSync", policy="HookSucceeded")]
    )
    found = {}
    for app in ("plain", "hooked"):
        start = cluster.audit_position()
        fleet.application(app, namespace=namespace)
        assert fleet.wait_run(app)["phase"] == "Succeeded"
        agent = f"app/{app}"
        events = [e for e in cluster.audit(start) if agent in e.get("userAgent", "").split() and e.get("objectRef")]
        found[app] = Counter(e["objectRef"].get("namespace", "") for e in events)
    assert found["plain"][namespace] == 2
    assert found["hooked"][namespace] == 2 + 3 * 2 + 2
    stages = 5  # two of PreSync, one of Sync, PostSync, its clean-up: each takes the parent with a read and a write
    assert found["hooked"]["fleetbeat"] <= 1 + 2 * stages + 2

    start = cluster.audit_position()
    assert fleet.tick("hooked") == "nothing to do"
    assert words(fleet.writes("hooked", since=start, parents=True)) == []


def test_a_diff_shows_the_hooks_of_a_bundle_that_they_have_not_gone_through(fleet: Fleet, namespace: str) -> None:
    """With phase and wave, and those that would be refused; afterwards nothing differs any more."""
    app = fleet.name("diff")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    hooks = [note("migrate", wave=-5), note("tell", "PreSync,PostSync"), note("alarm", "SyncFail")]
    secret = hook("PostSync", {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "s-"}})
    fleet.push(app, [*hooks, secret, config_map("web")])
    assert [(change.action, str(change.id), change.reason) for change in differences(fleet, app)] == [
        ("run", f"ConfigMap {namespace}/migrate", "PreSync wave -5"),
        ("run", f"ConfigMap {namespace}/tell", "PreSync wave 0"),
        ("run", f"ConfigMap {namespace}/tell", "PostSync wave 0"),
        ("run", f"Secret {namespace}/s-*", "PostSync wave 0"),
    ]
    fleet.push(app, [hook("PreSync", job("migrate", completionz=1)), config_map("web")])
    [refused] = differences(fleet, app)
    assert (refused.action, "completionz" in refused.reason) == ("refuse", True)
    good = fleet.push(app, [*hooks, config_map("web")])
    fleet.ring(app)
    fleet.wait_run(app, digest=good.digest, phase="Succeeded")
    assert differences(fleet, app) == []


@pytest.mark.parametrize("ends", ["well", "badly"])
def test_what_was_pushed_while_a_hook_ran_follows_at_once(controlled: Fleet, ends: str) -> None:
    """It was seen and had to wait: for the hook, not for the next slot."""
    space = new_space(controlled)
    app = controlled.name("next")
    controlled.push(app, [config_map("web"), hook("PostSync", job("work", suspend=True))])
    controlled.application(app, namespace=space)
    wait_for(lambda: controlled.runs.look(app).run.get("hooking"), what="the hook at work")
    newer = controlled.push(app, [config_map("web", data={"k": "newer"})])
    controlled.ring(app)
    wait_for(lambda: controlled.runs.look(app).run.get("next") == newer.digest, what="the newer one seen")
    path, cluster = f"/apis/batch/v1/namespaces/{space}/jobs/work", next(iter(controlled.clusters.values()))
    if ends == "well":
        cluster.request("PATCH", path, {"spec": {"suspend": False}}, content_type="application/merge-patch+json")
    else:
        cluster.request("DELETE", path)
    controlled.wait_run(app, digest=newer.digest, phase="Succeeded")
    first = controlled.history(app)[-1]
    assert first["phase"] == ("Succeeded" if ends == "well" else "Failed")


def test_what_a_hook_left_keeps_no_namespace_that_leaves_with_it(controlled: Fleet) -> None:
    space, other = controlled.name("t"), new_space(controlled)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    app = controlled.name("left")
    left = hook("PreSync", job("migrate"))
    left["metadata"]["namespace"] = space
    controlled.push(app, [namespace, config_map("web", other), left])
    controlled.application(app)
    controlled.wait_run(app, phase="Succeeded")
    # As long as the hook is in the bundle it needs the namespace.
    without = controlled.push(app, [config_map("web", other), left])
    controlled.ring(app)
    entry = controlled.wait_run(app, digest=without.digest, phase="Succeeded")
    assert outcomes(entry)[f"Namespace {space}"] == "kept"
    neither = controlled.push(app, [config_map("web", other)])
    controlled.ring(app)
    entry = controlled.wait_run(app, digest=neither.digest, phase="Succeeded")
    assert outcomes(entry)[f"Namespace {space}"] == "pruned"
    assert controlled.get(f"/api/v1/namespaces/{space}") is None


@pytest.mark.parametrize("kind", ["Namespace", "CustomResourceDefinition"])
def test_a_hook_that_contains_others_never_takes_them_along(controlled: Fleet, kind: str) -> None:
    """Charts make namespaces and definitions by hooks of pre-install. Helm does that once, a sync each time."""
    space, app = controlled.name("t"), controlled.name("holds")
    cluster = next(iter(controlled.clusters.values()))
    namespace: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    group = f"{space}.example.com"
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "mine", "namespace": space}}
    holder = namespace if kind == "Namespace" else definition(group)
    holder["metadata"]["annotations"] = {"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": BEFORE}
    manifests = [holder, config_map("mine", space) if kind == "Namespace" else thing]
    controlled.push(app, [*manifests, *([namespace] if kind != "Namespace" else [])])
    controlled.application(app, spec={"deletionPolicy": "Delete"})
    controlled.wait_run(app, phase="Succeeded")
    things = f"/apis/{group}/v1/namespaces/{space}/things" if kind != "Namespace" else None
    path = things or f"/api/v1/namespaces/{space}/configmaps"
    theirs = {**thing, "metadata": {"name": "theirs", "namespace": space}} if things else config_map("theirs", space)
    status, answer = cluster.request("POST", path, theirs)
    assert status == 201, answer
    before = controlled.get(f"{path}/mine")
    assert before is not None
    assert controlled.sync(app)["phase"] == "Succeeded"
    after = controlled.get(f"{path}/mine")
    assert after is not None
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert controlled.get(f"{path}/theirs") is not None
    if kind == "Namespace":
        controlled.leave(app)
        wait_for(lambda: controlled.get(f"{path}/mine") is None, what="the application to go")
        wait_for(lambda: not controlled.runs.look(app).run, what="the end of the deletion")
        assert (
            "deletionTimestamp"
            not in (controlled.get(f"{path}/theirs") or {"metadata": "deletionTimestamp"})["metadata"]
        )


BEFORE = "before-hook-creation"


def definition(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
