"""The filters that ``jqpaths`` puts together: each takes a place in an object and gives places. They always end.

A place is a path with the value there; the path is None for a value that was made (a constant, an answer), which no
rule can ignore. Every step costs one of a budget, since filters in a row multiply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

Key = str | int
Keys = tuple[Key, ...]
Found = Iterator[tuple[Keys | None, Any]]

#: (path, value, budget left) → each place it leads to
Filter = Callable[[Keys | None, Any, list[int]], Found]

MISSING: Any = object()  #: the value of a place that is not there; conditions see null


class Tired(Exception):
    """The budget is spent."""


class Wrong(Exception):
    """A run-time error of jq's, such as a key of a number: it ends the expression, or the part before a ``?``."""


def _spend(left: list[int]) -> None:
    left[0] -= 1
    if left[0] < 0:
        raise Tired


def identity(path: Keys | None, value: Any, left: list[int]) -> Found:
    _spend(left)
    yield path, value


def constant(made: Any) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:  # noqa: ARG001
        _spend(left)
        yield None, made

    return run


def key(key: Key) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:
        _spend(left)
        if value is None or value is MISSING:
            found: Any = MISSING
        elif isinstance(value, dict) and isinstance(key, str):
            found = value.get(key, MISSING)
        elif isinstance(value, list) and isinstance(key, int):
            found = value[key] if -len(value) <= key < len(value) else MISSING
        else:
            raise Wrong
        at = key + len(value) if isinstance(key, int) and key < 0 and isinstance(value, list) else key
        yield (None if path is None else (*path, at)), found

    return run


def each(path: Keys | None, value: Any, left: list[int]) -> Found:
    if isinstance(value, dict):
        pairs: Any = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    else:
        raise Wrong
    for key, inner in pairs:
        _spend(left)
        yield (None if path is None else (*path, key)), inner


def recurse(path: Keys | None, value: Any, left: list[int]) -> Found:
    _spend(left)
    yield path, value
    if isinstance(value, dict | list):
        for below, inner in each(path, value, left):
            yield from recurse(below, inner, left)


def piped(first: Filter, second: Filter) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:
        for at, found in first(path, value, left):
            yield from second(at, found, left)

    return run


def both(first: Filter, second: Filter) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:
        yield from first(path, value, left)
        yield from second(path, value, left)

    return run


def tried(inner: Filter) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:
        try:
            yield from inner(path, value, left)
        except Wrong:
            return

    return run


def _values(inner: Filter, value: Any, left: list[int]) -> Iterator[Any]:
    for _, found in inner(None, value, left):
        yield None if found is MISSING else found


def _true(value: Any) -> bool:
    return value is not None and value is not False


def logic(first: Filter, second: Filter, *, stops_at: bool) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:  # noqa: ARG001
        for one in _values(first, value, left):
            if _true(one) is stops_at:
                yield None, stops_at
                continue
            for other in _values(second, value, left):
                _spend(left)
                yield None, _true(other)

    return run


def compared(first: Filter, second: Filter, compare: Callable[[Any, Any], bool]) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:  # noqa: ARG001
        for other in _values(second, value, left):
            for one in _values(first, value, left):
                _spend(left)
                yield None, compare(one, other)

    return run


def select(condition: Filter) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:
        for one in _values(condition, value, left):
            if _true(one):
                yield path, value

    return run


def called(name: str, inner: Filter) -> Filter:
    def run(path: Keys | None, value: Any, left: list[int]) -> Found:  # noqa: ARG001
        given = None if value is MISSING else value
        if name in ("any", "all"):
            items = list(given.values()) if isinstance(given, dict) else given
            if not isinstance(items, list):
                raise Wrong
            answers = [_true(one) for item in items for one in _values(inner, item, left)]
            yield None, any(answers) if name == "any" else all(answers)
            return
        for argument in _values(inner, given, left):
            _spend(left)
            yield None, _call(name, given, argument)

    return run


def _call(name: str, value: Any, argument: Any) -> Any:
    if name == "not":
        return not _true(value)
    if name == "type":
        return TYPES[_order(value)[0]]
    if name == "length":
        if isinstance(value, bool):
            raise Wrong
        return abs(value) if isinstance(value, int | float) else len(value or "")
    if name == "has":
        if isinstance(value, dict) and isinstance(argument, str):
            return argument in value
        if isinstance(value, list) and isinstance(argument, int):
            return 0 <= argument < len(value)
        raise Wrong
    if name == "contains":
        return _contains(value, argument)
    if not isinstance(value, str) or not isinstance(argument, str):
        raise Wrong
    return value.startswith(argument) if name == "startswith" else value.endswith(argument)


def _contains(value: Any, part: Any) -> bool:
    if isinstance(value, dict) and isinstance(part, dict):
        return all(key in value and _contains(value[key], inner) for key, inner in part.items())
    if isinstance(value, list) and isinstance(part, list):
        return all(any(_contains(one, inner) for one in value) for inner in part)
    if isinstance(value, str) and isinstance(part, str):
        return part in value
    if _order(value)[0] != _order(part)[0]:
        raise Wrong
    return bool(_order(value) == _order(part))


def _order(value: Any) -> tuple[Any, ...]:
    """jq's order of all values: null, false, true, numbers, texts, lists, maps."""
    if value is None or value is MISSING:
        return (0,)
    if isinstance(value, bool):
        return (2,) if value else (1,)
    if isinstance(value, int | float):
        return (3, value)
    if isinstance(value, str):
        return (4, value)
    if isinstance(value, list):
        return (5, [_order(item) for item in value])
    keys = sorted(value)
    return (6, keys, [_order(value[key]) for key in keys])


COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: _order(a) == _order(b),
    "!=": lambda a, b: _order(a) != _order(b),
    "<": lambda a, b: _order(a) < _order(b),
    "<=": lambda a, b: _order(a) <= _order(b),
    ">": lambda a, b: _order(a) > _order(b),
    ">=": lambda a, b: _order(a) >= _order(b),
}
TYPES = ("null", "boolean", "boolean", "number", "string", "array", "object")
