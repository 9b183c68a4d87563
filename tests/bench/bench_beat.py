"""How fast beat is: claims and publishes per second, and two beats over a fleet at a period of 60 s.

    python tests/bench/bench_beat.py [--applications 2000] [--period 60] [--periods 1]

Redis, beats and this script share the machine. Goals: 2,000 claims and publishes per second, every application once
per period.
"""

from __future__ import annotations

import argparse
import base64
import collections
import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis

from fleetbeat import keys, wire
from fleetbeat.clients.broker import make_app, publish_reconcile
from fleetbeat.clients.due import DueSet
from fleetbeat.clients.store import Store
from fleetbeat.decisions.schedule import slot_offset
from fleetbeat.local.redis import RedisServer
from fleetbeat.model import SecretText
from fleetbeat.settings import Beat, Settings

KEY = os.urandom(32)
ROUNDS = 7
MEMBERS = 10_000
QUEUE = keys.PREFIX + wire.TICK_QUEUE


def machine() -> str:
    model = next(
        (line.split(":")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""
    )
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} × {model.strip() or platform.machine()}, Python {platform.python_version()}, load {load:.1f}"
    )


def rates(title: str, work: Callable[[], int]) -> None:
    """Print per-second rates of ``work``, which returns how much it did, as median and spread of several rounds."""
    measured = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        done = work()
        measured.append(done / (time.perf_counter() - began))
    low, middle, high = min(measured), statistics.median(measured), max(measured)
    print(f"  {title:<58} {middle:>9,.0f}/s   ({low:,.0f} – {high:,.0f}, {ROUNDS} rounds)")


def single(url: str) -> None:
    """One process, no beat: what the parts can do."""
    store = Store(url, KEY)
    settings = dataclasses.replace(Beat(), start_rate=1e9)
    due = DueSet(store, settings)
    periods = {f"app-{i:05}": 3600.0 for i in range(MEMBERS)}
    app = make_app(Settings(redis_url=SecretText(url)), "bench")

    def make_due() -> None:
        store.redis.delete(QUEUE)
        store.redis.zadd(keys.DUE, dict.fromkeys(periods, 1))

    def claim_only() -> int:
        make_due()
        done = 0
        while (claimed := due.claim(settings.batch)).looked:
            due.settle(claimed)
            done += len(claimed.apps)
        return done

    def claim_and_publish() -> int:
        make_due()
        done = 0
        while (claimed := due.claim(settings.batch)).looked:
            publish_reconcile(app, claimed.ticks, wire.TICK_QUEUE)
            due.settle(claimed)
            done += len(claimed.apps)
        return done

    def publish_only() -> int:
        store.redis.delete(QUEUE)
        publish_reconcile(app, list(periods)[: settings.batch], wire.TICK_QUEUE)
        return settings.batch

    def register_unchanged() -> int:
        due.register(periods)
        return 1

    def register_new() -> int:
        store.redis.flushall()
        due.register(periods)
        return MEMBERS

    def idle() -> int:
        for _ in range(200):
            due.claim(settings.batch)
        return 200

    rates(f"register {MEMBERS:,} new applications", register_new)
    rates(f"register {MEMBERS:,} unchanged (whole calls)", register_unchanged)
    rates("claim + settle, batches of 500", claim_only)
    rates("publish, batches of 500", publish_only)
    rates("claim + publish + settle, batches of 500", claim_and_publish)
    store.redis.zadd(keys.DUE, dict.fromkeys(periods, 9e15))
    rates("claim with nothing due (whole calls)", idle)


