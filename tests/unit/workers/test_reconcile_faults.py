"""What nobody foresaw, in the cheap look: the application is looked at again, and nothing of the text gets out."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery import Celery

from fleetbeat.clients.runs import Look
from fleetbeat.decisions.events import Event
from fleetbeat.model import Application, Cluster, Destination, Source
from workers import reconcile


class Known:
    """What ``reconcile`` asks of Redis, in memory."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.pauses: list[float] = []
        self.told: list[str] = []
        self.runs = self.catalogs = self

    def look(self, _app: str) -> Look:
        return Look({}, {key: str(value) for key, value in self.state.items()}, {})

    def remember(self, _app: str, fields: dict[str, Any], event: Event | None = None) -> None:
        self.state |= fields
        self.told += [event.message] if event else []

    def now(self) -> int:
        return 1

    def look_again(self, _app: str, seconds: float) -> None:
        self.pauses.append(seconds)

    def application(self, app: str) -> tuple[Application, Cluster, str]:
        return Application(app, Source("registry.example.com/shop"), Destination("prod")), Cluster("prod"), "spec"


def test_an_unforeseen_error_is_told_by_its_kind_and_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    known = Known()

    def breaks(*_: Any) -> str:
        raise KeyError("hunter2")

    monkeypatch.setattr(reconcile, "parts", lambda: known)
    monkeypatch.setattr(reconcile, "_reconcile", breaks)
    with caplog.at_level(logging.ERROR):
        said = reconcile.reconcile(Celery(set_as_current=False), "shop")
    assert said == "InternalError: reconcile: KeyError (details in the worker's log)"
    assert known.state["message"] == "reconcile: KeyError (details in the worker's log)"
    assert known.state["sync"] == "Unknown"
    assert 5 <= known.pauses[0] <= 10
    assert known.told == ["InternalError: reconcile: KeyError (details in the worker's log)"]
    assert "KeyError" in caplog.text, "the log has the traceback"
