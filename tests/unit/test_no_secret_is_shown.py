"""No byte of a Secret is in anything that is shown, whatever the Secret looks like.

Every value is made of characters that no text of ours and no key has, so one of them is enough to give a leak away;
what base64, JSON and Go make of a value is looked for too.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from traces import traces

from fleetbeat.clients.cluster_errors import Doing, refusal
from fleetbeat.decisions.changes import changed_paths, format_path, unified
from fleetbeat.decisions.conflicts import conflicts
from fleetbeat.decisions.examine import examine
from fleetbeat.decisions.manifests import place, scan
from fleetbeat.decisions.masking import _go_quoted, masked
from fleetbeat.model import ApiResource, ApiSet

LETTERS = "ΩЖ€𝄞"  # two to four bytes in UTF-8
AWKWARD = "\n\t\"'\\ #:{}[]&*!|>%@`,?-=\r\x7f\u2028é0"
#: never without one of LETTERS, so that what begins with it can be told apart
LONG = st.builds(
    lambda first, rest, last: f"{first}{rest}{last}",
    st.text(LETTERS, min_size=2, max_size=4),
    st.text(LETTERS + AWKWARD, max_size=16),
    st.text(LETTERS, min_size=2, max_size=4),
)
#: also as short as a value can be, and with the white space that a file ends with
VALUES = LONG | st.builds(str.__add__, st.text(LETTERS, min_size=1, max_size=3), st.sampled_from(["", "\n"]))
KEYS = st.text("abcXYZ._-/ \n\"'{$", min_size=1, max_size=8)
DATA = st.dictionaries(KEYS, VALUES, max_size=3)
BYTES = st.binary(min_size=12, max_size=40)


def b64(value: str | bytes) -> str:
    return base64.b64encode(value.encode() if isinstance(value, str) else value).decode()


def secret(**fields: Any) -> dict[str, Any]:
    metadata = {"name": "key", "namespace": "shop", **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields}


def assert_hidden(text: str, *values: str) -> None:
    assert not set(text) & set(LETTERS), text
    for value in values:
        assert b64(value) not in text
        if len(value.strip()) >= 4:  # less of it in the middle of base64 is two characters: chance
            assert traces(text.encode(), value) == []
        assert json.dumps(value)[1:-1] not in text  # \u03a9
        assert json.dumps(json.dumps(value)[1:-1])[1:-1] not in text


#: Ways in which a value comes to stand in an annotation.
COPIES = {
    "plain": lambda value: value,
    "in a sentence": lambda value: f"the password is {value}.",
    "encoded": b64,
    "encoded in a sentence": lambda value: f"use {b64(value)} here",
    "kubectl's copy": lambda value: json.dumps(secret(stringData={"a": value}), ensure_ascii=False),
    "kubectl's copy in ASCII": lambda value: json.dumps(secret(stringData={"a": value})),
    "a copy in a copy": lambda value: json.dumps(
        secret(metadata={"annotations": {"b": json.dumps(secret(data={"a": b64(value)}))}})
    ),
    "a copy that is cut off": lambda value: json.dumps(secret(stringData={"a": value}), ensure_ascii=False)[:-4],
    "a copy after a word": lambda value: f"v1:{json.dumps({'a': value})}",
    "a copy after a word, in UTF-8": lambda value: f"v1:{json.dumps({'a': value}, ensure_ascii=False)}",
    "without the line's end": str.strip,
    "for an address, without padding": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "as YAML": lambda value: yaml.safe_dump({"data": {"a": b64(value)}}),
}
NOTES = st.dictionaries(
    st.sampled_from(["kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original", "example.com/note"]),
    st.sampled_from(sorted(COPIES)),
    max_size=3,
)


def noted(notes: dict[str, str], values: list[str]) -> dict[str, str]:
    """Annotations with copies of these values."""
    return {key: COPIES[how](value) for (key, how), value in zip(notes.items(), values, strict=False)}


@given(DATA, DATA, DATA, NOTES, NOTES, st.sampled_from(["annotations", "labels"]))
def test_in_a_diff(
    old: dict[str, str],
    new: dict[str, str],
    plain: dict[str, str],
    notes: dict[str, str],
    others: dict[str, str],
    place: str,
):
    before = secret(
        data={key: b64(value) for key, value in old.items()},
        metadata={place: noted(notes, list(old.values()))},
    )
    after = secret(
        data={key: b64(value) for key, value in new.items()},
        stringData=plain,
        metadata={place: noted(others, [*plain.values(), *new.values()])},
    )
    values = [*old.values(), *new.values(), *plain.values()]
    for sides in ((before, after), (after, before), (before, None), (None, after)):
        assert_hidden(unified(*sides), *values)
        assert_hidden(json.dumps(masked(*sides), ensure_ascii=False), *values)
    if old != new:
        assert "data" in unified(before, after)


@given(VALUES, st.sampled_from(sorted(COPIES)))
def test_a_copy_of_the_other_side_s_value(value: str, how: str):
    before = secret(metadata={"annotations": {"example.com/note": COPIES[how](value)}})
    assert_hidden(unified(before, secret(data={"a": b64(value)})), value)


SENTENCES_WITH = ["{}", "pin is {}", "{}-blue", "tok:{}", "({})", "is {}\n"]


@given(
    st.text("0123456789ab-", min_size=1, max_size=3).filter(lambda value: value.strip("-")),
    st.sampled_from(SENTENCES_WITH),
    st.sampled_from(["annotations", "labels"]),
    st.sampled_from(["data", "stringData"]),
    st.sampled_from(["", "\n"]),
)
@example("123", "pin is {}", "annotations", "data", "")
def test_a_short_value_that_stands_as_a_word(value: str, sentence: str, place: str, field: str, end: str):
    """The whole annotation or label is hidden; it says as much about the value as the value itself."""
    content = b64(value + end) if field == "data" else value + end
    body = secret(**{field: {"pin": content}, "metadata": {place: {"note": sentence.format(value)}}})
    hidden = masked(body, None)[0]
    assert hidden
    assert hidden["metadata"][place] == {"note": "***"}


@pytest.mark.parametrize(
    ("value", "text", "shown"),
    [
        ("hunter22", "hunter22", False),
        ("123", "pin is 123", False),
        ("123", "since 2026-12-31", True),
        ("123", "build 41235", False),
        ("1", "1", False),
        ("1", "since 2021-11-12", True),
        ("1", "v1 of 3", True),
        ("true", "true", False),
        ("", "shop", True),
        (" ", "the shop", True),
        ("postgres://shop:hunter22@db.example.com", "shop:hunter22", False),
        ("postgres://shop:hunter22@db.example.com", "shop", True),
    ],
)
def test_how_much_a_value_hides(value: str, text: str, shown: bool):
    for field in ("annotations", "labels"):
        hidden = masked(None, secret(stringData={"a": value}, metadata={field: {"note": text}}))[1]
        assert hidden
        assert hidden["metadata"][field]["note"] == (text if shown else "***")


@given(BYTES, BYTES)
def test_bytes_that_are_no_text(old: bytes, new: bytes):
    before, after = secret(data={"a": b64(old)}), secret(data={"a": b64(new)})
    text = unified(before, after)
    assert b64(old) not in text
    assert b64(new) not in text
    assert ("*** (before)" in text) == (old != new)


MALFORMED = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)


@given(st.sampled_from(["data", "stringData", "stringdata", "Data", "value", "spec"]), MALFORMED, MALFORMED)
def test_a_secret_that_the_server_would_refuse(field: str, left: Any, right: Any):
    """A misspelt ``stringdata`` is in a bundle as secret as the right one."""
    for before, after in ((left, right), (left, None), (None, right)):
        sides = [None if content is None else secret(**{field: content}) for content in (before, after)]
        assert_hidden(unified(*sides))


@given(DATA, DATA)
def test_in_the_places_that_are_named(old: dict[str, str], new: dict[str, str]):
    """Why an object is written, and who holds what: paths name keys, never values."""
    fields = {"f:data": {f"f:{key}": {} for key in old}}
    manager = {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}
    before = secret(data={k: b64(v) for k, v in old.items()}, metadata={"managedFields": [manager]})
    paths = changed_paths(before, secret(data={k: b64(v) for k, v in new.items()}))
    assert_hidden(" ".join(map(format_path, paths)), *old.values(), *new.values())
    assert_hidden(" ".join(map(str, conflicts(before, paths))), *old.values(), *new.values())


# ── what an API server says ──────────────────────────────────────────────────────────────────────────────────────

#: Ways in which servers, policies and webhooks quote a value.
QUOTED = {
    "as it is": lambda value: value,
    "base64": b64,
    "as Go quotes it": lambda value: '"' + "".join(map(_go_quoted, value)) + '"',
    "as JSON": json.dumps,
    "as JSON, in UTF-8": lambda value: json.dumps(value, ensure_ascii=False),
    "twice": lambda value: f"{value}{value}",
}
SENTENCES = [
    'Secret "key" is invalid: data[a]: Invalid value: {}: must be short',
    'admission webhook "guard" denied the request: {} is too weak, use another',
    "json: cannot unmarshal {} into Go struct field Secret.data of type map[string][]uint8",
    'failed to create typed patch object: .data.a: expected string, got {}: and "more"',
    "ValidatingAdmissionPolicy 'guard' denied request: {}",
]


@given(
    LONG,
    st.sampled_from(sorted(QUOTED)),
    st.sampled_from(SENTENCES),
    st.sampled_from([400, 403, 409, 422, 500, 503]),
    st.booleans(),
    st.integers(0, 1200),
)
@example("ΩΩ0000ΩΩ", "as it is", SENTENCES[1], 503, False, 960)
def test_in_a_refusal(value: str, how: str, sentence: str, status: int, is_status: bool, before: int):
    """``before``: characters in front of it, so that the message is cut anywhere."""
    message = "x" * before + sentence.format(QUOTED[how](value))
    content = orjson.dumps({"kind": "Status", "message": message}) if is_status else message.encode()
    headers = {"Content-Type": "application/json" if is_status else "text/plain", "Audit-Id": "a"}
    for body in (secret(stringData={"a": value}), secret(data={"a": b64(value)})):
        doing = Doing("prod", "apply", "Secret shop/key", write=True, secret=body)
        assert_hidden(str(refusal(doing, status, headers, content)), value)


# ── what a bundle's mistakes are told with ───────────────────────────────────────────────────────────────────────

APIS = ApiSet((ApiResource("", "v1", "Secret", "secrets", namespaced=True),), True, "1.36")
BROKEN = {
    "a tab": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData:\n\ta: {}\n",
    "an open quote": 'apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData:\n  a: "{}\n',
    "an open bracket": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{a: {}\n",
    "an alias": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{a: *{}}}\n",
    "an anchor": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{a: &{} b, a: c}}\n",
    "a tag": 'apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{a: !!int "{}"}}\n',
    "no base64": 'apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{a: !!binary "{}"}}\n',
    "a list": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: [{}]\n",
    "no metadata": "apiVersion: v1\nkind: Secret\nstringData: {{a: {}}}\n",
    "no kind": "apiVersion: v1\nmetadata: {{name: a}}\nstringData: {{a: {}}}\n",
    "another kind": "apiVersion: v1\nkind: Secrets\nmetadata: {{name: a}}\nstringData: {{a: {}}}\n",
    "two of them": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{a: {0}}}\n---\n"
    "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\ndata: {{a: {0}}}\n",
    "no namespace": "apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{a: {}}}\n",
}


@pytest.mark.parametrize("how", BROKEN)
@given(value=VALUES)
def test_in_what_is_wrong_with_a_bundle(how: str, value: str):
    found = scan({"a.yaml": BROKEN[how].format(value).encode()})
    placed = place(found.documents, apis=APIS, namespace="")
    examined = examine(placed.manifests)
    told = [*found.problems, *found.skipped, *placed.problems, *placed.absent, *placed.warnings]
    told += [*examined.problems, *examined.remarks, *examined.told]
    assert_hidden("\n".join(map(str, told)), value)
    if how != "a list":
        assert told or found.documents
