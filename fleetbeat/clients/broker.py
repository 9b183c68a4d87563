"""Celery as Fleetbeat uses it: one place for its settings, and the batch that rings applications.

What Celery is trusted with is little. A message is a doorbell that may get lost or come twice; what is going on is in
the run record. So no result backend, no ETA, no broker priorities, and messages are acknowledged late or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import celery
import kombu
import redis
from celery.utils.nodenames import gethostname
from kombu.exceptions import KombuError
from kombu.utils.uuid import uuid

from fleetbeat import keys, wire
from fleetbeat.errors import StoreUnavailable
from fleetbeat.settings import Settings

_ORIGIN = f"gen{os.getpid()}@{gethostname()}"  # as Celery names a publisher


class Celery(celery.Celery):
    """A Celery application that carries the settings it was made from."""

    amqp_cls = "fleetbeat.clients.broker_transport:Amqp"
    settings: Settings


def make_app(settings: Settings, name: str) -> Celery:
    """A Celery application with Fleetbeat's settings. ``name`` is what Celery calls it; tasks have names of their own.

    It does not become the process's current one: a service that embeds ``fleetbeat.client`` may have its own.
    """
    app = Celery(name, broker=_broker_url(settings.redis_url.reveal()), set_as_current=False)
    app.settings = settings
    app.conf.update(
        # Queues. A publisher that names another queue is a mistake, not a new queue. What goes to the work queue is
        # rung again by its lease in the due set long before the broker would redeliver it, so it is not acknowledged:
        # that takes eight of the thirteen Redis commands of a message. A tick has no lease once it is settled.
        task_queues=[kombu.Queue(wire.TICK_QUEUE), kombu.Queue(wire.WORK_QUEUE, no_ack=True)],
        task_default_queue=wire.WORK_QUEUE,
        task_routes={wire.RECONCILE: {"queue": wire.TICK_QUEUE}},
        task_create_missing_queues=False,
        # JSON and nothing else, in both directions.
        task_serializer="json",
        result_serializer="json",
        accept_content=["json"],
        result_accept_content=["json"],
        # The run record holds results.
        task_ignore_result=True,
        result_backend=None,
        # A killed worker's messages come back; a worker takes no more than it has free slots for.
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        # Redis may be away for any time. Running steps go on meanwhile: their lock decides, not the connection.
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        # A primary that becomes a replica answers READONLY or UNBLOCKED, which kombu counts among the errors of a
        # channel; without this they end the worker.
        broker_channel_error_retry=True,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        # A step that cannot publish its successor leaves that to the lease soon, instead of holding its slot.
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0, "interval_step": 0.2, "interval_max": 0.5},
        broker_transport_options={
            "global_keyprefix": keys.PREFIX,
            # Counted from delivery, and the same for all workers: longer than any step may take.
            "visibility_timeout": int(settings.steps.timeout * 2),
            # Look for messages of killed workers every 5 s; by default it takes 100 s.
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "priority_steps": [0],
            "socket_timeout": 10,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            "health_check_interval": 10,
            # How long a publisher tries to connect: by default kombu sleeps 6 s, and there is a lease. A worker's
            # consumer has its own rule and never gives up.
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
    )
    return app


def publish_reconcile(app: celery.Celery, names: Sequence[str], queue: str) -> None:
    """Ring ``fleetbeat.reconcile`` for these applications, in one batch. Raises StoreUnavailable.

    A batch that raises may have arrived all the same: the caller leaves it to the lease, and duplicates are harmless.
    """
    if not names:
        return
    pool = app.producer_pool
    with errors(), pool.acquire(block=True, timeout=10.0) as producer, _batch(producer, len(names)):
        for name in names:
            message = app.amqp.as_task_v2(uuid(), wire.RECONCILE, args=(name,), origin=_ORIGIN, ignore_result=True)
            # Nothing is declared: the message goes straight to the list that is the queue, so that a flush of Redis
            # cannot take away a binding it would need.
            app.amqp.send_task_message(producer, wire.RECONCILE, message, queue=queue, retry=False, declare=[])


def _batch(producer: Any, size: int) -> AbstractContextManager[Any]:
    """kombu's batch, newer than its type stubs: all messages in one pipeline, sent when the block ends."""
    batch: AbstractContextManager[Any] = producer.batch(max_size=size)
    return batch


@contextmanager
def errors() -> Iterator[None]:
    """Turn what kombu and redis-py raise while publishing into StoreUnavailable."""
    try:
        yield
    except (KombuError, redis.exceptions.RedisError, OSError) as error:
        cause = error.__cause__ or error  # kombu's own words for a failed batch do not say why
        raise StoreUnavailable(f"Redis, as message broker: {type(cause).__name__}: {cause}") from error


def _broker_url(url: str) -> str:
    """kombu's spelling of a redis-py URL; they differ for unix sockets only."""
    if not url.startswith("unix://"):
        return url
    return "redis+socket://" + url.removeprefix("unix://").replace("?db=", "?virtual_host=").replace(
        "&db=", "&virtual_host="
    )
