"""The public client against a real Redis. Workers are played by the run scripts themselves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fleetbeat import client_following, keys, wire
from fleetbeat.cli.key import new_key
from fleetbeat.client import Fleetbeat, Outcome, Progress
from fleetbeat.clients.runs import Runs, Turn
from fleetbeat.clients.store import Store
from fleetbeat.decisions.events import Event
from fleetbeat.decisions.overrides import refusal
from fleetbeat.errors import CatalogError, ConfigurationError, StillRunning, StoreUnavailable
from fleetbeat.model import ObjectId, SecretText
from fleetbeat.model_results import ObjectResult
from fleetbeat.settings import Settings, load

CONFIG = ObjectId("", "ConfigMap", "shop", "web-config")


@pytest.fixture
def settings(redis_url: str) -> Settings:
    return load({"FLEETBEAT_REDIS_URL": redis_url, "FLEETBEAT_KEY": new_key()})


@pytest.fixture
def store(settings: Settings) -> Store:
    store = Store.open(settings)
    store.redis.hset(keys.PERIODS, mapping={"shop": "180000:0", "bank": "180000:0"})
    store.redis.hset(keys.CATALOG, mapping={"Application/shop": b"", "Application/bank": b""})
    return store


@pytest.fixture
def client(settings: Settings, store: Store) -> Fleetbeat:
    return Fleetbeat(settings, store=store)


class Worker:
    """Begins and ends runs as a worker does."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._runs = Runs(store, settings)
        self._store = store
        self._number = 0

    def begin(self) -> Turn:
        """Take up what was asked for; the run stands at its step pull, being worked on."""
        self._number += 1
        run, request = f"run-{self._number}", self._runs.look("shop").request.get("id", "")
        fields = {"step": "pull", "trigger": "Request", "request": request, "digest": "sha256:" + "a" * 64}
        fence = self._runs.start("shop", run, fields, event=Event("Progressing", "told"), request=request)
        assert fence is not None
        turn = self._runs.begin("shop", run, "pull", fence, f"token-{run}")
        assert isinstance(turn, Turn)
        return turn

    def write(self, turn: Turn, outcome: Any) -> None:
        result = ObjectResult(CONFIG, outcome).to_json()
        self._runs.record(turn.run, {CONFIG.key: json.dumps({"result": result, "known": {}})})

    def end(self, turn: Turn, phase: str = "Succeeded", health: str = "Healthy") -> None:
        request = turn.record.get("request", "")
        entry = {"run": turn.run, "request": request, "phase": phase, "message": "said", "health": health}
        state: dict[str, str | int | float] = {"phase": phase, "sync": "Synced", "health": health, "handled": request}
        self._runs.finish(
            turn, entry=json.dumps(entry), event=Event("Progressing", "told"), state=state, next_look=None
        )


@pytest.fixture
def worker(store: Store, settings: Settings) -> Worker:
    return Worker(store, settings)


def end_of(events: Iterator[Progress | Outcome]) -> Outcome:
    *_, last = events
    assert isinstance(last, Outcome)
    return last


def test_a_request_is_published_to_the_work_queue_with_nothing_but_the_name(client: Fleetbeat, store: Store) -> None:
    client.request_sync("shop", by="ann", reason="because")
    (message,) = store.redis.lrange(keys.PREFIX + wire.WORK_QUEUE, 0, -1)  # type: ignore[misc]
    assert json.loads(message)["headers"]["task"] == wire.RECONCILE
    assert b"because" not in message


def test_follow_tells_steps_results_once_and_the_end(client: Fleetbeat, worker: Worker) -> None:
    request = client.request_sync("shop", by="ann")
    events = client.follow("shop", request.id, timeout=60)
    first = next(events)
    assert isinstance(first, Progress)
    assert (first.run, first.state) == ("", "queued")
    turn = worker.begin()
    second = next(events)
    assert isinstance(second, Progress)
    assert (second.run, second.step, second.state) == (turn.run, "pull", "working")
    worker.write(turn, "created")
    third = next(events)
    assert isinstance(third, Progress)
    assert [(result.id, result.outcome) for result in third.results] == [(CONFIG, "created")]
    worker.end(turn)
    (outcome,) = list(events)
    assert isinstance(outcome, Outcome)
    assert (outcome.run, outcome.phase, outcome.ok) == (turn.run, "Succeeded", True)


