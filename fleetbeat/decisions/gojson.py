"""A row of JSON documents, the form ``kubectl get -o json`` and jsonnet write, as Go's JSON decoder takes it.

Not read as YAML, although JSON nearly is YAML: surrogate pairs, ``\\/`` and tabs differ.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions import goscalar

_BLANK = re.compile(r"[ \t\r\n]*")


class JsonProblem(ValueError):
    """JSON that is refused; ``offset`` is where its document begins."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class JsonDocument:
    value: dict[str, Any]
    start: int  #: offset of its ``{``
    end: int


class _Refused(Exception):
    """Raised inside the decoder for text that is JSON, so that it is not mistaken for YAML."""


def documents(text: str, *, max_nodes: int, max_depth: int) -> Iterator[JsonDocument]:
    """The JSON objects that ``text`` begins with. Stops where no further one begins: the rest may be YAML.

    Raises JsonProblem for a key that stands twice, half a surrogate pair, or more than the limits.
    """
    at = 0
    while True:
        start = _end_of_blank(text, at)
        if text[start : start + 1] != "{":
            return
        try:
            value, at = _DECODER.raw_decode(text, start)
            max_nodes -= _checked(value, max_nodes, max_depth)
        except _Refused as refused:
            raise JsonProblem(str(refused), start) from None
        except RecursionError:
            raise JsonProblem(f"nested deeper than {max_depth} levels", start) from None
        except ValueError:  # not JSON; YAML's flow style looks the same at first
            return
        yield JsonDocument(value, start, at)


def _end_of_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise _Refused(f"key {key[:100]!r} stands twice in one object; keep one")
        made[key] = value
    return made


def _number(text: str) -> goscalar.Scalar:
    """int64 and uint64 exact, the rest float64; ``1.0`` is 1."""
    if len(text) <= 20 and text.removeprefix("-").isdigit():
        whole = int(text)
        if goscalar.is_64_bit(whole):
            return whole
    number = float(text)
    if math.isinf(number):
        raise _Refused("a number is out of range")
    return goscalar.json_value(number)


def _no_constant(word: str) -> Any:
    raise ValueError(word)


def _checked(value: Any, max_nodes: int, max_depth: int) -> int:
    """The number of values in ``value``, which is walked level by level."""
    nodes = 0
    level = [value]
    for _ in range(max_depth + 1):
        nodes += len(level)
        below: list[Any] = []
        for item in level:
            if type(item) is dict:
                nodes += len(item)  # the keys
                below.extend(item.values())
            elif type(item) is list:
                below.extend(item)
        level = below
        if not level:
            break
    else:
        raise _Refused(f"nested deeper than {max_depth} levels")
    if nodes > max_nodes:
        raise _Refused("too many values in one file")
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise _Refused(r"half of a surrogate pair (\ud800…\udfff) is not a character") from None
    return nodes


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=_number, parse_float=_number, parse_constant=_no_constant
)
