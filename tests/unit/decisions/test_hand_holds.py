"""What `kubectl annotate` on the ApplySet parent means as a hold, and what cannot be meant."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.hand_holds import HOLD_REASON, HOLD_UNTIL, by_hand
from fleetbeat.errors import Refused
from fleetbeat.model_results import Manager

NOW = 1_796_040_000_000  # 2026-11-30T12:00:00Z
ANNA = (Manager("kubectl-annotate", "Update", "2026-11-30T11:59:00Z"),)


def test_it_is_a_hold_of_the_application() -> None:
    found = by_hand("shop", {HOLD_UNTIL: "2026-11-30T14:00:00+01:00", HOLD_REASON: " moving\nthe database "}, ANNA, NOW)
    assert found is not None
    assert (found.kind, found.target, found.scope) == ("app", "shop", "sync")
    assert (found.by, found.reason) == ("kubectl-annotate", "moving the database")
    assert (found.since, found.until) == (NOW, NOW + 3_600_000)
    assert str(found).startswith(f"hold {found.id} of app shop by kubectl-annotate until 2026-11-30T13:00:00Z: moving")


def test_the_same_words_are_the_same_hold() -> None:
    said = {HOLD_UNTIL: "2026-11-30T13:00:00Z", HOLD_REASON: "x"}
    names = {
        hold.id if (hold := by_hand(app, words, ANNA, now)) else ""
        for app, words, now in [
            ("shop", said, NOW),
            ("shop", said, NOW + 60_000),
            ("shop", {**said, HOLD_UNTIL: "2026-11-30T14:00:00+01:00"}, NOW),
        ]
    }
    assert len(names) == 1
    for other in (("cart", said), ("shop", {**said, HOLD_REASON: "y"}), ("shop", {HOLD_UNTIL: "2026-11-30T13:00:01Z"})):
        hold = by_hand(*other, ANNA, NOW)
        assert hold is not None
        assert hold.id not in names


@pytest.mark.parametrize(
    "annotations", [{}, {HOLD_UNTIL: "2026-11-30T12:00:00Z"}, {HOLD_UNTIL: "1999-01-01T00:00:00Z", HOLD_REASON: "x"}]
)
def test_nothing_is_held(annotations: dict[str, str]) -> None:
    assert by_hand("shop", annotations, ANNA, NOW) is None


def test_nobody_and_no_reason_are_told_as_that() -> None:
    hold = by_hand("shop", {HOLD_UNTIL: "2026-11-30T13:00:00Z"}, (), NOW)
    assert hold is not None
    assert (hold.by, hold.reason) == ("somebody with kubectl", "no reason given")


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({HOLD_REASON: "x"}, "hold-reason on the application's ApplySet parent does nothing without"),
        ({HOLD_UNTIL: "tomorrow"}, "must be an RFC 3339 time such as 2026-11-30T12:00:00Z, not "),
        ({HOLD_UNTIL: ""}, "must be an RFC 3339 time"),
        ({HOLD_UNTIL: "2026-11-30T13:00:00"}, "must be an RFC 3339 time"),
        ({HOLD_UNTIL: "2026-02-30T13:00:00Z"}, "must be an RFC 3339 time"),
        ({HOLD_UNTIL: "2027-01-01T00:00:00Z"}, "more than 30 days ahead"),
        ({HOLD_UNTIL: "9999-12-31T23:59:59Z"}, "more than 30 days ahead"),
        ({HOLD_UNTIL: "2026-11-30T13:00:00Z", HOLD_REASON: "x" * 2000}, "is not a line of text: the reason has 2,000"),
        ({HOLD_UNTIL: "2026-11-30T13:00:00Z", HOLD_REASON: "\x1b[2J"}, "control character U+001B"),
    ],
)
def test_what_cannot_be_meant_holds_everything_and_says_so(annotations: dict[str, str], told: str) -> None:
    with pytest.raises(Refused) as caught:
        by_hand("shop", annotations, ANNA, NOW)
    assert told in str(caught.value)
    assert str(caught.value).endswith("Nothing is written until that is mended or taken away")
