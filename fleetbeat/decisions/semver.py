"""Version ranges over tags, in the dialect people know from Helm, Flux and Argo CD (Masterminds/semver).

``>=1.2 <2``, ``1.2 - 1.4.3``, ``~1.2``, ``^0.3``, ``1.x``, ``!=1.3.0``; a blank or comma means "and", ``||`` "or".
Three rules where the tools differ, all on the careful side:

* a tag is a version only with all three numbers (``v`` in front allowed): ``latest``, ``1``, ``20250616`` are not;
* pre-releases count only in an "and" group one of whose bounds names a pre-release (``>=1.0.0-0``);
* ``<2`` then still excludes ``2.0.0-rc.1``: whoever asks for less than 2 does not mean its release candidate. A bound
  with all three numbers, ``<2.0.0``, is taken by the letter of SemVer and includes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import total_ordering

from fleetbeat.errors import ConfigurationError

Core = tuple[int, int, int]

_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER = r"(?:0|[1-9][0-9]{0,18})"
_VERSION = re.compile(rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_IDENTIFIERS}))?(?:\+({_IDENTIFIERS}))?")
_PART = rf"(?:{_NUMBER}|[xX*])"
_BOUND_TEXT = rf"v?{_PART}(?:\.{_PART}){{0,2}}(?:-{_IDENTIFIERS})?(?:\+{_IDENTIFIERS})?"
_OPERATOR = r"(?:!=|>=|=>|<=|=<|~>|=|>|<|~|\^)?"
_COMPARATOR = re.compile(rf"({_OPERATOR})\s*({_BOUND_TEXT})")
_GROUP = re.compile(rf"{_OPERATOR}\s*{_BOUND_TEXT}(?:(?:\s*,\s*|\s+){_OPERATOR}\s*{_BOUND_TEXT})*")
_HYPHEN = re.compile(rf"({_BOUND_TEXT})\s+-\s+({_BOUND_TEXT})")
_SYNONYMS = {"": "=", "=>": ">=", "=<": "<=", "~>": "~"}


@total_ordering
@dataclass(frozen=True, eq=False)
class Version:
    """A version; order and equality are SemVer 2.0 precedence, in which build data (``+…``) plays no part."""

    core: Core
    pre: str = ""
    build: str = ""

    @property
    def _precedence(self) -> tuple[Core, bool, tuple[tuple[bool, int, str], ...]]:
        return self.core, not self.pre, _identifiers(self.pre)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._precedence == other._precedence

    def __lt__(self, other: Version) -> bool:
        return self._precedence < other._precedence

    def __hash__(self) -> int:
        return hash(self._precedence)


def _identifiers(dotted: str) -> tuple[tuple[bool, int, str], ...]:
    """Sort key of dotted identifiers: numbers by value and below words, words by ASCII."""
    words = dotted.split(".") if dotted else []
    return tuple((False, int(w), "") if w.isascii() and w.isdigit() else (True, 0, w) for w in words)


def version_of(tag: str) -> Version | None:
    """The version a tag stands for, None when it is no version. The first ``_`` is read as ``+``."""
    found = _VERSION.fullmatch(tag.replace("_", "+", 1))
    if found is None:
        return None
    major, minor, patch, pre, build = found.groups()
    return Version((int(major), int(minor), int(patch)), pre or "", build or "")


@dataclass(frozen=True)
class Range:
    """A parsed range: "or" of groups, each an "and" of tests and whether it lets pre-releases in."""

    text: str
    groups: tuple[tuple[tuple[Callable[[Version], bool], ...], bool], ...]

    def __contains__(self, version: Version) -> bool:
        return any(
            (pre_releases or not version.pre) and all(test(version) for test in tests)
            for tests, pre_releases in self.groups
        )


def parse_range(text: str) -> Range:
    """Raises ConfigurationError that quotes the part which is not a range."""
    groups = []
    for part in text.split("||"):
        words = _HYPHEN.sub(r">=\1 <=\2", " ".join(part.split()))
        if not _GROUP.fullmatch(words):
            raise ConfigurationError(
                f"semver {text!r}: {part.strip()!r} is not a range. Examples: >=1.2 <2, ~1.4, ^2.0.1"
            )
        comparators = [_comparator(*found.groups()) for found in _COMPARATOR.finditer(words)]
        groups.append((tuple(test for test, _ in comparators), any(pre for _, pre in comparators)))
    return Range(text, tuple(groups))


def best(tags: Iterable[str], wanted: Range) -> str | None:
    """The tag of the highest version in range. Of equal versions: highest build data, then the shorter spelling."""
    fitting = [(version, tag) for tag in tags if (version := version_of(tag)) is not None and version in wanted]
    if not fitting:
        return None
    return max(fitting, key=lambda pair: (pair[0], _identifiers(pair[0].build), -len(pair[1])))[1]


def _comparator(operator: str, bound: str) -> tuple[Callable[[Version], bool], bool]:
    """The test one comparator stands for, and whether it asks for pre-releases."""
    operator = _SYNONYMS.get(operator, operator)
    numbers, pre = _split(bound)
    low = Version((*numbers, 0, 0, 0)[:3], pre)  # type: ignore[arg-type]
    return _test(operator, numbers, low), bool(pre)


def _split(bound: str) -> tuple[tuple[int, ...], str]:
    """The numbers that were really given (``1.x`` gives one), and the pre-release."""
    core, _, pre = bound.removeprefix("v").partition("+")[0].partition("-")
    numbers: list[int] = []
    for part in core.split("."):
        if part in ("x", "X", "*"):
            break
        numbers.append(int(part))
    return tuple(numbers), pre


def _test(operator: str, numbers: tuple[int, ...], low: Version) -> Callable[[Version], bool]:
    if not numbers:  # "*": any version, and nothing is above, below or different from it
        return lambda _: operator not in ("!=", ">", "<")
    full = len(numbers) == 3
    after = _next(numbers, len(numbers) - 1)  # first core behind what the bound covers
    match operator:
        case ">":
            return (lambda v: v > low) if full else (lambda v: v.core >= after)
        case ">=":
            return lambda v: v >= low
        case "<":
            return (lambda v: v < low) if full or low.pre else (lambda v: v.core < low.core)
        case "<=":
            return (lambda v: v <= low) if full else (lambda v: v.core < after)
        case "~":
            end = _next(numbers, min(1, len(numbers) - 1))
            return lambda v: v >= low and v.core < end
        case "^":
            first = next((i for i, n in enumerate(numbers) if n), len(numbers) - 1)
            end = _next(numbers, first)
            return lambda v: v >= low and v.core < end
        case "!=":
            return (lambda v: v != low) if full else (lambda v: not low.core <= v.core < after)
    return (lambda v: v == low) if full else (lambda v: v >= low and v.core < after)


def _next(numbers: tuple[int, ...], position: int) -> Core:
    """The smallest core whose number at ``position`` is one higher."""
    raised = (*numbers[:position], numbers[position] + 1, 0, 0, 0)[:3]
    return raised[0], raised[1], raised[2]
