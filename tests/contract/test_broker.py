"""The broker's settings, and the batch that rings applications, on a real server."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import pytest
import redis

from fleetbeat import keys, wire
from fleetbeat.clients.broker import make_app, publish_reconcile
from fleetbeat.errors import StoreUnavailable
from fleetbeat.local.redis import RedisServer
from fleetbeat.model import SecretText
from fleetbeat.settings import Settings, Steps


def queued(url: str, queue: str) -> list[dict]:
    """Messages of a queue, oldest first."""
    with redis.Redis.from_url(url, socket_timeout=60) as client:
        return [json.loads(message) for message in reversed(client.lrange(keys.PREFIX + queue, 0, -1))]


def body(message: dict) -> list:
    return json.loads(base64.b64decode(message["body"]))


def test_a_batch_arrives_in_order_as_doorbells_of_one_argument(redis_url: str) -> None:
    app = make_app(Settings(redis_url=SecretText(redis_url)), "t")
    names = [f"app-{i}" for i in range(1200)]
    publish_reconcile(app, names, wire.TICK_QUEUE)
    messages = queued(redis_url, wire.TICK_QUEUE)
    assert [body(message)[0] for message in messages] == [[name] for name in names]
    assert {message["headers"]["task"] for message in messages} == {"fleetbeat.reconcile"}
    assert {message["content-type"] for message in messages} == {"application/json"}
    assert len({message["headers"]["id"] for message in messages}) == 1200
    assert all(message["headers"]["expires"] is None and message["headers"]["eta"] is None for message in messages)


def test_nothing_else_is_written(redis_url: str) -> None:
    publish_reconcile(make_app(Settings(redis_url=SecretText(redis_url)), "t"), ["shop"], wire.WORK_QUEUE)
    with redis.Redis.from_url(redis_url, socket_timeout=60) as client:
        assert client.keys() == [b"fleetbeat:fleetbeat.work"]


def test_nothing_to_ring_is_no_round_trip() -> None:
    publish_reconcile(make_app(Settings(redis_url=SecretText("redis://127.0.0.1:1/0")), "t"), [], wire.WORK_QUEUE)


def test_steps_go_to_the_work_queue_and_ticks_to_theirs() -> None:
    app = make_app(Settings(), "t")
    routes = {
        task: app.amqp.router.route({}, task)["queue"].name for task in (wire.RECONCILE, *wire.TASK_OF_STEP.values())
    }
    assert routes.pop(wire.RECONCILE) == wire.TICK_QUEUE
    assert set(routes.values()) == {wire.WORK_QUEUE}


def test_an_unknown_queue_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        publish_reconcile(make_app(Settings(), "t"), ["shop"], "fleetbeat.tick")


def test_a_message_is_taken_back_only_after_any_step_must_have_ended() -> None:
    app = make_app(Settings(steps=Steps(timeout=40.0)), "t")
    assert app.conf.broker_transport_options["visibility_timeout"] == 80


def test_only_json_is_accepted() -> None:
    """Field case l10."""
    conf = make_app(Settings(), "t").conf
    assert (conf.accept_content, conf.result_accept_content, conf.task_serializer) == (["json"], ["json"], "json")


def test_an_embedding_service_keeps_its_own_current_application() -> None:
    program = (
        "import celery; own = celery.Celery('own')\n"
        "from fleetbeat.clients.broker import make_app; from fleetbeat.settings import Settings\n"
        "make_app(Settings(), 't'); assert celery.current_app.main == 'own', celery.current_app.main"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ("unix:///run/redis.sock?db=3", "redis+socket:///run/redis.sock?virtual_host=3"),
        ("unix:///run/redis.sock", "redis+socket:///run/redis.sock"),
        ("rediss://redis.example.com:6380/1", "rediss://redis.example.com:6380/1"),
    ],
)
def test_urls_are_put_in_kombus_words(given: str, host: str) -> None:
    assert make_app(Settings(redis_url=SecretText(given)), "t").conf.broker_url == host


def test_a_connection_that_died_while_nobody_used_it_is_replaced() -> None:
    with RedisServer() as server:
        app = make_app(Settings(redis_url=SecretText(server.url)), "t")
        publish_reconcile(app, ["before"], wire.WORK_QUEUE)
        server.kill()
        server.start()
        publish_reconcile(app, ["after"], wire.WORK_QUEUE)
        assert body(queued(server.url, wire.WORK_QUEUE)[-1])[0] == ["after"]


@pytest.mark.parametrize("trouble", ["read-only replica", "gone", "wrong password"])
def test_foreign_errors_stop_here_and_hide_the_password(trouble: str) -> None:
    with RedisServer(password="hunter2") as server:
        url = server.url
        if trouble == "read-only replica":
            with redis.Redis.from_url(url, socket_timeout=60) as client:
                client.execute_command("REPLICAOF", "127.0.0.1", "1")
        elif trouble == "gone":
            server.kill()
        else:
            url = url.replace("hunter2", "hunter3")
        app = make_app(Settings(redis_url=SecretText(url)), "t")
        with pytest.raises(StoreUnavailable, match="as message broker") as caught:
            publish_reconcile(app, ["shop"], wire.WORK_QUEUE)
    assert "hunter" not in str(caught.value)