@pytest.mark.parametrize(
    ("phase", "health", "ok"),
    [
        ("Succeeded", "Healthy", True),
        ("Succeeded", "Suspended", True),
        ("Succeeded", "Degraded", False),
        ("Failed", "Healthy", False),
    ],
)
def test_ok_means_there_and_healthy(client: Fleetbeat, worker: Worker, phase: str, health: str, ok: bool) -> None:
    request = client.request_sync("shop", by="ann")
    worker.end(worker.begin(), phase, health)
    assert client.outcome("shop", request.id, timeout=60).ok is ok


def test_a_request_during_a_run_waits_for_its_own(client: Fleetbeat, worker: Worker) -> None:
    client.request_sync("shop", by="ann")
    turn = worker.begin()
    request = client.request_sync("shop", by="bob")
    assert request.run == turn.run
    events = client.follow("shop", request.id, timeout=60)
    first = next(events)
    assert isinstance(first, Progress)
    assert f"{turn.run} ends first" in first.message
    worker.end(turn)
    second = worker.begin()
    worker.end(second)
    assert end_of(events).run == second.run


def test_a_run_under_way_is_rung_for_a_request(client: Fleetbeat, worker: Worker, store: Store) -> None:
    """It may be waiting for hours, or be about to; what the request is worth is for the worker to say."""
    turn = worker.begin()
    queue = keys.PREFIX + wire.WORK_QUEUE
    client.request_sync("shop", by="person")
    assert store.redis.llen(queue) == 1
    Runs(store, load({})).wait(turn, "apply:0", 60, {"window": "mark"})
    client.request_sync("shop", by="person", reason="now", override_windows=True)
    assert store.redis.llen(queue) == 2
    assert store.redis.hget(keys.request("shop"), "override_windows") == b"1"


def test_an_override_needs_a_reason(client: Fleetbeat, store: Store) -> None:
    with pytest.raises(ConfigurationError, match="needs a reason"):
        client.request_sync("shop", by="person", reason=" ", override_windows=True)
    assert not store.redis.exists(keys.request("shop"))


def test_an_override_is_signed_with_our_key(settings: Settings, store: Store) -> None:
    """For this application, request, person and reason, and for ten minutes by Redis' clock. The key stays here."""
    key = new_key()
    ours = replace(settings, override_key=SecretText(key))
    asked = Fleetbeat(ours, store=store).request_sync("shop", by="ann", reason="outage", override_windows=True)
    runs = Runs(store, settings)
    request, now = runs.look("shop").request, runs.now()
    assert request["id"] == asked.id
    assert refusal(ours.signing_key(), "shop", request, now) == ""
    assert "another" in refusal(bytes(32), "shop", request, now)
    assert 0 < int(request["override_windows"].split()[0]) - now <= 600_000
    assert key not in repr(request)


def test_a_refused_request_is_answered_and_nothing_else(client: Fleetbeat, store: Store, settings: Settings) -> None:
    runs = Runs(store, settings)
    store.redis.hset(keys.state("shop"), mapping={"phase": "Succeeded", "message": "1 unchanged", "last_run": "r0"})
    asked = client.request_sync("shop", by="ann")
    entry = json.dumps({"run": "r1", "request": asked.id, "phase": "Failed", "message": "no", "health": "Healthy"})
    event = Event("RequestRefused", "no", "error")
    assert not runs.refuse("shop", "another", entry=entry, event=event)
    assert runs.look("shop").request
    assert runs.refuse("shop", asked.id, entry=entry, event=event)
    assert not runs.refuse("shop", asked.id, entry=entry, event=event)
    outcome = client.outcome("shop", asked.id, timeout=60)
    assert (outcome.run, outcome.phase, outcome.message, outcome.ok) == ("r1", "Failed", "no", False)
    look = runs.look("shop")
    assert (look.request, look.run) == ({}, {})
    assert {**look.state, "handled": ""} == {
        "phase": "Succeeded",
        "message": "1 unchanged",
        "last_run": "r0",
        "handled": "",
    }
    assert [told.message for told in client.events("shop")] == ["no"]
    assert len(runs.history("shop")) == 1


