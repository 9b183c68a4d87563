"""May a sync write now, by which windows, and until when? Argo CD's procedure on half-open windows. Pure.

Of the windows that match an application (window_match.py)::

    a deny is active                 shut, but for who asks, if all active denies have manualSync
    else an allow is active          open
    else there is an allow           shut, but for who asks, if all allows have manualSync
    else                             open

A window is active from its opening on (included) for its duration (its end excluded).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from fleetbeat.decisions import cron, cron_times
from fleetbeat.decisions.window_match import is_about
from fleetbeat.decisions.zones import zone
from fleetbeat.model_windows import SyncWindow

#: Who would write: a sync nobody asked for, one that puts back a change by hand, one that somebody asked for.
How = Literal["automated", "self-heal", "manual"]
#: (group, kind) of an object a sync would write; group None = any
Kind = tuple[str | None, str]

_NEVER = datetime.max.replace(tzinfo=UTC)
#: How far ahead a change is looked for, and how much may be looked at on the way: openings and ends of single windows,
#: and all of them together, which is a fiftieth of that for each.
_HORIZON = timedelta(days=10 * 366)
_MOST_LOOKS = 3000


@dataclass(frozen=True)
class Verdict:
    open: bool
    by: tuple[SyncWindow, ...]  #: those that make it so; none when it is open because nothing is against it
    until: datetime | None  #: UTC, the first moment with another answer; None = none in sight
    sure: datetime  #: UTC, the answer is the same at least until then; later than ``until`` never
    settled: bool = True  #: False: it was too much to look further than ``sure``, and it may change soon after

    def __str__(self) -> str:
        """``shut until 2026-11-30T22:00:00Z by deny "0 9 * * *" for 8h (Project web: office hours)``."""
        word = "open" if self.open else "shut"
        until = f" until {stamp(self.until)}" if self.until else ""
        until = until if self.settled else f" at least until {stamp(self.sure)}"
        by = "; ".join(str(window) for window in self.by[:3])
        more = f" and {len(self.by) - 3} more" if len(self.by) > 3 else ""
        return f"{word}{until}" + (f" by {by}{more}" if by else "")


def stamp(moment: datetime) -> str:
    """RFC 3339 in UTC, fractions of a second only where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def ask(
    windows: Iterable[SyncWindow],
    how: How,
    at: datetime,
    *,
    kinds: Collection[Kind] | None = None,
    started: datetime | None = None,
) -> Verdict:
    """``windows``: those that match the application; schedules and zones have been checked when they were loaded.

    ``kinds``: what the sync would write; it has to be allowed for each. None = whatever any window is about.
    ``started``: when a sync under way began to write; windows with syncOverrun let it finish what was allowed then.
    """
    relevant = [window for window in windows if window.scope == "all" or how == "self-heal"]
    groups = _by_kind(relevant, kinds)
    tracks = [_Track(window, at) for window in relevant]
    answer = _decide(groups, tracks, how)
    if not answer.open and started is not None and _overruns(groups, tracks, relevant, how, started):
        return Verdict(True, answer.by, None, at)
    until, sure = _change(groups, tracks, how, answer, at)
    return Verdict(answer.open, answer.by, until, sure, settled=until is not None or sure >= at + _HORIZON)


# ── now ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Track:
    """One window at one moment. Moved on in time, it is looked up anew only when its ``edge`` has passed."""

    __slots__ = ("active", "edge", "manual", "window")

    def __init__(self, window: SyncWindow, at: datetime) -> None:
        self.window = window
        self.manual = window.manual_sync
        self.move(at)

    def move(self, at: datetime) -> None:
        schedule, place = cron.parse(self.window.schedule), zone(self.window.time_zone)
        opened = cron_times.latest(schedule, place, at)
        length = timedelta(seconds=self.window.duration)
        self.active = opened is not None and at < opened + length
        #: Active at least until then (a later opening may go on from it), or not active before then.
        if self.active and opened is not None:
            self.edge = cron_times.lasting(schedule, place, opened, length)
        else:
            self.edge = cron_times.following(schedule, place, at) or _NEVER


@dataclass(frozen=True)
class _Answer:
    open: bool
    by: tuple[SyncWindow, ...]
    edge: datetime  #: the answer is the same at least until then


