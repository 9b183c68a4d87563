"""``kind: Project``: what is read, the sentence for each mistake, and what it means for its applications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetbeat.catalog import Loaded, load, parse_entry, parse_project
from fleetbeat.errors import CatalogError
from fleetbeat.model import ConflictRule, HealthRule, IgnoreRule, ObjectSelector, Project

HEAD = {"apiVersion": "fleetbeat.dev/v1alpha1"}
CLUSTER = {**HEAD, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"inCluster": True}}
IGNORE = {"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}
CONFLICT = {"manager": "keda-*", "policy": "yield"}
CART = {"apiVersion": "shop.example.com/v1", "kind": "Cart", "current": "status.full"}


def project(name: str = "shop", **spec: Any) -> dict[str, Any]:
    return {**HEAD, "kind": "Project", "metadata": {"name": name}, "spec": spec}


def application(name: str, **spec: Any) -> dict[str, Any]:
    fixed = {"source": {"oci": "registry.example.com/shop"}, "destination": {"cluster": "prod"}}
    return {**HEAD, "kind": "Application", "metadata": {"name": name}, "spec": fixed | spec}


def catalog(folder: Path, *documents: dict[str, Any]) -> Loaded:
    (folder / "all.yaml").write_text(yaml.safe_dump_all([CLUSTER, *documents]))
    return load(folder)


def problems(folder: Path, *documents: dict[str, Any]) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        catalog(folder, *documents)
    return caught.value.problems


def test_every_field_of_a_project() -> None:
    spec = {
        "description": "the shop\nand its carts",
        "ignoreDifferences": [IGNORE],
        "conflicts": [CONFLICT],
        "healthCheckExprs": [CART],
    }
    assert parse_project(project(**spec), "shop.yaml") == Project(
        name="shop",
        description="the shop\nand its carts",
        health_rules=(HealthRule("shop.example.com", "Cart", "status.full"),),
        ignore_differences=(IgnoreRule(ObjectSelector(kind="Deployment"), ("/spec/replicas",)),),
        conflicts=(ConflictRule("yield", "keda-*"),),
    )


MISTAKES = {
    "misspelt field": (
        {"ignoreDifference": []},
        "spec.ignoreDifference: unknown field. Did you mean ignoreDifferences?",
    ),
    "a rule with a mistake": (
        {"conflicts": [{"manager": "x"}]},
        "spec.conflicts[0].policy: missing: what happens to such a field: takeOver, yield, report",
    ),
    "what restricts in Argo CD": (
        {"sourceRepos": ["*"]},
        "spec.sourceRepos: unknown field. Here it is a right of the workers' account in the cluster: "
        "a Project restricts nothing. Remove the line",
    ),
}


@pytest.mark.parametrize(("spec", "told"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes(spec: dict[str, Any], told: str) -> None:
    with pytest.raises(CatalogError) as caught:
        parse_project(project(**spec), "shop.yaml")
    assert caught.value.problems == [f"shop.yaml, Project shop: {told}"]


def test_an_applications_own_rules_come_before_its_projects(tmp_path: Path) -> None:
    own = {"manager": "*", "policy": "report", "kind": "Service"}
    loaded = catalog(
        tmp_path,
        project(ignoreDifferences=[IGNORE], conflicts=[CONFLICT]),
        application("web", project="shop", ignoreDifferences=[{**IGNORE, "kind": "Job"}], conflicts=[own]),
    )
    web = loaded.catalog.applications["web"]
    assert [rule.objects.kind for rule in web.ignore_differences] == ["Job", "Deployment"]
    assert [rule.policy for rule in web.conflicts] == ["report", "yield"]


def test_an_applications_health_rule_for_a_kind_replaces_its_projects(tmp_path: Path) -> None:
    other = {**CART, "kind": "Basket"}
    loaded = catalog(
        tmp_path,
        project(healthCheckExprs=[CART, other]),
        application("web", project="shop", healthCheckExprs=[{**CART, "current": "status.ours"}]),
    )
    rules = loaded.catalog.applications["web"].health_rules
    assert [(rule.kind, rule.current) for rule in rules] == [("Cart", "status.ours"), ("Basket", "status.full")]


def test_a_projects_rules_are_those_of_its_applications_only(tmp_path: Path) -> None:
    loaded = catalog(tmp_path, project(conflicts=[CONFLICT]), application("web", project="shop"), application("blog"))
    assert [len(loaded.catalog.applications[name].conflicts) for name in ("web", "blog")] == [1, 0]


def test_the_default_project_needs_no_document_and_may_have_one(tmp_path: Path) -> None:
    for documents, rules in (([], 0), ([project("default", conflicts=[CONFLICT])], 1)):
        loaded = catalog(tmp_path, *documents, application("web"), application("blog", project="default"))
        assert [len(app.conflicts) for app in loaded.catalog.applications.values()] == [rules, rules]


def test_what_is_published_is_read_back_as_it_was_loaded(tmp_path: Path) -> None:
    rules = {"ignoreDifferences": [IGNORE], "conflicts": [CONFLICT], "healthCheckExprs": [CART]}
    loaded = catalog(tmp_path, project(**rules), application("web", project="shop", **rules), application("blog"))
    for name, wanted in loaded.catalog.applications.items():
        assert parse_entry(loaded.documents[f"Application/{name}"], "in Redis") == wanted
    assert sorted(loaded.documents) == ["Application/blog", "Application/web", "Cluster/prod"]


def test_only_what_matters_to_an_application_changes_its_document(tmp_path: Path) -> None:
    def documents(**spec: Any) -> dict[str, Any]:
        apps = application("web", project="shop"), application("blog")
        return dict(catalog(tmp_path, project(**spec), *apps).documents)

    before, described = documents(conflicts=[CONFLICT]), documents(conflicts=[CONFLICT], description="for people")
    assert described == before
    after = documents(conflicts=[CONFLICT], ignoreDifferences=[IGNORE])
    assert {name for name, document in after.items() if document != before[name]} == {"Application/web"}


def test_an_unknown_project_names_the_nearest(tmp_path: Path) -> None:
    assert problems(tmp_path, project(), application("web", project="shpo")) == [
        'all.yaml, document 3 (line 14), Application web: spec.project: no Project is called "shpo". Did you mean shop?'
    ]
    (found,) = problems(tmp_path, application("web", project="payments"))
    assert found.endswith('no Project is called "payments". This catalog has no Project at all')


def test_a_project_with_a_mistake_is_known_by_name_all_the_same(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, project(bogus=1), application("web", project="shop"))
    assert "Project shop: spec.bogus" in found


def test_what_a_project_says_cannot_be_smuggled_into_an_application(tmp_path: Path) -> None:
    (found,) = problems(tmp_path, application("web") | {"project": project(conflicts=[CONFLICT])})
    assert "Application web: project: unknown field" in found
