"""What `fleetbeat up` says while it runs."""

from __future__ import annotations

import click
import pytest

from fleetbeat.cli import up_run
from fleetbeat.cli.session import Session
from fleetbeat.clients.catalogs import CatalogStatus
from fleetbeat.clients.runs import Look

SYNCED = {"sync": "Synced", "health": "Healthy", "phase": "Succeeded", "message": "2 unchanged"}


class Catalogs:
    def __init__(self) -> None:
        self.at, self.error, self.apps = 1, "left over from the last time", ["shop"]

    def names(self) -> list[str]:
        return self.apps

    def status(self) -> CatalogStatus:
        return CatalogStatus(self.at, self.error, "x", 0)


class Runs:
    def look(self, app: str) -> Look:
        assert app == "shop"
        return Look({}, SYNCED, {})


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(up_run, "_say", lines.append)
    monkeypatch.setattr(up_run.time, "monotonic", iter(range(10, 1000, 10)).__next__)
    return lines


def test_each_change_is_said_once(said: list[str]) -> None:
    catalogs, session = Catalogs(), Session()
    session.catalogs, session.runs = catalogs, Runs()  # type: ignore[assignment]
    news = up_run._News(session, "")
    steps: list[tuple[int, str, list[str]]] = [
        (1, "left over from the last time", ["shop"]),
        (2, "", ["shop"]),
        (3, "a.yaml: one\nb.yaml: two", ["shop"]),
        (4, "a.yaml: one\nb.yaml: two", ["shop"]),
        (5, "", []),
    ]
    heard = []
    for catalogs.at, catalogs.error, catalogs.apps in steps:
        news()
        heard.append([click.unstyle(line) for line in said])
        said.clear()
    assert heard == [
        ["shop: Synced, Healthy, Succeeded: 2 unchanged"],
        [],
        ["catalog: a.yaml: one", "catalog: b.yaml: two", "The last good catalog stays in force."],
        [],
        ["The catalog is in order again.", "shop: gone from the catalog"],
    ]


def test_of_a_new_application_only_what_is_known_is_said(said: list[str]) -> None:
    class Told(Runs):
        states = ({}, {"sync": "", "due": "1"}, {"sync": "OutOfSync"}, SYNCED)
        now = 0

        def look(self, app: str) -> Look:
            assert app == "shop"
            return Look({}, self.states[self.now], {})

    session = Session()
    session.catalogs, session.runs = Catalogs(), (runs := Told())  # type: ignore[assignment]
    news = up_run._News(session, "left over from the last time")
    for runs.now in range(len(Told.states)):
        news()
    assert [click.unstyle(line) for line in said] == [
        "shop: OutOfSync",
        "shop: Synced, Healthy, Succeeded: 2 unchanged",
    ]
