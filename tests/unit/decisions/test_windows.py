"""Open or shut, by which windows, until when: the tables of conventions.md §3, our differences marked."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_windows import MINUTE, is_open, utc

from fleetbeat.decisions.windows import Verdict, ask, stamp
from fleetbeat.model_windows import SyncWindow

HOUR = 3600.0


def window(kind: str, schedule: str = "0 10 * * *", hours: float = 1, **more: Any) -> SyncWindow:
    return SyncWindow(kind, schedule, hours * HOUR, **more)  # type: ignore[arg-type]


def allow(*args: Any, **more: Any) -> SyncWindow:
    return window("allow", *args, **more)


def deny(*args: Any, **more: Any) -> SyncWindow:
    return window("deny", *args, **more)


IN, OUT = utc("2026-06-02T10:30"), utc("2026-06-02T15:00")
BY_HAND = {"manual_sync": True}

# ── P: precedence ────────────────────────────────────────────────────────────────────────────────────────────────

PRECEDENCE = {
    "P1 none": ([], OUT, True, True),
    "P2 allow, in": ([allow()], IN, True, True),
    "P3 allow, out": ([allow()], OUT, False, False),
    "P4 allow+manual, out": ([allow(**BY_HAND)], OUT, False, True),
    "P5 deny, in": ([deny()], IN, False, False),
    "P6 deny+manual, in": ([deny(**BY_HAND)], IN, False, True),
    "P7 deny, out": ([deny()], OUT, True, True),
    "P8 allow and deny, in both": ([allow(), deny()], IN, False, False),
    "P9 allow and deny+manual, in both": ([allow(), deny(**BY_HAND)], IN, False, True),
    "P11 deny+manual and deny, in": ([deny(**BY_HAND), deny()], IN, False, False),
    "P12 two denies+manual, in": ([deny(**BY_HAND), deny(hours=2, **BY_HAND)], IN, False, True),
    "P14 shut allow, shut deny": ([allow(), deny()], OUT, False, False),
    "P15 open allow, shut allow": ([allow(), allow("0 20 * * *")], IN, True, True),
    "P16 shut allow+manual, open deny": ([allow("0 20 * * *", **BY_HAND), deny()], IN, False, False),
    "P18 shut deny, shut allow+manual": ([deny(), allow(**BY_HAND)], OUT, False, True),
    # P19 (unknown kind), P20 (bad cron) and P21 (bad duration) are refused when the catalog is loaded
}


@pytest.mark.parametrize(("windows", "at", "automated", "manual"), PRECEDENCE.values(), ids=PRECEDENCE.keys())
def test_precedence(windows: list[SyncWindow], at: datetime, automated: bool, manual: bool) -> None:
    found = [ask(windows, how, at).open for how in ("automated", "self-heal", "manual")]
    assert found == [automated, automated, manual]


@pytest.mark.parametrize(("allowed", "denied"), list(product(["none", "active", "inactive"], repeat=2)))
@pytest.mark.parametrize("manual", list(product([False, True], repeat=2)), ids=str)
def test_deny_beats_allow_and_the_manual_flag_helps_manual_syncs_only(
    allowed: str, denied: str, manual: tuple[bool, bool]
) -> None:
    """Field case e8. Prune is part of a sync; self-heal counts as automated."""
    schedule = {"active": "0 10 * * *", "inactive": "0 20 * * *"}
    windows = []
    if allowed != "none":
        windows.append(allow(schedule[allowed], manual_sync=manual[0]))
    if denied != "none":
        windows.append(deny(schedule[denied], manual_sync=manual[1]))
    nobody_asked = denied != "active" and allowed != "inactive"
    somebody_asked = manual[1] if denied == "active" else allowed != "inactive" or manual[0]
    assert ask(windows, "automated", IN).open is nobody_asked
    assert ask(windows, "self-heal", IN).open is nobody_asked
    assert ask(windows, "manual", IN).open is somebody_asked


def test_any_active_allow_suffices() -> None:
    """Field case e1."""
    windows = [allow("0 9 * * 1-4", 8), allow("0 9 * * 5", 5)]
    assert ask(windows, "automated", utc("2026-06-02T10:00")).open  # a Tuesday
    assert not ask(windows, "automated", utc("2026-06-05T15:00")).open  # a Friday


# ── T: time ──────────────────────────────────────────────────────────────────────────────────────────────────────

AMSTERDAM = {"time_zone": "Europe/Amsterdam"}
TIME = {
    "T1 at the opening (Argo CD: no)": (deny(), "2026-06-02T10:00:00", True),
    "T2 right after it": (deny(), "2026-06-02T10:00:00.000001", True),
    "T3 right before the end": (deny(), "2026-06-02T10:59:59.999999", True),
    "T4 at the end": (deny(), "2026-06-02T11:00:00", False),
    "T5 a day long, at the opening (Argo CD: no)": (deny(hours=24), "2026-06-02T10:00:00", True),
    "T5 a day long, later": (deny(hours=24), "2026-06-02T10:00:01", True),
    "T7 each minute, at the minute (Argo CD: no)": (deny("* * * * *", 1 / 60), "2026-06-02T10:07:00", True),
    "T7 each minute, a second later": (deny("* * * * *", 1 / 60), "2026-06-02T10:07:01", True),
    "T8 each minute for an hour": (deny("* * * * *"), "2026-06-02T03:14:15", True),
    "T9 half a minute": (deny(hours=30 / HOUR), "2026-06-02T10:00:10", True),
    # T10 (0 s) and T11 (-1 h) are refused when the catalog is loaded
    "T12 an hour and a half": (deny(hours=1.5), "2026-06-02T11:20:00", True),
    "T13 over midnight": (deny("0 22 * * *", 4), "2026-06-02T01:30:00", True),
    "T14 from Friday to Sunday": (deny("0 22 * * 5", 60), "2026-06-07T12:00:00", True),
    "T15 the 31st, on 30 April": (deny("0 0 31 * *", 24), "2026-04-30T12:00:00", False),
    # T17 (30 February: always active in Argo CD) is refused when the catalog is loaded
    "T18 winter, in": (deny("0 22 * * *", **AMSTERDAM), "2026-01-10T21:30:00", True),
    "T18 winter, before": (deny("0 22 * * *", **AMSTERDAM), "2026-01-10T20:30:00", False),
    "T19 summer, in": (deny("0 22 * * *", **AMSTERDAM), "2026-07-10T20:30:00", True),
    "T19 summer, after": (deny("0 22 * * *", **AMSTERDAM), "2026-07-10T21:30:00", False),
    # T20 (unknown zones: UTC in Argo CD), T22 (TZ= in front) are refused; of T21, Local is refused as well
    "T21 EST": (deny("0 22 * * *", time_zone="EST"), "2026-07-10T03:30:00", True),
    "T21 Etc/GMT-2": (deny("0 22 * * *", time_zone="Etc/GMT-2"), "2026-07-10T20:30:00", True),
    # 01:00 CET + 4 h is 06:00 CEST; Argo CD ends it at 05:00 CEST, after three hours
    "T23 over the skipped hour": (deny("0 1 * * *", 4, **AMSTERDAM), "2026-03-29T03:30:00", True),
    "T23 its end": (deny("0 1 * * *", 4, **AMSTERDAM), "2026-03-29T04:00:00", False),
    "over the repeated hour, its last second": (deny("0 1 * * *", 4, **AMSTERDAM), "2026-10-25T02:59:59", True),
    "over the repeated hour, its end": (deny("0 1 * * *", 4, **AMSTERDAM), "2026-10-25T03:00:00", False),
    # 02:30 is skipped: it opens at 03:00 local for its whole hour; Argo CD has the half hour behind the jump
    "T25 opening in the skipped hour": (deny("30 2 * * *", **AMSTERDAM), "2026-03-29T01:00:00", True),
    "T25 its last second": (deny("30 2 * * *", **AMSTERDAM), "2026-03-29T01:59:59", True),
    "T25 its end": (deny("30 2 * * *", **AMSTERDAM), "2026-03-29T02:00:00", False),
}


@pytest.mark.parametrize(("one", "at", "active"), TIME.values(), ids=TIME.keys())
def test_time(one: SyncWindow, at: str, active: bool) -> None:
    assert ask([one], "automated", utc(at)).open is not active


LONDON = {"time_zone": "Europe/London"}


@pytest.mark.parametrize(
    ("one", "at", "expected"),
    [
        (allow("0 9 * * *", 3.5, **LONDON), "2024-03-29T08:15", False),
        (allow("0 9 * * *", 3.5, **LONDON), "2024-03-29T09:15", True),
        (allow("0 9 * * *", 3.5, **LONDON), "2024-04-05T08:15", True),
        (allow("0 9 * * *", 3.5, **LONDON), "2024-04-05T11:15", True),
        (allow("0 9 * * *", 3.5, **LONDON), "2024-04-05T11:45", False),
        (allow("0 22 * * 5", 8, **LONDON), "2024-01-06T03:00", True),  # Saturday of Friday's window
        (allow("30 1 * * *", 1, **LONDON), "2024-03-31T01:00", True),  # 01:30 is skipped: from 02:00 BST on
        (allow("30 1 * * *", 1, **LONDON), "2024-03-31T01:59", True),
        (allow("30 1 * * *", 1, **LONDON), "2024-03-31T02:00", False),
        (allow("30 1 * * *", 1, **LONDON), "2024-10-27T00:30", True),  # 01:30 comes twice: the first one
        (allow("30 1 * * *", 1, **LONDON), "2024-10-27T01:30", False),
        (deny("2 13 * * *", 1), "2024-06-01T10:00", True),
    ],
)
def test_zones_dst_and_midnight(monkeypatch: pytest.MonkeyPatch, one: SyncWindow, at: str, expected: bool) -> None:
    """Field case e2. The host's zone is of no importance."""
    for host in ("UTC", "Pacific/Kiritimati"):
        monkeypatch.setenv("TZ", host)
        time.tzset()
        assert ask([one], "automated", utc(at)).open is expected
    monkeypatch.undo()
    time.tzset()


