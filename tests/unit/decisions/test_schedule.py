"""When an application is looked at."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.schedule import backoff, name_hash, next_slot, slot_offset, start_spread
from fleetbeat.model import Retry

PERIODS = st.integers(min_value=1, max_value=86_400_000)
TIMES = st.integers(min_value=0, max_value=4_102_444_800_000)


def test_a_name_keeps_its_offset_for_ever():
    """Written down, because a changed hash would move every application of every fleet at an upgrade."""
    assert name_hash("shop") == 10200655162489073725
    assert slot_offset("shop", 180_000) == 113_725


@given(TIMES, PERIODS, st.integers(min_value=0, max_value=86_400_000))
def test_the_next_slot_is_the_first_aligned_instant_after_now(now, period, offset):
    slot = next_slot(now, period, offset)
    assert now < slot <= now + period
    assert (slot - offset) % period == 0


def test_slots_missed_while_stopped_are_skipped():
    """Field case j4: an hour's stop is followed by one look, not sixty."""
    first = next_slot(0, 60_000, 7)
    assert next_slot(first + 3_600_000, 60_000, 7) == first + 3_660_000


def test_two_thousand_applications_spread_over_their_period():
    buckets = Counter(slot_offset(f"app-{n}", 60_000) // 1000 for n in range(2000))
    assert len(buckets) == 60
    assert max(buckets.values()) < 2000 / 60 * 2


def test_a_start_is_spread_at_the_rate_asked_for():
    delays = [start_spread(name_hash(f"app-{n}"), 2000, 100.0) for n in range(2000)]
    assert max(delays) < 20_000
    assert max(Counter(delay // 1000 for delay in delays).values()) < 200


@pytest.mark.parametrize("count", [0, 1])
def test_a_start_of_hardly_anything_does_not_wait(count):
    assert start_spread(name_hash("shop"), count, 100.0) < 11


RETRIES = st.builds(
    Retry,
    limit=st.integers(0, 20),
    duration=st.floats(0.1, 60),
    factor=st.floats(1, 10),
    max_duration=st.floats(60, 3600),
)


@given(RETRIES, st.integers(0, 1000), st.floats(0, 1), st.floats(0, 1))
def test_the_delay_grows_to_the_cap_whatever_jitter_is_drawn(retry, attempt, first, second):
    """Field case f2: monotone up to the cap, never below the base."""
    one, two = backoff(attempt, retry, first), backoff(attempt + 1, retry, second)
    assert retry.duration <= one <= two * (1 + 1e-12) <= retry.max_duration * (1 + 1e-9)


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 5), (1, 10), (2, 20), (5, 160), (6, 180), (60, 180), (1000, 180), (10**9, 180)]
)
def test_the_default_delays(attempt, seconds):
    """Field case f2: attempt 1,000 still gives the cap."""
    assert backoff(attempt, Retry()) == seconds


def test_a_base_above_the_cap_is_the_cap():
    assert backoff(0, Retry(duration=600, max_duration=60)) == 60


def test_a_factor_below_one_does_not_shrink_the_delay():
    assert backoff(50, Retry(factor=0.5)) == 5
