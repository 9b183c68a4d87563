"""Unchanged ticks per second through one worker, beside the rate at which the same worker carries out empty tasks.

    TICKS=2000 APPS=200 python tests/bench/bench_ticks.py

200 applications × 5 objects are synced; then all are rung again and again, as beat would, and one worker process (-P
threads -c 8 -E) works the queue off. Every tick finds nothing to do. The ratio to empty tasks is what the look itself
costs; the rest is Celery's.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import workload
from meter import Usage, machine, quiet, requests
from rig import Rig

from fleetbeat import keys, wire
from fleetbeat.clients.broker import publish_reconcile
from fleetbeat.local.process import Process

APPS = int(os.environ.get("APPS", "200"))
TICKS = int(os.environ.get("TICKS", "2000"))
RUNS = int(os.environ.get("RUNS", "3"))
QUEUE = keys.PREFIX + wire.TICK_QUEUE


def drain(rig: Rig, names: Sequence[str], worker: int) -> dict[str, float]:
    """Ring ``names`` and wait until all have been looked at; figures per tick."""
    load = quiet()
    asked, commands = requests(rig.cluster), rig.commands()
    around = {name: pid for name, pid in rig.everything().items() if not name.startswith("worker-")}
    usage = Usage({**around, "worker": worker})
    began = time.monotonic()
    publish_reconcile(rig.celery, names, wire.TICK_QUEUE)
    while rig.store.redis.llen(QUEUE) or rig.store.redis.hlen(f"{keys.PREFIX}unacked"):
        time.sleep(0.02)
    took = time.monotonic() - began
    spent = usage.end()
    count = len(names)
    asked, commands = requests(rig.cluster) - asked, rig.commands() - commands
    writes = sum(n for (verb, _, _), n in asked.items() if verb not in ("GET", "LIST", "WATCH"))
    return {
        "rate": count / took,
        "lists": sum(n for (verb, _, _), n in asked.items() if verb == "LIST") / count,
        "writes": writes,
        "commands": sum(n for name, n in commands.items() if name not in ("llen", "hlen", "info")) / count,
        "worker ms": spent["worker"] * 1000 / count,
        "redis ms": spent["redis"] * 1000 / count,
        "api ms": (spent["kube-apiserver"] + spent["etcd"]) * 1000 / count,
        "others": spent["others"],
        "load": load,
    }


def show(title: str, results: Sequence[dict[str, float]]) -> float:
    rates = [result["rate"] for result in results]
    middle = statistics.median(rates)
    print(f"  {title:<16} {middle:>7.1f}/s  ({min(rates):.1f} – {max(rates):.1f}, {len(rates)} runs)", end="")
    for name, digits in (("commands", 1), ("lists", 3), ("worker ms", 2), ("redis ms", 2), ("api ms", 2)):
        print(f"  {name} {statistics.median(result[name] for result in results):.{digits}f}", end="")
    print(f"  others {max(result['others'] for result in results):.2f} cores")
    return middle


def main() -> None:
    print(f"unchanged ticks: {APPS} applications × {workload.OBJECTS} objects, one worker, on {machine()}")
    # Every tick asks the registry what its tag means, as ticks of 3 minutes do; by default that is kept for 5 s.
    with Rig(APPS, workers=1, FLEETBEAT_RESOLVE_TTL="0.001") as rig:
        rig.register()
        rig.wait_synced(timeout=120)
        (worker,) = rig.workers
        names = [rig.apps[number % APPS] for number in range(TICKS)]
        drain(rig, rig.apps, worker.pid or 0)  # caches are warm, as they are after the first minute
        looks = [drain(rig, names, worker.pid or 0) for _ in range(RUNS)]
        ended = worker.log.read_text()
        assert ended.count("'nothing to do'") >= RUNS * TICKS, "a tick found something to do"
        rig.beat.stop()
        worker.stop()
        options = ["-P", "threads", "-c", "8", "-E", "--without-gossip", "--without-mingle", "--loglevel=INFO"]
        command = [sys.executable, "-m", "celery", "-A", "noop", "worker", *options, "-Q", wire.TICK_QUEUE]
        env = {**rig.env, "PYTHONPATH": str(Path(__file__).parent)}
        empty = Process("noop", command, log=rig.folder / "logs" / "noop.log", env=env, cwd=rig.folder)
        empty.start()
        try:
            empty.wait_ready(lambda: " ready." in empty.tail(), timeout=30)
            ceiling = [drain(rig, names, empty.pid or 0) for _ in range(RUNS)]
        finally:
            empty.kill()
    tick, task = show("unchanged ticks", looks), show("empty tasks", ceiling)
    print(f"  a tick takes {task / tick:.2f} times as long as an empty task; writes to the cluster: ", end="")
    print(f"{sum(result['writes'] for result in looks):.0f} (the control plane's own leases and such included)")


if __name__ == "__main__":
    main()
