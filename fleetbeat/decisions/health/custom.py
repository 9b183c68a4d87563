"""Health rules of the catalog, written in CEL like Flux's ``healthCheckExprs``.

The expressions see the live object's top-level fields as variables (``metadata``, ``spec``, ``status``, …) and the
whole object as ``self``. Order: ``inProgress``, ``failed``, ``current``; the first that is true decides, and when none
is, the object is Progressing. What cannot be evaluated is Unknown: a wave waits for it, and it never counts as Healthy.

Bounded by the interpreter: 10,000 iterations, 32 levels; regular expressions are RE2's, linear in the text. There is no
clock, no network, no state. The interpreter is imported when the first rule is met (docs/decisions/0010).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleetbeat.decisions.health.live import Live
from fleetbeat.model import HealthRule
from fleetbeat.model_results import Health, HealthStatus

#: Characters of one expression. Whole status readings take a few hundred.
MAX_EXPRESSION = 2_000

#: What expressions may name. Flux reads any top-level field; of the rest of them ``self`` is the way here.
_VARIABLES = ("apiVersion", "kind", "metadata", "spec", "status", "data", "self")
#: Read as empty where an object has none, so that ``has(status.phase)`` is false rather than an error.
_EMPTY: Mapping[str, Any] = {"metadata": {}, "spec": {}, "status": {}, "data": {}}

_ORDER: tuple[tuple[str, HealthStatus], ...] = (
    ("inProgress", "Progressing"),
    ("failed", "Degraded"),
    ("current", "Healthy"),
)
_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")
_CONTAINER = " (in container '')"


def by_kind(rules: Iterable[HealthRule]) -> dict[str, HealthRule]:
    """``Kind.group`` → rule, as ``health`` wants them."""
    return {f"{rule.kind}.{rule.group}" if rule.group else rule.kind: rule for rule in rules}


def mark(rules: Iterable[HealthRule]) -> str:
    """Tells sets of rules apart: what was judged by one has to be judged again by another. "" for none."""
    texts = sorted(repr(rule) for rule in rules)
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16] if texts else ""


def judge(rule: HealthRule, live: Live) -> Health:
    """The first expression that is true decides. Never raises."""
    given = {name: live.body[name] for name in _VARIABLES if live.body.get(name) is not None}
    fields = {**_EMPTY, **given, "self": live.body}
    for (name, status), text in zip(_ORDER, (rule.in_progress, rule.failed, rule.current), strict=True):
        if not text:
            continue
        found = _evaluate(text, fields)
        if isinstance(found, str):
            secret = live.group_kind == "Secret"  # an interpreter may quote a value that does not suit it
            return Health("Unknown", f"the rule's {name} has no answer" + ("" if secret else f": {found}"))
        if found:
            return Health(status, _told(f"the rule's {name} is true", live))
    return Health("Progressing", _told("no expression of its rule is true", live))


def problem(expression: str) -> str:
    """What is wrong with an expression, for the catalog's author; "" when nothing is."""
    if len(expression) > MAX_EXPRESSION:
        return f"is {len(expression)} characters long; at most {MAX_EXPRESSION} are read"
    try:
        kind = _compiled(expression).return_type().name()
    except _FAILURES as error:
        why = _why(error)
        unknown = re.search(r"undeclared reference to '([A-Za-z_]\w*)", why)
        if unknown and f"{unknown[1]}(" not in expression:
            why += f". Known are {', '.join(_VARIABLES)}, which is the whole object"
        return f"is not CEL that can be read: {why}"
    if kind not in ("BOOL", "DYN"):
        return f"must be true or false; it gives {_word(kind)}"
    return ""


def _evaluate(expression: str, fields: Mapping[str, Any]) -> bool | str:
    """The answer, or why there is none."""
    try:
        value = _compiled(expression).eval(data=fields)
        kind, plain = value.type().name(), value.plain_value()
    except _FAILURES as error:
        return _why(error)
    if kind == "BOOL":
        return bool(plain)
    if kind == "ERROR":
        return _why(plain) + (_MISSING if "not found" in str(plain) else "")
    return f"it gives {_word(kind)}, not true or false"


_MISSING = "; has(…), or .? with orValue(…), reads a field that may be missing"

#: The interpreter's errors carry no class of their own.
_FAILURES = (RuntimeError, ValueError, TypeError, OverflowError, RecursionError)

_KINDS = {
    "INT": "a number",
    "UINT": "a number",
    "DOUBLE": "a number",
    "STRING": "text",
    "BYTES": "bytes",
    "NULL": "null",
    "LIST": "a list",
    "MAP": "a mapping",
    "DURATION": "a duration",
    "TIMESTAMP": "a time",
    "optional_type": "an optional value, which orValue(…) turns into a plain one",
}


def _word(kind: str) -> str:
    """``LIST<DYN>`` → a list."""
    name = kind.partition("<")[0]
    return _KINDS.get(name, name.lower())


@functools.lru_cache(maxsize=1024)
def _compiled(expression: str) -> Any:
    return _environment().compile(expression)


@functools.cache
def _environment() -> Any:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    return cel.NewEnv(
        variables=dict.fromkeys(_VARIABLES, cel.Type.DYN),
        extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    )


def _why(error: object) -> str:
    """The interpreter's sentence without its codes and drawings, and where in the expression it points to."""
    sentence = _CODE.sub("", str(error).partition("\n")[0])
    if found := _PLACE.search(sentence):
        line, column, sentence = found.groups()
        if int(column) > 0:
            place = f"character {column}" if line == "1" else f"line {line}, character {column}"
            sentence = f"{place}: {sentence.removesuffix(_CONTAINER)}"
    sentence = sentence.partition(" -> ")[0]  # after the arrow stands the object itself
    return sentence if len(sentence) <= 300 else sentence[:299] + "…"


def _told(text: str, live: Live) -> str:
    """With what the object says itself, which is what a person on call wants to read."""
    for name in ("Stalled", "Ready"):
        condition = live.condition(name)
        if condition is not None and (condition.reason or condition.message):
            return f"{text}; {name} is {condition.status}: {condition.text}"
    return text
