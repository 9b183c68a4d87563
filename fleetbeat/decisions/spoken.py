"""What people say about themselves and why: kept for years, shown on other people's terminals. Pure.

A commit message handed on as a reason has several lines, so blanks are drawn together to one line. What could move a
cursor or hide text is refused, and so is a length that would not fit where it is noted: with the cluster, holds of an
application stand in an annotation (256 KiB for all annotations of an object).
"""

from __future__ import annotations

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


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
