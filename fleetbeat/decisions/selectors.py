"""What a rule of the catalog is about: which objects, and which places in them."""

from __future__ import annotations

from fnmatch import fnmatchcase

from fleetbeat.decisions.fieldsets import Steps, keys_to, steps_to
from fleetbeat.model import Body, ObjectId, ObjectSelector


def fits(selector: ObjectSelector, key: ObjectId) -> bool:
    """Every part that is given must match; a missing group means any group, not the core group as in Argo CD."""
    pairs = (
        (selector.group, key.group),
        (selector.kind, key.kind),
        (selector.namespace, key.namespace),
        (selector.name, key.name),
    )
    return all(glob is None or fnmatchcase(text, glob) for glob, text in pairs)


def is_pointer(text: str) -> bool:
    """RFC 6901, and not the whole object."""
    return text.startswith("/") and text != "/" and "~" not in text.replace("~0", "").replace("~1", "")


def pointer_steps(pointer: str, body: Body) -> Steps:
    """Where a JSON pointer leads in this object, whether or not something is there."""
    keys: list[str | int] = []
    value: object = body
    for part in pointer.split("/")[1:]:
        word = part.replace("~1", "/").replace("~0", "~")
        key: str | int = int(word) if isinstance(value, list) and word.isdecimal() else word
        keys.append(key)
        if isinstance(value, list) and isinstance(key, int):
            value = value[key] if key < len(value) else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return steps_to(body, keys)


def overlaps(one: Steps, other: Steps, body: Body) -> bool:
    """Is one place the other, or inside it?"""
    left, right = keys_to(body, one), keys_to(body, other)
    if left is None or right is None:
        return False
    shorter = min(len(left), len(right))
    return left[:shorter] == right[:shorter]
