"""Parts of objects that are left as they are in the cluster: ignore rules, honoured when comparing and when writing.

Leaving a field out of a server-side apply is not the same as leaving it alone: what we alone own and no longer send,
the API server deletes (``replicas`` then falls back to 1). So what others own is left out, and what only we own is sent
with the value it has in the cluster. Both come out of the dry-run equal to what is there, so nothing else has to know
of these rules. An object that is not there yet is created whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from fleetbeat.decisions.fieldsets import (
    ABSENT,
    Edit,
    Fields,
    Steps,
    atomic_around,
    by_name,
    get,
    leaves,
    named_step,
    steps_to,
    within,
)
from fleetbeat.decisions.inventory import FIELD_MANAGER, PART_OF
from fleetbeat.decisions.jqpaths import JqProblem, paths
from fleetbeat.decisions.selectors import fits, pointer_steps
from fleetbeat.errors import Rejected
from fleetbeat.model import Body, IgnoreRule, ObjectId

#: What says which object it is, and whose: no rule reaches these.
_PROTECTED: frozenset[Steps] = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata", "f:name"),
        ("f:metadata", "f:namespace"),
        ("f:metadata", "f:labels", f"f:{PART_OF}"),
    }
)


@dataclass(frozen=True)
class _Owners:
    """Field sets of the live object: that of our applies, and everybody else's."""

    own: Fields
    others: tuple[Fields, ...]

    @classmethod
    def of(cls, live: Body) -> _Owners:
        own: Fields = {}
        others: list[Fields] = []
        for entry in (live.get("metadata") or {}).get("managedFields") or ():
            fields = entry.get("fieldsV1") or {}
            if entry.get("manager") != FIELD_MANAGER:
                others.append(fields)
            elif entry.get("operation") == "Apply" and not entry.get("subresource"):
                own = fields
        return cls(own, tuple(others))

    def alone(self, steps: Steps) -> bool:
        """Do we own something here that nobody else holds?"""
        return within(self.own, steps) is not None and all(within(fields, steps) is None for fields in self.others)


def edits(
    wanted: Body, live: Body, key: ObjectId, rules: Iterable[IgnoreRule], pointers: Sequence[str] = ()
) -> tuple[Edit, ...]:
    """What to change in ``wanted`` before it is sent, so that the ignored places stay as they are in ``live``.

    ``pointers``: JSON pointers from the object's own annotation. Raises Rejected when a jq expression of a rule makes
    values instead of selecting places, or takes too long on this object.
    """
    applicable = [rule for rule in rules if fits(rule.objects, key)]
    if not applicable and not pointers:
        return ()
    places: dict[Steps, None] = {}
    for body in (wanted, live):
        for pointer in (*pointers, *(p for rule in applicable for p in rule.json_pointers)):
            places[pointer_steps(pointer, body)] = None
        for expression in (e for rule in applicable for e in rule.jq_path_expressions):
            try:
                places |= dict.fromkeys(steps_to(body, keys) for keys in paths(expression, body))
            except JqProblem as problem:
                raise Rejected(f"{key}: spec.ignoreDifferences: jqPathExpressions: {problem}") from None
    managers = [glob for rule in applicable for glob in rule.managed_fields_managers]
    for entry in (live.get("metadata") or {}).get("managedFields") or () if managers else ():
        name = entry.get("manager", "")
        if name != FIELD_MANAGER and any(fnmatchcase(name, glob) for glob in managers):
            places |= dict.fromkeys(leaves(entry.get("fieldsV1") or {}))
    return left_alone(wanted, live, places)


def left_alone(wanted: Body, live: Body, places: Iterable[Steps]) -> tuple[Edit, ...]:
    """Edits that keep these places, and everything below them, as they are in ``live``."""
    owners = _Owners.of(live)
    found: dict[Steps, Edit] = {}
    for place in places:
        if not place:
            continue
        for leaf in _leaves(get(wanted, place), place):
            if not _protected(leaf):
                found.setdefault(leaf, _edit(leaf, get(live, leaf), owners))
        # What we have sent before and the bundle no longer has would be deleted now.
        below = within(owners.own, place)
        for rest in leaves(below) if below else ([()] if below is not None else ()):
            leaf = (*place, *rest)
            value = get(live, leaf)
            if get(wanted, leaf) is ABSENT and value is not ABSENT and owners.alone(leaf) and not _protected(leaf):
                found.setdefault(leaf, Edit(leaf, value))
    return tuple(found.values())


def _edit(leaf: Steps, value: Any, owners: _Owners) -> Edit:
    if value is ABSENT:
        return Edit(leaf)
    if any(atomic_around(fields, leaf) for fields in (owners.own, *owners.others)):
        return Edit(leaf, value)  # a part of a whole cannot be left out
    whole_list = isinstance(value, list) and within(owners.own, leaf) is not None
    return Edit(leaf, value) if whole_list or owners.alone(leaf) else Edit(leaf)


def _leaves(value: Any, place: Steps) -> Iterator[Steps]:
    """Places of single values below; elements of lists are told apart by name, other lists are one value."""
    if value is ABSENT:
        return
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*place, f"f:{key}"))
    elif isinstance(value, list) and (named := by_name(value)):
        for name, inner in named.items():
            yield from _leaves(inner, (*place, named_step(name)))
    else:
        yield place


def _protected(leaf: Steps) -> bool:
    if leaf in _PROTECTED:
        return True
    # A list element without its key is another element.
    return len(leaf) > 1 and leaf[-2].startswith("k:") and f'"{leaf[-1][2:]}":' in leaf[-2]
