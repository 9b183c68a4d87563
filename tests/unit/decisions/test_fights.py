"""When a field that somebody else changes each time is left alone, and for how long."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbeat.decisions.fights import (
    MANY,
    WHOLE,
    Dispute,
    Limits,
    after_run,
    changed,
    collapsed,
    condition,
    from_json,
    healed,
    to_json,
    told,
)
from fleetbeat.model import ObjectId

LIMITS = Limits()
NOW = 1_796_000_000_000
SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
KEY = ObjectId("", "ConfigMap", "shop", "web")


def play(
    times: list[int], limits: Limits = LIMITS, party: str = "operator", dispute: Dispute | None = None
) -> tuple[list[int], Dispute | None]:
    """The other party changes the field again at once; looks at these times. Returns when it was healed."""
    heals: list[int] = []
    for now in times:
        dispute = changed(dispute, party, now, limits)
        if not dispute.stands(now, limits):
            dispute = healed(dispute, party, now, limits)
            heals.append(now)
    return heals, dispute


def test_three_heals_and_then_growing_truces():
    heals, _ = play(list(range(NOW, NOW + 5 * HOUR, SECOND)))
    gaps = [(b - a) // SECOND for a, b in itertools.pairwise(heals)]
    # Found changed again a second after each heal: then the truce begins.
    assert gaps[:9] == [1, 1, 61, 121, 241, 481, 961, 1921, 3601]
    assert set(gaps[9:]) == {3601}


def test_writes_per_hour_are_bounded_however_often_it_is_looked_at():
    for every in (50, SECOND, 7 * SECOND, MINUTE, 3 * MINUTE, 11 * MINUTE):
        heals, _ = play(list(range(NOW, NOW + 6 * HOUR, every)))
        for start in range(NOW, NOW + 5 * HOUR, 10 * MINUTE):
            assert sum(start <= at < start + HOUR for at in heals) <= 9, every


@pytest.mark.parametrize(
    ("attempt", "seconds"), [(0, 60), (1, 120), (2, 240), (5, 1920), (6, 3600), (7, 3600), (1000, 3600)]
)
def test_pauses_grow_up_to_the_cap_and_never_fall(attempt: int, seconds: float):
    """Field case f2."""
    assert LIMITS.pause_after(attempt) == seconds
    assert LIMITS.pause <= LIMITS.pause_after(attempt) <= LIMITS.pause_after(attempt + 1) <= LIMITS.longest


CASES = [
    # what is remembered, when it is found changed (seconds after the last of it), is it left alone?
    pytest.param(None, 0, False, id="first time"),
    pytest.param(Dispute((0,), last=0), 1, False, id="second time"),
    pytest.param(Dispute((-20, -10, 0), last=0), 2, True, id="three heals within the time"),
    pytest.param(Dispute((-700, -10, 0), last=0), 2, False, id="three heals in a longer time"),
    pytest.param(Dispute((-20, -10, 0), last=0), 599, False, id="the oldest heal is out of the time by now"),
    pytest.param(Dispute((-20, -10, 0), 1, 60, 0), 59, True, id="within the truce"),
    pytest.param(Dispute((-20, -10, 0), 1, 60, 0), 60, False, id="once after the truce"),
    pytest.param(Dispute((-10, 0, 60), 1, 60, 60), 62, True, id="that did not last: next truce"),
    pytest.param(Dispute((-10, 0, 60), 1, 60, 60), 60 + 3599, True, id="it lasted for not quite long enough"),
    pytest.param(Dispute((-10, 0, 60), 1, 60, 60), 60 + 3601, False, id="quiet for long enough: as new"),
    pytest.param(Dispute((-20, -10, 0), 900, 3600, 0), 3599, True, id="a truce of the longest kind"),
    pytest.param(Dispute((-20, -10, 0), 9, 99_999, 0), 2, False, id="its end was noted by a clock that went back"),
    pytest.param(Dispute((500, 600, 700), last=700), 2, False, id="heals noted by a clock that went back"),
]


@pytest.mark.parametrize(("before", "seconds", "left"), CASES)
def test_left_or_healed(before: Dispute | None, seconds: int, left: bool):
    moved = before and Dispute(
        tuple(NOW + at * SECOND for at in before.heals),
        before.truces,
        before.until and NOW + before.until * SECOND,
        NOW + before.last * SECOND,
    )
    now = NOW + seconds * SECOND
    assert changed(moved, "operator", now, LIMITS).stands(now, LIMITS) is left


def test_a_success_in_between_is_no_reason_to_begin_anew():
    """Field case f2: drift two seconds after each success is still one fight."""
    _, dispute = play([NOW + n * 2 * SECOND for n in range(4)])
    assert dispute is not None
    assert (dispute.truces, dispute.until) == (1, NOW + 6 * SECOND + MINUTE)


def test_twelve_heals_that_did_not_last_are_forgotten_after_a_quiet_hour_and_not_before():
    """Field case f2: the delay neither stays for a later one-off drift, nor is it gone after each success."""
    dispute: Dispute | None = None
    heals: list[int] = []
    now = NOW
    while len(heals) < 12:
        healed_now, dispute = play([now], dispute=dispute)
        heals += healed_now
        now += 2 * SECOND
    last = heals[-1]  # this one lasts
    soon = last + 59 * MINUTE
    assert changed(dispute, "operator", soon, LIMITS).until == soon + HOUR, "as long as the longest"
    later = [last + HOUR + n * 2 * SECOND for n in range(1, 5)]
    anew, fought = play(later, party="kubectl-edit", dispute=dispute)
    assert anew == later[:3]
    assert fought is not None
    assert (fought.truces, fought.until) == (1, later[3] + MINUTE), "as short as the first"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=20 * MINUTE), max_size=300))
def test_whatever_the_rhythm_the_bound_holds(pauses: list[int]):
    """No rhythm makes the two write alternately more often than three times in ten minutes, for long."""
    heals, dispute = play(list(itertools.accumulate(pauses, initial=NOW)))
    for at in heals:
        assert sum(at <= other < at + HOUR for other in heals) <= 18
        assert sum(at <= other <= at + 10 * MINUTE for other in heals) <= 6
    assert dispute is not None
    assert len(dispute.heals) <= LIMITS.heals


def test_who_has_removed_something_is_not_known_but_who_had_it_before_stays():
    dispute = healed(None, "operator", NOW, LIMITS)
    assert changed(dispute, "", NOW + SECOND, LIMITS).party == "operator"


@pytest.mark.parametrize(
    ("field", "party", "text"),
    [
        pytest.param(
            "data.k",
            "operator",
            "Conflict: data.k of ConfigMap shop/web is rewritten by operator each time fleetbeat puts it back; "
            "left alone until 2026-11-29T23:33:20Z",
            id="both parties",
        ),
        pytest.param(
            "data.k",
            "",
            "Conflict: data.k of ConfigMap shop/web is removed by somebody whom only the cluster's audit log knows "
            "each time fleetbeat puts it back; left alone until 2026-11-29T23:33:20Z",
            id="removed",
        ),
        pytest.param(
            WHOLE,
            "",
            "Conflict: ConfigMap shop/web is deleted by somebody whom only the cluster's audit log knows "
            "each time fleetbeat puts it back; left alone until 2026-11-29T23:33:20Z",
            id="deleted",
        ),
    ],
)
def test_in_words(field: str, party: str, text: str):
    dispute = Dispute((NOW,), 1, 1_795_995_200_000, NOW, party)
    assert told(field, dispute, KEY) == text
    shown = condition(KEY, field, dispute)
    assert shown["message"] == text
    assert shown["parties"] == ["fleetbeat", party or "unknown"]


def test_after_a_run_only_what_is_alive_is_remembered():
    quiet = Dispute((NOW - 3 * HOUR,), last=NOW - 2 * HOUR)
    fresh = Dispute((NOW - MINUTE,), last=NOW - MINUTE)
    truce = Dispute((NOW - 1,), 1, NOW + MINUTE, NOW, "operator")
    other = ObjectId("", "ConfigMap", "shop", "other")
    found = after_run(
        {KEY: {"data.a": quiet, "data.b": fresh}, other: {"data.a": quiet}},
        {KEY: {"data.c": truce}},
        {KEY: [("data.b", "x"), ("data.d", "y")]},
        NOW,
        LIMITS,
    )
    assert found == {
        KEY: {
            "data.b": Dispute((NOW - MINUTE, NOW), last=NOW, party="x"),
            "data.c": truce,
            "data.d": Dispute((NOW,), last=NOW, party="y"),
        }
    }
    assert from_json(to_json(found)) == found


def test_many_fields_of_one_object_are_one_dispute():
    few = [(f"data.{n}", "x") for n in range(MANY)]
    assert collapsed([*few, few[0]]) == tuple(few)
    assert collapsed([*few, ("data.more", "x")]) == ((WHOLE, "x"),)
