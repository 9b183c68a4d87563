"""Taking fields out of a catalog document by name and type, and saying what is wrong with each in one sentence.

A ``Fields`` is one mapping of the document. Every read either returns a value of the right type or notes a problem
and returns the default, so one pass finds all mistakes. ``close()`` reports what nobody asked for. No value that may
be a credential is ever part of a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from fleetbeat.decisions.problems import did_you_mean
from fleetbeat.errors import CatalogError
from fleetbeat.model import Credential, SecretText

_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EMPTY = "is empty. Give a value or remove the line"
_CREDENTIAL = ("inline", "file", "env")


class Problems:
    """Every mistake of one document, each a full sentence that starts with where the document stands."""

    def __init__(self, where: str) -> None:
        self.where = where  #: "apps/shop.yaml, document 2 (line 14), Application shop"
        self.sentences: list[str] = []

    def add(self, field: str, text: str) -> None:
        """``field``: dotted path, e.g. ``spec.sync.interval``."""
        self.sentences.append(f"{self.where}: {field}: {text}")

    def check(self) -> None:
        """Raises CatalogError when there are any."""
        if self.sentences:
            raise CatalogError(self.sentences)


class Fields:
    """One mapping of a document."""

    def __init__(self, values: Mapping[str, Any] | None, path: str, problems: Problems) -> None:
        """``values`` None: there is no such mapping, which has been said if it matters; nothing in it is missed."""
        self.given = values is not None
        self._values = values or {}
        self._path = path
        self._problems = problems
        self._known: list[str] = []

    def at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def problem(self, name: str, text: str) -> None:
        self._problems.add(self.at(name), text)

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(
        self,
        name: str,
        default: str = "",
        *,
        required: str = "",
        accept: Callable[[str], object] | None = None,
        form: str = "",
        lines: bool = False,
        empty: bool = False,
    ) -> str:
        """A string that ``accept`` says yes to; ``form`` says in words what it must be.

        ``required``: why the field is needed; a missing one is then a problem. ``lines``: it may have several.
        ``empty``: "" is a value as well.
        """
        value = self._take(name)
        if value is None:
            self._missing(name, required)
            return default
        if not isinstance(value, str):
            # `tag: 1.10` has already lost its zero here, so the value cannot be offered back.
            self.problem(name, f"must be text, not {kind_of(value)}. Put quotes around it")
            return default
        if accept is not None and not accept(value):
            self.problem(name, f"must be {form}, not {shown(value)}")
            return default
        plain = value.replace("\n", " ").replace("\t", " ") if lines else value
        if not (value or empty) or not plain.isprintable():
            self.problem(name, "holds a line break or control character" if value else _EMPTY)
            return default
        return value

    def flag(self, name: str, default: bool) -> bool:
        value = self._take(name)
        if value is None:
            self._missing(name)
            return default
        if not isinstance(value, bool):
            self.problem(name, f"must be true or false, not {kind_of(value)}")
            return default
        return value

    def number(self, name: str, default: float, low: float, high: float, *, whole: bool = False) -> float:
        """A number with ``low`` ≤ value ≤ ``high``; the result is an int when ``whole``."""
        value = self._take(name)
        if value is None:
            self._missing(name)
            return default
        noun = "a whole number" if whole else "a number"
        # bool is an int in Python, not in YAML
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            self.problem(name, f"must be {noun}, not {kind_of(value)}")
            return default
        if not low <= value <= high:
            self.problem(name, f"must be {noun} from {low:g} to {high:g}, not {value:g}")
            return default
        return value

    def seconds(self, name: str, default: float, low: float, high: float) -> float:
        """A Go duration as seconds, with ``low`` ≤ value ≤ ``high``."""
        value = self._take(name)
        if value is None:
            self._missing(name)
            return default
        if isinstance(value, int | float) and not isinstance(value, bool):
            self.problem(name, f'needs a unit: write "{value:g}s" for {value:g} seconds')
            return default
        found = duration(value) if isinstance(value, str) else None
        if found is None:
            got = shown(value) if isinstance(value, str) else kind_of(value)
            self.problem(name, f"must be a duration such as 30s, 5m or 1h30m (units h, m, s, ms), not {got}")
            return default
        if not low <= found <= high:
            self.problem(name, f"must be from {in_words(low)} to {in_words(high)}, not {shown(value)}")
            return default
        return found

    def section(self, name: str, *, required: str = "") -> Fields:
        """A mapping inside this one. A missing one, or one with nothing under it, reads as empty."""
        value = self._take(name)
        if isinstance(value, Mapping):
            return Fields(value, self.at(name), self._problems)
        if value is not None:
            self.problem(name, f"must be a mapping of fields, not {kind_of(value)}")
        elif required and self.given:
            self.problem(name, f"missing: {required}")
        return Fields(None, self.at(name), self._problems)

    def items(self, name: str) -> list[Any]:
        """A list of anything."""
        value = self._take(name)
        if value is not None and not isinstance(value, list):
            self.problem(name, f"must be a list, not {kind_of(value)}")
        return value if isinstance(value, list) else []

    def sections(self, name: str) -> list[Fields]:
        """A list of mappings."""
        found = []
        for number, item in enumerate(self.items(name)):
            at = f"{name}[{number}]"
            if isinstance(item, Mapping):
                found.append(Fields(item, self.at(at), self._problems))
            else:
                self.problem(at, f"must be a mapping of fields, not {kind_of(item)}")
        return found

    def texts(self, name: str) -> dict[str, str]:
        """A mapping of text to text: labels, annotations."""
        value = self._take(name)
        if value is not None and not isinstance(value, Mapping):
            self.problem(name, f"must be a mapping of text to text, not {kind_of(value)}")
        found: dict[str, str] = {}
        for key, text in value.items() if isinstance(value, Mapping) else ():
            if isinstance(text, str):
                found[key] = text
            else:
                self.problem(f"{name}.{shown_key(key)}", f"must be text, not {kind_of(text)}. Put quotes around it")
        return found

    def credential(self, name: str, *, pem: bool = False) -> Credential | None:
        """``{inline: …}``, ``{file: …}`` or ``{env: …}``. No problem repeats any of it: it may be the secret."""
        value = self._take(name)
        if value is None:
            self._missing(name)
            return None
        if not isinstance(value, Mapping):
            self.problem(
                name,
                "a credential says where its value is: {inline: …}, {file: /path} or {env: VARIABLE}. "
                "Its value alone is not accepted, so that it is not pasted here by mistake",
            )
            return None
        given = [key for key in _CREDENTIAL if value.get(key) is not None]
        unknown = [key for key in value if key not in _CREDENTIAL]
        if unknown or len(given) != 1:
            hints = [hint for key in unknown if (hint := did_you_mean(key, _CREDENTIAL))]
            self.problem(name, "needs exactly one of inline, file, env." + "".join(hints))
            return None
        way, content = given[0], value[given[0]]
        inner = f"{name}.{way}"
        if not isinstance(content, str) or not content.strip():
            self.problem(inner, "must be text that is not empty. Put quotes around a number")
            return None
        if way == "inline":
            if pem and "-----BEGIN " not in content:
                self.problem(inner, "must be PEM text (-----BEGIN …); a kubeconfig's *-data is base64 of it")
            return Credential(inline=SecretText(content))
        if way == "file":
            if not content.isprintable():
                self.problem(inner, "must be the path of a file, in one line")
            return Credential(file=content)
        if not _VARIABLE.fullmatch(content):
            self.problem(inner, "must be the name of an environment variable (letters, digits and _)")
        return Credential(env=content)

    def close(self, *, later: Collection[str] = (), elsewhere: Mapping[str, str] | None = None) -> None:
        """Report what was not asked for.

        ``later``: fields of versions to come. ``elsewhere``: fields of other tools → what to write here.
        """
        for name in self._values:
            if name in self._known:
                continue
            if name in later:
                self.problem(name, "not supported by this version")
            elif elsewhere and name in elsewhere:
                self.problem(name, f"unknown field. Here it is {elsewhere[name]}")
            else:
                known = [*self._known, *later]
                near = did_you_mean(name, known)
                self.problem(shown_key(name), f"unknown field.{near or ' Known here: ' + ', '.join(self._known)}")

    def _take(self, name: str) -> Any:
        self._known.append(name)
        return self._values.get(name)

    def _missing(self, name: str, required: str = "") -> None:
        if name in self._values:
            self.problem(name, _EMPTY)
        elif required and self.given:
            self.problem(name, f"missing: {required}")


def duration(text: str) -> float | None:
    """Seconds of a Go duration ("1h30m", "1.5s", "500ms"), None when it is not one. Signs are not accepted."""
    if not text or _PART.sub("", text):
        return None
    return sum(float(amount) * _UNIT[unit] for amount, unit in _PART.findall(text))


def in_words(seconds: float) -> str:
    """A bound as people write it: 0.1 → 100ms, 86400 → 24h."""
    for unit, size in (("h", 3600.0), ("m", 60.0), ("s", 1.0)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds * 1000:g}ms"


def kind_of(value: Any) -> str:
    """The YAML type of a value in words. The value itself stays out of the sentence."""
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, list):
        return "a list"
    return "a mapping" if isinstance(value, Mapping) else "empty"


def shown(text: str) -> str:
    """Text as part of a sentence: quoted, control characters escaped, cut."""
    cut = text if len(text) <= 60 else text[:59] + "…"
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def shown_key(name: str) -> str:
    """A field's name as part of a path: plain when it looks like one, else quoted."""
    return name if re.fullmatch(r"[A-Za-z0-9_./-]{1,60}", name) else shown(name)