def _by_kind(windows: Sequence[SyncWindow], kinds: Collection[Kind] | None) -> list[tuple[int, ...]]:
    """Positions of the windows that count for each kind, the same ones once."""
    if kinds is None:
        named = {kind for window in windows for kind in window.kinds}
        kinds = [(group if dot else None, name) for name, dot, group in (kind.partition(".") for kind in sorted(named))]
        groups = {tuple(n for n, window in enumerate(windows) if not window.kinds)}
    else:
        groups = set()
    groups |= {tuple(n for n, window in enumerate(windows) if is_about(window, *kind)) for kind in kinds}
    return sorted(groups)


def _decide(groups: Sequence[tuple[int, ...]], tracks: Sequence[_Track], how: How) -> _Answer:
    """Open when it is for every kind."""
    answers = [_decide_one([tracks[n] for n in group], how) for group in groups]
    shut = [answer for answer in answers if not answer.open]
    by = tuple(dict.fromkeys(window for answer in shut or answers for window in answer.by))
    if shut:  # as long as one of them is
        return _Answer(False, by, max(answer.edge for answer in shut))
    return _Answer(True, by, min((answer.edge for answer in answers), default=_NEVER))


def _decide_one(tracks: Sequence[_Track], how: How) -> _Answer:
    manual = how == "manual"
    denies = [track for track in tracks if track.window.kind == "deny"]
    allows = [track for track in tracks if track.window.kind == "allow"]
    active = [track for track in denies if track.active]
    against = [track for track in active if not (manual and track.manual)]
    next_against = min((t.edge for t in denies if not t.active and not (manual and t.manual)), default=_NEVER)
    if against:
        return _Answer(False, _of(against), _last(against))
    if active:
        return _Answer(True, _of(active), min(next_against, _last(active)))
    opened = [track for track in allows if track.active]
    if opened:
        return _Answer(True, _of(opened), min(next_against, _last(opened)))
    refusing = [track for track in allows if not (manual and track.manual)]
    if refusing:
        # An active deny with manualSync lets a person through where a shut allow would not.
        ways = [*allows, *(track for track in denies if manual and track.manual)]
        return _Answer(False, _of(refusing), min(track.edge for track in ways))
    return _Answer(True, _of(allows), next_against)


def _of(tracks: Iterable[_Track]) -> tuple[SyncWindow, ...]:
    return tuple(track.window for track in tracks)


def _last(tracks: Iterable[_Track]) -> datetime:
    return max(track.edge for track in tracks)


# ── a sync under way ─────────────────────────────────────────────────────────────────────────────────────────────


def _overruns(
    groups: Sequence[tuple[int, ...]],
    tracks: Sequence[_Track],
    windows: Sequence[SyncWindow],
    how: How,
    started: datetime,
) -> bool:
    """Do the windows that shut it now let a sync go on that was allowed when it started?"""
    then = [_Track(window, started) for window in windows]
    for group in groups:
        now = [tracks[n] for n in group]
        if _decide_one(now, how).open:
            continue
        denies = [track for track in now if track.window.kind == "deny" and track.active]
        asked = denies or [track for track in now if track.window.kind == "allow"]
        if not all(track.window.sync_overrun for track in asked):
            return False
        if not _decide_one([then[n] for n in group], how).open:
            return False
    return True


# ── when it changes ──────────────────────────────────────────────────────────────────────────────────────────────


def _change(
    groups: Sequence[tuple[int, ...]], tracks: Sequence[_Track], how: How, answer: _Answer, at: datetime
) -> tuple[datetime | None, datetime]:
    """The first moment with another answer, None = none in sight, and how far ahead was looked.

    Moves from edge to edge, over all that cannot matter before.
    """
    now, wanted = answer, not answer.open
    limit, looks = at + _HORIZON, 0
    while now.edge < limit and looks < _MOST_LOOKS:
        moment = now.edge
        looks += len(tracks) // 50
        for track in tracks:
            if track.edge <= moment:
                track.move(moment)
                looks += 1
        now = _decide(groups, tracks, how)
        if now.open is wanted:
            return moment, moment
    return None, now.edge
