"""What an identity may do in a namespace, read from the rules that a SelfSubjectRulesReview answers with.

A right for named objects alone counts for nothing: what a bundle will hold, and what is to be listed, has no name yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

#: what a sync asks for, of every kind it applies
OF_A_KIND = ("get", "list", "create", "patch", "delete")
#: what it asks for of ConfigMaps in its own namespace, where one for each application says what it owns
OF_RECORDS = ("get", "list", "create", "update", "delete")

_CORE = ""
_ALL = "*"


class Right(NamedTuple):
    """One kind of object, as rules name it."""

    group: str  #: "*" = all
    resource: str  #: "configmaps"; "*" = all

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


EVERYTHING = Right(_ALL, _ALL)
RECORDS = Right(_CORE, "configmaps")


def lacking(rules: Sequence[Mapping[str, Any]], of: Right, verbs: Collection[str]) -> tuple[str, ...]:
    """Those of the verbs that no rule gives, in their order. ``rules``: ``status.resourceRules``."""
    granted = {verb for rule in rules if _covers(rule, of) for verb in rule.get("verbs") or ()}
    return () if _ALL in granted else tuple(verb for verb in verbs if verb not in granted)


def applicable(rules: Sequence[Mapping[str, Any]]) -> list[Right]:
    """The kinds named in the rules that may be applied and deleted, sorted. Subresources are none."""
    named = {
        Right(group, resource)
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        if "/" not in resource
    }
    return sorted(right for right in named if not lacking(rules, right, OF_A_KIND))


def _covers(rule: Mapping[str, Any], of: Right) -> bool:
    return (
        not rule.get("resourceNames")
        and _named(rule.get("apiGroups") or (), of.group)
        and _named(rule.get("resources") or (), of.resource)
    )


def _named(names: Iterable[str], name: str) -> bool:
    return any(one in (name, _ALL) for one in names)
