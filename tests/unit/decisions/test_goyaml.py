"""Reading YAML as kubectl does: the golden tables, the limits, the places of errors, and random input."""

from __future__ import annotations

import contextlib
import json
import textwrap
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleetbeat.decisions import goyaml
from fleetbeat.decisions.goyaml import YamlProblem

GOLDEN = Path(__file__).parents[2] / "golden" / "yaml"


def read(text: bytes | str, **limits: int) -> list[Any]:
    return [document.value for document in goyaml.load_all(text, **limits)]


def problem(text: bytes | str, **limits: int) -> YamlProblem:
    with pytest.raises(YamlProblem) as caught:
        read(text, **limits)
    return caught.value


def as_go(value: Any) -> Any:
    """Numbers as the API server reads them, however they are spelt: int64, else float64."""
    if isinstance(value, dict):
        return {key: as_go(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_go(item) for item in value]
    if type(value) is float and value.is_integer() and abs(value) < 1 << 63:
        return int(value)
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        return float(value)
    return value


def rows() -> list[Any]:
    return list(_rows())


def _rows() -> Iterator[Any]:
    for table in sorted(GOLDEN.glob("*.tsv")):
        for line in table.read_text(encoding="utf-8").splitlines()[1:]:
            probe, go, *different = line.split("\t")
            yield pytest.param(
                json.loads(probe), different[0] if different else go, table.stem, id=f"{table.stem}: {probe[:60]}"
            )


@pytest.mark.parametrize(("text", "expected", "table"), rows())
def test_golden_table(text: str, expected: str, table: str) -> None:
    """Field cases i1, i2, i4, i5, i11, i12: what kubectl's own code answered, see tests/golden/yaml/README.md."""
    if expected.startswith("error"):
        problem(text)
        return
    values = read(text)
    value = [v for v in values if v is not None] if table == "documents" else (values[0] if values else None)
    # Compared as JSON text, as 1 == True == 1.0 in Python.
    assert json.dumps(as_go(value), sort_keys=True) == json.dumps(as_go(json.loads(expected)), sort_keys=True)


@pytest.mark.parametrize("number", [2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1])
def test_integers_are_exact_within_64_bits(number: int) -> None:
    """Field case i4."""
    assert read(f"a: {number}") == read(f'{{"a": {number}}}') == [{"a": number}]
    assert type(read("a: 1.0")[0]["a"]) is type(read('{"a": 1.0}')[0]["a"]) is int


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param("a: 1\nb:\n\tc: 2\n", 3, "tab", id="tab"),
        pytest.param("a: 1\nb: 'x\n  y\n\n", 3, "begun on line 2", id="open quote"),
        pytest.param("a: 1\n---\nb: 1\nb: 2\n", 4, "'b' stands twice", id="duplicate in second document"),
        pytest.param("metadata:\n  labels: {a: b}\n  name: x\n  labels: {c: d}\n", 4, "'labels'", id="labels twice"),
        pytest.param("a: .inf\n", 1, ".inf", id="infinity"),
        pytest.param("a:\n- x\n- .nan\n", 3, ".nan", id="not a number"),
        pytest.param("a: 1\n~: 2\n", 2, "null", id="null key"),
        pytest.param("a: 1\n? [x]\n: 2\n", 2, "cannot be a key", id="list as key"),
        pytest.param("a: 1\nb: *x\n", 2, "no anchor", id="unknown alias"),
        pytest.param("a: &x 1\n---\nb: *x\n", 3, "same document", id="alias of an earlier document"),
        pytest.param("a: 1\nb: &x [1, *x]\n", 2, "contains itself", id="self-reference"),
        pytest.param("a: 1\nb: !!int x\n", 2, "!!int", id="wrong tag"),
        pytest.param("a: 1\n<<: [1]\n", 2, "<<", id="merge of a number"),
        pytest.param("a: é\nb: \x01\n", 2, "U+0001", id="control character"),
        pytest.param(b"a: 1\nb: \xff\n", 2, "0xff is not UTF-8", id="not UTF-8"),
        pytest.param("a: 1\n".encode("utf-16"), 1, "save the file as UTF-8", id="UTF-16"),
        pytest.param('{"a": 1}\n\n{"b": 1, "b": 2}\n', 3, "'b' stands twice", id="duplicate in second JSON document"),
        pytest.param('{"a": 1}\n{"b": ]\n', 2, "", id="second JSON document broken"),
    ],
)
def test_problem_says_where(text: bytes | str, line: int, words: str) -> None:
    """Field cases d5 and i11: the line, and the key."""
    found = problem(text)
    assert found.line == line
    assert words in found.message


