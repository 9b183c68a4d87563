"""Who wins: one folder per case in tests/golden/conflicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetbeat.catalog import parse_application
from fleetbeat.decisions.changes import changed_paths
from fleetbeat.decisions.conflicts import conflicts, decide, fields, told
from fleetbeat.model import Application, ObjectId

CASES = sorted(path for path in (Path(__file__).parents[2] / "golden" / "conflicts").iterdir() if path.is_dir())


def application(**spec: Any) -> Application:
    document = {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop"},
        "spec": {"source": {"oci": "registry.example.com/shop"}, "destination": {"cluster": "prod"}, **spec},
    }
    return parse_application(document, "shop.yaml")


def identity(body: dict[str, Any]) -> ObjectId:
    meta = body["metadata"]
    return ObjectId(body["apiVersion"].rpartition("/")[0], body["kind"], meta.get("namespace", ""), meta["name"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path):
    live, answer, rules, expected = (
        yaml.safe_load((case / f"{name}.yaml").read_text()) for name in ("live", "answer", "rules", "expected")
    )
    found = conflicts(live, changed_paths(live, answer))
    decided = decide(found, identity(live), live, application(conflicts=rules).conflicts)
    assert {
        "takeOver": [str(conflict) for conflict in decided.taken],
        "yield": [str(conflict) for conflict in decided.left],
        "report": [str(conflict) for conflict in decided.reported],
    } == expected


def entry(manager: str, fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"manager": manager, "operation": "Update", "time": "t", "fieldsV1": fields, **more}


def live(*entries: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "one", "managedFields": list(entries)}, **fields}


def test_a_map_that_somebody_owns_a_part_of_is_no_conflict():
    """The place that differs is the whole map, since one side has none: its owner keeps what is his."""
    body = live(entry("x", {"f:data": {".": {}, "f:a": {}}}), data={"a": "1"})
    assert conflicts(body, [("data",)]) == ()


def test_our_own_entries_are_no_conflict():
    assert conflicts(live(entry("fleetbeat", {"f:data": {"f:a": {}}}), data={"a": "1"}), [("data", "a")]) == ()


def test_ports_are_found_by_their_keys():
    key = 'k:{"containerPort":80,"protocol":"TCP"}'
    ports = [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 80, "protocol": "TCP", "hostPort": 1}]
    body = live(entry("x", {"f:ports": {key: {".": {}, "f:hostPort": {}}}}), ports=ports)
    (found,) = conflicts(body, [("ports", "[1]", "hostPort")])
    assert str(found) == "ports[containerPort=80,protocol=TCP].hostPort: x (Update, t)"


def split_list() -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    """An atomic list that somebody has split: the two states differ in several places of one value."""
    body = live(entry("x", {"f:rules": {}}), rules=[{"v": ["1"]}, {"v": ["2"]}])
    return body, [("rules", "[0]", "v", "[1]"), ("rules", "[1]")]


@pytest.mark.parametrize("chosen", ["takeOver", "yield", "report"])
def test_an_atomic_list_is_one_field_wherever_it_differs(chosen: str):
    body, paths = split_list()
    found = conflicts(body, paths)
    assert [(str(one), one.paths) for one in found] == [("rules: x (Update, t)", tuple(paths))]
    rules = application(conflicts=[{"manager": "x", "policy": chosen}]).conflicts
    decided = decide(found, identity(body), body, rules)
    assert decided.left_paths == (set(paths) if chosen == "yield" else set())
    assert [(one.name, one.drifted.party) for one in fields(paths, found)] == [("rules", "x")] * 2


def test_fields_that_nobody_has():
    """Removed ones, for instance. An index says nothing about the other side, so the list is the field."""
    paths = [("data", "a.b/c"), ("spec", "[name=web]", "image"), ("metadata", "finalizers", "[0]")]
    found = fields(paths, conflicts(live(), paths))
    assert [(one.name, one.drifted.party) for one in found] == [
        ('data["a.b/c"]', ""),
        ("spec[name=web].image", ""),
        ("metadata.finalizers", ""),
    ]


def test_what_is_left_is_told():
    body = live(entry("hpa", {"f:n": {}}, subresource="scale"), n=2)
    found = conflicts(body, [("n",)])
    assert told(found) == "n is left to hpa (Update of scale, t)"


@pytest.mark.parametrize(
    ("manager", "subresource", "policy"),
    [
        ("kubectl-edit", "", "taken"),
        ("kubectl", "scale", "taken"),
        ("before-first-apply", "", "taken"),
        ("argocd-controller", "", "taken"),
        ("kustomize-controller", "", "taken"),
        ("some-operator", "", "taken"),
        ("kube-controller-manager", "", "taken"),
        ("kube-controller-manager", "scale", "left"),
        ("keda-operator", "scale", "left"),
    ],
)
def test_defaults(manager: str, subresource: str, policy: str):
    body = live(entry(manager, {"f:n": {}}, subresource=subresource), n=2)
    decided = decide(conflicts(body, [("n",)]), identity(body), body, ())
    assert [name for name in ("taken", "left", "reported") if getattr(decided, name)] == [policy]
