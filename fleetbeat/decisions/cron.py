"""Five fields of cron: what Argo CD's library accepts, less what hardly anybody means, and the times they name.

``minute hour day-of-month month day-of-week``, each ``*`` or ``?``, a number, a range, ``/step``, or a comma list of
these; months and days of the week by name too. Where both days are given either will do, as everywhere in cron.
Refused are a prefix ``TZ=``, ``@daily`` and the like, six fields, ``L``, ``#``, ``H``, ranges that wrap around, 7 for
Sunday, and dates that never come (docs/windows.md).
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from fleetbeat.errors import FleetbeatError

_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}


class CronProblem(FleetbeatError):
    """A schedule that cannot be read; the text says what is wrong and what to write."""


@dataclass(frozen=True, eq=False)
class Schedule:
    """The values each field names, sorted. ``parse`` gives the same one for the same text."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]  #: of the month
    months: tuple[int, ...]
    weekdays: tuple[int, ...]  #: 0 = Sunday
    either: bool  #: both kinds of days are given: one of them is enough

    @property
    def every_hour(self) -> bool:
        return len(self.hours) == 24


@lru_cache(maxsize=16384)
def parse(text: str) -> Schedule:
    """Raises CronProblem."""
    if re.match(r"\s*(CRON_)?TZ=", text):
        raise CronProblem("a zone in front is not accepted: write it under timeZone")
    if text.lstrip().startswith("@"):
        raise CronProblem(f"{text.strip()} is not accepted: write the five fields, e.g. 0 0 * * * for every midnight")
    fields = text.split()
    if len(fields) != 5:
        raise CronProblem(
            f"has {len(fields)} fields, not 5: minute, hour, day of month, month, day of week, e.g. 0 22 * * 1-5"
        )
    minutes = _field(fields[0], "minute", 0, 59)
    hours = _field(fields[1], "hour", 0, 23)
    days = _field(fields[2], "day of month", 1, 31)
    months = _field(fields[3], "month", 1, 12, _MONTHS)
    weekdays = _field(fields[4], "day of week", 0, 6, _DAYS)
    either = not (_is_any(fields[2]) or _is_any(fields[4]))
    schedule = Schedule(minutes, hours, days, months, weekdays, either)
    if not either and days[0] > max(_longest(month) for month in months):
        raise CronProblem(f"day {fields[2]} of month {fields[3]} never comes")
    return schedule


def _is_any(field: str) -> bool:
    """Argo CD's rule: a star that is one of the items, with no step but 1."""
    return any(re.fullmatch(r"[*?](/0*1)?", item) for item in field.split(","))


def _longest(month: int) -> int:
    return calendar.monthrange(2000, month)[1]  # a leap year


def _field(text: str, what: str, low: int, high: int, names: Mapping[str, int] | None = None) -> tuple[int, ...]:
    found: set[int] = set()
    for item in text.split(","):
        found |= _item(item, what, low, high, names or {})
    return tuple(sorted(found))


def _item(text: str, what: str, low: int, high: int, names: Mapping[str, int]) -> set[int]:
    span, slash, step_text = text.partition("/")
    step = 1
    if slash:
        if not _is_number(step_text) or int(step_text) == 0:
            raise CronProblem(f"{what} {text!r}: the step behind / must be a whole number from 1")
        step = int(step_text)
    if span in ("*", "?"):
        return set(range(low, high + 1, step))
    first_text, dash, last_text = span.partition("-")
    first = _value(first_text, text, what, low, high, names)
    alone = high if slash else first  # 5/15 runs to the end
    last = _value(last_text, text, what, low, high, names) if dash else alone
    if first > last:
        raise CronProblem(f"{what} {text!r}: a range does not wrap around. Write two, e.g. {span.replace('-', ',')}")
    return set(range(first, last + 1, step))


def _value(word: str, text: str, what: str, low: int, high: int, names: Mapping[str, int]) -> int:
    if word.upper() in names:
        return names[word.upper()]
    if not _is_number(word):
        known = f" or {', '.join(names)}" if names else ""
        raise CronProblem(f"{what} {text!r}: {word!r} is not a number from {low} to {high}{known}")
    value = int(word)
    if not low <= value <= high:
        sunday = ". Sunday is 0" if what == "day of week" and value == 7 else ""
        raise CronProblem(f"{what} {text!r}: must be from {low} to {high}{sunday}")
    return value


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9
