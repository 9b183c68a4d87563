"""An Event that cannot be written costs a line in the log and nothing else."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from fleetbeat.decisions.events import Event
from fleetbeat.errors import ClusterUnavailable, LostLock, StoreUnavailable, Unauthorized
from fleetbeat.settings import Settings
from workers import cluster_events

ENTRY = {
    "run": "r1",
    "phase": "Failed",
    "error": "Rejected",
    "counts": {},
    "hooks": 0,
    "count": 1,
    "started": 1_796_000_000_000,
    "finished": 1_796_000_000_000,
}


class Refusing:
    name = "prod"

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.told: list[Any] = []

    def tell(self, event: Any) -> None:
        self.told.append(event)
        if self.error is not None:
            raise self.error


def tell(monkeypatch: pytest.MonkeyPatch, cluster: Refusing, home: str = "uid") -> None:
    monkeypatch.setattr(cluster_events, "target", lambda *_, **__: SimpleNamespace(cluster=cluster))
    work: Any = SimpleNamespace(
        parts=SimpleNamespace(settings=Settings()),
        turn=SimpleNamespace(app="shop", run="r1", fence=1),
        record={"trigger": "Revision"},
        lease=SimpleNamespace(check=lambda: None),
    )
    cluster_events.tell(work, Event("ReconciliationFailed", "Failed: x", "error"), ENTRY, home)


def test_a_missing_right_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(cluster_events, "_refusing", set())
    cluster = Refusing(Unauthorized("patch Event fleetbeat/app-shop.1: forbidden"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            tell(monkeypatch, cluster)
    assert len(cluster.told) == 3
    assert caplog.text.count("FLEETBEAT_EVENTS_IN_CLUSTERS=false turns off") == 1


def test_an_outage_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    tell(monkeypatch, Refusing(ClusterUnavailable("prod: connection refused")))


def test_without_a_parent_there_is_nothing_to_tell_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Refusing(None)
    tell(monkeypatch, cluster, home="")
    assert cluster.told == []


@pytest.mark.parametrize("error", [LostLock("taken over"), StoreUnavailable("Redis: gone")])
def test_what_every_step_raises_comes_through(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    with pytest.raises(type(error)):
        tell(monkeypatch, Refusing(error))
