"""When a schedule opens: calendar arithmetic, DST both ways in three zones, and agreement with counting minutes."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_windows import MINUTE, opens, utc

from fleetbeat.decisions.cron import parse
from fleetbeat.decisions.cron_times import following, lasting, latest
from fleetbeat.decisions.zones import zone
from fleetbeat.model_windows import SyncWindow

AMSTERDAM, NEW_YORK, LORD_HOWE = "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe"


def times(schedule: str, place: str, start: str, count: int) -> list[str]:
    """The next openings, in UTC."""
    found, at = [], utc(start) - timedelta(seconds=1)
    for _ in range(count):
        moment = following(parse(schedule), zone(place), at)
        assert moment is not None
        assert latest(parse(schedule), zone(place), moment) == moment
        found.append(moment.strftime("%m-%dT%H:%M"))
        at = moment
    return found


DST = {
    # 29 March 2026, 02:00 CET → 03:00 CEST at 01:00Z; 25 October, 03:00 CEST → 02:00 CET at 01:00Z
    "skipped hour, moves to the jump": (
        "30 2 * * *",
        AMSTERDAM,
        "2026-03-28T00:00",
        ["03-28T01:30", "03-29T01:00", "03-30T00:30"],
    ),
    "two times in the skipped hour are one": (
        "0,30 2 * * *",
        AMSTERDAM,
        "2026-03-29T00:00",
        ["03-29T01:00", "03-30T00:00"],
    ),
    "the jump itself": ("0 3 * * *", AMSTERDAM, "2026-03-29T00:00", ["03-29T01:00", "03-30T01:00"]),
    "repeated hour, opens once": ("30 2 * * *", AMSTERDAM, "2026-10-24T23:00", ["10-25T00:30", "10-26T01:30"]),
    "every hour, opens in both": (
        "30 * * * *",
        AMSTERDAM,
        "2026-10-24T23:45",
        ["10-25T00:30", "10-25T01:30", "10-25T02:30"],
    ),
    "every hour, over the skipped one": (
        "30 * * * *",
        AMSTERDAM,
        "2026-03-29T00:00",
        ["03-29T00:30", "03-29T01:00", "03-29T01:30"],
    ),
    # 8 March 2026, 02:00 EST → 03:00 EDT at 07:00Z; 1 November, 02:00 EDT → 01:00 EST at 06:00Z
    "west, skipped": ("15 2 * * *", NEW_YORK, "2026-03-08T00:00", ["03-08T07:00", "03-09T06:15"]),
    "west, repeated": ("15 1 * * *", NEW_YORK, "2026-11-01T00:00", ["11-01T05:15", "11-02T06:15"]),
    # half an hour: 4 October 2026, 02:00 +10:30 → 02:30 +11 at 15:30Z; 5 April, 02:00 +11 → 01:30 +10:30 at 15:00Z
    "by half an hour, skipped": ("10 2 * * *", LORD_HOWE, "2026-10-03T00:00", ["10-03T15:30", "10-04T15:10"]),
    "by half an hour, repeated": ("45 1 * * *", LORD_HOWE, "2026-04-04T00:00", ["04-04T14:45", "04-05T15:15"]),
    # the clock is put back over midnight: 1 November 2026 01:00 → 00:00 in Havana; Samoa left 30 December 2011 out
    "repeated around midnight": ("30 0 * * *", "America/Havana", "2026-11-01T00:00", ["11-01T04:30", "11-02T05:30"]),
    # south: 6 September 2026, 00:00 -04 → 01:00 -03 at 04:00Z; 5 April, 00:00 -03 → 23:00 -04 the day before, at 03:00Z
    "midnight itself, skipped": (
        "0 0 * * *",
        "America/Santiago",
        "2026-09-05T00:00",
        ["09-05T04:00", "09-06T04:00", "09-07T03:00"],
    ),
    "the last hour of a day, repeated": (
        "30 23 * * *",
        "America/Santiago",
        "2026-04-04T00:00",
        ["04-04T02:30", "04-05T02:30", "04-06T03:30"],
    ),
    "midnight, after the repeated hour": (
        "0 0 * * *",
        "America/Santiago",
        "2026-04-04T00:00",
        ["04-04T03:00", "04-05T04:00", "04-06T04:00"],
    ),
    "a skipped day": ("0 12 * * *", "Pacific/Apia", "2011-12-29T00:00", ["12-29T22:00", "12-30T10:00", "12-30T22:00"]),
}


@pytest.mark.parametrize(("schedule", "place", "start", "expected"), DST.values(), ids=DST.keys())
def test_zone_changes(schedule: str, place: str, start: str, expected: list[str]) -> None:
    assert times(schedule, place, start, len(expected)) == expected


def test_29_february_over_a_century_that_is_no_leap_year() -> None:
    schedule, place = parse("0 0 29 2 *"), zone("UTC")
    assert following(schedule, place, utc("2096-03-01T00:00")) == utc("2104-02-29T00:00")
    assert latest(schedule, place, utc("2104-02-28T00:00")) == utc("2096-02-29T00:00")


def test_a_rare_day_is_found_without_looking_at_every_minute() -> None:
    schedule, place = parse("0 0 29 2 *"), zone(AMSTERDAM)
    began = time.process_time()
    for day in range(500):
        following(schedule, place, utc("2026-01-01T00:00") + timedelta(days=day))
    assert time.process_time() - began < 2.0


# ── compared with counting minutes ───────────────────────────────────────────────────────────────────────────────

ZONES = [
    *("UTC", AMSTERDAM, NEW_YORK, LORD_HOWE, "Asia/Kolkata", "America/Havana", "Pacific/Chatham"),
    *("America/Santiago", "Africa/Cairo"),
]
CHANGES = [
    "2026-03-29T01:00",
    "2026-10-25T01:00",
    "2026-03-08T07:00",
    "2026-11-01T06:00",
    "2026-10-03T15:30",
    "2026-04-04T15:00",
    "2026-11-01T05:00",
    "2026-09-06T04:00",
    "2026-04-05T03:00",
    "2026-04-23T22:00",
    "2026-10-29T21:00",
]
FIELDS = (
    st.sampled_from(["*", "0", "30", "*/20", "15,45", "5/25", "59"]),
    st.sampled_from(["*", "0", "1", "2", "1-3", "*/2", "23", "0,12"]),
    st.sampled_from(["*", "1", "29", "8,29", "25-31", "*/7"]),
    st.sampled_from(["*", "3,10", "4-11", "*/5", "mar,APR-oct"]),
    st.sampled_from(["*", "?", "0", "6,0", "1-5", "Sun,WED-fri"]),
)
schedules = st.tuples(*FIELDS).map(" ".join)
moments = st.builds(
    lambda change, seconds: utc(change) + timedelta(seconds=seconds),
    st.sampled_from(CHANGES),
    st.integers(-3 * 86_400, 3 * 86_400),
)


@settings(max_examples=60, deadline=None)
@given(schedules, st.sampled_from(ZONES), moments)
def test_the_times_are_those_found_by_counting_minutes(schedule: str, place: str, at: datetime) -> None:
    window = SyncWindow("deny", schedule, 60, place)
    minute, far = at.replace(second=0), timedelta(days=2)
    before = next((m for m in (minute - n * MINUTE for n in range(2880)) if opens(window, m)), None)
    found = latest(parse(schedule), zone(place), at)
    assert before == (found if found is not None and found > minute - far else None)
    after = next((m for m in (minute + n * MINUTE for n in range(1, 2880)) if opens(window, m)), None)
    found = following(parse(schedule), zone(place), at)
    assert after == (found if found is not None and found < minute + far else None)


@settings(max_examples=100, deadline=None)
@given(schedules, st.sampled_from(ZONES), moments, st.sampled_from([60, 1200, 3600]))
def test_what_is_said_to_last_has_no_gap(schedule: str, place: str, at: datetime, seconds: int) -> None:
    length = timedelta(seconds=seconds)
    opened = latest(parse(schedule), zone(place), at)
    if opened is None or opened < at - timedelta(days=5):
        return
    until = lasting(parse(schedule), zone(place), opened, length)
    while opened + length < min(until, at + timedelta(days=5)):
        again = following(parse(schedule), zone(place), opened)
        assert again is not None
        assert again <= opened + length
        opened = again