# ── O: overrun ───────────────────────────────────────────────────────────────────────────────────────────────────

LATER = {"sync_overrun": True}
BEFORE, NOON = utc("2026-06-02T09:50"), utc("2026-06-02T10:30")
OVERRUN = {
    "O1 a deny opens during the sync": ([deny()], BEFORE, NOON, False),
    "O2 a deny with overrun opens": ([deny(**LATER)], BEFORE, NOON, True),
    "O3 started inside that deny": ([deny(**LATER)], utc("2026-06-02T10:10"), NOON, False),
    "O4 two denies, one without": ([deny(**LATER), deny(hours=2)], BEFORE, NOON, False),
    "O5 an allow with overrun closes": ([allow(**LATER)], NOON, utc("2026-06-02T11:30"), True),
    "O6 an allow closes": ([allow()], NOON, utc("2026-06-02T11:30"), False),
    "O7 started while the allow was shut": ([allow(**LATER)], BEFORE, utc("2026-06-02T11:30"), False),
    "O9 started in an allow with overrun, now a deny": (
        [allow(**LATER), deny("30 10 * * *")],
        utc("2026-06-02T10:10"),
        utc("2026-06-02T10:40"),
        False,
    ),
    "O11 start unknown": ([deny(**LATER)], None, NOON, False),
    "O12 started at the deny's opening (Argo CD: goes on)": ([deny(**LATER)], utc("2026-06-02T10:00"), NOON, False),
}


