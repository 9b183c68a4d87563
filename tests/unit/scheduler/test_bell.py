"""The bell of a watch: at once, but no more than twice a second in a storm, and nothing forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from waiting import wait_for

from fleetbeat.errors import StoreUnavailable
from scheduler.watch import Bell


class Rung:
    def __init__(self, *, fails: int = 0, answer: bool = True) -> None:
        self.apps: list[str] = []
        self._fails = fails
        self._answer = answer

    def __call__(self, app: str) -> bool:
        if self._fails:
            self._fails -= 1
            raise StoreUnavailable("Redis is away")
        self.apps.append(app)
        return self._answer


@contextmanager
def running(bell: Bell) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=bell.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def test_everybody_is_rung_at_once() -> None:
    rung = Rung()
    bell = Bell(rung, gap=60)
    with running(bell):
        for name in ("a", "b", "c"):
            bell.ask(name)
        wait_for(lambda: sorted(rung.apps) == ["a", "b", "c"])


def test_a_storm_is_answered_by_few_rings_and_does_not_delay_others() -> None:
    rung = Rung()
    bell = Bell(rung, gap=60)
    with running(bell):
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            bell.ask("stormy")
        bell.ask("calm")
        wait_for(lambda: "calm" in rung.apps)
    assert 1 <= rung.apps.count("stormy") <= 6


def test_what_was_asked_for_in_the_gap_is_rung_after_it() -> None:
    rung = Rung()
    bell = Bell(rung, gap=0.05)
    with running(bell):
        for count in range(1, 12):
            bell.ask("a")
            wait_for(lambda count=count: rung.apps.count("a") == count, what=f"ring {count}")


def test_without_redis_a_ring_stays_wanted() -> None:
    rung = Rung(fails=1)
    bell = Bell(rung, gap=0.05)
    with running(bell):
        bell.ask("a")
        wait_for(lambda: rung.apps == ["a"])
