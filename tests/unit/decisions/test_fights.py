"""When a field that somebody else changes each time is left alone, and for how long."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbeat.decisions.fights import (
    ANY,
    MANY,
    WHOLE,
    Dispute,
    Limits,
    changed,
    collapsed,
    condition,
    from_json,
    healed,
    to_json,
    told,
)
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Drifted, Manager

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
    pytest.param(Dispute((500, 600, 700), last=700), 2, True, id="the clock went back: its heals go with it"),
    pytest.param(Dispute((0, 350, 700), last=700), 2, False, id="and are as far apart as they were"),
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


OFTEN = Limits(heals=10, within=600, pause=2, longest=300, factor=3)


def test_an_object_is_healed_ten_times_at_once_and_then_as_argo_cd_would():
    """Field case f2: 2, 6, 18, 54, 162 and 300 seconds, never less again, as long as it goes on."""
    heals, dispute = play(list(range(NOW, NOW + 3 * HOUR, SECOND // 2)), OFTEN)
    gaps = [(b - a) / SECOND for a, b in itertools.pairwise(heals)]
    assert gaps[:15] == [0.5] * 9 + [2.5, 6.5, 18.5, 54.5, 162.5, 300.5]
    assert set(gaps[14:]) == {300.5}
    assert sum(at < NOW + HOUR for at in heals) == 26
    assert dispute is not None
    assert len(dispute.heals) == 10


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(0, 2), (1, 6), (2, 18), (3, 54), (4, 162), (5, 300), (6, 300), (1000, 300), (10**9, 300)],
)
def test_pauses_of_an_object_grow_up_to_the_cap(attempt: int, seconds: float):
    """Field case f2: no overflow at whatever attempt, never below the base."""
    assert OFTEN.pause_after(attempt) == seconds


def test_a_quiet_time_ends_the_back_off_and_nothing_else_does():
    """Field case f2: 12 heals, quiet for an hour, one drift is healed at once; drift 2 s after each success is not."""
    heals, dispute = play([NOW + n * 2 * SECOND for n in range(40)], OFTEN)
    assert dispute is not None
    assert dispute.truces == 4
    assert len(heals) == 10 + 3
    later = NOW + HOUR
    assert not changed(dispute, "operator", later, OFTEN).stands(later, OFTEN)
    assert healed(dispute, "operator", later, OFTEN) == Dispute((later,), last=later, party="operator")


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(min_value=1, max_value=20 * MINUTE), max_size=300))
def test_heals_of_an_object_are_bounded_whatever_the_rhythm(pauses: list[int]):
    heals, _ = play(list(itertools.accumulate(pauses, initial=NOW)), OFTEN)
    for at in heals:
        assert sum(at <= other <= at + 10 * MINUTE for other in heals) <= 20
        assert sum(at <= other < at + HOUR for other in heals) <= 70


def by(name: str) -> Manager:
    return Manager(name, "Update", "2026-11-30T14:03:11Z")


def test_many_fields_of_one_object_are_one_dispute():
    few = [Drifted(f"data.{n}", by("x")) for n in range(MANY)]
    assert collapsed([*few, few[0]]) == tuple(few)
    assert collapsed([*few, Drifted("data.more", by("x"))]) == (Drifted(WHOLE, by("x")),)
    assert collapsed([Drifted("data.k"), Drifted("data.k", by("x"))]) == (Drifted("data.k", by("x")),)


def test_a_back_off_in_words():
    ends = 1_795_995_200_000
    dispute = Dispute(tuple(ends - at * SECOND for at in (250, 240, 11)), 1, ends, ends - 2 * SECOND, "kubectl-edit")
    text = (
        "BackOff: ConfigMap shop/web was healed 3 times in 4 min, next at 2026-11-29T23:33:20Z; changed by kubectl-edit"
    )
    assert told(ANY, dispute, KEY) == text
    shown = condition(KEY, ANY, dispute)
    assert shown["message"] == text
    assert (shown["type"], shown["reason"], shown["heals"]) == ("BackOff", "HealedOften", 3)
    assert shown["until"] == "2026-11-29T23:33:20Z"
    unknown = told(ANY, Dispute((ends - 5 * SECOND,), 1, ends, ends), KEY)
    assert unknown.endswith(
        "in 5 s, next at 2026-11-29T23:33:20Z; changed by somebody whom only the cluster's audit log knows"
    )


def test_disputes_travel_in_a_plan():
    disputes = {KEY: {"data.k": Dispute((NOW,), 1, NOW + MINUTE, NOW, "operator"), ANY: Dispute((1, 2))}}
    assert from_json(to_json(disputes)) == disputes


@pytest.mark.parametrize("limits", [LIMITS, Limits(heals=10, within=300, pause=2, longest=300, factor=3)])
@pytest.mark.parametrize("back", [2 * SECOND, 10 * MINUTE, HOUR, 48 * HOUR])
def test_heals_are_bounded_too_when_the_servers_clock_goes_back(limits: Limits, back: int) -> None:
    """Field case j4: heals noted in the future, and a pause that ends there."""
    before, dispute = play(list(range(NOW, NOW + 30 * MINUTE, SECOND)), limits)
    began = NOW + 30 * MINUTE - back
    after, _ = play(list(range(began, began + 2 * HOUR, SECOND)), limits, dispute=dispute)
    assert len(before) < 30
    assert 1 < len(after) < 40
    longest = int(max(limits.longest, limits.pause) * 1000) + SECOND
    assert all(b - a <= longest for a, b in itertools.pairwise([began, *after]))
