"""Workers are killed at random moments while new digests keep coming. Nothing is lost, nothing is written twice over.

Other dice: ``KILL_SEED=<seed> pytest tests/e2e/test_kill_random.py``. The moments themselves are the machine's, so a
seed repeats the deeds and their order, not every instruction.
"""

from __future__ import annotations

import os
import random
import re
import time
import uuid
from pathlib import Path

import pytest
from breaking import at_rest, breakable, execution, new_namespace, stale_writes
from fleet import Fleet, config_map, in_wave
from nursery import Nursery, Worker
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.decisions.lifecycle import MAX_TRIES
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

KILLS = 45
SYNCS = 35
APPS = 5
WORKERS = 3


class Run:
    """One course of the test: what was pushed, who was killed."""

    def __init__(self, fleet: Fleet, nursery: Nursery, cluster: Cluster, dice: random.Random) -> None:
        self.fleet, self.nursery, self.dice = fleet, nursery, dice
        self.spaces = {f"app-{uuid.uuid4().hex[:6]}": new_namespace(cluster) for _ in range(APPS)}
        self.wanted: dict[str, dict[str, str]] = {}
        self.digests: dict[str, str] = {}
        self.pushes = self.kills = 0
        self.workers: list[Worker] = []

    def supervise(self) -> None:
        self.workers = [worker for worker in self.workers if worker.alive]
        while len(self.workers) < WORKERS:
            self.workers.append(self.nursery.worker())

    def push(self, app: str) -> None:
        """A digest that changes some objects, brings some and drops some; never the same twice."""
        self.pushes += 1
        names = self.dice.sample(range(8), self.dice.randint(3, 6))
        self.wanted[app] = {f"o{n}": f"{self.pushes if self.dice.random() < 0.7 else 0}" for n in names}
        self.wanted[app]["always"] = f"{self.pushes}"
        manifests = [
            in_wave(number % 3, config_map(name, data={"value": value}))
            for number, (name, value) in enumerate(self.wanted[app].items())
        ]
        self.digests[app] = self.fleet.push(app, manifests).digest

    def may_be_killed(self) -> bool:
        """A step that is begun five times and never ends is given up, and that is another test's business."""
        return all(int(self.fleet.runs.look(app).run.get("tries") or 0) < MAX_TRIES - 1 for app in self.spaces)

    def kill(self) -> None:
        self.dice.choice(self.workers).kill()
        self.kills += 1

    def progress(self) -> list[tuple[str, str]]:
        """Changes with every step that is done, anywhere."""
        looks = [self.fleet.runs.look(app) for app in self.spaces]
        return [(look.run.get("run", "") + look.run.get("step", ""), look.state.get("last_run", "")) for look in looks]

    def under_way(self) -> bool:
        """Otherwise nothing will progress until something is pushed."""
        looks = [self.fleet.runs.look(app) for app in self.spaces]
        return any(look.run or look.request for look in looks)

    def moved_on(self, before: list[tuple[str, str]]) -> bool:
        """A step has been done since. While everything is at rest there is nothing to wait for."""
        return self.progress() != before or not self.under_way()

    def ended(self) -> int:
        return sum(len(self.fleet.history(app)) for app in self.spaces)

    def live(self, app: str) -> dict[str, str]:
        label = "applyset.kubernetes.io%2Fpart-of"
        body = self.fleet.get(f"/api/v1/namespaces/{self.spaces[app]}/configmaps?labelSelector={label}")
        assert body is not None
        return {item["metadata"]["name"]: item["data"]["value"] for item in body["items"]}

    def begun(self, app: str, events: list[dict[str, object]]) -> set[str]:
        """Every run of which anything was ever seen: by the API server, or in a worker's log."""
        mine = [event for event in events if f" app/{app} " in f"{event.get('userAgent', '')} "]
        return {run for event in mine if (run := execution(event)[0])}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_kills(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """Field case j6."""
    seed = int(os.environ.get("KILL_SEED") or 1)
    print(f"KILL_SEED={seed}")
    since = cluster.audit_position()
    with breakable(tmp_path, registry, cluster, FLEETBEAT_HISTORY="500") as (fleet, nursery):
        run = Run(fleet, nursery, cluster, random.Random(seed))
        for app, namespace in run.spaces.items():
            run.push(app)
            fleet.application(app, namespace=namespace)
        began = time.monotonic()
        while run.kills < KILLS or run.ended() < SYNCS:
            assert time.monotonic() - began < 480, f"{run.kills} kills, {run.ended()} runs in eight minutes"
            run.supervise()
            before = run.progress()
            if run.dice.random() < 0.8 or not run.under_way():
                app = run.dice.choice(list(run.spaces))
                run.push(app)
                fleet.request(app)
            # Some step goes well between two kills, however slow the machine.
            try:
                wait_for(lambda before=before: run.moved_on(before), timeout=120, what="a step to be done")
                wait_for(run.may_be_killed, timeout=120, what="the steps tried so often to be done")
            except AssertionError as error:
                looks = [fleet.runs.look(app).run for app in run.spaces]
                raise AssertionError(f"{error}\n{looks}\n{fleet.logs()[-6000:]}") from None
            time.sleep(run.dice.uniform(0, 0.7))  # the random moment
            run.kill()
        for app, digest in run.digests.items():
            wait_for(lambda: run.supervise() or True)
            at_rest(fleet, app, digest)
        print(f"{run.kills} kills, {run.pushes} digests, {run.ended()} runs, {time.monotonic() - began:.0f} s")

        events = cluster.audit(since)
        told = re.findall(r"'run (\S+) began", fleet.logs())
        ended = {entry["run"] for app in run.spaces for entry in fleet.history(app)}
        assert set(told) <= ended, "runs that were begun and never ended"
        for app in run.spaces:
            assert run.live(app) == run.wanted[app], app
            history = [entry["run"] for entry in fleet.history(app)]
            assert len(history) == len(set(history)), f"{app}: a run has ended twice"
            assert run.begun(app, events) <= set(history), f"{app}: a run was lost"
            bad = [entry for entry in fleet.history(app) if entry["phase"] not in ("Succeeded", "Superseded")]
            failed = [f"{entry['run']} {entry['error']}: {entry['message']}" for entry in bad]
            assert failed == [], app
            assert stale_writes(fleet, app, since=since) == []
            assert not fleet.store.redis.exists(keys.run(app), keys.lock(app), keys.request(app))