@pytest.mark.parametrize(("windows", "started", "at", "goes_on"), OVERRUN.values(), ids=OVERRUN.keys())
def test_overrun(windows: list[SyncWindow], started: datetime | None, at: datetime, goes_on: bool) -> None:
    assert ask(windows, "automated", at, started=started).open is goes_on


# ── kinds and scope ──────────────────────────────────────────────────────────────────────────────────────────────

DEPLOYMENT, CONFIG, CART = ("apps", "Deployment"), ("", "ConfigMap"), ("shop.example.com", "Cart")


@pytest.mark.parametrize(
    ("windows", "kinds", "expected"),
    [
        ([deny(kinds=("Deployment",))], [DEPLOYMENT], False),
        ([deny(kinds=("Deployment",))], [CONFIG], True),
        ([deny(kinds=("Deployment",))], [CONFIG, DEPLOYMENT], False),
        ([deny(kinds=("Deployment.other",))], [DEPLOYMENT], True),
        ([deny(kinds=("Cart.shop.example.com",))], [CART], False),
        ([allow(kinds=("Deployment",)), allow("0 20 * * *", kinds=("ConfigMap",))], [DEPLOYMENT], True),
        # each kind must be allowed: the Deployment's window is open, the ConfigMap's is not
        ([allow(kinds=("Deployment",)), allow("0 20 * * *", kinds=("ConfigMap",))], [DEPLOYMENT, CONFIG], False),
        ([deny(kinds=("Deployment",))], [], True),
        ([deny(kinds=("Deployment",))], None, False),
        ([allow("0 20 * * *", kinds=("ConfigMap",)), allow(kinds=("Deployment",))], None, False),
    ],
)
def test_kinds(windows: list[SyncWindow], kinds: Any, expected: bool) -> None:
    assert ask(windows, "automated", IN, kinds=kinds).open is expected


