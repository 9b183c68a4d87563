"""The queue under everyday abuse: a cluster that hangs, clients that vanish, thousands of looks with nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from fleet import PATIENT, Fleet, config_map
from waiting import wait_for

from fleetbeat import wire
from fleetbeat.clients.broker import publish_reconcile
from fleetbeat.local.cluster import Cluster

#: keys that stay as long as the installation or its application; all others must expire by themselves
KEPT = ("due", "periods", "catalog", "fence", "beats", "events", "state:", "history:", "fleet-orders", "_kombu.binding")

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
    """Field cases j9, k1: four slots, eight applications on a cluster that accepts connections and says nothing.

    Would each of their looks hold a slot for the time-out, then each of a sync's steps would wait for one to be free.
    """
    time_out = 8.0
    with Cluster(name="hangs") as hangs:
        fleet = make_fleet(clusters=[cluster, hangs], concurrency=2, FLEETBEAT_HTTP_READ=f"{time_out:g}", **PATIENT)
        fast = fleet.name("fast")
        stuck = [fleet.name("stuck") for _ in range(8)]
        for app, where in [(fast, cluster.name), *((app, "hangs") for app in stuck)]:
            fleet.push(app, [config_map(app, "default")])
            fleet.application(app, cluster=where, interval="2s")
        for app in (fast, *stuck):
            fleet.wait_run(app, phase="Succeeded")
        hangs.pause()

        def said() -> list[dict[str, str]]:
            return [state for app in stuck if (state := fleet.state(app))["reason"] == "ClusterUnavailable"]

        took: list[float] = []
        deadline = time.monotonic() + 240
        # Past the first time-outs and the retries after them.
        while sum(took) < 1.5 * time_out or len(took) < 5 or not said():
            assert time.monotonic() < deadline, took
            asked = time.monotonic()
            assert fleet.sync(fast)["phase"] == "Succeeded"
            took.append(time.monotonic() - asked)
        assert sorted(took)[len(took) // 2] < time_out, took
        assert all("cluster hangs" in state["message"] and state["sync"] == "Unknown" for state in said())
        hangs.resume()
        for app in stuck:
            wait_for(lambda app=app: fleet.state(app)["sync"] == "Synced", timeout=120, what=f"{app} to be back")


def test_looks_and_vanished_clients_leave_nothing(make_fleet: Callable[..., Fleet]) -> None:
    """Field case j8."""
    fleet = make_fleet(**PATIENT)
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
        wait_for(lambda: not redis.llen(f"fleetbeat:{wire.TICK_QUEUE}"), timeout=240, what="all looks")

    def memory() -> int:
        return int(redis.info("memory")["used_memory"])

    looks(120)
    keys, bytes_used = set(redis.scan_iter("*")), memory()
    looks(1500)
    for _ in range(3):
        subprocess.run([sys.executable, "-c", _VANISH], env={**os.environ, **fleet.env}, check=True, timeout=240)
    wait_for(lambda: set(redis.scan_iter("*")) <= keys, what="no key more than before")
    wait_for(lambda: memory() - bytes_used < 1_000_000, what="no megabyte more than before")

    def left() -> list[str]:
        """Keys that stay for ever, and are nobody's. -1: there, and without an end."""
        words = [key.decode().removeprefix("fleetbeat:") for key in redis.scan_iter("*") if redis.pttl(key) == -1]
        return [word for word in words if not word.startswith(KEPT)]

    # What is taken from a queue, and not done yet, is in no key that ends.
    wait_for(lambda: left() == [], what="all looks to be done and nothing to be left")


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
