"""When a silent API server is asked, and when not."""

from __future__ import annotations

import pytest

from fleetbeat.clients.breaker import FIRST_PAUSE, LONGEST_PAUSE, PROBE_LIFE, Breaker


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> Breaker:
    return Breaker(clock)


def silence(breaker: Breaker, clock: Clock, seconds: float = 30) -> None:
    """One request that runs into its time-out."""
    began = breaker.now()
    clock.now += seconds
    breaker.silent(began)


def test_a_server_that_speaks_is_asked(breaker: Breaker) -> None:
    assert breaker.refusal() is None
    breaker.heard()
    assert breaker.refusal() is None


def test_a_silent_server_is_asked_by_one_at_a_time(breaker: Breaker, clock: Clock) -> None:
    """Field cases j9, k1."""
    silence(breaker, clock)
    assert breaker.refusal() == "silent for 0 s; requests wait until one has been answered"
    clock.now += FIRST_PAUSE
    assert breaker.refusal() is None, "the probe"
    assert breaker.refusal() is not None, "the others"
    breaker.heard()
    assert breaker.refusal() is None


def test_probes_in_vain_become_rare(breaker: Breaker, clock: Clock) -> None:
    silence(breaker, clock)
    pauses = []
    for _ in range(8):
        asleep = clock.now
        while breaker.refusal():
            clock.now += 0.5
        pauses.append(clock.now - asleep)
        silence(breaker, clock)
    assert pauses == [FIRST_PAUSE, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_requests_that_fell_silent_together_count_once(breaker: Breaker, clock: Clock) -> None:
    began = breaker.now()
    clock.now += 30
    for _ in range(16):
        breaker.silent(began)
    clock.now += FIRST_PAUSE
    assert breaker.refusal() is None


def test_one_slow_request_among_answered_ones_is_no_silence(breaker: Breaker, clock: Clock) -> None:
    began = breaker.now()
    clock.now += 20
    breaker.heard()
    clock.now += 10
    breaker.silent(began)
    assert breaker.refusal() is None


def test_a_probe_that_never_comes_back_is_not_waited_for(breaker: Breaker, clock: Clock) -> None:
    silence(breaker, clock)
    clock.now += FIRST_PAUSE
    assert breaker.refusal() is None
    clock.now += PROBE_LIFE
    assert breaker.refusal() is None
