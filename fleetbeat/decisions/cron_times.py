"""When a schedule's times are, by calendar arithmetic: no searching minute by minute, zone changes included. Pure.

* A time that the clock skips happens when it skips.
* A time that the clock shows twice happens at the first of the two, unless the schedule names every hour: it is about
  elapsed time then, and an hour without it would be a hole.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import pairwise

from fleetbeat.decisions.cron import Schedule

#: The longest gap between two 29 Februaries, over a century that is no leap year.
_YEARS = 8
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
#: Further than this a row of days is not followed in one go.
_LONGEST_ROW = timedelta(days=100)


def latest(schedule: Schedule, zone: tzinfo, at: datetime) -> datetime | None:
    """The last time at or before ``at``, in UTC; None when there is none within eight years. ``at`` has a zone."""
    day = at.astimezone(zone).date()
    if _steady_offset(zone, day) is None:
        day += timedelta(days=1)  # a clock put back over midnight shows a later day earlier
    for candidate in _days_before(schedule, day):
        found = _on_day(schedule, zone, candidate, at, latest=True)
        if found is not None:
            return found
    return None


def following(schedule: Schedule, zone: tzinfo, after: datetime) -> datetime | None:
    """The first time later than ``after``, in UTC; None when there is none within eight years."""
    day = after.astimezone(zone).date()
    if _steady_offset(zone, day) is None:
        day -= timedelta(days=1)
    for candidate in _days_from(schedule, day):
        found = _on_day(schedule, zone, candidate, after, latest=False)
        if found is not None:
            return found
    return None


def lasting(schedule: Schedule, zone: tzinfo, opened: datetime, length: timedelta) -> datetime:
    """What opens at ``opened`` for this long and again at each time of the schedule is open at least until then.

    Where one opening reaches the next this is the end of a row of days, so that nobody has to go from minute to minute.
    """
    end = opened + length
    if not schedule.every_hour or length < _widest_gap(schedule):
        return end
    first = last = opened.astimezone(zone).date()
    if not _by_whole_hours(zone, first):
        return end
    for day in _days_from(schedule, first + timedelta(days=1)):
        if day - last > timedelta(days=1) or day - first > _LONGEST_ROW or not _by_whole_hours(zone, day):
            break
        last = day
    midnight = datetime(last.year, last.month, last.day, tzinfo=zone) + timedelta(days=1)
    final = latest(schedule, zone, midnight - timedelta(seconds=1))
    return max(final or opened, opened) + length


@lru_cache(maxsize=4096)
def _widest_gap(schedule: Schedule) -> timedelta:
    """Between two neighbouring times of a schedule that names every hour, on matching days in a row."""
    minutes = (*schedule.minutes, schedule.minutes[0] + 60)
    return max(later - earlier for earlier, later in pairwise(minutes)) * _MINUTE


def _on_day(schedule: Schedule, zone: tzinfo, day: date, at: datetime, *, latest: bool) -> datetime | None:
    """The last time of this day until ``at``, or the first one after it."""
    offset = _steady_offset(zone, day)
    if offset is not None:
        wall = at.astimezone(UTC).replace(tzinfo=None) + offset
        found = _last_until(schedule, day, wall) if latest else _first_after(schedule, day, wall)
        return None if found is None else (found - offset).replace(tzinfo=UTC)
    times = _times(schedule, zone, day)
    position = bisect_right(times, at)
    if latest:
        return times[position - 1] if position else None
    return times[position] if position < len(times) else None


@lru_cache(maxsize=4096)
def _by_whole_hours(zone: tzinfo, day: date) -> bool:
    """Is the clock changed by whole hours that day, if at all? Then every hour still has the same minutes."""
    offsets = _offsets(zone, day)
    return len({offset % _HOUR for offset in offsets}) == 1


@lru_cache(maxsize=4096)
def _steady_offset(zone: tzinfo, day: date) -> timedelta | None:
    """The zone's offset, when it is the same all day."""
    offsets = _offsets(zone, day)
    return next(iter(offsets)) if len(offsets) == 1 else None


def _offsets(zone: tzinfo, day: date) -> set[timedelta]:
    """Those at both ends of a day and a little beyond."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    found = {
        (midnight + timedelta(hours=hours)).replace(fold=fold).utcoffset() for hours in (-1, 25) for fold in (0, 1)
    }
    return {offset for offset in found if offset is not None}


def _last_until(schedule: Schedule, day: date, wall: datetime) -> datetime | None:
    if wall.date() < day:
        return None
    if wall.date() > day:
        return _wall(day, schedule.hours[-1], schedule.minutes[-1])
    position = bisect_right(schedule.hours, wall.hour)
    if position and schedule.hours[position - 1] == wall.hour:
        minute = bisect_right(schedule.minutes, wall.minute)
        if minute:
            return _wall(day, wall.hour, schedule.minutes[minute - 1])
        position -= 1
    return _wall(day, schedule.hours[position - 1], schedule.minutes[-1]) if position else None


def _first_after(schedule: Schedule, day: date, wall: datetime) -> datetime | None:
    if wall.date() > day:
        return None
    if wall.date() < day:
        return _wall(day, schedule.hours[0], schedule.minutes[0])
    position = bisect_left(schedule.hours, wall.hour)
    if position < len(schedule.hours) and schedule.hours[position] == wall.hour:
        minute = bisect_right(schedule.minutes, wall.minute)
        if minute < len(schedule.minutes):
            return _wall(day, wall.hour, schedule.minutes[minute])
        position += 1
    return _wall(day, schedule.hours[position], schedule.minutes[0]) if position < len(schedule.hours) else None


def _wall(day: date, hour: int, minute: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - the clock on the wall


@lru_cache(maxsize=256)
def _times(schedule: Schedule, zone: tzinfo, day: date) -> tuple[datetime, ...]:
    """Every time of a day on which the clock is changed, in order."""
    found: set[datetime] = set()
    for hour in schedule.hours:
        for minute in schedule.minutes:
            wall = _wall(day, hour, minute)
            first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
            if first > second:  # skipped: by the old offset it is after the change, by the new one before it
                found.add(_change(zone, second, first))
            else:
                found.add(first)
                if schedule.every_hour:
                    found.add(second)
    return tuple(sorted(found))


def _change(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    """The moment between the two at which the zone's offset changes, to the second."""
    old = before.astimezone(zone).utcoffset()
    low, high = 0, round((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


@lru_cache(maxsize=16384)
def _month_days(schedule: Schedule, year: int, month: int) -> tuple[int, ...]:
    if month not in schedule.months:
        return ()
    first, length = calendar.monthrange(year, month)

    def fits(day: int) -> bool:
        weekday = (first + day) % 7  # monthrange counts from Monday, cron from Sunday
        in_month, in_week = day in schedule.days, weekday in schedule.weekdays
        return in_month or in_week if schedule.either else in_month and in_week

    return tuple(day for day in range(1, length + 1) if fits(day))


def _days_before(schedule: Schedule, last: date) -> Iterator[date]:
    """Days of the schedule from ``last`` backwards."""
    year, month = last.year, last.month
    while year > last.year - _YEARS - 1 and year > 0:
        for day in reversed(_month_days(schedule, year, month)):
            if (year, month, day) <= (last.year, last.month, last.day):
                yield date(year, month, day)
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)


def _days_from(schedule: Schedule, first: date) -> Iterator[date]:
    """Days of the schedule from ``first`` on."""
    year, month = first.year, first.month
    while year < first.year + _YEARS + 1:
        for day in _month_days(schedule, year, month):
            if (year, month, day) >= (first.year, first.month, first.day):
                yield date(year, month, day)
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
