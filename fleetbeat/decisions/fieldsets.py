"""Field sets of ``metadata.managedFields`` (``fieldsV1``): walking them, and the objects they are about, together.

A field set is a tree. Its steps say how to go on in the object: ``f:spec`` a key, ``k:{"name":"web"}`` the list element
with these keys, ``v:"x"`` the element with this value, ``i:0`` the element at this index; ``.`` stands for the place
itself. A step without children is a leaf: its manager owns the value as a whole (a scalar, or an atomic map or list).
"""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions.spoken import place
from fleetbeat.model import Body

#: From the root of an object to a place in it.
Steps = tuple[str, ...]
Fields = dict[str, Any]

HERE = "."


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Any = _Absent()


def is_leaf(fields: Fields) -> bool:
    return not any(key != HERE for key in fields)


def leaves(fields: Fields, before: Steps = ()) -> Iterator[Steps]:
    """Every place the set owns as a whole."""
    for key, inner in fields.items():
        if key == HERE:
            continue
        if is_leaf(inner):
            yield (*before, key)
        else:
            yield from leaves(inner, (*before, key))


def position(items: Sequence[Any], step: str) -> int | None:
    """Index of the list element a ``k:``, ``v:`` or ``i:`` step means, None when there is none.

    A manifest may leave out a key that the server fills in (``protocol: TCP``): only keys that are there must fit.
    """
    kind, _, text = step.partition(":")
    try:
        means = json.loads(text)
    except ValueError:
        return None
    if kind == "i":
        return means if isinstance(means, int) and 0 <= means < len(items) else None
    if kind == "v":
        return next((n for n, item in enumerate(items) if item == means), None)
    if kind != "k" or not isinstance(means, dict):
        return None
    exact, loose = None, None
    for number, item in enumerate(items):
        if not isinstance(item, dict) or not means.keys() & item.keys():
            continue
        if all(item.get(key, ABSENT) == value for key, value in means.items()):
            exact = number if exact is None else exact
        elif all(item.get(key, value) == value for key, value in means.items()):
            loose = number if loose is None else loose
    return exact if exact is not None else loose


def get(value: Any, steps: Iterable[str]) -> Any:
    """The value at a place, ``ABSENT`` when there is none."""
    for step in steps:
        if isinstance(value, dict) and step.startswith("f:"):
            value = value.get(step[2:], ABSENT)
        elif isinstance(value, list) and (index := position(value, step)) is not None:
            value = value[index]
        else:
            return ABSENT
    return value


def within(fields: Fields, steps: Steps) -> Fields | None:
    """What the set has at and below the place; None when it has nothing there."""
    for step in steps:
        if step not in fields:
            return None
        fields = fields[step]
    return fields


def atomic_around(fields: Fields, steps: Steps) -> bool:
    """Whether the set owns a value as a whole that has this place inside."""
    for step in steps[:-1]:
        if step not in fields:
            return False
        fields = fields[step]
        if is_leaf(fields):
            return True
    return False


def owned_at(fields: Fields, value: Any, path: Sequence[str]) -> Steps | None:
    """The leaf of the set that holds a place given as ``changes.Path``; None when the set does not own it.

    ``value`` is the object the set is about. The leaf may be shorter than the path: an atomic list owned as a whole.
    """
    if is_leaf(fields):
        return ()
    if not path:
        return None
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        index = _index(value, step)
        key = next((k for k in fields if k != HERE and index is not None and position(value, k) == index), None)
        element = value[index] if index is not None else None
    else:
        key = f"f:{step}" if f"f:{step}" in fields else None
        element = value.get(step) if isinstance(value, dict) else None
    if key is None:
        return None
    below = owned_at(fields[key], element, rest)
    return None if below is None else (key, *below)


def _index(items: list[Any], step: str) -> int | None:
    text = step[1:-1]
    if text.startswith("name="):
        name = text.removeprefix("name=")
        return next((n for n, item in enumerate(items) if isinstance(item, dict) and item.get("name") == name), None)
    return int(text) if text.isdecimal() and int(text) < len(items) else None