def fleet(url: str, folder: Path, applications: int, period: int, periods: int) -> None:
    """Two beats as processes, each message noted as it comes."""
    catalog = folder / "catalog"
    catalog.mkdir()
    head = "apiVersion: fleetbeat.dev/v1alpha1\nkind: "
    documents = [f"{head}Cluster\nmetadata: {{name: prod}}\nspec: {{inCluster: true}}\n"]
    names = [f"app-{i:05}" for i in range(applications)]
    documents += [
        f"{head}Application\nmetadata: {{name: {name}}}\nspec:\n  source: {{oci: r.example.com/a, tag: stable}}\n"
        f"  destination: {{cluster: prod, namespace: {name}}}\n  sync: {{interval: {period}s}}\n"
        for name in names
    ]
    (catalog / "fleet.yaml").write_text("---\n".join(documents))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEETBEAT_")} | {
        "FLEETBEAT_REDIS_URL": url,
        "FLEETBEAT_KEY": base64.b64encode(KEY).decode(),
        "FLEETBEAT_CATALOG": str(catalog),
    }
    seen: list[tuple[float, str]] = []
    over = threading.Event()

    def drain() -> None:
        client = redis.Redis.from_url(url)
        while not over.wait(0.005):
            messages = client.rpop(QUEUE, 1000)
            now = time.time()
            seen.extend((now, application_of(message)) for message in messages or ())

    drainer = threading.Thread(target=drain)
    drainer.start()
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "scheduler.app", "beat"]
    beats = [subprocess.Popen(command, cwd=folder, env=environment) for _ in range(2)]
    try:
        began = time.time()
        while len({app for _, app in seen}) < applications:
            if any(beat.poll() is not None for beat in beats):
                raise SystemExit("a beat has ended")
            time.sleep(0.1)
        print(f"  all rung a first time after {time.time() - began:.1f} s (start rate 100/s)")
        began = time.time()
        spent = cpu(beats)
        while time.time() < began + (periods + 1) * period:
            time.sleep(0.2)
        cores = (cpu(beats) - spent) / (time.time() - began)
    finally:
        over.set()
        drainer.join()
        for beat in beats:
            beat.terminate()
        for beat in beats:
            beat.wait(10)
    report(seen, names, began, period * 1000, periods)
    print(f"  both beats together: {cores:.3f} cores")


def application_of(message: bytes) -> str:
    name: str = json.loads(base64.b64decode(json.loads(message)["body"]))[0][0]
    return name


def report(seen: list[tuple[float, str]], names: list[str], began: float, period_ms: int, periods: int) -> None:
    counted: collections.Counter[tuple[str, int]] = collections.Counter()
    late = []
    for at, app in seen:
        since_slot = (int(at * 1000) - slot_offset(app, period_ms)) % period_ms
        counted[app, (int(at * 1000) - slot_offset(app, period_ms)) // period_ms] += 1
        if at > began:
            late.append(since_slot)
    exact = wrong = 0
    for name in names:
        first = (int(began * 1000) - slot_offset(name, period_ms)) // period_ms + 1
        for slot in range(first, first + periods):
            exact += counted[name, slot] == 1
            wrong += counted[name, slot] != 1
    buckets = collections.Counter(int(at * 10) for at, _ in seen if at > began)
    late.sort()
    print(f"  {exact:,} slots of {len(names):,} applications rung exactly once, {wrong:,} not")
    print(f"  slot → message read: p50 {late[len(late) // 2]} ms, p99 {late[len(late) * 99 // 100]} ms")
    print(f"  fullest 100 ms: {max(buckets.values())} messages, even would be {len(names) * 100 / period_ms:.1f}")


def cpu(processes: list[subprocess.Popen[bytes]]) -> float:
    """Seconds of processor time so far."""
    ticks = os.sysconf("SC_CLK_TCK")
    fields = [Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split() for process in processes]
    return sum(int(field[11]) + int(field[12]) for field in fields) / ticks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--applications", type=int, default=2000)
    parser.add_argument("--period", type=int, default=60, help="seconds")
    parser.add_argument("--periods", type=int, default=1, help="whole periods to check")
    given = parser.parse_args()
    print(f"beat on {machine()}")
    with RedisServer() as server:
        print(f"one process, {MEMBERS:,} applications")
        single(server.url)
    with RedisServer() as server, tempfile.TemporaryDirectory() as folder:
        print(f"two beats, {given.applications:,} applications every {given.period} s")
        fleet(server.url, Path(folder), given.applications, given.period, given.periods)


if __name__ == "__main__":
    main()
