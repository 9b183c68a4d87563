"""Celery's events in batches: what is gathered is sent once, what comes meanwhile is kept."""

from __future__ import annotations

from typing import Any

import celery
import pytest

from workers.events import LIMIT, BatchingDispatcher


class Producer:
    """Notes what is published; ``meanwhile`` runs in the middle of it, as another thread would."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[str]]] = []
        self.meanwhile: Any = lambda: None
        self.down = False

    def publish(self, events: Any, routing_key: str, **_: Any) -> None:
        if self.down:
            raise ConnectionRefusedError
        many = events if isinstance(events, list) else [events]
        self.sent.append((routing_key, [event["type"] for event in many]))
        self.meanwhile()


@pytest.fixture
def dispatcher() -> BatchingDispatcher:
    app = celery.Celery("t", broker="memory://", set_as_current=False)
    made = BatchingDispatcher(
        app.connection_for_write(), app=app, buffer_group=["task"], on_send_buffered=lambda: 1 / 0
    )
    made.producer = Producer()
    return made


def test_task_events_wait_for_the_flush_and_go_together(dispatcher: BatchingDispatcher) -> None:
    for kind in ("task-received", "task-started", "task-succeeded"):
        dispatcher.send(kind, uuid="1")
    assert dispatcher.producer.sent == []
    dispatcher.flush()
    assert dispatcher.producer.sent == [("task.multi", ["task-received", "task-started", "task-succeeded"])]


def test_nothing_is_sent_when_there_is_nothing(dispatcher: BatchingDispatcher) -> None:
    dispatcher.send("task-received", uuid="1")
    dispatcher.flush()
    dispatcher.flush()
    assert len(dispatcher.producer.sent) == 1


def test_heartbeats_go_at_once(dispatcher: BatchingDispatcher) -> None:
    dispatcher.send("worker-heartbeat", freq=2)
    assert dispatcher.producer.sent == [("worker.heartbeat", ["worker-heartbeat"])]


def test_what_comes_while_a_batch_is_sent_goes_with_the_next(dispatcher: BatchingDispatcher) -> None:
    dispatcher.send("task-received", uuid="1")
    dispatcher.producer.meanwhile = lambda: dispatcher.send("task-started", uuid="1")
    dispatcher.flush()
    dispatcher.producer.meanwhile = lambda: None
    dispatcher.flush()
    assert [types for _, types in dispatcher.producer.sent] == [["task-received"], ["task-started"]]


def test_a_burst_does_not_wait(dispatcher: BatchingDispatcher) -> None:
    for number in range(LIMIT):
        dispatcher.send("task-received", uuid=str(number))
    assert [len(types) for _, types in dispatcher.producer.sent] == [LIMIT]


def test_a_batch_that_could_not_be_sent_is_sent_when_redis_is_back(dispatcher: BatchingDispatcher) -> None:
    dispatcher.send("task-received", uuid="1")
    dispatcher.producer.down = True
    dispatcher.flush()
    dispatcher.producer.down = False
    dispatcher.flush()
    assert [types for _, types in dispatcher.producer.sent] == [["task-received"]]
