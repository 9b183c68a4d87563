"""``spec.ignoreDifferences``, ``spec.conflicts``, ``spec.adopt``: what is read, and what each mistake is told as."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.catalog import parse_application
from fleetbeat.errors import CatalogError
from fleetbeat.model import Application, ConflictRule, IgnoreRule, ObjectSelector

AT = "shop.yaml, Application shop: spec."


def application(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop"},
        "spec": {"source": {"oci": "registry.example.com/shop"}, "destination": {"cluster": "prod"}, **spec},
    }


def read(**spec: Any) -> Application:
    return parse_application(application(**spec), "shop.yaml")


def test_rules_are_read_in_argo_cds_words():
    app = read(
        ignoreDifferences=[
            {"kind": "Deployment", "jsonPointers": ["/spec/replicas"]},
            {
                "group": "",
                "kind": "*",
                "name": "web",
                "namespace": "shop",
                "jqPathExpressions": ['.data[] | select(. == "x")'],
                "managedFieldsManagers": ["kube-controller-manager"],
            },
        ]
    )
    assert app.ignore_differences == (
        IgnoreRule(ObjectSelector(kind="Deployment"), ("/spec/replicas",)),
        IgnoreRule(
            ObjectSelector("", "*", "shop", "web"), (), ('.data[] | select(. == "x")',), ("kube-controller-manager",)
        ),
    )


def test_conflicts_and_adoption_are_read():
    app = read(
        conflicts=[
            {"manager": "keda-*", "policy": "yield"},
            {"manager": "*", "policy": "report", "fields": ["/data/leader"], "kind": "ConfigMap"},
        ],
        adopt=["flux", "argocd"],
    )
    assert app.conflicts == (
        ConflictRule("yield", "keda-*"),
        ConflictRule("report", "*", ("/data/leader",), ObjectSelector(kind="ConfigMap")),
    )
    assert app.adopt == {"flux", "argocd"}


def test_options_for_all_objects():
    sync = read(sync={"options": ["Replace=true", "Force=true", "ServerSideApply=true"]}).sync
    assert (sync.replace, sync.force) == (True, True)
    assert (read().sync.replace, read().sync.force) == (False, False)


RULE = {"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no kind": ({"ignoreDifferences": [{"jsonPointers": ["/a"]}]}, "ignoreDifferences[0].kind: missing"),
    "nothing to ignore": ({"ignoreDifferences": [{"kind": "Job"}]}, "ignoreDifferences[0].jsonPointers: missing"),
    "dots for a pointer": (
        {"ignoreDifferences": [RULE | {"jsonPointers": ["spec.replicas"]}]},
        'ignoreDifferences[0].jsonPointers[0]: "spec.replicas" is no JSON pointer such as /spec/replicas',
    ),
    "pointer with a lone tilde": (
        {"ignoreDifferences": [RULE | {"jsonPointers": ["/a~b"]}]},
        "ignoreDifferences[0].jsonPointers[0]: ",
    ),
    "whole object": ({"ignoreDifferences": [RULE | {"jsonPointers": ["/"]}]}, "jsonPointers[0]: "),
    "jq that loops": (
        {"ignoreDifferences": [{"kind": "Job", "jqPathExpressions": ["repeat(.)"]}]},
        """ignoreDifferences[0].jqPathExpressions[0]: "repeat(.)": 'repeat' is not supported in ignore rules""",
    ),
    "jq that reads the environment": (
        {"ignoreDifferences": [{"kind": "Job", "jqPathExpressions": ["env.HOME"]}]},
        "'env' is not supported in ignore rules",
    ),
    "jq cut off": (
        {"ignoreDifferences": [{"kind": "Job", "jqPathExpressions": [".spec | select(.a"]}]},
        "')' is expected before 'the end'",
    ),
    "misspelt field": (
        {"ignoreDifferences": [RULE | {"jsonPointer": ["/a"]}]},
        "ignoreDifferences[0].jsonPointer: unknown field. Did you mean jsonPointers?",
    ),
    "number for a pointer": ({"ignoreDifferences": [RULE | {"jsonPointers": [1]}]}, "jsonPointers[0]: must be text"),
    "text for the list": ({"ignoreDifferences": "x"}, "ignoreDifferences: must be a list, not text"),
    "too many": ({"ignoreDifferences": [RULE] * 101}, "ignoreDifferences: has 101 rules; at most 100 are read"),
    "no policy": ({"conflicts": [{"manager": "x"}]}, "conflicts[0].policy: missing: what happens to such a field"),
    "no manager": ({"conflicts": [{"policy": "yield"}]}, "conflicts[0].manager: missing: whose fields"),
    "unknown policy": (
        {"conflicts": [{"manager": "x", "policy": "takeover"}]},
        'conflicts[0].policy: must be takeOver, yield, report, not "takeover"',
    ),
    "conflict in no place": (
        {"conflicts": [{"manager": "x", "policy": "yield", "fields": ["spec"]}]},
        "conflicts[0].fields[0]: ",
    ),
    "unknown tool": ({"adopt": ["argo"]}, 'adopt[0]: unknown tool "argo". Did you mean argocd?'),
    "conflicts under sync": ({"sync": {"conflicts": []}}, "sync.conflicts: unknown field. Here it is spec.conflicts"),
}


@pytest.mark.parametrize(("spec", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(spec: dict[str, Any], told: str):
    with pytest.raises(CatalogError) as caught:
        read(**spec)
    (problem,) = caught.value.problems
    assert problem.startswith(AT)
    assert told in problem
