"""Whose object it is, and who changed it."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.changes import changed_paths
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.decisions.ownership import Foreign, Ours, Unowned, changed_by, latest_foreign, owner_of
from fleetbeat.model_results import Manager

OURS = "applyset-ours-v1"


def live(kind="ConfigMap", api="v1", name="web", namespace="shop", labels=None, annotations=None, **fields):
    metadata = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


TRACKING = "argocd.argoproj.io/tracking-id"
INSTALLATION = "argocd.argoproj.io/installation-id"
FLUX = "kustomize.toolkit.fluxcd.io"
HELM_FLUX = "helm.toolkit.fluxcd.io"
HELM = {"meta.helm.sh/release-name": "web", "meta.helm.sh/release-namespace": "shop"}

FOREIGN = [
    ("applyset", live(labels={PART_OF: "applyset-theirs-v1"}), "ApplySet", "applyset-theirs-v1"),
    (
        "argo-tracking-of-an-installation",
        live(annotations={TRACKING: "cart:/ConfigMap:shop/web", INSTALLATION: "east"}),
        "Argo CD application",
        "cart of installation east",
    ),
    ("argo-installation", live(annotations={INSTALLATION: "east"}), "Argo CD application", "of installation east"),
    ("argo-tracking", live(annotations={TRACKING: "cart:/ConfigMap:shop/web"}), "Argo CD application", "cart"),
    (
        "argo-tracking-in-another-namespace",
        live("Deployment", "apps/v1", annotations={TRACKING: "argo_cart:apps/Deployment:shop/web"}),
        "Argo CD application",
        "argo_cart",
    ),
    (
        "argo-tracking-cluster-scoped",
        live(
            "ClusterRole",
            "rbac.authorization.k8s.io/v1",
            name="system:web",
            namespace="",
            annotations={TRACKING: "cart:rbac.authorization.k8s.io/ClusterRole:shop/system:web"},
        ),
        "Argo CD application",
        "cart",
    ),
    ("argo-label", live(labels={"argocd.argoproj.io/instance": "cart"}), "Argo CD application", "cart"),
    (
        "flux-kustomization",
        live(labels={f"{FLUX}/name": "apps", f"{FLUX}/namespace": "flux-system"}),
        "Flux Kustomization",
        "flux-system/apps",
    ),
    (
        "flux-helm-release",
        live(
            labels={f"{HELM_FLUX}/name": "web", f"{HELM_FLUX}/namespace": "x", "app.kubernetes.io/managed-by": "Helm"},
            annotations=HELM,
        ),
        "Flux HelmRelease",
        "x/web",
    ),
    ("helm", live(labels={"app.kubernetes.io/managed-by": "Helm"}, annotations=HELM), "Helm release", "shop/web"),
    ("kapp", live(labels={"kapp.k14s.io/app": "1700000000"}), "kapp application", "1700000000"),
    ("cli-utils", live(annotations={"config.k8s.io/owning-inventory": "inv"}), "cli-utils inventory", "inv"),
]


@pytest.mark.parametrize(("body", "tool", "name"), [f[1:] for f in FOREIGN], ids=[f[0] for f in FOREIGN])
def test_foreign_marks(body, tool, name):
    owner = owner_of(body, OURS)
    assert isinstance(owner, Foreign)
    assert (owner.tool, owner.name) == (tool, name)
    assert name in str(owner)


@pytest.mark.parametrize(
    "body",
    [
        live(),
        live(annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"}),
        live(labels={"app.kubernetes.io/instance": "web", "app.kubernetes.io/managed-by": "Helm"}),
        live(annotations=HELM),
        live(annotations={TRACKING: "cart:/ConfigMap:shop/parent"}),
        live(annotations={TRACKING: "cart:/ConfigMap:elsewhere/web"}),
        live(annotations={TRACKING: "cart:apps/Deployment:shop/web"}),
        live(annotations={TRACKING: "nonsense"}),
        live(annotations={TRACKING: "cart:apps/Deployment:shop/web", INSTALLATION: "east"}),
        {"kind": "ConfigMap", "metadata": {"name": "web", "labels": None}},
        {},
    ],
    ids=[
        "bare",
        "kubectl-apply",
        "chart-labels-without-release",
        "release-annotations-alone",
        "tracking-copied-other-name",
        "tracking-copied-other-namespace",
        "tracking-copied-other-kind",
        "tracking-nonsense",
        "installation-copied-with-it",
        "null-labels",
        "empty",
    ],
)
def test_no_owner(body):
    """Field case d8: a tracking id that names another object was copied from it."""
    assert owner_of(body, OURS) == Unowned()


def test_our_label_beats_what_an_earlier_tool_left_behind():
    labels = {PART_OF: OURS, "argocd.argoproj.io/instance": "cart"}
    assert owner_of(live(labels=labels), OURS) == Ours()


def test_another_application_of_ours_is_named():
    owner = owner_of(live(labels={PART_OF: "applyset-theirs-v1"}), OURS, {"applyset-theirs-v1": "cart"})
    assert str(owner) == f"Fleetbeat application cart ({PART_OF}: applyset-theirs-v1)"


# ── who changed it ───────────────────────────────────────────────────────────────────────────────────────────────


def entry(manager, fields, time="2026-01-01T00:00:00Z", operation="Update", subresource=""):
    data = {"manager": manager, "operation": operation, "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}
    return {**data, "subresource": subresource} if subresource else data


# As an API server recorded it: an apply of ours, an edit of the image, a scale (which has no time), a status write.
CONTAINERS = "f:containers"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {
        "name": "web",
        "annotations": {"note": "x"},
        "managedFields": [
            {
                "manager": "kubectl",
                "operation": "Update",
                "subresource": "scale",
                "fieldsV1": {"f:spec": {"f:replicas": {}}},
            },
            entry(
                "fleetbeat",
                {
                    "f:spec": {
                        "f:selector": {},
                        "f:template": {"f:spec": {CONTAINERS: {'k:{"name":"web"}': {".": {}, "f:name": {}}}}},
                    }
                },
                operation="Apply",
            ),
            entry(
                "kube-controller-manager", {"f:status": {"f:replicas": {}}}, "2026-01-09T00:00:00Z", "Update", "status"
            ),
            entry(
                "kubectl-edit",
                {"f:spec": {"f:template": {"f:spec": {CONTAINERS: {'k:{"name":"web"}': {"f:image": {}}}}}}},
                "2026-01-02T00:00:00Z",
            ),
            entry(
                "injector",
                {
                    "f:metadata": {"f:annotations": {".": {}, "f:note": {}}, "f:finalizers": {'v:"keep"': {}}},
                    "f:spec": {
                        "f:template": {
                            "f:spec": {
                                CONTAINERS: {
                                    'k:{"name":"web"}': {
                                        "f:ports": {
                                            ".": {},
                                            'k:{"containerPort":80,"protocol":"TCP"}': {".": {}, "f:containerPort": {}},
                                        }
                                    }
                                }
                            }
                        }
                    },
                },
                "2026-01-03T00:00:00Z",
                "Apply",
            ),
        ],
        "finalizers": ["keep"],
    },
    "spec": {
        "replicas": 5,
        "selector": {"matchLabels": {"a": "web"}},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "web",
                        "image": "hacked",
                        "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                    }
                ]
            }
        },
    },
}
WEB = ("spec", "template", "spec", "containers", "[name=web]")


def names(*paths, **options):
    return [manager.name for manager in changed_by(DEPLOYMENT, paths, **options)]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((*WEB, "image"), ["kubectl-edit"]),
        (("spec", "replicas"), ["kubectl"]),
        ((*WEB, "ports", "[name=http]", "containerPort"), ["injector"]),
        ((*WEB, "ports", "[name=http]"), ["injector"]),
        ((*WEB, "ports", "[0]"), ["injector"]),
        ((*WEB, "ports"), ["injector"]),
        (("metadata", "annotations", "note"), ["injector"]),
        (("metadata", "annotations", "other"), []),
        (("metadata", "finalizers", "[0]"), ["injector"]),
        (("metadata", "finalizers", "[1]"), []),
        (("spec", "selector", "matchLabels", "a"), []),
        (("spec", "template", "spec", "containers", "[name=gone]"), []),
        (("spec", "nowhere"), []),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_the_owner_of_a_field(path, expected):
    assert names(path) == expected


def test_a_value_owned_as_a_whole_covers_what_is_inside():
    assert names(("spec", "selector", "matchLabels", "a"), own="somebody") == ["fleetbeat"]


def test_managers_come_newest_first_and_ours_is_left_out():
    wanted = {**DEPLOYMENT, "metadata": {"name": "web"}, "spec": {**DEPLOYMENT["spec"], "replicas": 2, "template": {}}}
    managers = changed_by(DEPLOYMENT, changed_paths(DEPLOYMENT, wanted))
    assert [m.name for m in managers] == ["injector", "kubectl-edit", "kubectl"]
    assert managers[2] == Manager("kubectl", "Update", "", "scale")
    assert str(managers[1]) == "kubectl-edit (Update, 2026-01-02T00:00:00Z)"
    assert str(managers[2]) == "kubectl (Update of scale)"


def test_a_list_element_by_index():
    fields = {"f:spec": {"f:items": {"i:1": {}}}}
    body = {"metadata": {"managedFields": [entry("x", fields)]}, "spec": {"items": [1, 2]}}
    assert [m.name for m in changed_by(body, [("spec", "items", "[1]")])] == ["x"]
    assert changed_by(body, [("spec", "items", "[0]")]) == ()


def test_the_last_foreign_writer_is_not_a_controller_writing_status():
    """For removed fields, which leave no owner behind."""
    latest = latest_foreign(DEPLOYMENT)
    assert latest
    assert latest.name == "injector"
    assert latest_foreign({"metadata": {}}) is None


@pytest.mark.parametrize("fields", [None, {"f:spec": None}, {"f:spec": {"f:items": {"k:nonsense": {}}}}], ids=str)
def test_a_field_set_nobody_understands_owns_nothing_special(fields):
    body = {
        "metadata": {"managedFields": [{"manager": "x", "fieldsV1": fields}, {}]},
        "spec": {"items": [{"name": "a"}]},
    }
    changed_by(body, [("spec", "items", "[name=a]")])
