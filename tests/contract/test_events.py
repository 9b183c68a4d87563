"""The stream of events on a real server: told once with the fact, read from any position, cut to its bound."""

from __future__ import annotations

import threading

import pytest

from fleetbeat import keys
from fleetbeat.clients.events import Events
from fleetbeat.clients.runs import Runs, Turn
from fleetbeat.clients.store import Store
from fleetbeat.decisions.events import Event
from fleetbeat.settings import Events as Limits
from fleetbeat.settings import Settings

KEY = bytes(range(32))


def told(text: str) -> Event:
    return Event("Progressing", text, metadata={"fleetbeat.dev/run": "r1"})


@pytest.fixture
def store(redis_url: str) -> Store:
    store = Store(redis_url, KEY)
    store.redis.hset(keys.PERIODS, mapping={"shop": "60000:0"})
    return store


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store, Settings(events=Limits(kept=100)))


@pytest.fixture
def events(store: Store) -> Events:
    return Events(store)


def messages(events: Events, app: str = "", since: str = "0") -> list[str]:
    return [event.message for event in events.read(app, since=since)]


def test_a_run_is_told_once_however_often_its_calls_are_repeated(runs: Runs, events: Events) -> None:
    for _ in range(2):
        fence = runs.start("shop", "r1", {"step": "pull"}, event=told("began"))
    assert fence is not None
    turn = runs.begin("shop", "r1", "pull", fence, "t1")
    assert isinstance(turn, Turn)
    for _ in range(2):
        assert runs.wait(turn, "pull", 60, {}, told("blocked"))
    assert runs.start("shop", "r2", {"step": "pull"}, event=told("another began")) is None
    runs.resume("shop", now=True)
    turn = runs.begin("shop", "r1", "pull", turn.fence, "t2")
    assert isinstance(turn, Turn)
    assert runs.advance(turn, "report", {})
    last = runs.begin("shop", "r1", "report", turn.fence, "t3")
    assert isinstance(last, Turn)
    for _ in range(2):
        assert runs.finish(last, entry="{}", event=told("ended"), state={}, next_look=None) == "ok"
    assert messages(events) == ["began", "blocked", "ended"]
    assert messages(events, "another") == []


def test_who_lost_the_lock_tells_nothing(runs: Runs, events: Events, store: Store) -> None:
    fence = runs.start("shop", "r1", {"step": "pull"}, event=told("began"))
    assert fence is not None
    turn = runs.begin("shop", "r1", "pull", fence, "t1")
    assert isinstance(turn, Turn)
    store.redis.delete(keys.lock("shop"))
    assert not runs.wait(turn, "pull", 60, {}, told("blocked"))
    assert runs.finish(turn, entry="{}", event=told("ended"), state={}, next_look=None) == "lost"
    assert messages(events) == ["began"]


def test_what_is_remembered_and_told_of_it_go_together(runs: Runs, events: Events) -> None:
    runs.remember("shop", {"trouble": "SourceUnavailable"}, told("trouble"))
    runs.remember("shop", {"health": "Healthy"})
    assert messages(events) == ["trouble"]
    assert runs.look("shop").state == {"trouble": "SourceUnavailable", "health": "Healthy"}


def test_reading_goes_on_from_an_id_and_following_from_the_last(runs: Runs, events: Events) -> None:
    for number in range(3):
        runs.remember("shop", {"x": number}, told(str(number)))
    first = next(events.read())
    assert (first.app, first.run, first.message) == ("shop", "r1", "0")
    assert messages(events, since=first.id) == ["1", "2"]
    following = events.follow("shop", since=events.last())
    heard: list[str] = []

    def hear() -> None:
        heard.extend(event.message for event, _ in zip(filter(None, following), range(2), strict=False))

    thread = threading.Thread(target=hear)
    thread.start()
    runs.remember("other", {"x": 1}, told("not ours"))
    for number in (3, 4, 5):
        runs.remember("shop", {"x": number}, told(str(number)))
    thread.join(timeout=60)
    assert not thread.is_alive()
    assert heard == ["3", "4"]


def test_it_is_cut_and_says_when_a_position_is_gone(runs: Runs, events: Events, store: Store) -> None:
    assert events.is_whole("0-0")
    for number in range(400):
        runs.remember("shop", {"x": number}, told(str(number)))
        if number == 0:
            first = events.last()
    assert 100 <= store.redis.xlen(keys.EVENTS) <= 300  # whole nodes of the stream go at a time
    assert not events.is_whole(first)
    assert events.is_whole(events.last())
    assert messages(events)[-1] == "399"
