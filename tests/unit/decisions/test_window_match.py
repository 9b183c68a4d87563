"""Which windows are for an application: table M of conventions.md §3.5 and field case e5."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.window_match import GlobProblem, alternatives, matches
from fleetbeat.model import Application, Cluster, Destination, Source
from fleetbeat.model_windows import LabelRequirement, SyncWindow

WEB = Application("web-prod", Source("r/x"), Destination("prod1", "web"), labels={"team": "web", "tier": "front"})
PROD = Cluster("prod1", server="https://prod1.example.com:6443")


def hits(application: Application = WEB, cluster: Cluster | None = PROD, **selectors: Any) -> bool:
    return matches(SyncWindow("deny", "* * * * *", 60, **selectors), application, cluster)


TABLE = {
    "M1 *-prod": ({"applications": ("*-prod",)}, True),
    "M1 web-pro?": ({"applications": ("web-pro?",)}, True),
    "M1 {web,api}-prod": ({"applications": ("{web,api}-prod",)}, True),
    "M2 another case": ({"applications": ("Web-Prod",)}, False),
    "M2 no negation": ({"applications": ("!web-prod",)}, False),
    "M3 no selector": ({}, False),
    "M3 no selector, and": ({"and_operator": True}, False),
    "M4 one of two": ({"applications": ("x",), "namespaces": ("web",)}, True),
    "M6 a cluster's server (Argo CD: only if written so)": ({"clusters": ("https://prod*",)}, True),
    "M6 a cluster's server, whole": ({"clusters": ("https://prod1.example.com:6443",)}, True),
    "M6 a cluster's server with a slash": ({"clusters": ("https://prod1.example.com:6443/",)}, True),
    "M6 a cluster's name": ({"clusters": ("prod1",)}, True),
    "M7 both": ({"applications": ("web-*",), "namespaces": ("web",), "and_operator": True}, True),
    "M7 one of both": ({"applications": ("web-*",), "namespaces": ("api",), "and_operator": True}, False),
    "M9 the other of both": ({"clusters": ("other",), "namespaces": ("web",), "and_operator": True}, False),
    # M12 (only an application's own name is compared, not where Argo CD keeps it): here applications have no namespace
    "M12 the namespace is no part of the name": ({"applications": ("web/web-prod", "web_web-prod")}, False),
    "a set of characters": ({"applications": ("[a-w]eb-prod",)}, True),
}


@pytest.mark.parametrize(("selectors", "expected"), TABLE.values(), ids=TABLE.keys())
def test_matching(selectors: dict[str, Any], expected: bool) -> None:
    assert hits(**selectors) is expected


@pytest.mark.parametrize("glob", ["*", ""])
def test_an_empty_namespace(glob: str) -> None:
    """M10."""
    assert hits(Application("web", Source("r/x"), Destination("prod1")), namespaces=(glob,))


def test_the_cluster_a_worker_runs_in_has_argo_cds_name() -> None:
    assert hits(cluster=Cluster("prod1", in_cluster=True), clusters=("https://kubernetes.default.svc",))


@pytest.mark.parametrize("way", ["private", "https://10.0.0.1"])
def test_any_and_all(way: str) -> None:
    """Field case e5: lists are any of them by default, and all of them on request."""
    for name, server, by_any, by_all in (
        ("private", "https://10.0.0.1", True, True),
        ("public", "https://192.0.2.1", True, False),
    ):
        app, cluster = Application("x", Source("r/x"), Destination(name)), Cluster(name, server=server)
        assert hits(app, cluster, applications=("*",), clusters=(way,)) is by_any
        assert hits(app, cluster, applications=("*",), clusters=(way,), and_operator=True) is by_all


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        (LabelRequirement("team", "In", ("web", "api")), True),
        (LabelRequirement("team", "In", ("api",)), False),
        (LabelRequirement("none", "In", ("web",)), False),
        (LabelRequirement("team", "NotIn", ("api",)), True),
        (LabelRequirement("none", "NotIn", ("web",)), True),
        (LabelRequirement("team", "NotIn", ("web",)), False),
        (LabelRequirement("team", "Exists"), True),
        (LabelRequirement("none", "Exists"), False),
        (LabelRequirement("none", "DoesNotExist"), True),
        (LabelRequirement("team", "DoesNotExist"), False),
    ],
)
def test_labels(requirement: LabelRequirement, expected: bool) -> None:
    assert hits(labels=(requirement,)) is expected
    assert hits(labels=(LabelRequirement("tier", "In", ("front",)), requirement)) is expected


def test_alternatives_multiply() -> None:
    assert alternatives("{a,b}-{x,y}*") == ("a-x*", "a-y*", "b-x*", "b-y*")
    assert alternatives("") == ("",)


@pytest.mark.parametrize(
    "pattern",
    ["{a", "a}", "{a,{b}}", "a\\*", "[a-", "web[", "[]", "[!]", "{a[,b]}", "[a][", "{1,2,3,4,5,6,7,8,9,0,1}" * 2],
)
def test_patterns_that_cannot_be_read(pattern: str) -> None:
    with pytest.raises(GlobProblem):
        alternatives(pattern)


def test_a_pattern_of_stars_takes_no_time() -> None:
    assert not hits(Application("a" * 253, Source("r/x"), Destination("prod1")), applications=("*a" * 60 + "*b",))
