"""Secrets made unreadable before anything is shown. Names of keys stay, and so does the fact that a value changed."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import Any

from fleetbeat.model import Body

MASK = "***"

#: Annotations in which tools keep a whole former copy of the object.
_COPIES = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "kapp.k14s.io/original",
        "objectset.rio.cattle.io/applied",
        "banzaicloud.com/last-applied",
        "control-plane.alpha.kubernetes.io/last-applied",
    }
)


def masked(before: Body | None, after: Body | None) -> tuple[Body | None, Body | None]:
    """Both objects with secret values replaced: ``***``, or ``*** (before)`` and ``*** (after)`` where they differ.

    Covers ``data``, ``stringData`` and annotations that may hold copies of them (broken JSON included), on Secrets and
    on Secrets inside a List. The objects given are not changed.
    """
    if not (_is_secret(before) or _is_secret(after)):
        return _masked_items(before, after)
    left, right = dict(before or {}), dict(after or {})
    values = frozenset(_values(left)) | frozenset(_values(right))
    for field in ("data", "stringData"):
        _mask_map(left, right, field, lambda _key, _value: True)
    metas = [dict(side["metadata"]) if isinstance(side.get("metadata"), dict) else {} for side in (left, right)]
    _mask_map(metas[0], metas[1], "annotations", lambda key, value: _may_copy(key, value, values))
    for side, meta in zip((left, right), metas, strict=True):
        if meta:
            side["metadata"] = meta
    return (None if before is None else left), (None if after is None else right)


def _masked_items(before: Body | None, after: Body | None) -> tuple[Body | None, Body | None]:
    """Secrets inside a List lose their values too; without a partner to compare with, they are only hidden."""
    hidden: list[Body | None] = []
    for body in (before, after):
        items = body.get("items") if body is not None else None
        if body is None or not isinstance(items, list) or not str(body.get("kind", "")).lower().endswith("list"):
            hidden.append(body)
            continue
        kind = str(body["kind"])[: -len("list")]
        typed = [item if not isinstance(item, dict) or "kind" in item else {"kind": kind, **item} for item in items]
        hidden.append({**body, "items": [masked(item, item)[0] if isinstance(item, dict) else item for item in typed]})
    return hidden[0], hidden[1]


def _is_secret(body: Body | None) -> bool:
    # Any group and any spelling: hiding too much costs a look with kubectl, hiding too little cannot be taken back.
    return body is not None and str(body.get("kind", "")).strip().lower() == "secret"


def _mask_map(left: dict[str, Any], right: dict[str, Any], field: str, hide: Callable[[str, Any], bool]) -> None:
    """Replaces the values of one map of both sides, in copies."""
    old, new = left.get(field), right.get(field)
    for side, mine, other in ((left, old, new), (right, new, old)):
        if mine is None:
            continue
        word = "(before)" if side is left else "(after)"
        if not isinstance(mine, dict):  # not a valid Secret: nothing of it is worth showing
            side[field] = MASK if mine == other or other is None else f"{MASK} {word}"
            continue
        others = other if isinstance(other, dict) else {}
        side[field] = {
            key: value
            if not hide(key, value)
            else (f"{MASK} {word}" if key in others and others[key] != value else MASK)
            for key, value in mine.items()
        }


def _values(body: Body) -> Iterator[str]:
    """Every secret text of the object, encoded and decoded."""
    for field in ("data", "stringData"):
        content = body.get(field)
        for value in content.values() if isinstance(content, dict) else ():
            if not isinstance(value, str):
                continue
            yield value
            if field == "data":
                try:
                    yield base64.b64decode(value, validate=True).decode()
                except (binascii.Error, ValueError):
                    continue
            else:
                yield base64.b64encode(value.encode()).decode()


def _may_copy(key: str, value: Any, values: frozenset[str]) -> bool:
    text = value if isinstance(value, str) else str(value)
    structured = text.lstrip()[:1] in ("{", "[")
    return key in _COPIES or structured or any(len(secret) > 3 and secret in text for secret in values)
