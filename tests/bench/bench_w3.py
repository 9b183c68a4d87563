"""W3: 100 applications × 5 objects that nobody touches, each looked at once a minute. What does that cost per minute?

    python tests/bench/bench_w3.py [--seconds 60] [--warm-up 20] [--idle 20]

First the control plane alone is measured (Fleetbeat is up and knows of no application), then, after a first sync and a
warm-up, the same for the window. Processor time of the API server and etcd is told without what they use idle. Then,
with Fleetbeat stopped, the same looks are done by a serial loop (serial.py), one application after the other.
AUDIT=1 counts requests by who made them, and is not for CPU.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from dataclasses import dataclass

import serial
import workload
from meter import Request, Usage, machine, peak_memory, quiet, requests
from rig import Rig

from fleetbeat.decisions.inventory import PART_OF, applyset_id, parent_name, split_group_kind

APPS = int(os.environ.get("APPS", "100"))
WORKERS = int(os.environ.get("WORKERS", "2"))
AUDIT = bool(os.environ.get("AUDIT"))
INTERVAL = 60  #: seconds, of every application


@dataclass(frozen=True)
class Window:
    """What so many seconds have cost."""

    seconds: float
    cores: dict[str, float]  #: process → cores used; "others": by nobody we know
    asked: Counter[Request]
    commands: Counter[str]  #: of Redis
    looks: int  #: "nothing to do" in the workers' logs
    agents: Counter[tuple[str, str]]  #: with AUDIT

    def total(self, *names: str) -> float:
        return sum(self.cores[name] for name in names)


def watched(rig: Rig, seconds: float) -> Window:
    """Sit still for so long; this process reads no clock but its own, and asks nobody anything meanwhile."""
    asked, commands, position = requests(rig.cluster), rig.commands(), rig.cluster.audit_position()
    looks, usage, began = found_nothing(rig), Usage(rig.everything()), time.monotonic()
    time.sleep(seconds)
    spent, took = usage.end(), time.monotonic() - began
    others = spent.pop("others")
    return Window(
        took,
        {**{name: used / took for name, used in spent.items()}, "others": others},
        requests(rig.cluster) - asked,
        rig.commands() - commands,
        found_nothing(rig) - looks,
        rig.by_agent(position) if AUDIT else Counter(),
    )


def found_nothing(rig: Rig) -> int:
    return sum(worker.log.read_text().count("'nothing to do'") for worker in rig.workers)


def to_objects(asked: Counter[Request]) -> Counter[str]:
    """Verb → requests to the five kinds' own endpoints.

    Who asked is not in the metrics. Nobody else in this rig reads or writes these kinds: its controllers watch, and
    use the status subresource; AUDIT=1 holds this to the audit log.
    """
    found: Counter[str] = Counter()
    for (verb, resource, _), count in asked.items():
        if resource in workload.RESOURCES and verb != "WATCH":
            found[verb] += count
    return found


def serial_loop(rig: Rig, idle: Window) -> None:
    """One look at each application; at one round a minute its processor seconds are sixtieths of cores."""
    for process in (rig.beat, *rig.workers):
        process.kill()
    client, home = serial.connect(rig.cluster), rig.settings.namespace
    apis = client.api_set()
    resources = [found for kind in workload.KINDS if (found := apis.find(*split_group_kind(kind)))]
    quiet()
    before, usage, began = requests(rig.cluster), Usage(rig.everything()), time.monotonic()
    for app in rig.apps:
        found = serial.look(client, resources, f"{PART_OF}={applyset_id(parent_name(app), home)}")
        assert found == workload.OBJECTS, f"the serial loop found {found} objects of {app}"
    took, spent = time.monotonic() - began, usage.end()
    asked = to_objects(requests(rig.cluster) - before)
    control = ("kube-apiserver", "etcd")
    more = sum(spent[name] for name in control) - idle.total(*control) * took
    verbs = ", ".join(f"{count} {verb}" for verb, count in sorted(asked.items()))
    print(
        f"  a serial loop, each round a minute: {sum(asked.values()) / APPS:.3f} requests to objects per "
        f"application-minute ({verbs}), {took:.2f} s each round\n"
        f"    itself {spent['driver'] / INTERVAL:.4f} cores, API server and etcd {more / INTERVAL:.4f} more than idle; "
        f"others used {spent['others']:.2f}"
    )


def show(idle: Window, steady: Window, memory: float) -> None:
    minutes, control = steady.seconds / 60, ("kube-apiserver", "etcd")
    workers = tuple(f"worker-{number}" for number in range(1, WORKERS + 1))
    ours = (*workers, "beat", "redis")
    asked = to_objects(steady.asked)
    verbs = ", ".join(f"{count} {verb}" for verb, count in sorted(asked.items()))
    beside = (sum(steady.asked.values()) - sum(asked.values())) / minutes
    beside_idle = sum(idle.asked.values()) / idle.seconds * 60
    shares = ", ".join(f"{name} {steady.cores[name]:.4f}" for name in ours)
    more = steady.total(*control) - idle.total(*control)
    others = f"{steady.cores['others']:.2f} cores in the window, {idle.cores['others']:.2f} in the idle time"
    print(
        f"  {steady.seconds:.1f} s, {steady.looks} looks = {steady.looks / minutes / APPS:.2f} per application-minute\n"
        f"  requests to objects: {sum(asked.values()) / minutes / APPS:.3f} per application-minute ({verbs})\n"
        f"  requests beside: {beside:.0f} per minute, {beside_idle:.0f} idle (the control plane's leases and checks)\n"
        f"  ours: {steady.total(*ours):.4f} cores ({shares}), idle {idle.total(*ours):.4f}\n"
        f"  API server and etcd: {more:.4f} cores more than idle ({idle.total(*control):.4f} idle)\n"
        f"  registry: {steady.cores['registry']:.4f} cores; Redis commands per second "
        f"{sum(steady.commands.values()) / steady.seconds:.0f}, {sum(idle.commands.values()) / idle.seconds:.0f} idle\n"
        f"  memory: {memory:.0f} MiB (PSS of beat, workers, Redis)\n"
        f"  others used {others}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the window; whole minutes hold whole rounds")
    parser.add_argument("--warm-up", type=float, default=20.0)
    parser.add_argument("--idle", type=float, default=20.0)
    given = parser.parse_args()
    fleet = f"{APPS} applications × {workload.OBJECTS} objects"
    print(f"W3: {fleet}, interval {INTERVAL} s, {WORKERS} workers, on {machine()}")
    with Rig(APPS, workers=WORKERS, interval=f"{INTERVAL}s", audit=AUDIT) as rig:
        quiet()
        idle = watched(rig, given.idle)
        rig.register()
        rig.wait_synced(timeout=120)
        time.sleep(given.warm_up)
        with peak_memory(list(rig.ours().values()), every=15.0) as peak:
            steady = watched(rig, given.seconds)
        if steady.looks == 0:
            raise SystemExit("no application was looked at: the window is shorter than the interval")
        show(idle, steady, peak[0])
        serial_loop(rig, idle)
    for (agent, what), count in sorted(steady.agents.items()):
        print(f"    {agent:<28} {what:<44} {count:>6}")


if __name__ == "__main__":
    main()
