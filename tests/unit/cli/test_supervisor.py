"""Restarts of `fleetbeat up`, on a clock that is told the time."""

# ruff: noqa: ARG002 - fakes have the signature of what they stand for
from __future__ import annotations

from pathlib import Path

import pytest

from fleetbeat.cli.supervisor import Supervisor
from fleetbeat.local.process import LocalError


class Part:
    name = "worker-1"
    log = Path("worker-1.log")

    def __init__(self) -> None:
        self.alive = False
        self.exit_code: int | None = None
        self.starts = 0
        self.broken = False

    def start(self) -> None:
        if self.broken:
            raise LocalError("worker-1 cannot be started: no such program")
        self.starts += 1
        self.alive = True

    def stop(self, grace: float) -> None:
        self.alive = False

    def die(self, code: int) -> None:
        self.alive, self.exit_code = False, code


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def supervisor(clock: Clock, said: list[str]) -> Supervisor:
    return Supervisor(said.append, clock=clock)


def test_a_death_is_told_and_mended_after_a_second(supervisor: Supervisor, clock: Clock, said: list[str]) -> None:
    part = Part()
    supervisor.start(part)
    part.die(-9)
    supervisor.check()
    assert said == ["worker-1 was ended by signal 9; started again in 1 s. Its log: worker-1.log"]
    clock.now = 0.9
    supervisor.check()
    assert part.starts == 1
    clock.now = 1.0
    supervisor.check()
    assert part.starts == 2
    assert said[1:] == ["worker-1 started again"]


def test_pauses_double_up_to_half_a_minute(supervisor: Supervisor, clock: Clock, said: list[str]) -> None:
    part = Part()
    supervisor.start(part)
    for _ in range(8):
        part.die(1)
        supervisor.check()
        clock.now += 30
        supervisor.check()
    pauses = [line.partition("again in ")[2].partition(" s")[0] for line in said if "again in" in line]
    assert pauses == ["1", "2", "4", "8", "16", "30", "30", "30"]


def test_a_long_life_forgives_earlier_deaths(supervisor: Supervisor, clock: Clock, said: list[str]) -> None:
    part = Part()
    supervisor.start(part)
    for _ in range(3):
        part.die(1)
        supervisor.check()
        clock.now += 10
        supervisor.check()
    clock.now += 61
    part.die(1)
    supervisor.check()
    assert "again in 1 s" in said[-1]


def test_a_program_that_vanished_is_tried_again_later(supervisor: Supervisor, clock: Clock, said: list[str]) -> None:
    part = Part()
    supervisor.start(part)
    part.die(1)
    part.broken = True
    supervisor.check()
    clock.now = 1
    supervisor.check()
    assert said[-1] == "worker-1 cannot be started: no such program"
    part.broken = False
    clock.now = 31
    supervisor.check()
    assert part.alive


def test_stop_ends_all_and_starts_none_again(supervisor: Supervisor, clock: Clock) -> None:
    parts = [Part(), Part()]
    for part in parts:
        supervisor.start(part)
    supervisor.stop()
    clock.now = 100
    supervisor.check()
    assert [(part.alive, part.starts) for part in parts] == [(False, 1), (False, 1)]
