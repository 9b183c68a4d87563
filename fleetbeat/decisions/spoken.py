"""What people say about themselves and why: kept for years, shown on other people's terminals. Pure.

A commit message handed on as a reason has several lines, so blanks are drawn together to one line. What could move a
cursor or hide text is refused, and so is a length that would not fit where it is noted: with the cluster, holds of an
application stand in an annotation (256 KiB for all annotations of an object).
"""

from __future__ import annotations

import hashlib
import re

from fleetbeat.errors import ConfigurationError

LONGEST = 1000  #: characters


def spoken(text: str, what: str = "reason") -> str:
    """In one line, without blanks around. Raises ConfigurationError; ``what`` names it there."""
    line = " ".join(text.split())
    if len(line) > LONGEST:
        raise ConfigurationError(f"the {what} has {len(line):,} characters; at most {LONGEST:,} are kept. Shorten it")
    if not line.isprintable():
        strange = next(character for character in line if not character.isprintable())
        raise ConfigurationError(f"the {what} holds the control character U+{ord(strange):04X}. Take it out")
    return line


def harmless(text: str) -> str:
    """For a terminal: control characters but line breaks and tabs written as their escapes."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else _escaped(one) for one in text)


#: SGR with what a command colours its own words by; none of them hides text or moves a cursor.
_COLOUR = re.compile(r"(\x1b\[(?:[0-2]|3[0-9]|9[0-7])m)")


def coloured(text: str) -> str:
    """``harmless``, but for the codes of colours, bold and dim: of a line that a command has put together itself."""
    if text.isprintable():
        return text
    return "".join(part if number % 2 else harmless(part) for number, part in enumerate(_COLOUR.split(text)))


def one_line(text: str) -> str:
    """``coloured``, with line breaks and tabs as escapes too: what stands in one line cannot make up another."""
    return coloured(text).replace("\n", "\\n").replace("\t", "\\t")


def place(text: str) -> str:
    """A field's path in one harmless line, and short: keys of free form may hold anything, and thousands of it.

    Two that differ stay two, as what is remembered of a field is found by it.
    """
    line = text if text.isprintable() else harmless(text).replace("\n", "\\n").replace("\t", "\\t")
    if len(line) <= _LONGEST_PLACE:
        return line
    return f"{line[:_LONGEST_PLACE]}…{hashlib.sha256(line.encode()).hexdigest()[:12]}"


_LONGEST_PLACE = 400  #: characters


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
