"""What differs between two states of an object, and how that is shown."""

from __future__ import annotations

import base64
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.changes import (
    GONE,
    NEVER_SEEN,
    changed_paths,
    fingerprint,
    format_path,
    moved,
    normalise,
    same,
    unified,
)


def obj(kind: str = "ConfigMap", api: str = "v1", **fields) -> dict:
    metadata = {"name": "web", "namespace": "shop", **fields.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def paths(before, after):
    return [format_path(path) for path in changed_paths(before, after)]


# ── what counts ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_every_write_changes_is_no_change():
    before = obj(
        metadata={"resourceVersion": "1", "generation": 1, "uid": "a", "managedFields": [], "selfLink": "x"},
        status={"phase": "Old"},
    )
    after = obj(metadata={"resourceVersion": "2", "generation": 2, "uid": "b", "managedFields": [{}]}, status={})
    assert same(before, after)
    assert unified(before, after) == ""


def test_normalising_leaves_the_original_alone():
    body = obj(metadata={"uid": "a"}, status={}, data={"a": "b"})
    original = copy.deepcopy(body)
    assert normalise(body) == obj(data={"a": "b"})
    assert body == original


def role(rules, labels, aggregated=True):
    extra = {"aggregationRule": {"clusterRoleSelectors": []}} if aggregated else {}
    return obj("ClusterRole", "rbac.authorization.k8s.io/v1", metadata={"labels": labels}, rules=rules, **extra)


def test_rules_of_an_aggregated_role_are_its_controllers():
    """Field case a6: no fight over the rules, but labels count."""
    filled, empty = role([{"verbs": ["get"]}], {}), role([], {})
    assert same(filled, empty)
    assert paths(filled, role([], {"a": "b"})) == ["metadata.labels.a"]
    assert paths(role([1], {}, aggregated=False), role([], {}, aggregated=False)) == ["rules[0]"]


def test_no_equality_is_invented():
    """Field case a1, counter-check: in a ConfigMap 1000m and 1 are different texts; the server made both sides."""
    assert paths(obj(data={"cpu": "1000m"}), obj(data={"cpu": "1"})) == ["data.cpu"]


CHANGES = [
    ("value", {"a": 1}, {"a": 2}, ["spec.a"]),
    ("added-key", {}, {"a": {"b": 1}}, ["spec.a"]),
    ("removed-key", {"a": 1}, {}, ["spec.a"]),
    ("true-is-not-one", {"a": True}, {"a": 1}, ["spec.a"]),
    ("null-is-not-absent", {"a": None}, {}, ["spec.a"]),
    ("number-is-not-text", {"a": 1}, {"a": "1"}, ["spec.a"]),
    ("large-numbers", {"a": 9007199254740993}, {"a": 9007199254740992}, ["spec.a"]),
    ("emptied-list", {"args": ["a"]}, {"args": []}, ["spec.args[0]"]),
    ("scalar-list", {"args": ["a", "b"]}, {"args": ["a", "c", "d"]}, ["spec.args[1]", "spec.args[2]"]),
    (
        "by-name",
        {"containers": [{"name": "web", "image": "a:1"}, {"name": "log", "image": "b"}]},
        {"containers": [{"name": "web", "image": "a:2"}, {"name": "log", "image": "b"}]},
        ["spec.containers[name=web].image"],
    ),
    (
        "inserted-by-name",
        {"env": [{"name": "A", "value": "1"}]},
        {"env": [{"name": "Z", "value": "0"}, {"name": "A", "value": "1"}]},
        ["spec.env[name=Z]"],
    ),
    (
        "reordered",
        {"env": [{"name": "A"}, {"name": "B"}]},
        {"env": [{"name": "B"}, {"name": "A"}]},
        ["spec.env"],
    ),
    (
        "names-twice-by-index",
        {"p": [{"name": "a"}, {"name": "a"}]},
        {"p": [{"name": "a"}, {"name": "b"}]},
        ["spec.p[1].name"],
    ),
    ("list-became-map", {"a": []}, {"a": {}}, ["spec.a"]),
    ("quoted-key", {"a.b/c": 1}, {"a.b/c": 2}, ['spec["a.b/c"]']),
]


@pytest.mark.parametrize(("before", "after", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_changed_paths(before, after, expected):
    left, right = obj("Thing", "x.io/v1", spec=before), obj("Thing", "x.io/v1", spec=after)
    assert paths(left, right) == expected
    assert not same(left, right)


def test_binary_data_counts():
    """Field case a11."""
    assert paths(obj(binaryData={"x": "AAE="}), obj(binaryData={"x": "AAI="})) == ["binaryData.x"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, JSON)
def test_equal_means_equal_as_json(left, right):
    before, after = {"spec": left}, {"spec": right}
    equal = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert same(before, after) == equal
    assert same(before, json.loads(json.dumps(before)))


# ── what is shown ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_difference_as_people_read_it():
    before, after = obj(data={"motd": "hello\nworld\n", "n": "1"}), obj(data={"motd": "hello\nthere\n", "n": "1"})
    assert unified(before, after).splitlines() == [
        "--- ConfigMap shop/web (live)",
        "+++ ConfigMap shop/web (wanted)",
        "@@ -2,7 +2,7 @@",
        " data:",
        "   motd: |",
        "     hello",
        "-    world",
        "+    there",
        "   n: '1'",
        " kind: ConfigMap",
        " metadata:",
    ]


def test_objects_that_come_and_go():
    assert unified(None, obj()).splitlines()[2] == "@@ -0,0 +1,5 @@"
    assert "-kind: ConfigMap" in unified(obj(), None)
    assert unified(None, None) == ""


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(**fields) -> dict:
    return obj("Secret", **fields)


def test_secret_values_are_hidden_and_a_change_is_still_seen():
    """Field case l1."""
    before = secret(data={"password": b64("hunter1"), "user": b64("admin"), "old": b64("gone-one")})
    after = secret(data={"password": b64("hunter2"), "user": b64("admin"), "new": b64("new-one")})
    text = unified(before, after)
    assert "-  password: '*** (before)'" in text
    assert "+  password: '*** (after)'" in text
    assert "   user: '***'" in text
    assert "-  old: '***'" in text
    assert "+  new: '***'" in text


@pytest.mark.parametrize(
    "annotation",
    [
        json.dumps({"kind": "Secret", "data": {"password": b64("hunter2")}}),
        '{"kind": "Secret", "data": {"password": "hunter2"',
        "password is hunter2",
        f"blob {b64('hunter2')}",
    ],
    ids=["json", "broken-json", "plain-copy", "encoded-copy"],
)
@pytest.mark.parametrize("key", ["kubectl.kubernetes.io/last-applied-configuration", "example.com/note"])
def test_copies_in_annotations_are_hidden(key, annotation):
    """Field case l1: nested JSON in annotations, also broken."""
    before = secret(data={"password": b64("hunter2")}, metadata={"annotations": {key: annotation, "team": "web"}})
    text = unified(before, secret(data={"password": b64("changed!")}))
    assert "hunter2" not in text
    assert b64("hunter2") not in text
    assert f"{key}: '***'" in text
    assert "team: web" in text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"kind": "ConfigMap", "data": {"a": "s3cr3t-1"}}, {"kind": "Secret", "data": {"a": "s3cr3t-2"}}),
        ({"kind": "secret", "stringData": {"a": "s3cr3t-1"}}, None),
        (None, {"kind": "SecretList", "items": [{"data": {"a": "s3cr3t-1"}}]}),
        ({"kind": "List", "items": [{"kind": "Secret", "stringData": {"a": "s3cr3t-1"}}]}, None),
        ({"kind": "Secret", "data": ["s3cr3t-1"]}, {"kind": "Secret", "data": "s3cr3t-2"}),
        ({"kind": "Secret", "metadata": {"annotations": "s3cr3t-1"}}, {"kind": "Secret"}),
    ],
    ids=["one-side-says-configmap", "other-case", "typed-list", "list", "malformed", "malformed-annotations"],
)
def test_the_object_itself_says_whether_it_is_a_secret(before, after):
    """Field case l3."""
    assert "s3cr3t" not in unified(before, after)


