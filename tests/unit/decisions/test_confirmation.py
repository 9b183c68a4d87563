"""Who has agreed to a deletion that asks for it."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.confirmation import DELETION_APPROVED, approval, confirmed

NOON = 1_796_040_000_000.0  # 2026-11-30T12:00:00Z, ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-30T12:00:00Z", NOON),
        ("2026-11-30t12:00:00z", NOON),
        ("2026-11-30T13:00:00+01:00", NOON),
        ("2026-11-30T12:00:00.250Z", NOON + 250),
        ("2026-11-30T12:00:00.123456789Z", NOON + 123.456),
        ("2026-11-30", None),
        ("2026-11-30T12:00:00", None),
        ("2026-13-30T12:00:00Z", None),
        ("٢٠٢٦-11-30T12:00:00Z", None),
        ("true", None),
        ("", None),
    ],
)
def test_times(text, expected):
    assert approval(text) == (pytest.approx(expected) if expected is not None else None)


@pytest.mark.parametrize(
    ("asked", "annotations", "expected"),
    [
        (False, {}, ""),
        (True, {}, "confirmed by ada"),
        (False, {DELETION_APPROVED: "2026-11-30T12:00:00Z"}, "approved at 2026-11-30T12:00:00Z"),
        (False, {DELETION_APPROVED: "2026-11-30T12:00:01Z"}, "approved at 2026-11-30T12:00:01Z"),
        (False, {DELETION_APPROVED: "2026-11-30T11:59:59Z"}, ""),
        (False, {DELETION_APPROVED: "2026-11-30T12:30:59Z"}, "approved at 2026-11-30T12:30:59Z"),
        (False, {DELETION_APPROVED: "2026-11-30T12:31:01Z"}, ""),  # else it would agree to what nobody has seen yet
        (False, {DELETION_APPROVED: "2099-01-01T00:00:00Z"}, ""),
        (True, {DELETION_APPROVED: "2099-01-01T00:00:00Z"}, "confirmed by ada"),
        (False, {DELETION_APPROVED: "yes"}, ""),
    ],
)
def test_an_approval_counts_for_what_was_known_by_then(asked, annotations, expected):
    assert confirmed(asked, "ada", annotations, NOON, NOON + 30 * 60_000) == expected
