"""Durations, bounds in words, and the nearest known word."""

import pytest

from fleetbeat.catalog_fields import duration, in_words, shown
from fleetbeat.decisions.problems import did_you_mean


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("3m", 180.0),
        ("1h30m", 5400.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("0s", 0.0),
    ],
)
def test_a_go_duration_is_seconds(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "3", "3 m", " 3m", "3m ", "1d", "2w", "-3m", "+3m", "3M", "m", "1hh", "٣m", "1.5.5s", "3m\n"]
)
def test_anything_else_is_no_duration(text: str) -> None:
    assert duration(text) is None


@pytest.mark.parametrize(("seconds", "words"), [(0.1, "100ms"), (1, "1s"), (90, "90s"), (300, "5m"), (86400, "24h")])
def test_a_bound_is_written_as_people_write_it(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("selfheal", " Did you mean selfHeal?"),
        ("OCI", " Did you mean oci?"),
        ("intervall", " Did you mean interval?"),
        ("zzz", ""),
    ],
)
def test_the_nearest_word_ignores_case(word: str, hint: str) -> None:
    assert did_you_mean(word, ["selfHeal", "oci", "interval"]) == hint


def test_shown_text_cannot_move_a_terminals_cursor() -> None:
    assert shown("a\x1b[2J\x9b\n") == r'"a\u001b[2J\u009b\n"'
    assert len(shown("x" * 10_000)) <= 62
