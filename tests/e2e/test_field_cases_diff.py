"""Field cases a: what looks like a difference and is none, and what is one and must not be missed."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet, config_map, outcomes
from people import Hands, differences, quiet, versions
from waiting import wait_for
from webhook import Webhook

from fleetbeat import keys

Body = dict[str, Any]


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(next(iter(fleet.clusters.values())))


@pytest.fixture
def synced(fleet: Fleet, namespace: str) -> Callable[..., str]:
    """``synced(manifest, …, spec={…})``: an application with these objects in place; its name."""

    def sync(*manifests: Body, word: str = "diff", spec: Body | None = None, **options: Any) -> str:
        app = fleet.name(word)
        fleet.push(app, manifests)
        fleet.application(app, namespace=namespace, spec=spec, **options)
        fleet.wait_run(app, phase="Succeeded")
        return app

    return sync


def no_op(fleet: Fleet, app: str, *paths: str) -> None:
    """The API server sees no difference, and a second sync writes nothing."""
    assert [(found.id, found.reason, found.text) for found in differences(fleet, app)] == []
    before = versions(fleet, list(paths))
    assert "gone" not in before
    start = next(iter(fleet.clusters.values())).audit_position()
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert fleet.writes(app, since=start) == []
    assert versions(fleet, list(paths)) == before
    assert fleet.state(app)["sync"] == "Synced"


def again(fleet: Fleet, app: str, *manifests: Body, phase: str = "Succeeded") -> Body:
    """Push the next revision and wait for its run."""
    revision = fleet.push(app, manifests)
    fleet.ring(app)
    return fleet.wait_run(app, digest=revision.digest, phase=phase)


def workload(kind: str = "Deployment", **pod: Any) -> Body:
    spec: Body = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1", **pod.pop("container", {})}], **pod},
        },
    }
    if kind == "StatefulSet":
        spec["serviceName"] = "web"
    return quiet({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec})


def crd(group: str, schema: Body, *, status: bool = False, **names: Any) -> Body:
    version: Body = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", **names},
            "versions": [version],
        },
    }


def free(**properties: Any) -> Body:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}


def thing(group: str, **spec: Any) -> Body:
    return quiet({"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": spec})


def define(hands: Hands, definition: Body) -> None:
    """Returns when the kind is served: a sync that comes before that fails for another reason."""
    hands.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    wait_for(lambda: hands.get(f"/apis/{definition['spec']['group']}/v1/things"), what="the kind to be served")


def group_of(namespace: str) -> str:
    """A group of its own for each test: the API server is shared."""
    return f"{namespace}.example.com"


def test_quantities_are_compared_as_the_server_stores_them(
    fleet: Fleet, synced: Callable[..., str], namespace: str
) -> None:
    """Field case a1; counter-check: the same spelling in a free text is a change."""
    requests = {"cpu": "1000m", "memory": "1000M"}
    resources = {"requests": requests, "limits": {"cpu": "2", "memory": "1.5Gi"}}
    group = group_of(namespace)
    app = synced(
        workload("StatefulSet", container={"resources": resources}),
        config_map("sizes", data={"cpu": "1000m"}),
        crd(group, free(cpu={"type": "string"})),
        thing(group, cpu="1000m"),
    )
    path = f"/apis/apps/v1/namespaces/{namespace}/statefulsets/web"
    stored = (fleet.get(path) or {})["spec"]["template"]["spec"]["containers"][0]["resources"]
    assert stored == {"requests": {"cpu": "1", "memory": "1G"}, "limits": {"cpu": "2", "memory": "1536Mi"}}
    no_op(fleet, app, path, f"/api/v1/namespaces/{namespace}/configmaps/sizes")
    entry = again(
        fleet,
        app,
        workload("StatefulSet", container={"resources": resources}),
        config_map("sizes", data={"cpu": "1"}),
        crd(group, free(cpu={"type": "string"})),
        thing(group, cpu="1"),
    )
    assert outcomes(entry) == {
        f"ConfigMap {namespace}/sizes": "configured",
        f"Thing.{group} {namespace}/one": "configured",
    }


def test_empty_and_null_are_no_drift_and_emptying_empties(
    fleet: Fleet, synced: Callable[..., str], namespace: str
) -> None:
    """Field case a2."""
    group = group_of(namespace)
    web = workload(
        container={"resources": {}, "args": ["a"]}, nodeSelector={}, tolerations=[], volumes=None, securityContext={}
    )
    web["metadata"] |= {"creationTimestamp": None, "labels": None}
    definition = crd(group, free(policy={"type": "object"}), categories=[])
    app = synced(web, definition, thing(group, policy={}), config_map("plain", annotations=None))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    no_op(fleet, app, path, f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}")
    web["spec"]["template"]["spec"]["containers"][0]["args"] = []
    entry = again(fleet, app, web, definition, thing(group, policy={}), config_map("plain", annotations=None))
    assert outcomes(entry) == {f"Deployment {namespace}/web": "configured"}
    assert "args" not in (fleet.get(path) or {})["spec"]["template"]["spec"]["containers"][0]
    no_op(fleet, app, path)


def test_ports_without_protocol(fleet: Fleet, synced: Callable[..., str], namespace: str) -> None:
    """Field case a3: both ports live, no drift."""
    ports = [{"containerPort": 53, "name": "dns", "protocol": "UDP"}, {"containerPort": 53, "name": "dns-tcp"}]
    app = synced(workload(container={"ports": ports}))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    live = (fleet.get(path) or {})["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert [(port["name"], port["protocol"]) for port in live] == [("dns", "UDP"), ("dns-tcp", "TCP")]
    no_op(fleet, app, path)


def test_a_missing_list_key_is_told_with_object_and_key(fleet: Fleet, namespace: str) -> None:
    """Field case a3: a CRD without the default. Nothing of the application is half-applied."""
    group = group_of(namespace)
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "required": ["port", "protocol"],
            "properties": {"port": {"type": "integer"}, "protocol": {"type": "string"}},
        },
    }
    hands = Hands(next(iter(fleet.clusters.values())))
    define(hands, crd(group, free(ports=ports)))
    app = fleet.name("keyless")
    fleet.push(app, [thing(group, ports=[{"port": 53}]), config_map("other")])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Failed")
    assert "one" in entry["message"]
    assert "protocol" in entry["message"]
    assert outcomes(entry)[f"ConfigMap {namespace}/other"] == "skipped"


def webhook(namespace: str, rules: list[Body]) -> Body:
    hook = {
        "name": "w.example.com",
        "clientConfig": {"service": {"name": "w", "namespace": namespace}},
        "rules": rules,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"never": "there"}},
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [hook],
    }


def rule(*versions: str) -> Body:
    return {"apiGroups": ["x.example.com"], "apiVersions": list(versions), "operations": ["*"], "resources": ["*"]}


def inject(hands: Hands, path: str, **fields: Any) -> None:
    """A controller writes its own idea of the webhook's fields."""
    body = hands.get(path)
    hook = body["webhooks"][0]
    hook["clientConfig"] |= fields.pop("clientConfig", {})
    hook |= fields
    hands.merge(path, {"webhooks": [hook]}, "webhook-controller")


