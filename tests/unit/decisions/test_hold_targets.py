"""Names that a hold can be about; a hold on another one would hold nothing, in silence."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.hold_targets import wrong


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("app", "shop"),
        ("app", "shop.v2"),
        ("app", "a" * 62 + "-eu-west"),
        ("cluster", "prod-eu.1"),
        ("namespace", "kube-system"),
        ("label", "team=web"),
        ("label", "team="),
        ("label", "example.com/Team_1=a.b"),
        ("label", f"{'a' * 253}/team=b"),
        ("object", "apps/Deployment/shop/web"),
        ("object", "*/Cart/shop/main"),
        ("object", "/Namespace//shop"),
        ("object", "rbac.authorization.k8s.io/ClusterRole//system:controller:job-controller"),
    ],
)
def test_can_be_meant(kind: str, target: str) -> None:
    assert wrong(kind, target) == ""


@pytest.mark.parametrize(
    ("kind", "target", "why"),
    [
        ("app", "*", "'*' is no name of an application"),
        ("app", "", "'' is no name of an application"),
        ("cluster", "prod\n", "'prod\\n' is no name of a cluster"),
        ("cluster", "a" * 254, "is no name of a cluster"),
        ("namespace", "team-*", "'team-*' is no name of a namespace"),
        ("namespace", "UPPER", "is no name of a namespace"),
        ("namespace", "a.b", "is no name of a namespace"),
        ("label", "team", "is no label of applications, such as team=web"),
        ("label", "team=*", "is no label"),
        ("label", f"{'a' * 64}=b", "is no label"),
        ("label", "a=b=c", "is no label"),
        ("label", f"{'a' * 254}/team=b", "is no label"),
        ("namespace", "a" * 64, "is no name of a namespace"),
        ("object", "apps/Deployment/shop/*", "'*' is no name of an object. A hold of several: one for each"),
        ("object", "apps/Deployment/shop/a\nb", "is no name of an object"),
        ("object", f"apps/Deployment/shop/{'a' * 254}", "is no name of an object"),
        ("object", "apps/Deployment/shop/..", "is no name of an object"),
        ("object", "apps/Deployment/shop/", "is no name of an object"),
        ("object", "apps/Deployment/../web", "'..' is no name of a namespace"),
        ("object", "apps/deployment/shop/web", "'apps/deployment' is no kind with its group"),
        ("object", "deployment/web", "is not group/Kind/namespace/name"),
    ],
)
def test_cannot(kind: str, target: str, why: str) -> None:
    assert why in wrong(kind, target)
