"""Sync windows told the slow way: minute by minute, straight from docs/windows.md, to compare the fast way with.

Nothing of ``fleetbeat.decisions`` is used here: schedules are read anew, value by value, and zones are the standard
library's. A mistake in how either side reads a schedule shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from fleetbeat.model_windows import SyncWindow

MINUTE = timedelta(minutes=1)
#: An object's kind and its group, which is None when any is meant.
Kind = tuple[str | None, str]

_MONTHS = ["", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
_DAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def fits(field: str, value: int, low: int, high: int, words: list[str] | None = None) -> bool:
    """Does one field of a schedule name this value?"""

    def number(word: str) -> int:
        return words.index(word) if words and word in words else int(word)

    for item in field.upper().split(","):
        span, slash, step = item.partition("/")
        first, dash, last = span.partition("-")
        begin, end = (low, high) if span in ("*", "?") else (number(first), high if slash else number(first))
        if dash:
            end = number(last)
        if begin <= value <= end and (value - begin) % int(step or 1) == 0:
            return True
    return False


def is_star(field: str) -> bool:
    return any(item in ("*", "?", "*/1", "?/1") for item in field.split(","))


def names(schedule: str, wall: datetime) -> bool:
    """Does the schedule name this time of the clock on the wall?"""
    minute, hour, day, month, weekday = schedule.split()
    in_month = fits(day, wall.day, 1, 31)
    in_week = fits(weekday, wall.isoweekday() % 7, 0, 6, _DAYS)
    either = not is_star(day) and not is_star(weekday)
    return (
        fits(minute, wall.minute, 0, 59)
        and fits(hour, wall.hour, 0, 23)
        and fits(month, wall.month, 1, 12, _MONTHS)
        and (in_month or in_week if either else in_month and in_week)
    )


def opens(window: SyncWindow, moment: datetime) -> bool:
    """Does it open at this full minute?"""
    return _opens(window.schedule, window.time_zone, moment)


@lru_cache(maxsize=100_000)
def _opens(schedule: str, zone: str, moment: datetime) -> bool:
    place = ZoneInfo(zone)
    now, before = moment.astimezone(place), (moment - MINUTE).astimezone(place)
    wall, last = now.replace(tzinfo=None, fold=0), before.replace(tzinfo=None, fold=0)
    while (last := last + MINUTE) < wall:  # the clock has skipped these
        if names(schedule, last):
            return True
    every_hour = all(fits(schedule.split()[1], hour, 0, 23) for hour in range(24))
    return names(schedule, wall) and (now.fold == 0 or every_hour)


def active(window: SyncWindow, moment: datetime) -> bool:
    minute = moment.replace(second=0, microsecond=0)
    while moment < minute + timedelta(seconds=window.duration):
        if opens(window, minute):
            return True
        minute -= MINUTE
    return False


def is_open(
    windows: Iterable[SyncWindow],
    how: str,
    moment: datetime,
    *,
    kinds: Collection[Kind] | None = None,
    started: datetime | None = None,
) -> bool:
    """The procedure of docs/windows.md for each kind by itself; all of them have to be open."""
    relevant = [window for window in windows if window.scope == "all" or how == "self-heal"]
    if kinds is None:
        named = {kind for window in relevant for kind in window.kinds}
        asked: set[Kind] = {(group or None, kind) for kind, _, group in (name.partition(".") for name in named)}
        asked.add((None, "a kind that no window names"))
    else:
        asked = set(kinds)
    for kind in asked:
        about = [window for window in relevant if not window.kinds or any(_is(name, *kind) for name in window.kinds)]
        if _open(about, how, moment):
            continue
        denies = [window for window in about if window.kind == "deny" and active(window, moment)]
        shutting = denies or [window for window in about if window.kind == "allow"]
        if started is None or not all(window.sync_overrun for window in shutting) or not _open(about, how, started):
            return False
    return True


def _is(name: str, group: str | None, kind: str) -> bool:
    wanted, dot, of = name.partition(".")
    return wanted == kind and (not dot or group is None or group == of)


def _open(windows: list[SyncWindow], how: str, moment: datetime) -> bool:
    denies = [window for window in windows if window.kind == "deny" and active(window, moment)]
    allows = [window for window in windows if window.kind == "allow"]
    if denies:
        return how == "manual" and all(window.manual_sync for window in denies)
    if not allows or any(active(window, moment) for window in allows):
        return True
    return how == "manual" and all(window.manual_sync for window in allows)


def utc(text: str) -> datetime:
    """``2026-03-29T01:30`` or with seconds, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
