"""What people say is kept for years and shown on other people's terminals."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.spoken import LONGEST, harmless, spoken
from fleetbeat.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("release 2.4", "release 2.4"),
        ("  Mend the checkout\n\nIt lost orders.\n", "Mend the checkout It lost orders."),
        ("größer, 注文 🚀", "größer, 注文 🚀"),
        ("", ""),
        (" \t\n", ""),
        ("x" * LONGEST, "x" * LONGEST),
    ],
)
def test_one_line_is_kept(text: str, kept: str) -> None:
    assert spoken(text) == kept


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\x1b[2Jnothing to see", "the reason holds the control character U\\+001B. Take it out"),
        ("all well\x00", "U\\+0000"),
        ("right to left \u202e", "U\\+202E"),
        ("x" * (LONGEST + 1), "the reason has 1,001 characters; at most 1,000 are kept. Shorten it"),
    ],
)
def test_what_no_terminal_should_show_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        spoken(text)


def test_an_error_cannot_move_a_terminals_cursor() -> None:
    assert harmless("no \x1b[31mred\x9b in\nit") == "no \\x1b[31mred\\x9b in\nit"
    assert harmless("größer\t🚀") == "größer\t🚀"