def test_a_configmap_is_shown():
    assert "+  a: s3cr3t" in unified(obj(), obj(data={"a": "s3cr3t"}))


def test_masking_leaves_the_objects_alone():
    """Field case l4: the dry-run needs the real bytes."""
    before = secret(data={"a": b64("x")}, metadata={"annotations": {"b": "{}"}})
    original = copy.deepcopy(before)
    unified(before, secret(stringData={"a": "y"}))
    assert before == original


# No character that is also in the words of the diff, so that a byte that leaks is told apart.
VALUES = st.text(alphabet="ΩЖ€0123456789", min_size=4, max_size=20)
DATA = st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES, max_size=3)


@given(DATA, DATA, DATA, st.booleans())
def test_no_byte_of_a_secret_is_ever_shown(old, new, plain, annotated):
    applied = json.dumps({"stringData": old}, ensure_ascii=False)
    notes = {"kubectl.kubernetes.io/last-applied-configuration": applied} if annotated else {}
    before = secret(data={k: b64(v) for k, v in old.items()}, metadata={"annotations": notes})
    after = secret(data={k: b64(v) for k, v in new.items()}, stringData=plain)
    text = unified(before, after)
    for value in (*old.values(), *new.values(), *plain.values()):
        assert value not in text
        assert b64(value) not in text
    if old != new:
        assert "data" in text


