"""What we change of kombu's Redis transport, on a real server: clients that stay, queues without acknowledgement."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import pytest
import redis
from kombu.transport import redis as kombu_redis

from fleetbeat import keys, wire
from fleetbeat.clients.broker import make_app, publish_reconcile
from fleetbeat.clients.broker_transport import Channel, Transport
from fleetbeat.model import SecretText
from fleetbeat.settings import Settings


def test_commands_share_one_client(redis_url: str) -> None:
    channel = make_app(Settings(redis_url=SecretText(redis_url)), "t").connection_for_write().default_channel
    with channel.conn_or_acquire() as first, channel.conn_or_acquire() as second:
        assert first is second
        assert first is not channel.client  # the event loop's, which keeps a connection of its own
        assert first.connection is None


def test_what_publishes_uses_it_too(redis_url: str) -> None:
    app = make_app(Settings(redis_url=SecretText(redis_url)), "t")
    with app.producer_pool.acquire(block=True) as producer, app.pool.acquire(block=True) as connection:
        assert isinstance(producer.channel, Channel)
        assert isinstance(connection.default_channel, Channel)


def test_a_new_pool_gets_a_new_client(redis_url: str) -> None:
    channel = make_app(Settings(redis_url=SecretText(redis_url)), "t").connection_for_write().default_channel
    with channel.conn_or_acquire() as before:
        before.hset("k", "field", "v")
    channel._disconnect_pools()
    with channel.conn_or_acquire() as after:
        assert after is not before
        assert after.hget("k", "field") == b"v"


def test_threads_may_use_it_at_once(redis_url: str) -> None:
    channel = make_app(Settings(redis_url=SecretText(redis_url)), "t").connection_for_write().default_channel
    wrong: list[str] = []

    def work(number: int) -> None:
        with channel.conn_or_acquire() as client:
            for turn in range(200):
                text = f"{number}-{turn}"
                with client.pipeline() as pipe:
                    answers = pipe.hset(f"key-{number}", "field", text).hget(f"key-{number}", "field").execute()
                if answers[1] != text.encode():
                    wrong.append(f"{text}: {answers}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("redis://:secret@h:6379/1", "redis://:**@h:6379/1", id="plain"),
        pytest.param("rediss://:secret@h:6379/1?ssl_cert_reqs=CERT_REQUIRED", "rediss://:**@h:6379/1", id="tls"),
        pytest.param("unix:///run/redis.sock?db=2", "redis+socket:///run/redis.sock", id="socket"),
    ],
)
def test_every_redis_url_uses_it_and_is_shown_as_it_was_given(url: str, shown: str) -> None:
    connection = make_app(Settings(redis_url=SecretText(url)), "t").connection_for_write()
    assert connection.get_transport_cls() is Transport
    assert connection.clone().get_transport_cls() is Transport
    assert connection.as_uri() == shown
    assert bool(connection.ssl) == url.startswith("rediss")


def test_other_celery_applications_of_the_process_keep_kombus_own() -> None:
    code = """
import celery
from fleetbeat.clients.broker import make_app
from fleetbeat.settings import Settings
make_app(Settings(), "ours").connection_for_write().transport
other = celery.Celery("theirs", broker="redis://127.0.0.1:1/0").connection_for_write()
print(other.get_transport_cls().__module__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "kombu.transport.redis"


@pytest.mark.parametrize(
    ("queue", "kept"), [pytest.param(wire.TICK_QUEUE, 1, id="ticks"), pytest.param(wire.WORK_QUEUE, 0, id="work")]
)
def test_only_ticks_are_acknowledged(redis_url: str, queue: str, kept: int) -> None:
    """What is in the work queue is rung again by its lease; a tick that got lost with its worker would be missed."""
    app = make_app(Settings(redis_url=SecretText(redis_url)), "t")
    publish_reconcile(app, ["shop"], queue)
    got: list[Any] = []
    with app.connection_for_read() as connection, redis.Redis.from_url(redis_url, socket_timeout=60) as client:
        consumer = app.amqp.TaskConsumer(connection.default_channel, on_message=got.append)
        with consumer:
            connection.drain_events(timeout=60)
            assert client.hlen(f"{keys.PREFIX}unacked") == kept
            got[0].ack()
            assert ("cmdstat_hdel" in client.info("commandstats")) == bool(kept)
    with redis.Redis.from_url(redis_url, socket_timeout=60) as client:
        assert client.hlen(f"{keys.PREFIX}unacked") == 0
        assert client.llen(keys.PREFIX + queue) == 0


@pytest.mark.parametrize("hours", [-1, 1])
def test_what_a_worker_has_taken_is_its_own_whatever_its_hosts_clock_says(
    redis_url: str, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    """Taken by a host whose clock is off, looked for by one whose clock is right: given back when its time has come."""
    settings = Settings(redis_url=SecretText(redis_url))
    apps = [make_app(settings, name) for name in ("off", "right")]
    publish_reconcile(apps[0], ["shop"], wire.TICK_QUEUE)
    got: list[Any] = []
    with (
        apps[0].connection_for_read() as off,
        apps[1].connection_for_read() as right,
        redis.Redis.from_url(redis_url, socket_timeout=60) as client,
    ):
        with monkeypatch.context() as there, apps[0].amqp.TaskConsumer(off.default_channel, on_message=got.append):
            there.setattr(kombu_redis, "time", lambda: time.time() + hours * 3600)
            off.drain_events(timeout=60)
        watcher = right.default_channel.qos
        watcher.restore_visible(num=None)
        assert client.llen(keys.PREFIX + wire.TICK_QUEUE) == 0, "it was taken a moment ago"
        watcher.visibility_timeout = 0.0
        watcher.restore_visible(num=None)
        assert client.llen(keys.PREFIX + wire.TICK_QUEUE) == 1, "its worker is dead, and its time over"
        assert client.hlen(f"{keys.PREFIX}unacked") == 0
