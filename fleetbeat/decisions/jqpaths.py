"""Paths that a jq expression means in an object: the part of jq that ignore rules are written in.

Understood: ``.a.b``, ``."a.b"``, ``.["a"]``, ``.[0]``, ``.[-1]``, ``.[]``, ``..``, ``?``, ``|``, ``,``, parentheses
and ``select(CONDITION)``; in conditions also ``==  !=  <  <=  >  >=``, ``and``, ``or``, ``not``, texts, numbers, true,
false, null, and ``has startswith endswith contains any all length type``. Everything else of jq is refused when the
rule is read. It is evaluated here and not by jq itself, because that can loop for ever with the whole process, and read
the environment (docs/decisions/0014): this part always ends, after ``BUDGET`` steps at the latest.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

from fleetbeat.decisions import jq_filters as jq
from fleetbeat.decisions.jq_filters import Filter, Keys

BUDGET = 200_000  #: steps of one evaluation; a path through an object of 10,000 values takes about as many
MAX_LENGTH = 1_000  #: characters of one expression

_TOKEN = re.compile(
    r'\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)'
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>\.\.|==|!=|<=|>=|[.|,()\[\]?<>]))"
)
_CALLS = ("select", "has", "startswith", "endswith", "contains", "any", "all")
_PLAIN = ("not", "length", "type", "any", "all")


class JqProblem(ValueError):
    """An expression that is not understood: what and where."""


def paths(expression: str, body: Any) -> tuple[Keys, ...]:
    """Every path the expression selects in ``body`` (jq's ``path(EXPRESSION)``), without those to what is not there.

    Keys are texts, indexes of lists are numbers from 0. An error on the way (a key of a number) selects nothing, as in
    Argo CD. Raises JqProblem for an expression that is not understood, or one that takes more than ``BUDGET`` steps.
    """
    left = [BUDGET]
    found: list[Keys] = []
    try:
        for path, value in parse(expression)((), body, left):
            if path is None:
                raise JqProblem(f"{expression!r} makes values instead of selecting places")
            if value is not jq.MISSING:
                found.append(path)
    except jq.Wrong:
        pass
    except RecursionError:
        raise JqProblem(f"{expression!r} has too many parts") from None
    except jq.Tired:
        raise JqProblem(f"{expression!r} takes more than {BUDGET} steps on this object") from None
    return tuple(dict.fromkeys(found))


@functools.lru_cache(maxsize=512)
def parse(expression: str) -> Filter:
    """Raises JqProblem."""
    if len(expression) > MAX_LENGTH:
        raise JqProblem(f"is longer than {MAX_LENGTH} characters")
    return _Parser(expression).whole()


class _Parser:
    """Recursive descent; each method returns a filter. Precedence as in jq: | , or and comparison postfix."""

    def __init__(self, expression: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while expression[at:].strip():
            match = _TOKEN.match(expression, at)
            if match is None:
                raise JqProblem(f"{expression[at:].strip()[:20]!r} is not understood here")
            self._tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
            at = match.end()
        self._at = 0
        self._depth = 0

    def whole(self) -> Filter:
        found = self._pipe()
        if self._at < len(self._tokens):
            raise JqProblem(f"{self._tokens[self._at][1]!r} is not understood here")
        return found

    def _peek(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text if kind in ("sign", "word") else ""

    def _take(self, *texts: str) -> str:
        text = self._peek()
        if text and text in texts:
            self._at += 1
            return text
        return ""

    def _need(self, text: str) -> None:
        if not self._take(text):
            got = self._tokens[self._at][1] if self._at < len(self._tokens) else "the end"
            raise JqProblem(f"{text!r} is expected before {got!r}")

    def _pipe(self) -> Filter:
        self._depth += 1
        if self._depth > 50:
            raise JqProblem("is nested too deeply")
        left = self._comma()
        while self._take("|"):
            left = jq.piped(left, self._comma())
        self._depth -= 1
        return left

    def _comma(self) -> Filter:
        left = self._or()
        while self._take(","):
            left = jq.both(left, self._or())
        return left

    def _or(self) -> Filter:
        left = self._and()
        while self._take("or"):
            left = jq.logic(left, self._and(), stops_at=True)
        return left

    def _and(self) -> Filter:
        left = self._comparison()
        while self._take("and"):
            left = jq.logic(left, self._comparison(), stops_at=False)
        return left

    def _comparison(self) -> Filter:
        left = self._postfix()
        if sign := self._take(*jq.COMPARE):
            return jq.compared(left, self._postfix(), jq.COMPARE[sign])
        return left

    def _postfix(self) -> Filter:
        found = self._term()
        while True:
            if self._take("?"):
                found = jq.tried(found)
            elif self._peek() == "[":
                found = jq.piped(found, self._brackets())
            elif self._peek() == ".":
                self._at += 1
                found = jq.piped(found, self._after_dot())
            else:
                return found

    def _term(self) -> Filter:
        if self._take(".."):
            return jq.recurse
        if self._take("."):
            return self._after_dot(alone=True)
        if self._take("("):
            inner = self._pipe()
            self._need(")")
            return inner
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "the end")
        self._at += 1
        if kind == "text":
            return jq.constant(_text(text))
        if kind == "number":
            return jq.constant(json.loads(text))
        if kind == "word" and text in ("true", "false", "null"):
            return jq.constant(json.loads(text))
        if kind == "word" and text in _CALLS and self._peek() == "(":
            self._need("(")
            inner = self._pipe()
            self._need(")")
            return jq.select(inner) if text == "select" else jq.called(text, inner)
        if kind == "word" and text in _PLAIN:
            return jq.called(text, jq.identity)
        hint = "; use startswith, endswith or contains" if text in ("test", "match") else ""
        raise JqProblem(f"{text!r} is not supported in ignore rules{hint}")

    def _after_dot(self, *, alone: bool = False) -> Filter:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind in ("word", "text"):
            self._at += 1
            return jq.key(_text(text) if kind == "text" else text)
        if text == "[":
            return self._brackets()
        if alone:
            return jq.identity
        raise JqProblem("a name is expected after '.'")

    def _brackets(self) -> Filter:
        self._need("[")
        if self._take("]"):
            return jq.each
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "the end")
        if kind not in ("text", "number"):
            raise JqProblem(f"only a text or a number may stand in [ ], not {text!r}")
        self._at += 1
        self._need("]")
        return jq.key(_text(text) if kind == "text" else json.loads(text))


def _text(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        raise JqProblem(f"{token} is not a text as JSON has it") from None