def test_a_ca_bundle_of_others_stays_and_an_atomic_list_is_healed(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands
) -> None:
    """Field case a5."""
    app = synced(webhook(namespace, [rule("v1alpha1", "v1beta1")]))
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace}"
    bundle = base64.b64encode(next(iter(fleet.clusters.values())).ca_pem.encode()).decode()
    inject(hands, path, clientConfig={"caBundle": bundle})
    no_op(fleet, app, path)
    since = fleet.runs_ended(app)
    inject(hands, path, rules=[rule("v1alpha1"), rule("v1beta1")])
    fleet.ring(app)
    entry = fleet.wait_run(app, since=since)
    assert outcomes(entry) == {f"MutatingWebhookConfiguration {namespace}": "configured"}
    assert "rules" in entry["results"][0]["reason"]
    assert "webhook-controller" in entry["results"][0]["reason"]
    live = hands.get(path)["webhooks"][0]
    assert [r["apiVersions"] for r in live["rules"]] == [["v1alpha1", "v1beta1"]]
    assert live["clientConfig"]["caBundle"] == bundle


@pytest.mark.parametrize(
    "ignore",
    [
        pytest.param({"jsonPointers": ["/webhooks/0/rules"]}, id="pointer"),
        pytest.param({"jqPathExpressions": ['.webhooks[] | select(.name == "w.example.com") | .rules']}, id="jq"),
        pytest.param({"managedFieldsManagers": ["webhook-controller"]}, id="manager"),
    ],
)
def test_an_ignored_list_stays_even_when_the_object_is_written(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, ignore: Body
) -> None:
    """Field case a5: honoured at apply time, not only in the diff."""
    spec = {"ignoreDifferences": [{"kind": "MutatingWebhookConfiguration", **ignore}]}
    first = webhook(namespace, [rule("v1alpha1", "v1beta1")])
    app = synced(first, spec=spec)
    path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{namespace}"
    inject(hands, path, rules=[rule("v1alpha1"), rule("v1beta1")])
    no_op(fleet, app, path)
    first["webhooks"][0]["timeoutSeconds"] = 5
    entry = again(fleet, app, first)
    assert outcomes(entry) == {f"MutatingWebhookConfiguration {namespace}": "configured"}
    live = hands.get(path)["webhooks"][0]
    assert live["timeoutSeconds"] == 5
    assert [r["apiVersions"] for r in live["rules"]] == [["v1alpha1"], ["v1beta1"]]


