"""Sync windows told the slow way: minute by minute, straight from the rules, for the fast way to be compared with."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from fleetbeat.decisions.cron import Schedule, parse
from fleetbeat.decisions.zones import zone
from fleetbeat.model_windows import SyncWindow

MINUTE = timedelta(minutes=1)


def names(schedule: Schedule, wall: datetime) -> bool:
    """Does the schedule name this time of the clock on the wall?"""
    weekday = wall.isoweekday() % 7
    in_month, in_week = wall.day in schedule.days, weekday in schedule.weekdays
    day = in_month or in_week if schedule.either else in_month and in_week
    return day and wall.month in schedule.months and wall.hour in schedule.hours and wall.minute in schedule.minutes


def opens(window: SyncWindow, moment: datetime) -> bool:
    """Does it open at this full minute?"""
    return _opens(window.schedule, window.time_zone, moment)


@lru_cache(maxsize=100_000)
def _opens(text: str, zone_name: str, moment: datetime) -> bool:
    schedule, place = parse(text), zone(zone_name)
    now, before = moment.astimezone(place), (moment - MINUTE).astimezone(place)
    wall, last = now.replace(tzinfo=None, fold=0), before.replace(tzinfo=None, fold=0)
    while (last := last + MINUTE) < wall:  # the clock has skipped these
        if names(schedule, last):
            return True
    return names(schedule, wall) and (now.fold == 0 or len(schedule.hours) == 24)


def active(window: SyncWindow, moment: datetime) -> bool:
    minute = moment.replace(second=0, microsecond=0)
    while moment < minute + timedelta(seconds=window.duration):
        if opens(window, minute):
            return True
        minute -= MINUTE
    return False


def is_open(windows: Iterable[SyncWindow], how: str, moment: datetime) -> bool:
    relevant = [window for window in windows if window.scope == "all" or how == "self-heal"]
    denies = [w for w in relevant if w.kind == "deny" and active(w, moment)]
    allows = [w for w in relevant if w.kind == "allow"]
    if denies:
        return how == "manual" and all(w.manual_sync for w in denies)
    if not allows or any(active(w, moment) for w in allows):
        return True
    return how == "manual" and all(w.manual_sync for w in allows)


def utc(text: str) -> datetime:
    """``2026-03-29T01:30`` or with seconds, in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
