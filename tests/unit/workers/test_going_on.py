"""A run that waits is rung: what the look at it finds, and what becomes of a look that cannot be had at the moment."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from fleetbeat.clients.observe import UnderWay
from fleetbeat.clients.runs import Look
from workers import going_on


class Shared:
    """What ``go_on`` asks of Redis, in memory: no catalog, and a run that waits for its window."""

    def __init__(self) -> None:
        self.soon: list[tuple[float, bool]] = []
        self.runs = self

    def resume(self, _app: str, *, now: bool) -> str:
        return "waiting, and goes on" if now else "waiting"

    def look_again(self, _app: str, seconds: float, *, at_the_latest: bool = False) -> None:
        self.soon.append((seconds, at_the_latest))


def test_a_look_that_another_worker_is_taking_comes_soon_and_not_with_the_next_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def under_way(*_: Any) -> bool:
        raise UnderWay("another worker is asking", retry_after=1.0)

    monkeypatch.setattr(going_on, "_newer", lambda *_: "")
    monkeypatch.setattr(going_on, "_look_while_held", under_way)
    shared = Shared()
    look = Look({"run": "r1", "state": "waiting", "window": "office hours"}, {}, {})
    assert going_on.go_on(Celery(set_as_current=False), shared, "shop", look) == "run r1 is waiting"  # type: ignore[arg-type]
    assert shared.soon == [(1.0, True)], "soon, and no later than the window opens"
