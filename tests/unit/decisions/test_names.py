"""Names by the rules of apimachinery; the cases of its own ``validation_test.go`` and of the field."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.names import is_label, is_subdomain


@pytest.mark.parametrize(
    "text",
    [
        *("a", "ab", "abc", "a1", "a-1", "a--1--2--b", "0", "01", "1a", "1-a", "1--a--b--2", "a.a", "ab.a", "a.b.c.d"),
        *("1.1", "0.1.0.1", "a1.b-1--2.c", "a" * 253),
        # field case d12
        *("a" * 62 + "-eu-west", "a" * 64, "shop." + "b" * 100),
    ],
)
def test_is_a_subdomain(text: str) -> None:
    assert is_subdomain(text)


NEITHER = [
    "A",
    "aBc",
    "-",
    "a-",
    "-a",
    "_",
    "a_b",
    ".",
    "a.",
    ".a",
    "a..b",
    "a.-b",
    "a-.b",
    "a@b",
    "a:b",
    "a/b",
    "ä",
    "٣",
]


@pytest.mark.parametrize("text", [*NEITHER, "", " ", "a ", "a\n", "a" * 254, "a." * 126 + "ab"])
def test_is_no_subdomain(text: str) -> None:
    assert not is_subdomain(text)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("a" * 63, True), ("a" * 64, False), ("a.b", False), ("0", True), ("a-", False), ("a\n", False)],
)
def test_a_label_is_one_part_of_63_at_most(text: str, is_one: bool) -> None:
    assert is_label(text) is is_one
