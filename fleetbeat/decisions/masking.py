"""Secrets made unreadable before anything is shown. Names of keys stay, and so does the fact that a value changed."""

from __future__ import annotations

import base64
import binascii
import json
import re
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


#: What of a Secret may be seen. All else is taken for its content, so that a misspelt ``stringdata`` is none the less.
_OPEN = frozenset({"apiVersion", "kind", "metadata", "type", "immutable"})

#: Bytes of a value from which on it is looked for anywhere; a shorter one as a word: every date has a 1 in it.
_ANYWHERE = 3
#: Characters of an annotation or label from which on it is looked for inside the values: a part of one, cut to fit.
_PART = 12


def masked(before: Body | None, after: Body | None) -> tuple[Body | None, Body | None]:
    """Both objects with secret values replaced: ``***``, or ``*** (before)`` and ``*** (after)`` where they differ.

    Covers everything but ``_OPEN``, and annotations and labels that may hold copies of it (broken JSON included), on
    Secrets and on Secrets inside a List. The objects given are not changed. Names, of the object and of its keys, stay.
    """
    if not (_is_secret(before) or _is_secret(after)):
        return _masked_items(before, after)
    left, right = dict(before or {}), dict(after or {})
    values = spellings(left) | spellings(right)
    for field in (left.keys() | right.keys()) - _OPEN:
        _mask_map(left, right, field, lambda _key, _value: True)
    metas = [dict(side["metadata"]) if isinstance(side.get("metadata"), dict) else {} for side in (left, right)]
    for field in ("annotations", "labels"):
        _mask_map(metas[0], metas[1], field, lambda key, value: _may_copy(key, value, values))
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


def spellings(secret: Body) -> frozenset[str]:
    """Every form in which a text may quote a value of this Secret: plain, in base64, and escaped as JSON and Go do.

    Also without the white space around it, and base64 without its padding and as it is written in addresses.
    """
    found: set[str] = set()
    for field in secret.keys() - _OPEN:
        for value in _texts(secret[field]):
            found |= {value, *_base64(value)}
            try:
                plain = base64.b64decode(value, validate=True).decode()
                found |= {plain, *_base64(plain.strip())}
            except (binascii.Error, ValueError):
                continue
    found |= {text.strip() for text in found}
    return frozenset(form for text in found for form in (text, *_escaped(text)))


def _base64(text: str) -> Iterator[str]:
    data = text.encode()
    for encoded in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()):
        yield from (encoded, encoded.rstrip("="))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _escaped(text: str) -> Iterator[str]:
    """Between the quotes: JSON in ASCII and in UTF-8, Go's JSON (which escapes HTML), Go's ``%q``."""
    if text.isascii() and text.isprintable() and not _NOT_AS_IT_IS.intersection(text):
        return
    yield json.dumps(text)[1:-1]
    utf8 = json.dumps(text, ensure_ascii=False)[1:-1]
    yield utf8
    yield "".join(f"\\u{ord(c):04x}" if c in "<>&\u2028\u2029" else c for c in utf8)
    yield "".join(map(_go_quoted, text))


def _go_quoted(character: str) -> str:
    if character in _GO_ESCAPES:
        return _GO_ESCAPES[character]
    if character.isprintable():
        return character
    number = ord(character)
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


_NOT_AS_IT_IS = frozenset('\\"<>&')
_GO_ESCAPES = dict(zip('\a\b\f\n\r\t\v\\"', ("\\" + letter for letter in 'abfnrtv\\"'), strict=True))


def _may_copy(key: str, value: Any, values: frozenset[str]) -> bool:
    text = value if isinstance(value, str) else str(value)
    structured = text.lstrip()[:1] in ("{", "[")
    return key in _COPIES or structured or any(_quotes(text, secret) for secret in values)


def _quotes(text: str, secret: str) -> bool:
    if not secret.strip():
        return False  # an empty value, or nothing but white space, is in every text
    if len(secret.encode()) >= _ANYWHERE:
        return secret in text or (len(text) >= _PART and text in secret)
    return re.search(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", text) is not None
