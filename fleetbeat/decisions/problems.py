"""What is wrong with a bundle, one mistake a value: a sentence for people that still knows its parts for programs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from fleetbeat.model import Origin

_LONGEST_VALUE = 80


class Problem(str):
    """The full sentence, as a text: file, place, object, what is wrong. The parts are attributes."""

    __slots__ = ("document", "file", "message", "object")

    file: str  #: path inside the bundle, "" when the bundle as a whole is meant
    document: int | None  #: 1-based, None when the file as a whole is meant
    object: str  #: ``Deployment shop/web``, "" where the text does not say
    message: str  #: the rest of the sentence

    def __new__(
        cls, message: str, *, file: str = "", document: int | None = None, place: str = "", subject: str = ""
    ) -> Problem:
        """``place`` is what people read in front of the message, by default the file alone."""
        self = super().__new__(cls, ": ".join(part for part in (place or file, subject, message) if part))
        self.file, self.document, self.object, self.message = file, document, subject, message
        return self

    @classmethod
    def in_line(cls, file: str, line: int, message: str, *, document: int) -> Problem:
        """For text that is no YAML: the line is all that is known of the place, so the message keeps it."""
        self = cls(message, file=file, document=document, place=f"{file}, line {line}")
        self.message = f"line {line}: {message}"
        return self

    @classmethod
    def at(cls, origin: Origin, message: str, *, subject: str = "", item: str = "") -> Problem:
        """``item``: where in the document, ``, item 2`` of a list."""
        return cls(message, file=origin.file, document=origin.document, place=f"{origin}{item}", subject=subject)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """The closest known word whatever the case, "" when none is close."""
    folded = {candidate.casefold(): candidate for candidate in known}
    close = difflib.get_close_matches(word.casefold(), folded, n=1, cutoff=cutoff)
    return folded[close[0]] if close else ""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`` Did you mean X?`` or nothing."""
    found = nearest(word, known)
    return f" Did you mean {found}?" if found else ""


def shown(value: object) -> str:
    """A value in quotes, cut when it is long."""
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