def test_documents_carry_line_and_number() -> None:
    text = "# only a comment\n---\na: 1\n\n---\n\n# note\nb: 2\n--- # note\n---\nc: 3\n"
    assert [(d.number, d.line, d.value) for d in goyaml.load_all(text)] == [
        (1, 3, {"a": 1}),
        (2, 8, {"b": 2}),
        (3, 10, None),
        (4, 11, {"c": 3}),
    ]
    assert [(d.number, d.line) for d in goyaml.load_all('{"a": 1}\n\n {"b": 2}\n---\n{"c": 3}\n')] == [
        (1, 1),
        (2, 3),
        (3, 5),
    ]


def test_texts_with_dashes_stay_whole() -> None:
    """Field case i5."""
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    nested = "a: 1\n---\nb: 2\n"
    text = (
        "# generated, first document empty\n---\n---\nnull\n---\nkind: ConfigMap\ndata:\n  pem: |\n"
        + textwrap.indent(pem, "    ")
        + "...\n--- # note\nkind: ConfigMap\ndata:\n  nested: |\n"
        + textwrap.indent(nested, "    ")
        + "---\n"
    )
    assert [v for v in read(text) if v is not None] == [
        {"kind": "ConfigMap", "data": {"pem": pem}},
        {"kind": "ConfigMap", "data": {"nested": nested}},
    ]


def test_bom_and_carriage_returns() -> None:
    assert read(b"\xef\xbb\xbfa: 1\r\n---\r\nb: |\r\n  x\r\n") == [{"a": 1}, {"b": "x\n"}]


def bomb(levels: int, width: int = 9) -> str:
    lines = [f"a0: &a0 [{', '.join(['lol'] * width)}]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * width)}]" for n in range(1, levels)]
    return "\n".join(lines)


def test_alias_bomb_costs_nothing() -> None:
    """Field case i12: refused before anything is expanded."""
    read("a: 1")  # imports and caches are not what is measured
    tracemalloc.start()
    started = time.process_time()
    found = problem(bomb(9))
    spent, (_, peak) = time.process_time() - started, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "aliases" in found.message
    assert peak < 64 << 20
    assert spent < 5


def test_honest_aliases_work_and_share_nothing() -> None:
    """Field case i12."""
    text = "base: &b {labels: {team: web}}\none: {<<: *b, x: 1}\ntwo: *b\nmany: [" + "*b, " * 90 + "]\n"
    value = read(text)[0]
    assert value["one"] == {"labels": {"team": "web"}, "x": 1}
    value["two"]["labels"]["team"] = "changed"
    assert value["base"]["labels"]["team"] == value["one"]["labels"]["team"] == "web"
    assert all(item["labels"]["team"] == "web" for item in value["many"])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 300 + "]" * 300, id="flow lists"),
        pytest.param("a: " + '{"a": ' * 300 + "1" + "}" * 300, id="flow mappings"),
        pytest.param('{"a": ' * 300 + "1" + "}" * 300, id="JSON"),
        pytest.param('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", id="JSON beyond the interpreter's stack"),
        pytest.param("".join("  " * n + "a:\n" for n in range(300)), id="block mappings"),
        pytest.param("a0: &a0 []\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300)), id="aliases"),
    ],
)
def test_depth_is_limited(text: str) -> None:
    assert "nested deeper" in problem(text).message


def test_a_million_brackets_end_early() -> None:
    assert "depth" in problem("a: " + "[" * 1_000_000).message


@pytest.mark.parametrize("text", ["- x\n" * 50, "a: 1\n---\n" * 30, '{"a": [' + "1," * 50 + "1]}"])
def test_number_of_values_is_limited(text: str) -> None:
    read(text, max_nodes=200)
    assert "values in one file" in problem(text, max_nodes=40).message


def test_reads_megabytes_per_second() -> None:
    """The budget of engineering.md §8 is 3.5 MB/s; a slow shared machine is given a third of it."""
    one = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, labels: {a: b}}\ndata:\n  x: |\n" + "    text\n" * 60
    text = (one + "---\n") * 2_000
    started = time.process_time()
    assert sum(1 for _ in goyaml.load_all(text)) >= 2_000
    assert len(text) / (time.process_time() - started) > 1_000_000


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda f: int(f) if f.is_integer() and abs(f) < 2**53 else f)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(TEXT, JSON, max_size=5))
def test_json_reads_as_itself(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent="\t").encode()):
        # Floats by value: Go spells 1e17 as an integer.
        assert json.loads(json.dumps(read(text)), parse_int=float) == json.loads(json.dumps([value]), parse_int=float)


@given(st.text(st.sampled_from(" -:?{}[],&*!|>'\"%@`#<~=.0123456789abyn\\\n\t\r\x00é\u2028😀"), max_size=80))
@example("{")
@example("k: !")
@example("&a")
@example("a: 1" * 5000)
@example("9" * 5000)
@example("0x" + "f" * 5000)
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(YamlProblem):
        for document in goyaml.load_all(text):
            json.dumps(document.value, allow_nan=False).encode()


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(YamlProblem):
        read(data)
