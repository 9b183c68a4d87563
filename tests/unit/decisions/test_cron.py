"""The dialect of schedules: what is read and what is refused, with the sentence. Table of conventions.md §3.6."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.cron import CronProblem, parse

ALL = {"minutes": range(60), "hours": range(24), "days": range(1, 32), "months": range(1, 13), "weekdays": range(7)}

READ = {
    "every minute": ("* * * * *", {}),
    "a range of days by name": ("0 9 * * MON-FRI", {"minutes": [0], "hours": [9], "weekdays": [1, 2, 3, 4, 5]}),
    "a name in lower case": ("0 9 * * mon", {"minutes": [0], "hours": [9], "weekdays": [1]}),
    "a month by name": ("0 9 * JAN *", {"minutes": [0], "hours": [9], "months": [1]}),
    "the whole week by name": ("0 9 * * SUN-SAT", {"minutes": [0], "hours": [9]}),
    "a question mark is a star": ("0 9 ? * ?", {"minutes": [0], "hours": [9]}),
    "a step from a number to the end": ("5/15 * * * *", {"minutes": [5, 20, 35, 50]}),
    "a step": ("*/15 * * * *", {"minutes": [0, 15, 30, 45]}),
    "a step in a range": ("0-10/5 * * * *", {"minutes": [0, 5, 10]}),
    "a step beyond the field": ("*/100 * * * *", {"minutes": [0]}),
    "a list": ("0 9,17-18 * * *", {"minutes": [0], "hours": [9, 17, 18]}),
    "blanks around": ("  0 9\t* * *  ", {"minutes": [0], "hours": [9]}),
    "29 February": ("0 0 29 2 *", {"minutes": [0], "hours": [0], "days": [29], "months": [2]}),
}


@pytest.mark.parametrize(("text", "named"), READ.values(), ids=READ.keys())
def test_read(text: str, named: dict[str, list[int]]) -> None:
    schedule = parse(text)
    assert {name: getattr(schedule, name) for name in ALL} == {
        name: tuple(named.get(name, values)) for name, values in ALL.items()
    }


@pytest.mark.parametrize(
    ("text", "either"),
    [
        ("0 10 15 * 2", True),
        ("0 10 15 * *", False),
        ("0 10 * * 2", False),
        ("0 10 ? * 2", False),
        ("0 10 */2 * 2", True),  # as in Argo CD: a star with a step is a restriction
        ("0 10 */1 * 2", False),
    ],
)
def test_one_of_the_two_days_is_enough_when_both_are_given(text: str, either: bool) -> None:
    assert parse(text).either is either


REFUSED = {
    "Sunday as 7": ("0 9 * * 7", "day of week '7': must be from 0 to 6. Sunday is 0"),
    "Sunday as 7 in a range": ("0 9 * * 1-7", "day of week '1-7': must be from 0 to 6. Sunday is 0"),
    "Sunday as 7 in a list": ("0 9 * * 0,7", "day of week '7': must be from 0 to 6. Sunday is 0"),
    "a range that wraps": ("0 9 * * FRI-MON", "day of week 'FRI-MON': a range does not wrap around"),
    "@daily": ("@daily", "@daily is not accepted: write the five fields"),
    "@every": ("@every 1h", "@every 1h is not accepted"),
    "six fields": ("0 0 9 * * *", "has 6 fields, not 5"),
    "four fields": ("0 9 * *", "has 4 fields, not 5"),
    "nothing": ("", "has 0 fields, not 5"),
    "text": ("every day at nine", "has 4 fields, not 5"),
    "L": ("0 9 L * *", "day of month 'L': 'L' is not a number from 1 to 31"),
    "#": ("0 9 * * 1#1", "day of week '1#1': '1#1' is not a number from 0 to 6 or SUN, MON"),
    "H": ("H 9 * * *", "minute 'H': 'H' is not a number from 0 to 59"),
    "a zone in front": ("TZ=Asia/Tokyo 0 22 * * *", "a zone in front is not accepted: write it under timeZone"),
    "a zone in front, long": ("CRON_TZ=UTC 0 22 * * *", "a zone in front is not accepted"),
    "minute 60": ("60 * * * *", "minute '60': must be from 0 to 59"),
    "hour 24": ("0 24 * * *", "hour '24': must be from 0 to 23"),
    "day 0": ("0 0 0 * *", "day of month '0': must be from 1 to 31"),
    "month 13": ("0 0 1 13 *", "month '13': must be from 1 to 12"),
    "30 February": ("0 0 30 2 *", "day 30 of month 2 never comes"),
    "31 of months with 30 days": ("0 0 31 4,6,SEP,11 *", "day 31 of month 4,6,SEP,11 never comes"),
    "step 0": ("*/0 * * * *", "the step behind / must be a whole number from 1"),
    "negative": ("-5 * * * *", "minute '-5': '' is not a number from 0 to 59"),
    "plus": ("+5 * * * *", "minute '+5': '+5' is not a number"),
    "an item is missing": ("1,,2 * * * *", "minute '': '' is not a number"),
    "two ranges in one": ("1-2-3 * * * *", "'2-3' is not a number"),
    "digits of another script": ("٣ * * * *", "is not a number"),
    "a number without end": (f"{'9' * 5000} * * * *", "is not a number"),
}


@pytest.mark.parametrize(("text", "told"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(text: str, told: str) -> None:
    with pytest.raises(CronProblem) as caught:
        parse(text)
    assert told in str(caught.value)


def test_30_february_is_fine_where_a_weekday_is_enough() -> None:
    assert parse("0 0 30 2 1").either