def steps_to(value: Any, keys: Sequence[str | int]) -> Steps:
    """A path of keys and indexes as steps. Elements with a name of their own are found by it on other sides too."""
    steps: list[str] = []
    for key in keys:
        if isinstance(key, int):
            item = value[key] if isinstance(value, list) and -len(value) <= key < len(value) else ABSENT
            named = by_name(value) if isinstance(value, list) else None
            steps.append(named_step(item["name"]) if named is not None else f"i:{key}")
            value = item
        else:
            steps.append(f"f:{key}")
            value = value.get(key, ABSENT) if isinstance(value, dict) else ABSENT
    return tuple(steps)


def by_name(items: list[Any]) -> dict[str, Any] | None:
    """The elements by ``name``; None when they are not all maps with a name of their own."""
    named = {item["name"]: item for item in items if isinstance(item, dict) and isinstance(item.get("name"), str)}
    return named if named and len(named) == len(items) else None


def keys_to(value: Any, steps: Steps) -> tuple[str | int, ...] | None:
    """The reverse: keys and indexes in this object; None when a list element on the way is not there."""
    keys: list[str | int] = []
    for step in steps:
        if step.startswith("f:"):
            keys.append(step[2:])
        elif isinstance(value, list) and (index := position(value, step)) is not None:
            keys.append(index)
        else:
            return None
        value = get(value, (step,))
    return tuple(keys)


def named_step(name: str) -> str:
    return f"k:{json.dumps({'name': name}, separators=(',', ':'), ensure_ascii=False)}"


def text(steps: Iterable[str]) -> str:
    """For people: ``spec.containers[name=web].image``, as ``changes.format_path`` writes it."""
    said = ""
    for step in steps:
        kind, _, name = step.partition(":")
        if kind == "f":
            plain = name.replace("-", "").replace("_", "").isalnum()
            said += (f".{name}" if said else name) if plain else f"[{json.dumps(name, ensure_ascii=False)}]"
        elif kind == "k":
            try:
                said += "[" + ",".join(f"{k}={v}" for k, v in json.loads(name).items()) + "]"
            except (ValueError, AttributeError):
                said += f"[{name}]"
        else:
            said += f"[{name}]"
    return place(said)


@dataclass(frozen=True)
class Edit:
    """One change to a manifest before it is sent: the place is left out, or holds ``value``."""

    steps: Steps
    value: Any = ABSENT

    def to_json(self) -> list[Any]:
        return [list(self.steps)] if self.value is ABSENT else [list(self.steps), self.value]

    @classmethod
    def from_json(cls, data: list[Any]) -> Edit:
        return cls(tuple(data[0]), data[1] if len(data) > 1 else ABSENT)

    def __repr__(self) -> str:  # the value may be a Secret's
        return f"Edit({text(self.steps)}, {'left out' if self.value is ABSENT else 'kept'})"


def edited(body: Body, edits: Collection[Edit]) -> Body:
    """A copy with the edits made; without any, the object itself. Where the surroundings are not there, nothing is."""
    if not edits:
        return body
    changed: Body = copy.deepcopy(body)
    removals: list[Edit] = []
    for edit in edits:
        if edit.value is ABSENT:
            removals.append(edit)
        else:
            _put(changed, edit.steps, edit.value)
    # Elements go from the back, so that the indexes of those before them still mean the same.
    for edit in sorted(removals, key=lambda e: e.steps, reverse=True):
        _remove(changed, edit.steps)
    return changed


def _put(body: Any, steps: Steps, value: Any) -> None:
    for number, step in enumerate(steps[:-1]):
        if isinstance(body, dict) and step.startswith("f:"):
            if not isinstance(body.get(step[2:]), dict | list):
                if not all(s.startswith("f:") for s in steps[number + 1 :]):
                    return  # a list cannot be begun with a single element of somebody else's
                body[step[2:]] = {}
            body = body[step[2:]]
        elif isinstance(body, list) and (index := position(body, step)) is not None:
            body = body[index]
        else:
            return
    last = steps[-1]
    if isinstance(body, dict) and last.startswith("f:"):
        body[last[2:]] = value
    elif isinstance(body, list) and (index := position(body, last)) is not None:
        body[index] = value


def _remove(body: Any, steps: Steps) -> None:
    around = get(body, steps[:-1])
    last = steps[-1]
    if isinstance(around, dict) and last.startswith("f:"):
        around.pop(last[2:], None)
    elif isinstance(around, list) and (index := position(around, last)) is not None:
        del around[index]
