"""Who has agreed to a deletion that asks for it."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.confirmation import DELETION_APPROVED, approval, asks, confirmed, may_empty

EMPTY = "sha256:" + "e" * 64
OTHER = "sha256:" + "0" * 64
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


@pytest.mark.parametrize(
    ("would_empty", "digest", "may"),
    [
        pytest.param(EMPTY, EMPTY, True, id="the bundle that was told to take everything"),
        pytest.param(EMPTY, OTHER, False, id="another bundle, empty too, that came a moment later"),
        pytest.param("", EMPTY, False, id="nothing has been told yet"),
        pytest.param("", "", False, id="no bundle at all"),
    ],
)
def test_what_a_request_with_a_confirmation_may_empty(would_empty: str, digest: str, may: bool) -> None:
    """Field case d4: an explicit sync may proceed, for the one bundle it was asked about."""
    assert may_empty(asks(would_empty), digest) is may


def test_a_sync_that_nobody_asked_for_empties_nothing() -> None:
    """Field case d4. Neither does the word of an earlier version."""
    assert not may_empty("", EMPTY)
    assert not may_empty("1", EMPTY)