def test_a_window_of_self_healing_holds_nothing_else_up() -> None:
    healing = [deny(scope="self-heal")]
    assert [ask(healing, how, IN).open for how in ("automated", "manual", "self-heal")] == [True, True, False]


# ── by which and until when ──────────────────────────────────────────────────────────────────────────────────────


def told(
    windows: list[SyncWindow], how: Any = "automated", at: str = "2026-06-02T10:30"
) -> tuple[bool, list[int], str]:
    verdict: Verdict = ask(windows, how, utc(at))
    return verdict.open, [windows.index(one) for one in verdict.by], stamp(verdict.until) if verdict.until else ""


UNTIL = {
    "nothing at all": ([], (True, [], "")),
    "in a deny": ([deny()], (False, [0], "2026-06-02T11:00:00Z")),
    "before a deny": ([deny("0 20 * * *")], (True, [], "2026-06-02T20:00:00Z")),
    "two denies in a row": ([deny(), deny("50 10 * * *")], (False, [0], "2026-06-02T11:50:00Z")),
    "a deny that ends where an allow is shut": (
        [deny(), allow("0 20 * * *")],
        (False, [0], "2026-06-02T20:00:00Z"),
    ),
    "an allow that opens inside a deny": (
        [allow("0 20 * * *", 2), deny("0 20 * * *", 1)],
        (False, [0], "2026-06-02T21:00:00Z"),
    ),
    "an allow of which nothing is left": (
        [allow("0 20 * * *", 1), deny("0 20 * * *", 1)],
        (False, [0], ""),
    ),
    "allows that overlap": ([allow(), allow("30 10 * * *", 3)], (True, [0, 1], "2026-06-02T13:30:00Z")),
    "each day a whole day": ([deny(hours=24)], (False, [0], "")),
    "every minute": ([deny("* * * * *", 1 / 60)], (False, [0], "")),
    "every minute but in December": ([deny("* * * 1-11 *", 1 / 60)], (False, [0], "2026-12-01T00:00:00Z")),
    "every minute of weekdays": ([deny("* * * * 1-5", 1 / 60)], (False, [0], "2026-06-06T00:00:00Z")),
    "next leap day": ([deny("0 0 29 2 *")], (True, [], "2028-02-29T00:00:00Z")),
    "a masked one that flickers": ([deny(hours=3), deny("*/2 * * * *", 0.01)], (False, [0, 1], "2026-06-02T13:00:36Z")),
}


@pytest.mark.parametrize(("windows", "expected"), UNTIL.values(), ids=UNTIL.keys())
def test_by_which_and_until_when(windows: list[SyncWindow], expected: tuple[bool, list[int], str]) -> None:
    assert told(windows) == expected


def test_a_person_is_told_of_the_windows_that_hold_people_up() -> None:
    windows = [deny(hours=5, **BY_HAND), deny(hours=1)]
    assert told(windows) == (False, [0, 1], "2026-06-02T15:00:00Z")
    assert told(windows, "manual") == (False, [1], "2026-06-02T11:00:00Z")


def test_a_verdict_is_told_in_one_sentence() -> None:
    one = deny("0 9 * * *", 8.5, **LONDON, description="office hours", origin="Project web")
    assert str(ask([one], "automated", IN)) == (
        'shut until 2026-06-02T16:30:00Z by deny "0 9 * * *" for 8h30m in Europe/London (Project web: office hours)'
    )
    assert str(ask([], "automated", IN)) == "open"


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────

