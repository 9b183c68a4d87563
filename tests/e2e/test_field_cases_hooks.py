"""Field cases, group c: hooks that end, vanish, repeat and clean up; waves, and what they need; late pruning."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleet import Fleet, config_map, in_wave, outcomes, words
from hooking import NOWHERE, Body, account, failing, hanging, hook, hooks_of, job, jobs, new_space, run_of
from waiting import wait_for


def service(name: str) -> Body:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}}


@contextmanager
def refusing(fleet: Fleet, namespace: str, name: str) -> Iterator[None]:
    """The API server refuses a Service of that name there, but not its dry-run."""
    cluster = next(iter(fleet.clusters.values()))
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    policy = {
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": f"request.dryRun || object.metadata.name != '{name}'", "message": "not today"}
            ],
        },
    }
    labels = {"kubernetes.io/metadata.name": namespace}
    binding = {
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": labels}},
        },
    }
    paths = [f"{group}/validatingadmissionpolicies", f"{group}/validatingadmissionpolicybindings"]
    for path, body in zip(paths, (policy, binding), strict=True):
        status, answer = cluster.request("POST", path, body)
        assert status == 201, answer
    services = f"/api/v1/namespaces/{namespace}/services"

    def active() -> bool:
        status, _ = cluster.request("POST", services, service(name))
        if status == 201:
            cluster.request("DELETE", f"{services}/{name}")
        return status == 422

    try:
        wait_for(active, what="the policy to be in force", every=0.2)
        yield
    finally:
        for path in reversed(paths):
            cluster.request("DELETE", f"{path}/{namespace}")


def test_a_hook_job_that_may_go_at_once_counts_when_it_has_finished(controlled: Fleet) -> None:
    """Field case c1: ttlSecondsAfterFinished 0. It is seen finished, then deleted, and leaves no finalizer behind."""
    app, space = controlled.name("c1"), new_space(controlled)
    start = next(iter(controlled.clusters.values())).audit_position()
    migrate = hook("PreSync", job("migrate", ttlSecondsAfterFinished=0))
    controlled.push(app, [migrate, config_map("web", space)])
    controlled.application(app, namespace=space)
    entry = controlled.wait_run(app, phase="Succeeded")
    assert hooks_of(entry) == {("PreSync", f"Job {space}/migrate"): "created"}
    assert outcomes(entry)[f"ConfigMap {space}/web"] == "created"
    assert words(controlled.writes(app, since=start)) == [
        f"patch jobs {space}/migrate",
        f"delete jobs {space}/migrate",
        f"patch configmaps {space}/web",
    ]
    path = f"/apis/batch/v1/namespaces/{space}/jobs/migrate"
    wait_for(lambda: controlled.get(path) is None, what="the Job to be gone")


def test_a_hook_job_deleted_before_its_end_fails_the_sync(controlled: Fleet) -> None:
    """Field cases c1, c9: nobody can tell whether it has done its work."""
    app, space = controlled.name("c1"), new_space(controlled)
    controlled.push(app, [hook("PreSync", hanging("migrate", ttlSecondsAfterFinished=0)), config_map("web", space)])
    controlled.application(app, namespace=space, retry={"limit": 0})
    wait_for(lambda: jobs(controlled, space), what="the hook")
    path = f"/apis/batch/v1/namespaces/{space}/jobs/migrate?propagationPolicy=Background"
    next(iter(controlled.clusters.values())).request("DELETE", path)
    entry = controlled.wait_run(app, phase="Failed")
    assert f"PreSync wave 0: Job {space}/migrate is Missing: deleted externally" in entry["message"]
    assert outcomes(entry)[f"ConfigMap {space}/web"] == "skipped"
    wait_for(
        lambda: controlled.get(f"/apis/batch/v1/namespaces/{space}/jobs/migrate") is None, what="no Job to be left"
    )


def test_a_generated_name_makes_one_object_for_each_sync(controlled: Fleet) -> None:
    """Field case c5: none for a tick or a drift, one for each sync that is asked for; the one before goes."""
    app, space = controlled.name("c5"), new_space(controlled)
    controlled.push(app, [hook("PreSync", job("mig-")), config_map("web", space)])
    controlled.application(app, namespace=space)
    first = controlled.wait_run(app, phase="Succeeded")
    [made] = jobs(controlled, space)
    assert made.startswith("mig-")
    assert hooks_of(first) == {("PreSync", f"Job {space}/{made}"): "created"}
    assert controlled.state(app)["sync"] == "Synced"
    assert controlled.state(app)["objects"] == "1"

    path = f"/api/v1/namespaces/{space}/configmaps/web"
    next(iter(controlled.clusters.values())).request(
        "PATCH", path, {"data": {"key": "edited"}}, content_type="application/merge-patch+json"
    )
    before = controlled.runs_ended(app)
    controlled.ring(app)
    healed = controlled.wait_run(app, phase="Succeeded", since=before)
    assert (healed["trigger"], hooks_of(healed)) == ("Drift", {})
    assert list(jobs(controlled, space)) == [made]

    second = controlled.sync(app)
    assert second["phase"] == "Succeeded", second["message"]
    [new] = jobs(controlled, space)
    assert new != made
    assert hooks_of(second) == {("PreSync", f"Job {space}/{new}"): "created"}
    before = len(controlled.history(app))
    controlled.ring(app)
    third = controlled.sync(app)  # what was rung before it has been looked at
    assert len(controlled.history(app)) == before + 1
    assert len(hooks_of(third)) == 1


def test_helpers_of_a_phase_stay_until_it_is_over(controlled: Fleet) -> None:
    """Field case c6: an account that goes when the phase has succeeded is there as long as the Job that uses it."""
    app, space = controlled.name("c6"), new_space(controlled)
    start = next(iter(controlled.clusters.values())).audit_position()
    controlled.push(
        app,
        [
            hook("PreSync", account("migrator"), wave=-5, policy="HookSucceeded"),
            hook("PreSync", job("migrate", template={"serviceAccountName": "migrator"}), wave=-3),
            config_map("web", space),
        ],
    )
    controlled.application(app, namespace=space)
    entry = controlled.wait_run(app, phase="Succeeded")
    assert words(controlled.writes(app, since=start)) == [
        f"patch serviceaccounts {space}/migrator",
        f"patch jobs {space}/migrate",
        f"delete serviceaccounts {space}/migrator",
        f"patch configmaps {space}/web",
    ]
    told = {result["id"]: result.get("reason", "") for result in entry["results"] if result.get("phase")}
    assert told[f"/ServiceAccount/{space}/migrator"] == "deleted (HookSucceeded)"
    assert f"{space}/migrate" in "".join(told)
    assert "migrate" in jobs(controlled, space)


def test_what_a_failed_phase_leaves_is_what_its_policies_say(controlled: Fleet) -> None:
    """Field case c6: HookFailed deletes, HookSucceeded does not; the default keeps the Job for who looks into it."""
    app, space = controlled.name("c6"), new_space(controlled)
    controlled.push(
        app,
        [
            hook("PreSync", account("kept"), wave=-5, policy="HookSucceeded"),
            hook("PreSync", account("gone"), wave=-5, policy="HookFailed"),
            hook("PreSync", failing("migrate"), wave=-3),
            hook("PreSync", failing("cleared"), wave=-3, policy="BeforeHookCreation,HookFailed"),
            config_map("web", space),
        ],
    )
    controlled.application(app, namespace=space, retry={"limit": 0})
    entry = controlled.wait_run(app, phase="Failed")
    assert entry["error"] == "HealthCheckFailed"
    assert "DeadlineExceeded" in entry["message"]
    accounts = f"/api/v1/namespaces/{space}/serviceaccounts"
    assert controlled.get(f"{accounts}/kept") is not None
    assert controlled.get(f"{accounts}/gone") is None
    assert "migrate" in jobs(controlled, space)
    assert controlled.get(f"/api/v1/namespaces/{space}/configmaps/web") is None


def test_each_attempt_of_a_retry_starts_clean(controlled: Fleet) -> None:
    """Field case c7: hook and a refused object in one wave; the hook is made anew at each attempt."""
    app, space = controlled.name("c7"), new_space(controlled)
    cluster = next(iter(controlled.clusters.values()))
    with refusing(controlled, space, "refused"):
        controlled.push(app, [hook("Sync", job("migrate")), service("refused")])
        retry = {"limit": 100, "backoff": {"duration": "1s", "factor": 1}}
        controlled.application(app, namespace=space, retry=retry)
        failed = controlled.wait_run(app, phase="Failed")
        assert "not today" in failed["message"]
        wait_for(lambda: "migrate" in jobs(controlled, space), what="the hook of an attempt")  # each deletes the last
        wait_for(lambda: controlled.history(app)[0].get("count", 1) > 1, what="a second attempt")
    entry = controlled.wait_run(app, phase="Succeeded")
    assert run_of(jobs(controlled, space)["migrate"]) == entry["run"]
    assert cluster.request("GET", f"/api/v1/namespaces/{space}/services/refused")[0] == 200


def test_argo_cds_annotations_beat_helms_and_each_phase_named_runs_it(controlled: Fleet) -> None:
    """Field case c8: the Job of both stays after it has succeeded; one of two phases runs in each."""
    app, space = controlled.name("c8"), new_space(controlled)
    both = hook("PreSync", job("both"), policy="BeforeHookCreation")
    both["metadata"]["annotations"] |= {
        "helm.sh/hook": "post-install",
        "helm.sh/hook-delete-policy": "hook-succeeded",
    }
    controlled.push(app, [both, hook("PreSync,PostSync", job("twice")), config_map("web", space)])
    controlled.application(app, namespace=space)
    entry = controlled.wait_run(app, phase="Succeeded")
    assert hooks_of(entry) == {
        ("PreSync", f"Job {space}/both"): "created",
        ("PreSync", f"Job {space}/twice"): "created",
        ("PostSync", f"Job {space}/twice"): "created",
    }
    assert entry["message"] == "1 created, 3 hooks run"
    assert sorted(jobs(controlled, space)) == ["both", "twice"]


def test_an_object_deleted_while_its_wave_waits_fails_the_sync(controlled: Fleet) -> None:
    """Field case c9: within the pause between two looks, and the message says it."""
    app, space = controlled.name("c9"), new_space(controlled)
    controlled.push(app, [hanging("long"), in_wave(1, config_map("web", space))])
    controlled.application(app, namespace=space, retry={"limit": 0})
    wait_for(lambda: jobs(controlled, space), what="the Job")
    path = f"/apis/batch/v1/namespaces/{space}/jobs/long?propagationPolicy=Background"
    next(iter(controlled.clusters.values())).request("DELETE", path)
    entry = controlled.wait_run(app, phase="Failed")
    assert f"Job {space}/long is Missing: deleted externally" in entry["message"]


def test_what_pods_still_need_is_pruned_after_the_new_ones_are_healthy(controlled: Fleet) -> None:
    """Field case c11: a ConfigMap renamed together with a rollout that never gets ready stays."""
    app, space = controlled.name("c11"), new_space(controlled)

    def web(config: str, **pod: Any) -> dict[str, Any]:
        labels = {"app": "web"}
        container = {"name": "web", "image": "example.com/web:1", "envFrom": [{"configMapRef": {"name": config}}]}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
        spec = {"selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}

    old = config_map("cfg-a", space, annotations={"argocd.argoproj.io/sync-options": "PruneLast=true"})
    controlled.push(app, [old, web("cfg-a")])
    controlled.application(app, namespace=space)
    controlled.wait_run(app, phase="Succeeded")
    broken = controlled.push(app, [config_map("cfg-b", space), web("cfg-b", **NOWHERE)])
    controlled.application(app, namespace=space, timeout="3s", retry={"limit": 0})
    entry = controlled.wait_run(app, digest=broken.digest, phase="Failed")
    assert entry["error"] == "HealthCheckTimeout"
    assert controlled.get(f"/api/v1/namespaces/{space}/configmaps/cfg-a") is not None
    mended = controlled.push(app, [config_map("cfg-b", space), web("cfg-b")])
    controlled.application(app, namespace=space)
    controlled.wait_run(app, digest=mended.digest, phase="Succeeded")
    assert controlled.get(f"/api/v1/namespaces/{space}/configmaps/cfg-a") is None


# ── waves ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_objects_need_may_come_in_earlier_waves_of_the_same_bundle(controlled: Fleet) -> None:
    """Field case c2: Namespace, definition, its object, a bare Pod with a new account: one sync, nothing opted into."""
    app = controlled.name("waves")
    group = f"{app}.example.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Boat", "plural": "boats", "singular": "boat"}
    definition: Body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boats.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    pod: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "bare"},
        "spec": {"serviceAccountName": "crew", "containers": [{"name": "c", "image": "example.com/c:1"}]},
    }
    boat: Body = {"apiVersion": f"{group}/v1", "kind": "Boat", "metadata": {"name": "main"}}
    space: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": app}}
    waves = [in_wave(1, pod), in_wave(1, account("crew")), boat, in_wave(-1, definition), in_wave(-2, space)]
    controlled.push(app, waves)
    controlled.application(app, namespace=app)
    entry = controlled.wait_run(app)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert set(outcomes(entry).values()) == {"created"}
    assert controlled.runs_ended(app) == 1


def test_a_kind_that_is_nowhere_fails_at_once(fleet: Fleet, namespace: str) -> None:
    """Field case c2: neither the cluster nor the bundle defines it, so there is nothing to wait for."""
    app = fleet.name("nowhere")
    thing: Body = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    fleet.push(app, [config_map("web", namespace), thing])
    fleet.application(app, namespace=namespace, retry={"limit": 0})
    entry = fleet.wait_run(app, phase="Failed")
    assert (
        "kind Thing in nowhere.example.com/v1 is neither served by the cluster nor defined by the bundle"
        in entry["message"]
    )
    assert not fleet.writes(app)


def test_the_second_sync_does_not_take_the_old_health_for_the_new(controlled: Fleet) -> None:
    """Field case c4: a Deployment that says Available of what it was before holds the next wave up until it is new."""
    app, space = controlled.name("rollout"), new_space(controlled)

    def bundle(version: str) -> list[Body]:
        labels = {"app": "web"}
        container = {"name": "c", "image": f"example.com/web:{version}"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 1, "minReadySeconds": 1, "selector": {"matchLabels": labels}, "template": template}
        web: Body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
        return [web, in_wave(1, config_map("after", "", {"version": version}))]

    controlled.push(app, bundle("1"))
    controlled.application(app, namespace=space)
    controlled.wait_run(app, phase="Succeeded")
    second = controlled.push(app, bundle("2"))
    position = next(iter(controlled.clusters.values())).audit_position()
    controlled.ring(app)
    controlled.wait_run(app, digest=second.digest, phase="Succeeded")
    written = [event["objectRef"]["name"] for event in controlled.writes(app, since=position)]
    assert written == ["web", "after"]
    after = controlled.get(f"/api/v1/namespaces/{space}/configmaps/after") or {}
    # The Deployment as it was at the very moment of the next wave's write.
    moment = f"resourceVersion={after['metadata']['resourceVersion']}&resourceVersionMatch=Exact"
    (then,) = (controlled.get(f"/apis/apps/v1/namespaces/{space}/deployments?{moment}") or {})["items"]
    assert then["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/web:2"
    assert then["status"]["observedGeneration"] == then["metadata"]["generation"]
    assert (then["status"]["updatedReplicas"], then["status"]["availableReplicas"]) == (1, 1)
