"""W1: 100 applications × 5 objects, cold, seen from outside. Fleetbeat with its defaults: beat, two workers, Redis.

    RUNS=3 APPS=100 python tests/bench/bench_w1.py

The clock starts before the first file of the catalog is written and stops when the observer has seen the last object.
Namespaces and bundles are there beforehand. AUDIT=1 counts requests by who made them, and is not for times.
"""

from __future__ import annotations

import os
import statistics
import time
from collections import Counter

import workload
from meter import Usage, machine, peak_memory, quiet, requests
from rig import Observer, Rig

RUNS = int(os.environ.get("RUNS", "3"))
APPS = int(os.environ.get("APPS", "100"))
WORKERS = int(os.environ.get("WORKERS", "2"))
AUDIT = bool(os.environ.get("AUDIT"))


def run() -> dict[str, float]:
    """One cold rollout, on parts of its own."""
    with (
        Rig(APPS, workers=WORKERS, audit=AUDIT) as rig,
        Observer(rig.cluster, f"{workload.LABEL}=v1", workload.PATHS, rig.folder) as observer,
    ):
        load = quiet()
        before, position = requests(rig.cluster), rig.cluster.audit_position()
        redis_before = rig.commands()
        with peak_memory(list(rig.ours().values())) as peak:
            usage = Usage({**rig.everything(), "observer": observer.pid})
            began, wall = rig.register(), time.time()
            seen = observer.wait(APPS * workload.OBJECTS, timeout=120)
            healthy = rig.wait_synced(timeout=60) / 1000 - wall
            spent = usage.end()
        asked = requests(rig.cluster) - before
        commands = rig.commands() - redis_before
        times = sorted(at - began for at, _ in seen)
        apps: dict[str, float] = {}
        for at, name in seen:
            namespace = name.partition("/")[0]
            apps[namespace] = max(apps.get(namespace, 0.0), at - began)
        done = sorted(apps.values())
        if os.environ.get("COMMANDS"):
            print("    Redis, per application:", {name: n / APPS for name, n in commands.most_common(20)})
        if AUDIT:
            audited(rig.by_agent(position))
    ours = {name: spent[name] for name in rig_names(spent)}
    result = {
        "all objects": times[-1],
        "first object": times[0],
        "app p50": done[len(done) // 2],
        "app p95": done[int(len(done) * 0.95)],
        "synced, healthy": healthy,
        "others": spent["others"],
        "load": load,
        "memory": peak[0],
        "redis commands": sum(commands.values()) / APPS,
        "ours": sum(ours.values()) / APPS,
        "api": (spent["kube-apiserver"] + spent["etcd"]) / APPS,
    }
    object_requests, beside = counted(asked)
    result |= {"object requests": object_requests / APPS, "beside": beside / APPS}
    shares = ", ".join(f"{name} {value:.2f}" for name, value in spent.items() if name != "others")
    print(
        f"  {times[-1]:.2f} s (first object {times[0]:.2f}, app p50 {result['app p50']:.2f}, "
        f"p95 {result['app p95']:.2f}, all Synced and Healthy {healthy:.2f})\n"
        f"    requests per application: {result['object requests']:.2f} to objects, {result['beside']:.2f} beside; "
        f"Redis commands {result['redis commands']:.0f}\n"
        f"    CPU s: {shares}\n"
        f"    memory peak {peak[0]:.0f} MiB; others used {spent['others']:.2f} cores during the run, {load:.2f} before"
    )
    return result


def rig_names(spent: dict[str, float]) -> list[str]:
    return [name for name in spent if name.startswith("worker-") or name in ("beat", "redis")]


def counted(asked: Counter[tuple[str, str, str]]) -> tuple[int, int]:
    """Fleetbeat's requests to objects' endpoints, and beside them: parents, namespaces, discovery is not counted.

    Who asked is not in the metrics. In this rig nobody else reads or writes these kinds themselves: the controllers
    use watches and the status subresource; AUDIT=1 holds this to the audit log.
    """
    objects = beside = 0
    for (verb, resource, _), count in asked.items():
        if verb == "APPLY" or (verb in ("GET", "LIST") and resource in workload.RESOURCES and resource != "configmaps"):
            objects += count
        elif resource in ("configmaps", "namespaces") and verb in ("GET", "LIST", "POST", "PUT"):
            beside += count
    return objects, beside


def audited(found: Counter[tuple[str, str]]) -> None:
    for (agent, what), count in sorted(found.items()):
        print(f"    {agent:<28} {what:<44} {count:>6}")


def main() -> None:
    print(f"W1: {APPS} applications × {workload.OBJECTS} objects, {WORKERS} workers, on {machine()}")
    results = [run() for _ in range(RUNS)]
    print(f"  median of {RUNS} (least – most)")
    for name, unit, digits in (
        ("all objects", "s", 2),
        ("synced, healthy", "s", 2),
        ("object requests", "per application (2N = 10)", 2),
        ("beside", "per application", 2),
        ("ours", "CPU-s per application: beat, workers, Redis", 4),
        ("api", "CPU-s per application: API server, etcd", 4),
        ("redis commands", "per application", 0),
        ("memory", "MiB, PSS peak of beat, workers, Redis", 0),
        ("others", "cores used by others meanwhile", 2),
    ):
        values = [result[name] for result in results]
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"    {name:<16} {middle:>9.{digits}f}  ({low:.{digits}f} – {high:.{digits}f})  {unit}")
    rates = [APPS / result["all objects"] for result in results]
    print(f"    {'rate':<16} {statistics.median(rates):>9.1f}  ({min(rates):.1f} – {max(rates):.1f})  applications/s")


if __name__ == "__main__":
    main()
