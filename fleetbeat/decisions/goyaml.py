"""YAML text → JSON values by the rules of kubectl: sigs.k8s.io/yaml over go.yaml.in/yaml/v2.

Built over libyaml's events, one document at a time, so that a large file is never held as a node tree and an alias
bomb is refused by arithmetic, before anything of it exists. Differences from kubectl are in docs/manifests.md: all of
them refuse what kubectl would lose without a word, none gives a value another meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import yaml
from yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from fleetbeat.decisions import gojson, goscalar

#: Values in one file, keys included. 10 MB of ordinary manifests hold about half a million.
MAX_NODES: Final = 2_000_000
#: Nesting of one value. The deepest schemas in use need about 60; orjson refuses 255.
MAX_DEPTH: Final = 200

_MERGE_TAG = "tag:yaml.org,2002:merge"
_HINTS = goscalar.HINTS
#: Spellings that need a second look at the text (``_Reader._is_text``); most files have none.
_UNUSUAL = re.compile(r"(?:\A|[\s\[{,])!\s|\\/")
_LONE_TAG = re.compile(r"(?:&\S+\s+)?!\s")


class YamlProblem(Exception):
    """Text that is not usable YAML. ``line`` is 1-based, inside the text that was given."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a stream: dict with string keys, list, str, int, float, bool, None, and nothing shared."""

    value: Any
    line: int  #: 1-based line of its first content
    number: int  #: 1-based


def load_all(text: bytes | str, *, max_nodes: int = MAX_NODES) -> Iterator[Document]:
    """The documents of a YAML or JSON file in order; empty ones have the value None.

    ``max_nodes`` bounds the values made from the whole text, expanded aliases included. A text that begins with ``{``
    is read as a row of JSON documents first and as YAML from where that ends, as kubectl does.

    Raises YamlProblem, possibly after documents that stand before the mistake.
    """
    text = _decoded(text)
    line, number = 1, 0
    if text.lstrip(" \t\r\n").startswith("{"):
        end = 0
        try:
            for found in gojson.documents(text, max_nodes=max_nodes, max_depth=MAX_DEPTH):
                number += 1
                line += text.count("\n", end, found.start)
                yield Document(found.value, line, number)
                line += text.count("\n", found.start, found.end)
                end = found.end
        except gojson.JsonProblem as problem:
            raise YamlProblem(str(problem), line + text.count("\n", end, problem.offset)) from None
        text = text[end:]
        if number and not text.strip():
            return
    yield from _Reader(text, max_nodes, line, number).documents()


def _decoded(text: bytes | str) -> str:
    if isinstance(text, bytes):
        try:
            decoded = text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            raise YamlProblem(f"byte 0x{text[error.start]:02x} is not UTF-8; save the file as UTF-8", line) from None
    else:
        decoded = text
    return decoded.removeprefix("\ufeff")


class _Mark:
    """What stands in ``_Frame.key`` where there is no key."""


_LIST: Final = _Mark()  #: the frame is a list
_NO_KEY: Final = _Mark()  #: a mapping, between two entries
_MERGE: Final = _Mark()  #: a mapping, after ``<<``


class _Frame:
    """A mapping or list that is still open."""

    __slots__ = ("anchor", "height", "key", "merged", "start", "value")

    def __init__(self, value: Any, key: _Mark, anchor: str | None, start: int) -> None:
        self.value = value
        self.key: Any = key
        self.anchor = anchor
        self.start = start  #: the document's node counter when it opened
        self.height = 1
        self.merged: set[str] | None = None  #: keys set by a merge alone: the mapping's own may override them


@dataclass(frozen=True, slots=True)
class _Anchor:
    value: Any  #: a scalar before ``json_value``, or a finished dict or list
    nodes: int  #: values in it, aliases expanded
    height: int  #: levels in it; 0 for a scalar