# ── has it moved? ────────────────────────────────────────────────────────────────────────────────────────────────


def seen(rv="1", generation=1, group_kind="Deployment.apps", **metadata):
    meta = {"uid": "u", "resourceVersion": rv, "labels": {"a": "b"}, **metadata}
    if generation is not None:
        meta["generation"] = generation
    return fingerprint({"metadata": meta}, group_kind)


MOVES = [
    ("nothing", seen(), seen(), "same"),
    ("never-there", None, None, "same"),
    ("created", None, seen(), "new"),
    ("deleted", seen(), None, "gone"),
    ("left-deleted", GONE, None, "same"),
    ("left-deleted-and-made-again", GONE, seen(), "new"),
    ("to-be-compared-and-there", NEVER_SEEN, seen(), "moved"),
    ("to-be-compared-and-deleted", NEVER_SEEN, None, "gone"),
    ("status-written", seen(), seen(rv="2"), "status"),
    ("spec-written", seen(), seen(rv="2", generation=2), "moved"),
    ("label-changed", seen(), seen(rv="2", labels={"a": "c"}), "moved"),
    ("annotation-added", seen(), seen(rv="2", annotations={"x": "y"}), "moved"),
    ("finalizer-added", seen(), seen(rv="2", finalizers=["x"]), "moved"),
    ("recreated", seen(), seen(rv="2", uid="other"), "moved"),
    ("being-deleted", seen(), seen(rv="2", deletionTimestamp="t"), "moved"),
    ("kind-without-generation", seen(generation=None), seen(rv="2", generation=None), "moved"),
    ("generation-zero", seen(generation=0), seen(rv="2", generation=0), "moved"),
    (
        "generation-that-stands-still",
        seen(group_kind="PriorityClass.scheduling.k8s.io"),
        seen(rv="2", group_kind="PriorityClass.scheduling.k8s.io"),
        "moved",
    ),
    ("empty-labels-are-no-labels", seen(annotations={}), seen(rv="2", annotations=None), "status"),
]


@pytest.mark.parametrize(("old", "new", "expected"), [m[1:] for m in MOVES], ids=[m[0] for m in MOVES])
def test_movement(old, new, expected):
    assert moved(old, new) == expected
