"""The queue under everyday abuse: a cluster that hangs, clients that vanish, thousands of looks with nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from fleet import Fleet, config_map
from waiting import wait_for

from fleetbeat import wire
from fleetbeat.clients.broker import publish_reconcile
from fleetbeat.local.cluster import Cluster

#: keys that stay as long as the installation or its application; all others must expire by themselves
KEPT = ("due", "periods", "catalog", "fence", "beats", "events", "state:", "history:", "_kombu.binding")

_VANISH = """
import os
from fleetbeat.clients.broker import make_app
from fleetbeat.settings import load
make_app(load(), "client").control.broadcast("ping", reply=True, timeout=0.01)
os._exit(0)  # before the answers
"""


def test_a_hanging_cluster_does_not_hold_up_the_others(
    make_fleet: Callable[..., Fleet], cluster: Cluster, local_binary: object
) -> None:
    """Field cases j9, k1: four slots, eight applications on a cluster that accepts connections and says nothing."""
    with Cluster(name="hangs") as hangs:
        fleet = make_fleet(clusters=[cluster, hangs], concurrency=2, FLEETBEAT_HTTP_READ="8")
        fast = fleet.name("fast")
        stuck = [fleet.name("stuck") for _ in range(8)]
        for app, where in [(fast, cluster.name), *((app, "hangs") for app in stuck)]:
            fleet.push(app, [config_map(app, "default")])
            fleet.application(app, cluster=where, interval="2s")
        for app in (fast, *stuck):
            fleet.wait_run(app, phase="Succeeded")
        hangs.pause()
        began = time.monotonic()
        took: list[float] = []
        while time.monotonic() - began < 15:  # past the first time-outs and the retries after them
            asked = time.monotonic()
            assert fleet.sync(fast)["phase"] == "Succeeded"
            took.append(time.monotonic() - asked)
        assert sorted(took)[len(took) * 9 // 10] < 2, took
        assert max(took) < 6, "less than the time-out of one silent request"
        silent = [fleet.state(app) for app in stuck]
        said = [state for state in silent if state["reason"] == "ClusterUnavailable"]
        assert said
        assert all("cluster hangs" in state["message"] and state["sync"] == "Unknown" for state in said)
        hangs.resume()
        for app in stuck:
            wait_for(lambda app=app: fleet.state(app)["sync"] == "Synced", timeout=45, what=f"{app} to be back")


def test_looks_and_vanished_clients_leave_nothing(make_fleet: Callable[..., Fleet]) -> None:
    """Field case j8."""
    fleet = make_fleet()
    apps = [fleet.name("calm") for _ in range(3)]
    for app in apps:
        fleet.push(app, [config_map(app, "default")])
        fleet.application(app)
    for app in apps:
        fleet.wait_run(app, phase="Succeeded")
    redis = fleet.store.redis

    def looks(count: int) -> None:
        for _ in range(count // 60):
            publish_reconcile(fleet.celery, apps * 20, wire.TICK_QUEUE)
        wait_for(lambda: not redis.llen(f"fleetbeat:{wire.TICK_QUEUE}"), timeout=60, what="all looks")

    def memory() -> int:
        return int(redis.info("memory")["used_memory"])

    looks(120)
    keys, bytes_used = set(redis.scan_iter("*")), memory()
    looks(1500)
    for _ in range(3):
        subprocess.run([sys.executable, "-c", _VANISH], env={**os.environ, **fleet.env}, check=True, timeout=30)
    wait_for(lambda: set(redis.scan_iter("*")) <= keys, timeout=20, what="no key more than before")
    assert memory() - bytes_used < 1_000_000
    for key in redis.scan_iter("*"):
        word = key.decode().removeprefix("fleetbeat:")
        assert word.startswith(KEPT) or redis.pttl(key) > 0, f"{word} stays for ever, and nobody's"


def envelope(body: bytes) -> bytes:
    headers = b'"headers": {"task": "fleetbeat.pull", "id": "x", "lang": "py"}, "content-type": "application/json"'
    properties = b'"properties": {"delivery_tag": "x", "body_encoding": "base64", "delivery_info": {}}'
    return b'{"body": "%s", "content-encoding": "utf-8", %s, %s}' % (body, headers, properties)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(b"hello", id="no JSON"),
        pytest.param(b"\xff\xfe", id="no UTF-8"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{}", id="no fields"),
        pytest.param(envelope(b""), id="empty body"),
        pytest.param(envelope(b"not base64 at all"), id="body not base64"),
        pytest.param(envelope(b"bnVsbA=="), id="body null"),
        pytest.param(envelope(b"W1sxLDIsM10seyJhIjoxfSx7fV0="), id="other arguments"),
    ],
)
def test_garbage_in_the_queue_costs_no_worker(fleet: Fleet, namespace: str, entry: bytes) -> None:
    pids = [worker.pid for worker in fleet.workers]
    fleet.store.redis.lpush(f"fleetbeat:{wire.WORK_QUEUE}", *[entry] * 4)
    app = fleet.name("goes-on")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    assert fleet.wait_run(app)["phase"] == "Succeeded"
    wait_for(lambda: not fleet.store.redis.llen(f"fleetbeat:{wire.WORK_QUEUE}"), what="the queue to be empty")
    wait_for(lambda: not fleet.store.redis.hexists("fleetbeat:unacked", "x"), what="the garbage to be gone")
    assert [worker.pid for worker in fleet.workers] == pids
