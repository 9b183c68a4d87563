"""What people say is kept for years and shown on other people's terminals."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.spoken import LONGEST, coloured, harmless, one_line, place, spoken
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


def test_a_command_keeps_its_own_colours_and_no_code_that_hides_or_moves() -> None:
    own = "\x1b[31mFailed\x1b[0m"
    assert coloured(own) == own
    assert coloured(f"{own} \x1b[8mhidden \x1b[2J\x1b]0;title\x07\nmore") == (
        f"{own} \\x1b[8mhidden \\x1b[2J\\x1b]0;title\\x07\nmore"
    )
    assert one_line("a\n\tb") == "a\\n\\tb"


def test_fields_of_any_name_are_one_short_line_and_stay_apart() -> None:
    long = ["spec." + "k" * 10_000 + end for end in "ab"]
    assert len({place(one) for one in long}) == 2
    assert all(len(place(one)) < 420 for one in long)
    assert place("spec[name=\x1b[2J\n]") == "spec[name=\\x1b[2J\\n]"
    assert place("spec.größe[name=web]") == "spec.größe[name=web]"