SCHEDULES = [
    "0 10 * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "30 1 ? * SUN",
    "0 */5 * * *",
    "* * * * *",
    "15,45 22-23 29 3,4 6",
    "5 1 25 OCT *",
    "10/20 0 */2 * 0,5-6",
]
some_window = st.builds(
    SyncWindow,
    kind=st.sampled_from(["allow", "deny"]),
    schedule=st.sampled_from(SCHEDULES),
    duration=st.sampled_from([30.0, 60.0, 420.0, 5400.0, 4 * HOUR]),
    time_zone=st.sampled_from(
        ["UTC", "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "America/Santiago"]
    ),
    kinds=st.sampled_from([(), (), ("Deployment",), ("Cart.shop.example.com", "ConfigMap")]),
    manual_sync=st.booleans(),
    sync_overrun=st.booleans(),
    scope=st.sampled_from(["all", "all", "all", "self-heal"]),
)
written = st.sampled_from([None, [], [DEPLOYMENT], [CONFIG, ("other.example.com", "Cart")], [DEPLOYMENT, CART]])
ago = st.sampled_from([None, None, timedelta(0), timedelta(minutes=7), timedelta(hours=2)])
hows = st.sampled_from(["automated", "manual", "self-heal"])
moments = st.builds(
    lambda change, seconds: utc(change) + timedelta(seconds=seconds),
    st.sampled_from(
        [
            *("2026-03-29T01:00", "2026-10-25T01:00", "2026-03-08T07:00", "2026-11-01T06:00"),
            *("2026-04-04T15:00", "2026-10-03T15:30", "2026-04-05T03:00", "2026-09-06T04:00"),
        ]
    ),
    st.integers(-9 * 3600, 9 * 3600),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(some_window, max_size=4), hows, moments, written, ago)
def test_at_any_instant_the_decision_is_that_of_counting_minutes(
    windows: list[SyncWindow], how: Any, at: datetime, kinds: Any, since: timedelta | None
) -> None:
    started = None if since is None else at - since
    expected = is_open(windows, how, at, kinds=kinds, started=started)
    assert ask(windows, how, at, kinds=kinds, started=started).open is expected


@settings(max_examples=20, deadline=None)
@given(st.lists(some_window, max_size=3), hows, moments)
def test_until_is_the_first_minute_with_another_answer(windows: list[SyncWindow], how: Any, at: datetime) -> None:
    verdict = ask(windows, how, at)
    step = MINUTE / 2  # durations are multiples of it
    moment = at.replace(second=at.second // 30 * 30) + step
    while moment < at + timedelta(hours=4) and (verdict.until is None or moment < verdict.until):
        assert is_open(windows, how, moment) is verdict.open
        moment += step
    if verdict.until is not None and verdict.until < at + timedelta(days=3):
        assert is_open(windows, how, verdict.until) is not verdict.open


def test_ten_thousand_windows_are_decided_on_at_once() -> None:
    windows = [
        window(("allow", "deny")[number % 2], f"{number % 60} {number // 60 % 24} * * {number % 7}", 0.5, **LONDON)
        for number in range(10_000)
    ]
    ask(windows, "automated", IN)  # schedules are read once
    began = time.process_time()
    ask(windows, "automated", IN + timedelta(hours=1))
    assert time.process_time() - began < 6.0  # half a second on a machine that has nothing else to do


def test_of_thousands_of_windows_the_next_opening_is_found_by_asking_again() -> None:
    """Each question looks a little ahead; whoever asks again when it is sure of no more misses nothing."""
    crowd = [
        deny(f"{minute % 60} {minute // 60} * * *", 90 / HOUR) for minute in range(1440) if not 1320 <= minute < 1325
    ]
    at, asked = utc("2026-06-02T20:30"), 0
    while not (verdict := ask(crowd * 4, "automated", at)).open:
        assert verdict.until in (None, verdict.sure)
        assert verdict.sure > at
        at, asked = verdict.sure, asked + 1
    assert at == utc("2026-06-02T22:00:30")
    assert asked > 1


def test_where_looking_ahead_ends_the_answer_says_no_more_than_it_knows() -> None:
    """Two windows that between them are always open until the month is over, 14,000 openings away."""
    evens, odds = allow("*/2 * * 1-11 *", 1 / 60), allow("1-59/2 * * 1-11 *", 1 / 60)
    at, end = utc("2026-11-20T20:30"), utc("2026-12-01T00:00")
    verdict = ask([evens, odds], "automated", at)
    assert verdict.open
    assert verdict.until is None
    assert not verdict.settled
    assert at < verdict.sure < end
    assert str(verdict).startswith(f"open at least until {stamp(verdict.sure)}")
    assert ask([evens], "automated", at).settled
    assert ask([], "automated", at).settled
