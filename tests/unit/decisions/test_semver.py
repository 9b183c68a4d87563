"""Ranges over tags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions import semver
from fleetbeat.errors import ConfigurationError

#: precedence as SemVer 2.0 §11 gives it, lowest first
ASCENDING = [
    "0.0.1",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "v1.0.1",
    "1.9.0",
    "1.10.0",
    "2.0.0-0",
    "2.0.0",
]


def test_precedence() -> None:
    """Field case g2."""
    versions = [semver.version_of(tag) for tag in ASCENDING]
    assert None not in versions
    assert sorted([v for v in versions[::-1] if v]) == versions


@pytest.mark.parametrize(
    "tag",
    ["latest", "1", "1.2", "20250616", "1.2.3.4", "01.2.3", "1.2.3-", "V1.2.3", "1.2.3_a_b", "١.٢.٣", "", "1.2.3-ä"],
)
def test_not_a_version(tag: str) -> None:
    assert semver.version_of(tag) is None


def test_underscore_is_plus_once() -> None:
    """Field case g2."""
    found = semver.version_of("0.20250616.1_ref.abc")
    assert found is not None
    assert (found.core, found.build) == ((0, 20250616, 1), "ref.abc")


G2 = ["0.20250616.1_ref.abc", "1.0.0-rc.1", "1.0.0", "latest", "v1.1.0"]


@pytest.mark.parametrize(
    ("wanted", "tag"),
    [
        (">0.0.1", "v1.1.0"),
        (">=1.0.0-0", "v1.1.0"),
        ("~1.0", "1.0.0"),
        (">=1.0.0-0 <1.0.0", "1.0.0-rc.1"),
        ("<1.0.0", "0.20250616.1_ref.abc"),
        (">=2", None),
    ],
)
def test_field_case_tags(wanted: str, tag: str | None) -> None:
    """Field case g2."""
    assert semver.best(G2, semver.parse_range(wanted)) == tag
    assert semver.best(reversed(G2), semver.parse_range(wanted)) == tag


@pytest.mark.parametrize(
    ("wanted", "inside", "outside"),
    [
        ("1.2.3", ["1.2.3", "v1.2.3", "1.2.3+b"], ["1.2.4", "1.2.3-rc.1"]),
        ("=1.2", ["1.2.0", "1.2.9"], ["1.3.0", "1.1.9"]),
        ("v1.2.x", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("1.*", ["1.0.0", "1.99.0"], ["2.0.0", "0.9.9"]),
        ("*", ["0.0.1", "9.9.9"], ["1.0.0-rc.1"]),
        ("!=1.3.0", ["1.3.1"], ["1.3.0"]),
        ("!=1.3", ["1.2.9", "1.4.0"], ["1.3.0", "1.3.7"]),
        (">1.2", ["1.3.0"], ["1.2.0", "1.2.9"]),
        (">1.2.3", ["1.2.4"], ["1.2.3"]),
        (">11", ["12.0.0"], ["11.1.0"]),
        (">=1.2", ["1.2.0"], ["1.1.9", "1.2.0-rc.1"]),
        ("=>1.2, =<1.4", ["1.2.0", "1.4.9"], ["1.5.0"]),
        ("<2", ["1.9.9"], ["2.0.0", "2.0.0-rc.1"]),
        ("<=2", ["2.0.0", "2.9.9"], ["3.0.0"]),
        (">=1.2 <2", ["1.2.0", "1.9.9"], ["2.0.0", "1.1.0"]),
        (">= 1.2,< 2 , !=1.5.0", ["1.4.0"], ["1.5.0", "2.0.0"]),
        (">=1.0.0-0 <2", ["1.0.0-rc.1", "1.5.0-beta"], ["2.0.0-rc.1"]),
        (">=1.0.0-0 <2.0.0", ["2.0.0-rc.1"], ["2.0.0"]),
        ("<2.0.0", ["1.9.9"], ["2.0.0", "2.0.0-rc.1"]),
        ("<2.0.0-rc.2", ["2.0.0-rc.1", "1.0.0"], ["2.0.0-rc.2", "2.0.0"]),
        ("1.2 - 1.4", ["1.2.0", "1.4.9"], ["1.5.0", "1.1.9"]),
        ("1.2.3 - 1.4.0", ["1.2.3", "1.4.0"], ["1.4.1"]),
        ("~1", ["1.0.0", "1.9.0"], ["2.0.0"]),
        ("~1.2", ["1.2.0", "1.2.9"], ["1.3.0"]),
        ("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"]),
        ("~>1.2.3", ["1.2.9"], ["1.3.0"]),
        ("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0"]),
        ("^1", ["1.0.0", "1.9.0"], ["2.0.0"]),
        ("^0", ["0.0.0", "0.9.0"], ["1.0.0"]),
        ("^0.2", ["0.2.0", "0.2.9"], ["0.3.0"]),
        ("^0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0"]),
        ("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("^1.2.3-beta.2", ["1.2.3-beta.3", "1.2.3", "1.4.0"], ["1.2.3-beta.1", "2.0.0-beta.3"]),
        ("<1 || >=2", ["0.9.0", "2.1.0"], ["1.5.0"]),
        ("1.x||3.x", ["1.5.0", "3.5.0"], ["2.5.0"]),
    ],
)
def test_range(wanted: str, inside: list[str], outside: list[str]) -> None:
    parsed = semver.parse_range(wanted)
    assert [tag for tag in inside if semver.version_of(tag) not in parsed] == []  # type: ignore[operator]
    assert [tag for tag in outside if semver.version_of(tag) in parsed] == []  # type: ignore[operator]


@pytest.mark.parametrize(
    "wanted", ["", " ", "latest", ">", ">=1.2 <", "1.2.3.4", "||1", "1.2 2 -", ">>1", "1..2", "01.2", ">=1;<2"]
)
def test_not_a_range(wanted: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a range"):
        semver.parse_range(wanted)


def test_equal_versions_give_the_same_tag_in_any_order() -> None:
    tags = ["1.0.0_b.2", "v1.0.0", "1.0.0_b.10", "1.0.0"]
    for order in (tags, tags[::-1]):
        assert semver.best(order, semver.parse_range("1.0.0")) == "1.0.0_b.10"
    assert semver.best(["v1.0.0", "1.0.0"], semver.parse_range("*")) == "1.0.0"


@given(st.text(alphabet="0123456789.<>=~^xX*-| ,v!ab", max_size=40))
def test_any_text_is_a_range_or_a_clear_error(text: str) -> None:
    try:
        wanted = semver.parse_range(text)
    except ConfigurationError:
        return
    semver.best(ASCENDING, wanted)