def test_a_replaced_request_is_followed_as_the_later_one(client: Fleetbeat, worker: Worker) -> None:
    first = client.request_sync("shop", by="ann")
    events = client.follow("shop", first.id, timeout=60)
    next(events)
    client.request_sync("shop", by="bob")
    turn = worker.begin()
    worker.end(turn)
    assert end_of(events).run == turn.run


def test_a_superseded_run_hands_over_to_the_one_that_took_over(client: Fleetbeat, worker: Worker) -> None:
    request = client.request_sync("shop", by="ann")
    events = client.follow("shop", request.id, timeout=60)
    next(events)
    worker.end(worker.begin(), "Superseded")
    told = next(events)
    assert isinstance(told, Progress)
    assert "superseded" in told.message
    turn = worker.begin()
    worker.end(turn)
    assert end_of(events).run == turn.run


def test_an_idempotency_key_asks_once(client: Fleetbeat, worker: Worker, store: Store) -> None:
    def queued() -> Any:
        return store.redis.llen(keys.PREFIX + wire.WORK_QUEUE)

    request = client.request_sync("shop", by="ci", idempotency_key="build-1")
    assert client.request_sync("shop", by="ci", idempotency_key="build-1").id == request.id
    turn = worker.begin()
    assert client.request_sync("shop", by="ci", idempotency_key="build-1").id == request.id
    worker.end(turn)
    other = client.request_sync("shop", by="ci", idempotency_key="build-2")
    worker.end(worker.begin())
    assert client.request_sync("shop", by="ci", idempotency_key="build-1").id == request.id
    assert other.id != request.id
    assert queued() == 2
    assert client.outcome("shop", request.id, timeout=60).run == turn.run


def test_follow_next_waits_for_any_run(client: Fleetbeat, worker: Worker) -> None:
    before = client.last_run("shop")
    turn = worker.begin()
    worker.end(turn)
    assert before == ""
    assert end_of(client.follow_next("shop", after=before, timeout=60)).run == turn.run == client.last_run("shop")


def test_time_is_up(client: Fleetbeat, worker: Worker) -> None:
    request = client.request_sync("shop", by="ann")
    with pytest.raises(StillRunning, match=r"has not begun\. Do workers run\? It goes on"):
        client.outcome("shop", request.id, timeout=0.1)
    worker.begin()
    with pytest.raises(StillRunning, match=r"is at step pull \(working\)\. It goes on"):
        client.outcome("shop", request.id, timeout=0.1)


def test_what_keeps_a_sync_from_beginning_is_told_once_it_happens(
    client: Fleetbeat, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "Cluster prod, token: there is no file /run/token"
    store.redis.hset(keys.state("shop"), mapping={"reason": "HealthCheckTimeout", "message": "old", "failures": 2})
    request = client.request_sync("shop", by="ann")
    events = client.follow("shop", request.id, timeout=60)
    first = next(events)
    store.redis.hset(keys.state("shop"), mapping={"reason": "ConfigurationError", "message": said, "failures": 3})
    second = next(events)
    assert isinstance(first, Progress)
    assert isinstance(second, Progress)
    assert (first.message, second.message) == ("", f"ConfigurationError: {said}")
    later = SimpleNamespace(monotonic=lambda: time.monotonic() + 3600, sleep=time.sleep)
    monkeypatch.setattr(client_following, "time", later)
    with pytest.raises(StillRunning, match=f"has not begun: ConfigurationError: {said}. It goes on"):
        next(events)


def test_unknown_application_names_the_nearest(client: Fleetbeat) -> None:
    with pytest.raises(CatalogError, match=r"'shpo'\. Did you mean shop\?"):
        client.request_sync("shpo", by="ann")


def test_no_redis_is_said_without_its_password() -> None:
    settings = load({"FLEETBEAT_REDIS_URL": "redis://:s3cret@127.0.0.1:1/0", "FLEETBEAT_KEY": new_key()})
    with pytest.raises(StoreUnavailable) as caught:
        Fleetbeat(settings).request_sync("shop", by="ann")
    assert "s3cret" not in str(caught.value)