class _Reader:
    """One pass over the events of one text."""

    def __init__(self, text: str, max_nodes: int, first_line: int, number: int) -> None:
        self._text = text
        self._first_line = first_line
        self._number = number
        self._max_nodes = max_nodes
        self._nodes = 0  #: of the documents before this one
        self._unusual = _UNUSUAL.search(text) is not None

    def documents(self) -> Iterator[Document]:
        parser: Any = None
        try:
            parser = yaml.CSafeLoader(self._text)
            while type(event := parser.get_event()) is not StreamEndEvent:
                if type(event) is DocumentStartEvent:
                    if event.version not in (None, (1, 1)):
                        raise self._problem("only %YAML 1.1 is read, as by kubectl; drop the directive", event)
                    line = parser.peek_event().start_mark.line + self._first_line
                    self._number += 1
                    yield Document(self._document(parser.get_event), line, self._number)
        except yaml.YAMLError as error:
            raise self._syntax(error) from None
        finally:
            if parser is not None:
                parser.dispose()

    def _document(self, get: Any) -> Any:
        """The value of the document whose start was just read. One flat loop, as it turns once per value."""
        anchors: dict[str, _Anchor | _Frame] = {}  # an open frame while its end is not reached
        root = top = _Frame([], _LIST, None, 0)
        outer: list[_Frame] = []  # the open ones around ``top``
        nodes = aliased = 0
        budget = self._max_nodes - self._nodes
        while True:
            event = get()
            kind = type(event)
            height = 0
            merge_of_list = False
            if kind is ScalarEvent:
                nodes += 1
                value = event.value
                if self._unusual and self._is_text(event):
                    pass
                elif event.implicit[0]:
                    if not value or value[0] in _HINTS:
                        value = goscalar.plain(value)
                elif event.tag is not None:
                    value = self._tagged(event)
                if event.anchor is not None:
                    anchors[event.anchor] = _Anchor(value, 1, 0)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                nodes += 1
                if top.key is _NO_KEY:
                    raise self._problem("a mapping or list cannot be a key", event)
                outer.append(top)
                if len(outer) > MAX_DEPTH:
                    raise self._too_deep(event)
                if kind is MappingStartEvent:
                    top = _Frame({}, _NO_KEY, event.anchor, nodes)
                else:
                    top = _Frame([], _LIST, event.anchor, nodes)
                if event.anchor is not None:
                    anchors[event.anchor] = top
                continue
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                value, height = top.value, top.height
                if top.anchor is not None and anchors[top.anchor] is top:
                    anchors[top.anchor] = _Anchor(value, nodes - top.start + 1, height)
                top = outer.pop()
            elif kind is AliasEvent:
                found = self._anchor(event, anchors)
                nodes += 1 + found.nodes
                aliased += found.nodes
                # Asked before the copy is made: here an alias bomb ends.
                if nodes > budget or _excessive(aliased, nodes):
                    raise self._problem("aliases (*name) expand to too much; write the values out", event)
                height = found.height
                if len(outer) + height > MAX_DEPTH:
                    raise self._too_deep(event)
                if height and top.key is _NO_KEY:
                    raise self._problem("a mapping or list cannot be a key", event)
                value = _copy(found.value)
                merge_of_list = type(value) is list
            elif kind is DocumentEndEvent:
                self._nodes += nodes
                return root.value[0]
            if nodes > budget:
                raise self._problem(f"more than {self._max_nodes} values in one file", event)

            # The value is complete; now it finds its place.
            key = top.key
            if key is _NO_KEY:
                if value == "<<" and _is_merge(event):
                    top.key = _MERGE
                    continue
                name = value if type(value) is str else self._key(value, event)
                if name in top.value:
                    if top.merged is None or name not in top.merged:
                        raise self._problem(f"key {name[:100]!r} stands twice in one mapping; keep one", event)
                    top.merged.discard(name)
                top.key = name
                continue
            if height >= top.height:
                top.height = height + 1
            if type(value) is float:
                value = self._json(value, event)
            if key is _LIST:
                top.value.append(value)
                continue
            if key is _MERGE:
                if merge_of_list:
                    raise self._problem("<< takes a mapping or a list of mappings, not an alias of a list", event)
                self._merge(top, value, event)
            else:
                top.value[key] = value
            top.key = _NO_KEY

    # ── parts of a document ──

    def _tagged(self, event: Any) -> goscalar.Scalar:
        try:
            return goscalar.tagged(event.value, event.tag)
        except ValueError as error:
            raise self._problem(str(error), event) from None

    def _anchor(self, event: Any, anchors: dict[str, _Anchor | _Frame]) -> _Anchor:
        found = anchors.get(event.anchor)
        if isinstance(found, _Frame):
            raise self._problem("an anchor contains itself", event)
        if found is None:
            # Its name is not shown: it may be a password that begins with *.
            raise self._problem("no anchor for this alias before it in the same document; quote text with *", event)
        return found

    def _merge(self, top: _Frame, value: Any, event: Any) -> None:
        """Sets keys where it stands, over earlier ones, as Go does; of several sources the first one wins."""
        sources = value if type(value) is list else [value]
        if not all(type(source) is dict for source in sources):
            raise self._problem("<< takes a mapping or a list of mappings", event)
        own = top.value
        if top.merged is None:
            top.merged = set()
        for source in reversed(sources):
            top.merged.update(name for name in source if name not in own)
            own.update(source)

    def _key(self, value: goscalar.Scalar, event: Any) -> str:
        try:
            return goscalar.key_text(value)
        except ValueError as error:
            raise self._problem(str(error), event) from None

    def _json(self, value: goscalar.Scalar, event: Any) -> goscalar.Scalar:
        try:
            return goscalar.json_value(value)
        except ValueError as error:
            raise self._problem(str(error), event) from None

    def _is_text(self, event: Any) -> bool:
        """Two things libyaml's events do not tell from their neighbours: a lone ``!`` makes any scalar text, and the
        JSON escape ``\\/``, which YAML 1.1 does not have, is an error.
        """
        written = self._text[event.start_mark.index : event.end_mark.index]
        if event.style == '"' and "\\/" in written.replace("\\\\", ""):
            raise self._problem(r"\/ is no escape in YAML; write / alone", event)
        return _LONE_TAG.match(written) is not None

    # ── errors ──

    def _problem(self, message: str, event: Any) -> YamlProblem:
        return YamlProblem(message, event.start_mark.line + self._first_line)

    def _too_deep(self, event: Any) -> YamlProblem:
        return self._problem(f"nested deeper than {MAX_DEPTH} levels", event)

    def _syntax(self, error: yaml.YAMLError) -> YamlProblem:
        if not isinstance(error, yaml.MarkedYAMLError):
            return self._bad_character(error)
        mark = error.problem_mark or error.context_mark
        # An early end is found behind the last line; what is missing is missing on it.
        line = min(mark.line if mark is not None else 0, self._text.rstrip().count("\n"))
        message = error.problem or "not YAML"
        if error.context:
            begun = error.context_mark.line if error.context_mark is not None else line
            message += f", {error.context}" + (f" begun on line {begun + self._first_line}" if begun < line else "")
        if "\t" in "".join(self._text.split("\n", line + 1)[line : line + 1]):
            message += " (there is a tab on this line: indent with spaces)"
        return YamlProblem(message, line + self._first_line)

    def _bad_character(self, error: yaml.YAMLError) -> YamlProblem:
        position = getattr(error, "position", 0)  # yaml.reader.ReaderError counts UTF-8 bytes
        character = getattr(error, "character", 0)
        line = self._text.encode("utf-8", "replace").count(b"\n", 0, position)
        code = ord(character) if isinstance(character, str) else character
        return YamlProblem(f"character U+{code:04X} is not allowed in YAML", line + self._first_line)


def _is_merge(event: Any) -> bool:
    return type(event) is ScalarEvent and (event.implicit[0] or event.tag == _MERGE_TAG)


def _excessive(aliased: int, nodes: int) -> bool:
    """Go's rule, ``allowedAliasRatio``: 99% of a small document may come from aliases, 10% of a large one."""
    if aliased <= 100 or nodes <= 1000:
        return False
    low, high = 400_000, 4_000_000
    allowed = 0.99 - 0.89 * (min(max(nodes, low), high) - low) / (high - low)
    return aliased / nodes > allowed


def _copy(value: Any) -> Any:
    """So that no two places share a mutable value. At most ``MAX_DEPTH`` deep."""
    if type(value) is dict:
        return {key: _copy(item) for key, item in value.items()}
    if type(value) is list:
        return [_copy(item) for item in value]
    return value
