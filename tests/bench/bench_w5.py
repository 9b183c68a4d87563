"""W5: one application of 1,000 objects in ten namespaces: first sync, nothing changed, one object changed.

    ROUNDS=3 OBJECTS=1000 python tests/bench/bench_w5.py

Without waves and in three waves, and beside them a serial loop over as many objects (serial.py), in the same run on the
same API server. Each round has applications and namespaces of its own. AUDIT=1 counts requests by who made them, and is
not for times.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import serial
import workload
import workload_big as big
from meter import Request, Usage, machine, peak_memory, quiet, requests
from rig import Observer, Rig

from fleetbeat import wire
from fleetbeat.clients.broker import publish_reconcile

ROUNDS = int(os.environ.get("ROUNDS", "3"))
OBJECTS = int(os.environ.get("OBJECTS", "1000"))
WORKERS = int(os.environ.get("WORKERS", "2"))
AUDIT = bool(os.environ.get("AUDIT"))
WATCHED = ("/api/v1/configmaps",)
ENOUGH = 150.0  #: seconds after which no further round begins, on a machine that is slow or busy
CHANGED = OBJECTS // 2  #: the number of the object that differs in version 2

#: title → figures of each round
Figures = dict[str, list[dict[str, float]]]


class Taken:
    """What one measurement has used: filled when its block ends."""

    figures: dict[str, float]


@contextmanager
def measured(rig: Rig, title: str, watcher: Observer | None = None, *, driver: bool = False) -> Iterator[Taken]:
    """CPU seconds, requests and Redis commands of the block; the times are the block's own business.

    ``driver``: the work is this process's.
    """
    taken = Taken()
    pids = {**rig.everything(), **({"observer": watcher.pid} if watcher else {})}
    asked, commands, position = requests(rig.cluster), rig.commands(), rig.cluster.audit_position()
    looks, usage = rig.looks, Usage(pids)
    yield taken
    spent = usage.end()
    looks = rig.looks - looks
    ours = spent["driver"] if driver else sum(spent[name] for name in rig.ours())
    taken.figures = {
        "ours": ours,
        "api": spent["kube-apiserver"] + spent["etcd"],
        "others": spent["others"],
        "commands": sum((rig.commands() - commands).values()) - looks,
        **counted(requests(rig.cluster) - asked),
    }
    if AUDIT:
        print(f"    {title}")
        for (agent, what), count in sorted(rig.by_agent(position).items()):
            print(f"      {agent:<28} {what:<44} {count:>6}")


def counted(asked: Counter[Request]) -> dict[str, float]:
    """Requests to ConfigMaps. Nobody else in this rig asks for any; the ApplySet parent is one of them."""
    found = {"lists": 0.0, "reads": 0.0, "dry": 0.0, "writes": 0.0}
    for (verb, resource, dry), count in asked.items():
        if resource == "configmaps" and verb != "WATCH":
            word = {"LIST": "lists", "GET": "reads"}.get(verb, "dry" if dry else "writes")
            found[word] += count
    return {**found, "requests": sum(found.values())}


def first_sync(rig: Rig, app: str, waves: int) -> dict[str, float]:
    workload.make_namespaces(rig.cluster, big.spaces(app))
    big.push_bundle(rig.registry, app, big.manifests(app, OBJECTS, waves=waves))
    document = workload.application(app, rig.registry, "bench", "1h")
    with Observer(rig.cluster, f"{workload.LABEL}={big.version(app, 1)}", WATCHED, rig.folder) as observer:
        quiet()
        with measured(rig, f"{app}: first sync", observer) as taken:
            began, wall = time.monotonic(), time.time()
            rig.write(app, document)
            seen = observer.wait(OBJECTS, timeout=120)
            ended = int(rig.wait_state(app, phase="Succeeded", sync="Synced")["finished"]) / 1000 - wall
    times = [at - began for at, _ in seen]
    return {"time": max(times), "first object": min(times), "reported": ended, **taken.figures}


def asked_for(rig: Rig, app: str) -> dict[str, float]:
    """Somebody asks for a sync, and nothing has changed: from the request to the report."""
    quiet()
    with measured(rig, f"{app}: asked for") as taken:
        began = time.monotonic()
        rig.wait_state(app, handled=rig.request(app))
        took = time.monotonic() - began
    return {"time": took, **taken.figures}


def tick(rig: Rig, app: str) -> dict[str, float]:
    """What beat has looked at once per interval. No observation is shared: the last one is older than the last sync."""
    quiet()

    def done() -> int:
        return sum(worker.log.read_text().count("'nothing to do'") for worker in rig.workers)

    with measured(rig, f"{app}: tick") as taken:
        before, began = done(), time.monotonic()
        publish_reconcile(rig.celery, [app], wire.TICK_QUEUE)
        while done() == before:
            if time.monotonic() > began + 60:
                raise SystemExit(f"no look at {app} has found nothing to do within a minute")
            time.sleep(0.005)
        took = time.monotonic() - began
    return {"time": took, **taken.figures}


def one_change(rig: Rig, app: str, waves: int) -> dict[str, float]:
    """The changed bundle is there; from the request to the object, and to the report."""
    big.push_bundle(rig.registry, app, big.manifests(app, OBJECTS, waves=waves, changed=[CHANGED]))
    with Observer(rig.cluster, f"{workload.LABEL}={big.version(app, 2)}", WATCHED, rig.folder) as observer:
        quiet()
        with measured(rig, f"{app}: one change", observer) as taken:
            began = time.monotonic()
            request = rig.request(app)
            (at, _), *_ = observer.wait(1, timeout=120)
            rig.wait_state(app, handled=request)
            ended = time.monotonic() - began
    return {"time": at - began, "reported": ended, **taken.figures}


def serial_loop(rig: Rig, app: str, figures: Figures) -> None:
    workload.make_namespaces(rig.cluster, big.spaces(app))
    client = serial.connect(rig.cluster)
    for title, changed, expected in (("first", (), OBJECTS), ("nothing", (), 0), ("one change", [CHANGED], 1)):
        quiet()
        with measured(rig, f"{app}: {title}", driver=True) as taken:
            took, written = serial.sync(client, big.manifests(app, OBJECTS, changed=changed))
        assert written == expected, f"the serial loop wrote {written} objects, not {expected}"
        figures.setdefault(f"serial, {title}", []).append({"time": took, **taken.figures})


def one_round(rig: Rig, number: int, figures: Figures) -> None:
    for waves in (1, 3):
        app, name = f"big-{waves}-{number}", "" if waves == 1 else f", {waves} waves"
        for title, found in (
            (f"first{name}", first_sync(rig, app, waves)),
            (f"tick{name}", tick(rig, app)),
            (f"asked{name}", asked_for(rig, app)),
            (f"one change{name}", one_change(rig, app, waves)),
        ):
            figures.setdefault(title, []).append(found)
    serial_loop(rig, f"serial-{number}", figures)


def show(figures: Figures) -> None:
    print(f"  {'median (least – most)':<24} {'seconds':>22} {'reads':>6} {'lists':>6} {'dry':>6} {'writes':>6}", end="")
    print(f" {'ours':>6} {'API':>6} {'Redis':>6} {'others':>7}   (CPU seconds; commands; cores)")
    for title, rounds in figures.items():
        times = [found["time"] for found in rounds]
        middle = {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}
        print(f"  {title:<24} {middle['time']:>7.3f} ({min(times):.3f} – {max(times):.3f})", end="")
        print("".join(f" {middle[name]:>6.0f}" for name in ("reads", "lists", "dry", "writes")), end="")
        print(f" {middle['ours']:>6.2f} {middle['api']:>6.2f} {middle['commands']:>6.0f}", end="")
        print(f" {max(found['others'] for found in rounds):>7.2f}", end="")
        told = [f"{name} {middle[name]:.2f}" for name in ("first object", "reported") if name in middle]
        print(f"   {', '.join(told)}")
    for title, against in (("first", "first"), ("asked", "nothing"), ("one change", "one change")):
        ratio = statistics.median(found["time"] for found in figures[f"serial, {against}"]) / statistics.median(
            found["time"] for found in figures[title]
        )
        print(f"  {title}: {ratio:.1f} times as fast as the serial loop")


def main() -> None:
    print(f"W5: 1 application × {OBJECTS} objects, {WORKERS} workers, on {machine()}")
    figures: Figures = {}
    with Rig(1, workers=WORKERS, audit=AUDIT) as rig, peak_memory(list(rig.ours().values())) as peak:
        rig.register()  # a small one first: connections and discovery are there, as for the tools in the table
        rig.wait_synced(timeout=60)
        began, rounds = time.monotonic(), 0
        while rounds < ROUNDS and (not rounds or time.monotonic() - began < ENOUGH):
            one_round(rig, rounds, figures)
            rounds += 1
    print(f"  {rounds} of {ROUNDS} rounds")
    show(figures)
    print(f"  memory peak {peak[0]:.0f} MiB (PSS of beat, workers, Redis)")


if __name__ == "__main__":
    main()