def test_rules_of_an_aggregated_role_are_never_emptied(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands
) -> None:
    """Field case a6."""
    role: Body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": namespace, "labels": {"team": "web"}},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": namespace}}]},
        "rules": [],
    }
    app = synced(role)
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{namespace}"
    filled = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    aggregated = {"apiVersion": role["apiVersion"], "kind": "ClusterRole", "metadata": {"name": namespace}}
    hands.apply(path, {**aggregated, "rules": filled}, "clusterrole-aggregation-controller")
    no_op(fleet, app, path)
    since = fleet.runs_ended(app)
    hands.merge(path, {"metadata": {"labels": {"team": "mine"}}}, "kubectl-label")
    fleet.ring(app)
    entry = fleet.wait_run(app, since=since)
    assert "team" in entry["results"][0]["reason"]
    live = hands.get(path)
    assert live["metadata"]["labels"]["team"] == "web"
    assert live["rules"] == filled
    assert live["aggregationRule"] == role["aggregationRule"]


def test_the_controller_fills_an_aggregated_role_in_peace(controlled: Fleet) -> None:
    """Field case a6, with the real controller: at no version are its rules empty again, whatever we write."""
    (cluster,) = controlled.clusters.values()
    hands, name = Hands(cluster), controlled.name("sum")
    about = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    part = {**about, "metadata": {"name": f"{name}-part", "labels": {"to": name}}, "rules": rules}
    whole: Body = {
        **about,
        "metadata": {"name": name, "labels": {"team": "web"}},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": name}}]},
        "rules": [],
    }
    controlled.push(name, [whole, part])
    controlled.application(name)
    controlled.wait_run(name, phase="Succeeded")
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{name}"
    wait_for(lambda: hands.get(path).get("rules") == rules, what="the controller")
    controlled.tick(name)
    start = cluster.audit_position()
    for _ in range(4):
        assert controlled.tick(name) == "nothing to do"
    assert controlled.writes(name, since=start) == []
    whole["metadata"]["labels"]["team"] = "shop"
    controlled.push(name, [whole, part])
    controlled.tick(name)
    live = hands.get(path)
    assert (live["metadata"]["labels"]["team"], live["rules"]) == ("shop", rules)
    hands.merge(path, {"metadata": {"labels": {"team": "mine"}}}, "kubectl-label")
    controlled.tick(name)
    live = hands.get(path)
    assert (live["metadata"]["labels"]["team"], live["rules"]) == ("shop", rules)
    # Written by us or by the controller: never emptied, so the controller had nothing to fill in a second time.
    filled = [event for event in cluster.audit(start) if _fills(event, name)]
    assert filled == []


