"""Paths of jq expressions. What is expected was taken from jq itself (``path(…)``) for the same input."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.jqpaths import MAX_LENGTH, JqProblem, parse, paths

BODY = {
    "spec": {
        "replicas": 3,
        "containers": [
            {"name": "web", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
            {"name": "log", "image": "b"},
        ],
        "x.y": {"k": None, "z": False},
    },
    "webhooks": [{"clientConfig": {"caBundle": "x"}}, {"clientConfig": {}}, {}],
    "data": {"a": "1", "b": "two"},
}
WEB, LOG = ("spec", "containers", 0), ("spec", "containers", 1)

SELECTS = {
    ".spec.replicas": [("spec", "replicas")],
    ".spec .replicas": [("spec", "replicas")],
    '.["data"].a': [("data", "a")],
    '."data"."a"': [("data", "a")],
    '.spec["x.y"]["z"]': [("spec", "x.y", "z")],
    '.spec."x.y".k': [("spec", "x.y", "k")],
    ".data[]": [("data", "a"), ("data", "b")],
    ".data | .a, .b": [("data", "a"), ("data", "b")],
    "(.data, .spec) | .a": [("data", "a")],
    ".spec.containers[].image": [(*WEB, "image"), (*LOG, "image")],
    ".spec.containers[-1].image": [(*LOG, "image")],
    ".spec.containers[-5].image": [],
    '.spec.containers[] | select(.name == "web") | .image': [(*WEB, "image")],
    '.spec.containers[] | select(.name == "web").image': [(*WEB, "image")],
    '.spec.containers[] | select(.name != "web") | .image': [(*LOG, "image")],
    '.spec.containers[] | select((.name == "web") or .name == "log")': [WEB, LOG],
    '.spec.containers[] | select(.name == "web" and (.env | length) == 2)': [WEB],
    '.spec.containers[] | select(has("env") | not)': [LOG],
    '.spec.containers[] | select(.env | any(.name == "A")) | .name': [(*WEB, "name")],
    '.spec.containers[].env[]? | select(.name | startswith("A")) | .value': [(*WEB, "env", 0, "value")],
    '.spec.containers[] | select(.name | endswith("g")) | .image': [(*LOG, "image")],
    '.spec.containers[] | select(.name | contains("e")) | .image': [(*WEB, "image")],
    ".spec | select(.replicas >= 3) | .replicas": [("spec", "replicas")],
    ".data | select(.a < .b) | .a": [("data", "a")],
    ".webhooks[]?.clientConfig.caBundle": [("webhooks", 0, "clientConfig", "caBundle")],
    "..|.image?": [(*WEB, "image"), (*LOG, "image")],
    '.data | .. | select(type == "string")': [("data", "a"), ("data", "b")],
    ".data.a.b": [],
    ".data.a.b?": [],
    ".a.b.c": [],
    ".spec.containers[].name.foo?": [],
}


@pytest.mark.parametrize(("expression", "expected"), SELECTS.items(), ids=SELECTS.keys())
def test_what_is_selected(expression: str, expected: list[tuple[str | int, ...]]):
    assert list(paths(expression, BODY)) == expected


REFUSED = {
    "repeat(.)": "'repeat' is not supported",
    "def f: f; f": "not understood",
    "env.HOME": "'env' is not supported",
    "$ENV.HOME": "not understood",
    "input": "'input' is not supported",
    '.a | test("(a+)+$")': "use startswith, endswith or contains",
    "[.a]": "'[' is not supported",
    ".a |= 1": "not understood",
    ".a + 1": "not understood",
    "del(.a)": "'del' is not supported",
    ".foo bar": "'bar' is not understood",
    ".a[.b]": "only a text or a number",
    ".a[01]": "']' is expected before '1'",
    ".a[٣]": "'٣]' is not understood",
    ".a | select(.b == ٣)": "'٣)' is not understood",
    ".a | select(.b": "')' is expected before 'the end'",
    "": "'the end' is not supported",
    "." + "(" * 60: "'(' is not understood",
    "(" * 60 + "." + ")" * 60: "nested too deeply",
    "." + "a" * MAX_LENGTH: "longer than 1000 characters",
}


@pytest.mark.parametrize(("expression", "told"), REFUSED.items(), ids=[key[:20] for key in REFUSED])
def test_what_is_refused_when_it_is_read(expression: str, told: str):
    with pytest.raises(JqProblem) as caught:
        parse(expression)
    assert told in str(caught.value)


@pytest.mark.parametrize("expression", ["1", ".data | not", '.data.a == "1"', "true"])
def test_values_are_no_places(expression: str):
    with pytest.raises(JqProblem, match="makes values instead of selecting places"):
        paths(expression, BODY)


def test_it_always_ends():
    """Filters in a row multiply; the budget ends what would take hours."""
    deep: dict[str, object] = {}
    for _ in range(80):
        deep = {"a": deep}
    with pytest.raises(JqProblem, match="takes more than"):
        paths("..|..|..|..|..", deep)
    with pytest.raises(JqProblem, match="takes more than"):
        paths("|".join(["(.,.)"] * 40), deep)


def test_a_chain_too_long_is_told_in_words():
    """An error of the interpreter's would be told as a fault of Fleetbeat's, without object and rule."""
    with pytest.raises(JqProblem, match="has too many parts"):
        paths(".a" + "?" * 990, {"a": 1})
