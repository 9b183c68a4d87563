"""A `fleetbeat watch` beside a fleet, for as long as a test needs one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from fleet import Fleet
from waiting import wait_for

from fleetbeat.clients.watch_lease import watchers
from fleetbeat.local.process import Process


@contextmanager
def watching(fleet: Fleet, number: int = 1, **env: str) -> Iterator[Process]:
    """A watch process of this installation. Every cluster has one when the block begins."""
    process = Process(
        f"watch-{number}",
        [sys.executable, "-m", "scheduler.watch"],
        log=fleet.folder / f"watch-{number}.log",
        env={**fleet.env, **env},
    )
    process.start()
    try:
        wait_for(lambda: all(watchers(fleet.store, fleet.clusters).values()), timeout=120, what="the watch to begin")
        yield process
    finally:
        process.stop(grace=60)  # in good order: its leases are free for the next test