def _fills(event: Body, name: str) -> bool:
    """A write by the aggregation controller to this role."""
    about = event.get("objectRef", {})
    mine = (about.get("resource"), about.get("name")) == ("clusterroles", name)
    return mine and event["verb"] in ("patch", "update") and "controller" in event["user"]["username"]


def test_a_generated_crd(fleet: Fleet, synced: Callable[..., str], namespace: str) -> None:
    """Field case a7."""
    group = group_of(namespace)
    definition = crd(group, free())
    definition["metadata"]["creationTimestamp"] = None
    definition["spec"]["preserveUnknownFields"] = False
    definition["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "conditions": [], "storedVersions": []}
    app = synced(definition)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}"
    live = fleet.get(path) or {}
    assert {c["type"]: c["status"] for c in live["status"]["conditions"]}["Established"] == "True"
    no_op(fleet, app, path)


@pytest.mark.parametrize("kind", ["built-in", "custom"])
def test_a_misspelt_field_is_named(fleet: Fleet, namespace: str, hands: Hands, kind: str) -> None:
    """Field case a8. Nothing is written; see docs/decisions/0015 for the other objects."""
    group = group_of(namespace)
    if kind == "custom":
        define(hands, crd(group, free(replicas={"type": "integer"})))
    wrong = thing(group, replicsa=3) if kind == "custom" else workload(container={"randomField": "x"})
    app = fleet.name("typo")
    fleet.push(app, [wrong, config_map("other")])
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Failed")
    assert ("replicsa" if kind == "custom" else "randomField") in entry["message"]
    assert outcomes(entry)[f"ConfigMap {namespace}/other"] == "skipped"
    # No hot loop: the next try has its pause, and nothing is written meanwhile.
    due = wait_for(lambda: fleet.store.redis.zscore(keys.DUE, app), what="the next look")
    assert due - fleet.runs.now() > 1000
    assert fleet.writes(app) == []


def test_another_version_of_the_same_object(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands
) -> None:
    """Field case a9: compared at the version of the manifest."""
    scaler = quiet(
        {
            "apiVersion": "autoscaling/v1",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3,
                "targetCPUUtilizationPercentage": 80,
            },
        }
    )
    app = synced(scaler)
    path = f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/web"
    hands.merge(path, {"metadata": {"annotations": {"seen-by": "v2"}}}, "v2-client")
    no_op(fleet, app, path)
    assert hands.get(path)["metadata"]["annotations"]["seen-by"] == "v2"


def test_only_the_servers_own_schema_decides(fleet: Fleet, synced: Callable[..., str], namespace: str) -> None:
    """Field case a10: fields newer than any schema that could be compiled in."""
    job = quiet(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "once"},
            "spec": {
                "podReplacementPolicy": "Failed",
                "managedBy": "example.com/controller",
                "template": {
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "once", "image": "once:1"}]},
                },
            },
        }
    )
    app = synced(job)
    no_op(fleet, app, f"/apis/batch/v1/namespaces/{namespace}/jobs/once")


