"""A bundle that kills every worker that renders it. It is given up; the others keep their pace."""

from __future__ import annotations

import uuid
from pathlib import Path

from breaking import at_rest, breakable, new_namespace
from fleet import config_map, dump
from nursery import Worker
from waiting import wait_for

from fleetbeat.decisions.lifecycle import MAX_TRIES
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

POISON = f"poison-{uuid.uuid4().hex[:6]}"
DEADLY = {"point": "in render", "do": "exit", "app": POISON, "always": True}


def test_a_bundle_that_kills_its_workers_is_given_up(tmp_path: Path, registry: Registry, cluster: Cluster) -> None:
    """Field case j5."""
    # One step at a time, so that a death is the end of one try.
    with breakable(tmp_path, registry, cluster, concurrency=1) as (fleet, nursery):
        workers: list[Worker] = []
        deaths = 0

        def supervise() -> None:
            nonlocal workers, deaths
            alive = [worker for worker in workers if worker.alive]
            deaths += len(workers) - len(alive)
            workers = [*alive, *(nursery.worker(DEADLY) for _ in range(2 - len(alive)))]

        def given_up() -> bool:
            supervise()
            return bool(fleet.history(POISON))

        supervise()
        good = {f"good-{uuid.uuid4().hex[:6]}": new_namespace(cluster) for _ in range(3)}
        for app, namespace in {**good, POISON: new_namespace(cluster)}.items():
            fleet.push(app, [config_map("web", data={"key": "first"})])
            fleet.application(app, namespace=namespace)
        wait_for(given_up, timeout=200, what="the poison to be given up")
        supervise()  # for one who died after the last look at them and before that at the history
        (entry,) = fleet.history(POISON)
        assert (entry["phase"], entry["error"]) == ("Failed", "WorkerLost"), dump(entry)
        assert f"render was begun {MAX_TRIES} times" in entry["message"]
        assert deaths == MAX_TRIES

        # the others have come through, and go on doing so
        for app in good:
            digest = fleet.push(app, [config_map("web", data={"key": "second"})]).digest
            fleet.request(app)
            at_rest(fleet, app, digest)

        # ticks leave it alone, a person may try again, another digest is tried by itself
        fleet.ring(POISON)
        wait_for(lambda: "not tried again: " in fleet.logs(), what="the tick that leaves it alone")
        assert len(fleet.history(POISON)) == 1
        assert all(worker.alive for worker in workers)

        for worker in workers:
            worker.kill()
        nursery.worker()
        digest = fleet.push(POISON, [config_map("web", data={"key": "mended"})]).digest
        fleet.ring(POISON)
        at_rest(fleet, POISON, digest)
