"""Which of Kubernetes' own kinds a word means without a cluster: as kubectl takes it."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.attribution import kind_of
from fleetbeat.decisions.builtin_kinds import BUILTIN


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("cm configmap ConfigMap configmaps", "/ConfigMap"),
        ("deploy deployments Deployment.apps deploy.apps", "apps/Deployment"),
        ("sts statefulsets", "apps/StatefulSet"),
        ("ing ingresses ingress", "networking.k8s.io/Ingress"),
        ("netpol networkpolicies", "networking.k8s.io/NetworkPolicy"),
        ("ep endpoints", "/Endpoints"),
        ("sc storageclasses", "storage.k8s.io/StorageClass"),
        ("crd crds customresourcedefinitions", "apiextensions.k8s.io/CustomResourceDefinition"),
        ("hpa", "autoscaling/HorizontalPodAutoscaler"),
        ("ns namespaces", "/Namespace"),
        ("ev events", "/Event"),
    ],
)
def test_words(words: str, kind: str) -> None:
    for word in words.split():
        found = kind_of(BUILTIN, word)
        assert f"{found.group}/{found.kind}" == kind, word