def test_drift_outside_of_spec(fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands) -> None:
    """Field case a11."""
    binary = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bin"}, "binaryData": {"x": "AAE="}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"k": "djE="}}
    app = synced(binary, secret)
    since = fleet.runs_ended(app)
    hands.merge(f"/api/v1/namespaces/{namespace}/configmaps/bin", {"binaryData": {"x": "AAI="}})
    hands.merge(f"/api/v1/namespaces/{namespace}/secrets/key", {"data": {"k": "djI="}})
    fleet.ring(app)
    entry = fleet.wait_run(app, since=since)
    assert set(outcomes(entry).values()) == {"configured"}
    assert (fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/bin") or {})["binaryData"] == {"x": "AAE="}
    assert (fleet.get(f"/api/v1/namespaces/{namespace}/secrets/key") or {})["data"] == {"k": "djE="}


def test_an_immutable_config_map(fleet: Fleet, synced: Callable[..., str], namespace: str) -> None:
    """Field case a11: an error that says so, or delete and create where force is asked for."""
    fixed = config_map("fixed", data={"v": "1"}) | {"immutable": True}
    app = synced(fixed)
    path = f"/api/v1/namespaces/{namespace}/configmaps/fixed"
    uid = (fleet.get(path) or {})["metadata"]["uid"]
    entry = again(fleet, app, fixed | {"data": {"v": "2"}}, phase="Failed")
    assert "immutable" in entry["message"]
    assert "Force=true" in entry["message"]
    assert (fleet.get(path) or {})["metadata"]["uid"] == uid
    forced = config_map("fixed", data={"v": "2"}, annotations={"argocd.argoproj.io/sync-options": "Force=true"})
    entry = again(fleet, app, forced | {"immutable": True})
    assert outcomes(entry) == {f"ConfigMap {namespace}/fixed": "created"}
    live = fleet.get(path) or {}
    assert live["data"] == {"v": "2"}
    assert live["metadata"]["uid"] != uid
    no_op(fleet, app, path)


def mutated(deployment: Body) -> list[Body]:
    """What mutating webhooks do: add a sidecar, fill in defaults, rewrite an image to a mirror. Idempotent."""
    pod = deployment["spec"]["template"]["spec"]
    patch: list[Body] = []
    for number, container in enumerate(pod["containers"]):
        at = f"/spec/template/spec/containers/{number}"
        if not container["image"].startswith("mirror/"):
            patch.append({"op": "replace", "path": f"{at}/image", "value": f"mirror/{container['image']}"})
        if not container.get("resources"):
            patch.append({"op": "add", "path": f"{at}/resources", "value": {"limits": {"cpu": "1"}}})
    if all(container["name"] != "sidecar" for container in pod["containers"]):
        sidecar = {"name": "sidecar", "image": "mirror/sidecar:1", "resources": {"limits": {"cpu": "1"}}}
        patch.append({"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar})
    return patch


def test_mutating_webhooks_are_no_drift(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, tmp_path: Path
) -> None:
    """Sidecar injector, defaults, a rewritten field of ours: no fight, generations stop growing, drift is seen."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    configuration = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    with Webhook(tmp_path, mutated) as webhook:
        hands.create(configuration, webhook.configuration(f"{namespace}-i", namespace, "apps", "deployments"))
        try:
            wait_for(lambda: called(hands, namespace), what="the API server to know the webhook")
            app = synced(workload())
            no_op(fleet, app, path)
            entry = again(fleet, app, workload(container={"image": "web:2"}))
            assert outcomes(entry) == {f"Deployment {namespace}/web": "configured"}
            generation = hands.get(path)["metadata"]["generation"]
            no_op(fleet, app, path)
            images = [c["image"] for c in hands.get(path)["spec"]["template"]["spec"]["containers"]]
            assert images == ["mirror/web:2", "mirror/sidecar:1"]
            assert hands.get(path)["metadata"]["generation"] == generation
            since = fleet.runs_ended(app)
            hands.merge(path, {"spec": {"template": {"metadata": {"labels": {"app": "web", "extra": "theirs"}}}}})
            container = {"name": "web", "image": "mirror/other:1"}
            hands.merge(path, {"spec": {"template": {"spec": {"containers": [container]}}}})
            fleet.ring(app)
            assert fleet.wait_run(app, since=since)["counts"] == {"configured": 1}
            images = [c["image"] for c in hands.get(path)["spec"]["template"]["spec"]["containers"]]
            assert images == ["mirror/web:2", "mirror/sidecar:1"]
            no_op(fleet, app, path)
        finally:
            hands.delete(f"{configuration}/{namespace}-i")


def called(hands: Hands, namespace: str) -> bool:
    """Whether a trial Deployment comes back with its sidecar: configurations reach the API server by a watch."""
    trial = workload() | {"metadata": {"name": "trial", "namespace": namespace}}
    answer = hands.create(f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All", trial)
    return len(answer["spec"]["template"]["spec"]["containers"]) == 2
