"""What a YAML scalar means to Go: YAML 1.1 as go.yaml.in/yaml/v2 reads it, then JSON as encoding/json prints it.

Source of every rule: ``resolve.go`` of go.yaml.in/yaml/v2 and ``convertToJSONableObject`` of sigs.k8s.io/yaml 1.6, the
pair inside kubectl and the API server. ``tests/golden/yaml`` holds what that code answered, probe by probe.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from decimal import Decimal
from typing import Final

#: What a scalar can be. A float stays one until ``json_value``, because as a key it is spelt differently.
Scalar = None | bool | int | float | str

_YAML_TAG = "tag:yaml.org,2002:"
_INT64_MIN = -(1 << 63)
_UINT64_MAX = (1 << 64) - 1

_TRUE = ("y", "yes", "true", "on")
_FALSE = ("n", "no", "false", "off")


def _spellings(word: str) -> tuple[str, ...]:
    return (word, word.capitalize(), word.upper())


_WORDS: Final[dict[str, Scalar]] = {
    **{s: True for word in _TRUE for s in _spellings(word)},
    **{s: False for word in _FALSE for s in _spellings(word)},
    **dict.fromkeys(("", "~", *_spellings("null"))),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}

#: A plain scalar that begins with none of these is a string; the builder asks this first, as it is true of most.
HINTS: Final = frozenset("+-.0123456789~" + "yYnNtTfFoO")

_INTEGER = re.compile(
    r"([+-]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO]?(?P<o>[0-7]+)|(?P<d>0|[1-9][0-9]*))\Z"
    r"|()0b(?P<s>[+-][01]+)\Z",  # a sign inside: an accident of resolve.go, kept
    re.ASCII,
)
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10, "s": 2}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z", re.ASCII)
#: What begins with a point goes to ParseFloat as it is, which takes underscores between digits only.
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?\Z", re.ASCII)
_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?:[Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})?)?\Z",
    re.ASCII,
)


def is_64_bit(number: int) -> bool:
    """int64 or uint64: what Go keeps exact."""
    return _INT64_MIN <= number <= _UINT64_MAX


def plain(text: str) -> Scalar:
    """An untagged, unquoted scalar. Integers beyond 64 bits are floats, floats out of range are strings, as in Go."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in HINTS or text[0].isalpha():
        return text
    digits = text.replace("_", "")
    if text[0] == ".":
        return _float(digits, text) if _POINT_FLOAT.match(text) else text
    match = _INTEGER.match(digits)
    if match:
        base = _BASES[match.lastgroup or "d"]
        # No 64-bit number has more than 65 digits in any base; Python refuses to parse thousands of them.
        if len(digits) <= 70:
            number = int(match[match.lastgroup or "d"], base)
            if match[1] == "-":
                number = -number
            # Go tries int64, then uint64, whose parser takes no sign.
            if _INT64_MIN <= number <= (_UINT64_MAX if not match[1] else -_INT64_MIN - 1):
                return number
    return _float(digits, text)


def _float(digits: str, text: str) -> float | str:
    """``digits`` as a float, ``text`` itself when it is none or out of range."""
    if not _FLOAT.match(digits):
        return text
    number = float(digits)
    return text if math.isinf(number) else number


def tagged(text: str, tag: str) -> Scalar:
    """A scalar with an explicit tag, quoted or not. Unknown tags (``!foo``, ``!!set``) leave the text as it is.

    Raises ValueError with the reason when the text is not of the tag's type.
    """
    short = tag.removeprefix(_YAML_TAG) if tag.startswith(_YAML_TAG) else ""
    if short == "binary":
        return _binary(text)
    if short not in {"bool", "int", "float", "null", "timestamp"}:
        return text
    value = plain(text)
    if short == "float" and type(value) is int and value < 1 << 63:
        value = float(value)
    right = {
        "bool": type(value) is bool,
        "int": type(value) is int,
        "float": type(value) is float,
        "null": value is None,
        "timestamp": bool(_TIMESTAMP.match(text)),
    }[short]
    if not right:
        raise ValueError(f"the value is not a !!{short}")  # not shown: it may be somebody's password
    return value


def _binary(text: str) -> str:
    try:
        raw = base64.b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("!!binary value is not base64") from None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        # kubectl would store U+FFFD for each such byte; nobody means that.
        raise ValueError(
            "!!binary value is not text; for bytes use binaryData or a Secret's data, without the tag"
        ) from None


def json_value(value: Scalar) -> Scalar:
    """As encoding/json prints it and the API server reads it back: ``1.0`` is 1.

    Raises ValueError for infinity and NaN.
    """
    if type(value) is not float:
        return value
    if math.isinf(value) or math.isnan(value):
        raise ValueError(f"{_special(value)} cannot be written as JSON; quote it if it is text")
    if value.is_integer() and abs(value) < 1e20:
        # Go prints the shortest digits and fills up with zeros, so 2**60 comes out as 1152921504606847000.
        whole = int(Decimal(repr(value)))
        if _INT64_MIN <= whole < -_INT64_MIN:
            return whole
    return value


def key_text(value: Scalar) -> str:
    """A map key as sigs.k8s.io/yaml spells it. Raises ValueError where it has no spelling."""
    if type(value) is str:
        return value
    if value is None:
        raise ValueError("a key is null; quote it if it is meant as text")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value >= 1 << 63:
            raise ValueError(f"key {value} is too large for a number; quote it")
        return str(value)
    return _float32_text(float(value))


def _float32_text(value: float) -> str:
    """Go's ``FormatFloat(value, 'g', -1, 32)``: shortest digits that name the same float32."""
    try:
        single: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        single = math.copysign(math.inf, value)
    if math.isinf(single) or math.isnan(single):
        return _special(single)
    for precision in range(9):
        mantissa, _, exponent = f"{single:.{precision}e}".partition("e")
        if struct.pack("f", float(f"{mantissa}e{exponent}")) == struct.pack("f", single):
            break
    power = int(exponent)
    if power < -4 or power >= 6:
        return f"{mantissa}e{power:+03d}"
    return format(Decimal(f"{mantissa}e{exponent}"), "f")


def _special(value: float) -> str:
    return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
