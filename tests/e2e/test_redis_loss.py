"""Redis dies, freezes, turns read-only or forgets everything, idle and in mid-run.

Processes live through it, syncs converge, what was as wanted is not written again, and nothing is pruned.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from breaking import at_rest, breakable, kept, new_namespace, stale_writes, versions
from fleet import Fleet, config_map, in_wave, words
from nursery import Nursery, Worker
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import free_port
from fleetbeat.local.registry import Registry

WAVES = (0, 5)
EACH = 6
STEADY = ("steady0", "steady1")
HELD = f"configmaps/w{WAVES[0]}-{EACH - 1}"


def bundle(value: str) -> list[dict[str, Any]]:
    """Two waves of objects with this value, and two objects that are the same in every bundle."""
    moving = [in_wave(wave, config_map(f"w{wave}-{n}", data={"key": value})) for wave in WAVES for n in range(EACH)]
    return [*(config_map(name) for name in STEADY), *moving]


MOVING = sorted(f"w{wave}-{n}" for wave in WAVES for n in range(EACH))


class Installation:
    """Two workers, some synced applications, and what must be true of them after the storm."""

    def __init__(self, fleet: Fleet, nursery: Nursery, cluster: Cluster, *, apps: int = 3) -> None:
        self.fleet, self.cluster = fleet, cluster
        self._held = fleet.folder / "held"
        plan = {"point": "before guard", "path": HELD, "do": "hold", "always": True, "while": str(self._held)}
        self.workers: list[Worker] = [nursery.worker(plan), nursery.worker(plan)]
        self.spaces = {f"app-{uuid.uuid4().hex[:6]}": new_namespace(cluster) for _ in range(apps)}
        self.digests: dict[str, str] = {}
        for app, namespace in self.spaces.items():
            self.digests[app] = fleet.push(app, bundle("first")).digest
            fleet.application(app, namespace=namespace)
        self.rest()
        self.processes = [fleet.beats[0].pid, *(worker.pid for worker in self.workers)]
        self.since = cluster.audit_position()
        self.before = {app: versions(fleet, namespace) for app, namespace in self.spaces.items()}

    def push(self, value: str) -> None:
        for app in self.spaces:
            self.digests[app] = self.fleet.push(app, bundle(value)).digest

    def rest(self) -> None:
        for app, digest in self.digests.items():
            at_rest(self.fleet, app, digest)

    @contextmanager
    def in_mid_run(self, value: str) -> Iterator[None]:
        """A new bundle is being written: each application stands before the last write of its first wave.

        The writers have their locks and go on at the end of the block.
        """
        self._held.touch()
        self.push(value)
        for app in self.spaces:
            self.fleet.request(app)
        for app in self.spaces:
            wait_for(lambda app=app: self.written(app) == EACH - 1, timeout=120, what=f"{app} to be half written")  # type: ignore[misc]
        yield
        self._held.unlink()

    def written(self, app: str) -> int:
        return len(kept(self.fleet.writes(app, since=self.since)))

    def check(self, *, rewritten: bool) -> None:
        """``rewritten``: the storm came over a new digest; then each of its objects was written once."""
        assert [self.fleet.beats[0].pid, *(w.pid for w in self.workers if w.alive)] == self.processes
        for app, namespace in self.spaces.items():
            assert stale_writes(self.fleet, app, since=self.since) == []
            writes = sorted(words(kept(self.fleet.writes(app, since=self.since))))
            assert writes == ([f"patch configmaps {namespace}/{name}" for name in MOVING] if rewritten else [])
            after = versions(self.fleet, namespace)
            assert sorted(after) == sorted(self.before[app])
            same = STEADY if rewritten else tuple(after)
            assert {n: after[n] for n in same} == {n: self.before[app][n] for n in same}


@pytest.fixture
def installation(tmp_path: Path, registry: Registry, cluster: Cluster) -> Iterator[Installation]:
    with breakable(tmp_path, registry, cluster) as (fleet, nursery):
        yield Installation(fleet, nursery, cluster)


def request_all(installation: Installation) -> None:
    for app in installation.spaces:
        installation.fleet.request(app)


def test_redis_is_killed_and_restarted_in_mid_run(installation: Installation) -> None:
    """Field case j7. What reached the append-only file comes back; the rest is found out again."""
    fleet = installation.fleet
    with installation.in_mid_run("second"):
        fleet.redis.kill()
    time.sleep(1.0)  # so long it is away; workers meet a refused connection
    fleet.redis.start()
    installation.rest()
    installation.check(rewritten=True)


def test_redis_turns_read_only_in_mid_run(installation: Installation) -> None:
    """Field case j7. As at a fail-over: the node that was the primary answers every write with READONLY for 10 s."""
    fleet = installation.fleet
    with installation.in_mid_run("second"):
        fleet.store.redis.replicaof("127.0.0.1", free_port())
    time.sleep(10.0)  # so long it refuses
    fleet.store.redis.replicaof("NO", "ONE")
    installation.rest()
    installation.check(rewritten=True)


@pytest.mark.slow
def test_redis_is_frozen_for_half_a_minute_in_mid_run(installation: Installation) -> None:
    """Field case j7."""
    fleet = installation.fleet
    with installation.in_mid_run("second"):
        fleet.redis.pause()
    time.sleep(30.0)  # so long it is frozen
    fleet.redis.resume()
    installation.rest()
    installation.check(rewritten=True)


def test_everything_is_forgotten_while_nothing_happens(installation: Installation) -> None:
    """After a flush the next looks adopt what carries our label; nothing is written, nothing is pruned."""
    fleet = installation.fleet
    fleet.store.redis.flushall()
    installation.rest()
    installation.check(rewritten=False)
    assert all(fleet.state(app)["message"] for app in installation.spaces)

    # and what follows works as ever, above the fences the cluster has seen
    installation.since = installation.cluster.audit_position()
    installation.push("second")
    request_all(installation)
    installation.rest()
    installation.check(rewritten=True)


def test_everything_is_forgotten_in_mid_run(installation: Installation) -> None:
    fleet = installation.fleet
    with installation.in_mid_run("second"):
        fleet.store.redis.flushall()
    installation.rest()
    installation.check(rewritten=True)


def test_forgotten_while_a_worker_writes(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """A worker in mid-wave goes on for a moment before it learns that its lock is gone; nobody overtakes it there."""
    with breakable(tmp_path, registry, cluster) as (fleet, nursery):
        installation = Installation(fleet, nursery, cluster, apps=1)
        for worker in installation.workers:
            worker.kill()
        installation.push("second")
        slow = nursery.worker({"point": "before guard", "path": "configmaps/w0", "nth": 3, "do": "stop"})
        request_all(installation)
        wait_for(lambda: slow.stopped, timeout=120, what="the worker to stop in mid-wave")
        fleet.store.redis.flushall()
        other = nursery.worker()
        installation.workers, installation.processes = [slow, other], [fleet.beats[0].pid, slow.pid, other.pid]
        slow.resume()
        installation.rest()
        installation.check(rewritten=True)
