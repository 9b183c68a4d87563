"""What is sent of an object of which a part is ignored: one folder per case in tests/golden/ignores."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.catalog import parse_application
from fleetbeat.decisions.fieldsets import ABSENT, Edit, edited, get
from fleetbeat.decisions.ignores import edits
from fleetbeat.errors import Rejected
from fleetbeat.model import IgnoreRule, ObjectId, ObjectSelector

CASES = sorted(path for path in (Path(__file__).parents[2] / "golden" / "ignores").iterdir() if path.is_dir())
WEB = ObjectId("", "ConfigMap", "shop", "web")


def rules(written: list[dict[str, Any]]) -> tuple[IgnoreRule, ...]:
    spec = {
        "source": {"oci": "registry.example.com/shop"},
        "destination": {"cluster": "prod"},
        "ignoreDifferences": written,
    }
    document = {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": "Application", "metadata": {"name": "shop"}}
    return parse_application(document | {"spec": spec}, "shop.yaml").ignore_differences


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path):
    wanted, live, written, sent = (
        yaml.safe_load((case / f"{name}.yaml").read_text()) for name in ("wanted", "live", "rules", "sent")
    )
    before = copy.deepcopy((wanted, live))
    meta = live["metadata"]
    key = ObjectId(live["apiVersion"].rpartition("/")[0], live["kind"], meta.get("namespace", ""), meta["name"])
    assert edited(wanted, edits(wanted, live, key, rules(written))) == sent
    assert (wanted, live) == before


def body(data: Any, *entries: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "managedFields": list(entries)}} | data


def test_the_annotation_is_a_rule_of_its_own():
    wanted, live = body({"data": {"a": "1", "b": "1"}}), body({"data": {"a": "2", "b": "2"}})
    assert edits(wanted, live, WEB, (), ["/data/a"]) == (Edit(("f:data", "f:a")),)


def test_a_rule_that_makes_values_is_told():
    rule = IgnoreRule(ObjectSelector(), jq_path_expressions=(".data.a == 1",))
    with pytest.raises(Rejected, match=r"ConfigMap shop/web: spec.ignoreDifferences: .* instead of selecting places"):
        edits(body({}), body({}), WEB, [rule])


def test_values_are_not_in_the_repr():
    """They may be a Secret's."""
    assert "s3cret" not in repr(Edit(("f:data", "f:a"), "s3cret"))


def test_edits_survive_the_plan():
    for edit in (Edit(("f:a", 'k:{"name":"x"}')), Edit(("f:a",), None), Edit(("f:a",), {"b": [1]})):
        assert Edit.from_json(edit.to_json()) == edit


values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(st.sampled_from("abc"), values, min_size=1, max_size=3)


def owned(value: Any) -> dict[str, Any]:
    """The field set of somebody who owns every leaf of it."""
    return {f"f:{key}": owned(inner) if isinstance(inner, dict) else {} for key, inner in value.items()}


@given(wanted=objects, live=objects, ours=st.booleans(), pointer=st.sampled_from(["/a", "/a/b", "/b/c", "/c/a/b"]))
def test_an_ignored_place_is_as_it_is_in_the_cluster_or_not_sent(wanted, live, ours, pointer):
    """Whoever owns it: nothing of the bundle's own idea of the place is left in what is sent."""
    entry = {"manager": "fleetbeat" if ours else "x", "operation": "Apply", "fieldsV1": {"f:data": owned(live)}}
    there = body({"data": live}, entry)
    want = body({"data": wanted})
    sent = edited(want, edits(want, there, WEB, (), [f"/data{pointer}"]))
    steps = ["f:data", *(f"f:{part}" for part in pointer.split("/")[1:])]
    for leaf in leaves(get(sent, steps)):
        value = get(get(sent, steps), leaf)
        assert value in ({}, []) or value == get(get(there, steps), leaf)


def leaves(value: Any, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if value is ABSENT:
        return []
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*at, f"f:{key}"))]
    return [at]
