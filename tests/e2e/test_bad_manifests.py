"""Mistakes in manifests: a person reads file, object and field of each, and nothing of the bundle is applied."""

from __future__ import annotations

import pytest
from fleet import Fleet, config_map, in_wave
from stories import Mistake, Story, check, doc, live_through
from waiting import wait_for

from fleetbeat.local.cluster import Cluster


def bomb(levels: int = 9) -> str:
    """A "billion laughs" in a ConfigMap: each level holds nine aliases of the one before."""
    lines = ["apiVersion: v1", "kind: ConfigMap", "metadata: {name: bomb}", "a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def deployment(name: str, app: str = "web", **container: object) -> dict[str, object]:
    labels = {"app": app}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "paused": True,  # no controller runs here: nothing would ever become healthy
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1", **container}]},
            },
        },
    }


def job(name: str, image: str) -> dict[str, object]:
    pod = {"restartPolicy": "Never", "containers": [{"name": "once", "image": image}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


def service(name: str, **spec: object) -> dict[str, object]:
    ports = [{"port": 80}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": ports, **spec}}


def immutable(name: str, value: str) -> dict[str, object]:
    return {**config_map(name, data={"value": value}), "immutable": True}


BEFORE_THE_CLUSTER_IS_ASKED = [
    Mistake(
        "yaml-syntax",
        {"conf/web.yaml": "kind: ConfigMap\nmetadata: {name: web\ndata: {}\n"},
        ("conf/web.yaml, line 3",),
        "ManifestError",
    ),
    Mistake(
        "tabs",
        {"conf/web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: web\n"},
        ("conf/web.yaml, line 4",),
        "ManifestError",
    ),
    Mistake(
        "duplicate-key",
        {"web.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  labels: {a: b}\n  labels: {c: d}\n"},
        ("web.yaml, line 6", "labels"),
        "ManifestError",
    ),
    Mistake("alias-bomb", {"bomb.yaml": bomb()}, ("bomb.yaml", "alias"), "ManifestError"),
    Mistake(
        "no-kind",
        {"web.yaml": "apiVersion: v1\nmetadata: {name: web}\n"},
        ("web.yaml, document 1", "has no kind"),
        "ManifestError",
    ),
    Mistake("values-file", {"values.yaml": "replicas: 3\n"}, ("values.yaml", "has no apiVersion"), "ManifestError"),
    Mistake(
        "no-name",
        {"web.yaml": "---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {a: b}}\n"},
        ("web.yaml, document", "(line 3)", "ConfigMap", "metadata.name is missing"),
        "ManifestError",
    ),
    Mistake(
        "unknown-kind",
        {"web.yaml": "apiVersion: apps/v1\nkind: Deploymnt\nmetadata: {name: web}\n"},
        ("web.yaml", "Deploymnt web", "kind Deploymnt in apps/v1"),
        "ManifestError",
    ),
    Mistake(
        "version-not-served",
        {"web.yaml": "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: web}\n"},
        ("PodDisruptionBudget web", "policy/v1beta1", "only in policy/v1"),
        "ManifestError",
    ),
    Mistake(
        "unknown-custom-kind",
        {"web.yaml": "apiVersion: nobody.example.com/v1\nkind: Widget\nmetadata: {name: web}\n"},
        ("web.yaml", "Widget web", "kind Widget in nobody.example.com/v1"),
        "NotYet",
    ),
    Mistake(
        "same-object-twice",
        {
            "a.yaml": doc(config_map("twin", data={"from": "a"})),
            "b.yaml": doc(config_map("twin", "NAMESPACE", data={"from": "b"})),
        },
        ("b.yaml, document 1", "ConfigMap NAMESPACE/twin: also stands in a.yaml, document 1"),
        "ManifestError",
    ),
    Mistake(
        "no-namespace",
        {"web.yaml": doc(config_map("web"))},
        ("web.yaml", "ConfigMap web", "names no namespace", "spec.destination.namespace"),
        "ManifestError",
        destination=False,
    ),
    Mistake(
        "wave-that-is-no-number",
        {"web.yaml": doc(config_map("web", annotations={"argocd.argoproj.io/sync-wave": "first"}))},
        ("ConfigMap NAMESPACE/web", "argocd.argoproj.io/sync-wave", "first"),
        "ManifestError",
    ),
    Mistake(
        "kustomization",
        {"kustomization.yaml": "resources: [web.yaml]\n"},
        ("kustomization.yaml", "kustomize build"),
        "ManifestError",
    ),
    Mistake(
        "three-mistakes-at-once",
        {
            "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {}\n",
            "b.yaml": "a: [\n",
            "c.yaml": "kind: Secret\nmetadata: {name: c}\n",
        },
        ("a.yaml, document 1", "b.yaml, line 1", "c.yaml, document 1"),
        "ManifestError",
    ),
]

BY_DRY_RUN = [
    Mistake(
        "field-the-schema-does-not-know",
        {"web.yaml": doc(deployment("web", randomField="x"))},
        ("Deployment NAMESPACE/web", "randomField"),
        "ObjectsFailed",
    ),
    Mistake(
        "field-a-crd-does-not-know",
        {
            "cart.yaml": doc(
                {
                    "apiVersion": "bad.example.com/v1",
                    "kind": "Cart",
                    "metadata": {"name": "main"},
                    "spec": {"replicas": 1, "replicsa": 3},
                }
            )
        },
        ("Cart.bad.example.com NAMESPACE/main", "spec.replicsa"),
        "ObjectsFailed",
    ),
    Mistake(
        "mode-as-text",
        {
            "web.yaml": doc(
                {
                    **deployment("web"),
                    "spec": {
                        "selector": {"matchLabels": {"app": "web"}},
                        "template": {
                            "metadata": {"labels": {"app": "web"}},
                            "spec": {
                                "containers": [{"name": "web", "image": "registry.example.com/web:1"}],
                                "volumes": [{"name": "v", "configMap": {"name": "x", "defaultMode": "0644"}}],
                            },
                        },
                    },
                }
            )
        },
        ("Deployment NAMESPACE/web", "defaultMode"),
        "ObjectsFailed",
    ),
    Mistake(
        "invalid-value",
        {"web.yaml": doc(service("web", type="Balancer"))},
        ("Service NAMESPACE/web", "spec.type", "Balancer"),
        "ObjectsFailed",
    ),
    Mistake(
        "invalid-name",
        {"web.yaml": doc(config_map("Web_1"))},
        ("ConfigMap NAMESPACE/Web_1", "metadata.name"),
        "ObjectsFailed",
    ),
    Mistake(
        "immutable-selector",
        {"web.yaml": doc(deployment("web", "shop"))},
        ("Deployment NAMESPACE/web", "spec.selector", "immutable"),
        "ObjectsFailed",
        before={"web.yaml": doc(deployment("web", "web"))},
    ),
    Mistake(
        "immutable-config-map",
        {"web.yaml": doc(immutable("web", "new"))},
        ("ConfigMap NAMESPACE/web", "data", "immutable"),
        "ObjectsFailed",
        before={"web.yaml": doc(immutable("web", "old"))},
    ),
    Mistake(
        "immutable-job-template",
        {"web.yaml": doc(job("once", "registry.example.com/once:2"))},
        ("Job NAMESPACE/once", "spec.template", "immutable"),
        "ObjectsFailed",
        before={"web.yaml": doc(job("once", "registry.example.com/once:1"))},
    ),
    Mistake(
        "immutable-cluster-ip",
        {"web.yaml": doc(service("web", clusterIP="None"))},
        ("Service NAMESPACE/web", "spec.clusterIP"),
        "ObjectsFailed",
        before={"web.yaml": doc(service("web"))},
    ),
    Mistake(
        "admission-says-no",
        {"web.yaml": doc(config_map("web", data={"forbidden": "yes"}))},
        ("ConfigMap NAMESPACE/web", "no-forbidden-keys", "ask the platform team"),
        "ObjectsFailed",
        lasting=False,
    ),
    Mistake(
        "namespace-is-being-deleted",
        {"web.yaml": doc(config_map("web", "bad-terminating"))},
        ("ConfigMap bad-terminating/web", "namespace is being deleted"),
        "ObjectsFailed",
        lasting=False,
    ),
    Mistake(
        "namespace-does-not-exist",
        {"web.yaml": doc(config_map("web", "bad-nowhere"))},
        ("ConfigMap bad-nowhere/web", "namespace bad-nowhere does not exist", "CreateNamespace"),
        "ObjectsFailed",
        lasting=False,
    ),
    Mistake(
        "last-wave-only",
        {
            "10.yaml": doc(in_wave(1, config_map("early"))),
            "20.yaml": doc(in_wave(9, service("late", type="Balancer"))),
        },
        ("Service NAMESPACE/late", "spec.type"),
        "ObjectsFailed",
    ),
]


@pytest.fixture(scope="module")
def stories(fleet: Fleet, cluster: Cluster) -> dict[str, Story]:
    _cart(cluster)
    _policy(cluster)
    _terminating(cluster, "bad-terminating")
    return live_through(fleet, [*BEFORE_THE_CLUSTER_IS_ASKED, *BY_DRY_RUN])


@pytest.mark.parametrize("mistake", BEFORE_THE_CLUSTER_IS_ASKED, ids=str)
def test_what_cannot_be_read_is_told_with_its_place(mistake: Mistake, stories: dict[str, Story]) -> None:
    check(stories[mistake.name], mistake)


@pytest.mark.parametrize("mistake", BY_DRY_RUN, ids=str)
def test_what_the_server_refuses_is_found_before_the_first_write(mistake: Mistake, stories: dict[str, Story]) -> None:
    check(stories[mistake.name], mistake)


def _cart(cluster: Cluster) -> None:
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
    }
    cluster.request(
        "POST",
        path,
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "carts.bad.example.com"},
            "spec": {
                "group": "bad.example.com",
                "names": {"kind": "Cart", "plural": "carts"},
                "scope": "Namespaced",
                "versions": [
                    {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
                ],
            },
        },
    )
    wait_for(
        lambda: cluster.request("GET", "/apis/bad.example.com/v1/carts")[0] == 200, what="the CRD to be established"
    )


def _policy(cluster: Cluster) -> None:
    """An admission policy that refuses ConfigMaps with the key "forbidden" here, in force when this returns."""
    root = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    policy = {
        "metadata": {"name": "no-forbidden-keys"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "ours", "expression": "request.namespace.startsWith('bad-')"}],
            "validations": [
                {
                    "expression": "!has(object.data) || !('forbidden' in object.data)",
                    "message": "this key is not allowed; ask the platform team",
                }
            ],
        },
    }
    binding = {
        "metadata": {"name": "no-forbidden-keys"},
        "spec": {"policyName": "no-forbidden-keys", "validationActions": ["Deny"]},
    }
    cluster.request("POST", f"{root}/validatingadmissionpolicies", policy)
    cluster.request("POST", f"{root}/validatingadmissionpolicybindings", binding)
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "bad-probe"}})
    probe = config_map("probe", "bad-probe", {"forbidden": "yes"})
    wait_for(
        lambda: cluster.request("POST", "/api/v1/namespaces/bad-probe/configmaps?dryRun=All", probe)[0] in (403, 422),
        what="the admission policy to be in force",
        every=0.2,
    )


def _terminating(cluster: Cluster, name: str) -> None:
    """A namespace that is being deleted for ever: no controller finishes it."""
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    cluster.request("DELETE", f"/api/v1/namespaces/{name}")
