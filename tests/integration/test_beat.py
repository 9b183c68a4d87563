"""Beats as processes on a real Redis: every slot rung once, by however many beats, through every kind of trouble.

There is no worker here. A thread plays one: it takes the messages from the tick queue and notes when.
"""

from __future__ import annotations

import base64
import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from waiting import wait_for

from fleetbeat import keys, wire
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.due import DueSet
from fleetbeat.clients.store import Store
from fleetbeat.decisions.schedule import slot_offset
from fleetbeat.local.redis import RedisServer
from fleetbeat.settings import Beat

KEY = bytes(range(32))
QUEUE = keys.PREFIX + wire.TICK_QUEUE


class BeatProcess:
    """``celery -A scheduler.app beat`` in a folder of its own."""

    def __init__(self, folder: Path, redis_url: str, catalog: Path, **settings: str) -> None:
        folder.mkdir(parents=True)
        self.folder, self.log = folder, folder / "log"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("FLEETBEAT_")}
        environment = clean | {
            "FLEETBEAT_REDIS_URL": redis_url,
            "FLEETBEAT_KEY": base64.b64encode(KEY).decode(),
            "FLEETBEAT_CATALOG": str(catalog),
            "FLEETBEAT_BEAT_CATALOG_EVERY": "0.5",
            "FLEETBEAT_BEAT_START_RATE": "1000",
            **settings,
        }
        command = [sys.executable, "-m", "celery", "-A", "scheduler.app", "beat", "--loglevel", "INFO"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)

    def said(self, text: str) -> int:
        return self.log.read_text().count(text)

    def stop(self) -> None:
        for number in (signal.SIGCONT, signal.SIGKILL):
            if self.process.poll() is None:
                self.process.send_signal(number)
        self.process.wait(10)


class Rung:
    """Takes ticks from the queue as they come: (seconds since epoch, application)."""

    def __init__(self, url: str) -> None:
        self.seen: list[tuple[float, str]] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _drain(self) -> None:
        client = redis.Redis.from_url(self._url, socket_timeout=2.0)
        while not self._over.wait(0.01):
            try:
                messages = client.rpop(QUEUE, 1000)
            except redis.exceptions.RedisError:
                continue
            now = time.time()
            for message in messages or ():
                self.seen.append((now, json.loads(base64.b64decode(json.loads(message)["body"]))[0][0]))
        client.close()

    def since(self, moment: float) -> collections.Counter[str]:
        return collections.Counter(app for at, app in list(self.seen) if at >= moment)

    def stop(self) -> None:
        self._over.set()
        self._thread.join()


def write_catalog(folder: Path, count: int, interval: str, *, extra: str = "") -> list[str]:
    """``count`` applications on one cluster; returns their names."""
    names = [f"app-{i:04}" for i in range(count)]
    text = "apiVersion: fleetbeat.dev/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec: {inCluster: true}\n"
    for name in names:
        text += (
            "---\napiVersion: fleetbeat.dev/v1alpha1\nkind: Application\n"
            f"metadata: {{name: {name}}}\n"
            "spec:\n  source: {oci: registry.example.com/shop, tag: stable}\n"
            f"  destination: {{cluster: prod, namespace: {name}}}\n  sync: {{interval: {interval}}}\n"
        )
    folder.mkdir(exist_ok=True)
    (folder / "fleet.yaml").write_text(text + extra)
    return names


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A server of the test's own, as these tests break it."""
    with RedisServer() as running:
        yield running


@pytest.fixture
def rung(server: RedisServer) -> Iterator[Rung]:
    watching = Rung(server.url)
    yield watching
    watching.stop()


@pytest.fixture
def start(server: RedisServer, tmp_path: Path) -> Iterator[Callable[..., BeatProcess]]:
    """Start a beat on the catalog ``tmp_path/catalog``."""
    running: list[BeatProcess] = []

    def starter(**settings: str) -> BeatProcess:
        beat = BeatProcess(tmp_path / f"beat-{len(running)}", server.url, tmp_path / "catalog", **settings)
        running.append(beat)
        return beat

    yield starter
    for beat in running:
        beat.stop()


def slots(seen: list[tuple[float, str]], period: float) -> dict[str, collections.Counter[int]]:
    """Application → slot number → how often it was rung in it."""
    period_ms = int(period * 1000)
    counted: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    for at, app in seen:
        counted[app][int(at * 1000 - slot_offset(app, period_ms)) // period_ms] += 1
    return counted


@pytest.mark.slow
def test_two_beats_ring_2000_applications_once_per_period(start, rung: Rung, tmp_path: Path) -> None:
    """Field case j3, j10: two beats, each application once per slot, spread over the period."""
    period = 4.0
    names = write_catalog(tmp_path / "catalog", 2000, "4s")
    beats = [start(), start()]
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=60)
    began = time.time()
    wait_for(lambda: time.time() > began + 3 * period, what="three periods", timeout=3 * period + 5)
    seen = [(at, app) for at, app in list(rung.seen) if at >= began]

    # A slot straddling either end of the observation may be seen or not: look at the two whole ones.
    counted = slots(rung.seen, period)
    wrong = {}
    for name in names:
        first = (int(began * 1000) - slot_offset(name, 4000)) // 4000 + 1
        per_slot = [counted[name][number] for number in (first, first + 1)]
        if per_slot != [1, 1]:
            wrong[name] = per_slot
    assert not wrong, f"{len(wrong)} of {len(names)} not rung exactly once per slot: {list(wrong.items())[:5]}"

    per_bucket = collections.Counter(int(at * 10) for at, _ in seen)
    assert max(per_bucket.values()) < 0.15 * len(names), "bunched instead of spread"
    assert all(beat.process.poll() is None for beat in beats)


def test_the_survivor_of_two_beats_rings_alone(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names = write_catalog(tmp_path / "catalog", 200, "2s")
    beats = [start(), start()]
    with redis.Redis.from_url(server.url) as client:
        wait_for(
            lambda: client.zcard(keys.BEATS) == 2 and set(rung.since(0)) == set(names), what="both beats", timeout=30
        )
    beats[0].process.kill()
    killed = time.time()
    wait_for(lambda: set(rung.since(killed)) == set(names), what="the survivor to ring all", timeout=10)
    assert beats[1].process.poll() is None


def test_a_catalog_that_takes_long_to_read_holds_nobody_up(
    start, rung: Rung, server: RedisServer, tmp_path: Path
) -> None:
    names = write_catalog(tmp_path / "catalog", 50, "2s")
    beat = start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=60)
    window = '{kind: deny, schedule: "%d %d * * *", duration: 1m, timeZone: Europe/London, applications: ["*"]}'
    text = "apiVersion: fleetbeat.dev/v1alpha1\nkind: Project\nmetadata: {name: default}\nspec:\n  syncWindows:\n"
    text += "".join(f"    - {window % (n % 60, n // 60 % 24)}\n".replace("1m", f"{n}s") for n in range(1, 4001))
    (tmp_path / "project.yaml").write_text(text)
    with redis.Redis.from_url(server.url) as client:
        before, began = client.hget(keys.CATALOG_STATUS, "digest"), time.time()
        (tmp_path / "project.yaml").rename(tmp_path / "catalog" / "project.yaml")
        wait_for(
            lambda: client.hget(keys.CATALOG_STATUS, "digest") != before or beat.said("catalog: ") > 1,
            what="the windows in force",
            timeout=120,
        )
        ended = time.time()
        assert client.hget(keys.CATALOG_STATUS, "digest") != before, beat.log.read_text()
    moments = [began, *(at for at, _ in list(rung.seen) if began < at < ended), ended]
    longest = max(later - earlier for earlier, later in pairwise(moments))
    assert longest < max(1.0, (ended - began) / 2), f"{longest:.1f} of {ended - began:.1f} s without a ring"


def test_a_flush_is_healed_within_seconds(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names = write_catalog(tmp_path / "catalog", 200, "1h")
    start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=30)
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    flushed = time.time()
    wait_for(lambda: set(rung.since(flushed)) == set(names), what="all to be rung again", timeout=10)
    assert max(rung.since(flushed).values()) == 1
    assert Catalogs(Store(server.url, KEY)).names() == names


def test_a_beat_stopped_for_three_periods_does_not_catch_up(start, rung: Rung, tmp_path: Path) -> None:
    """Field case j4: missed periods are skipped."""
    names = write_catalog(tmp_path / "catalog", 50, "2s")
    beat = start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=30)
    beat.process.send_signal(signal.SIGSTOP)
    stopped = time.time()
    wait_for(lambda: time.time() > stopped + 6.5, what="three periods to pass", timeout=30)
    beat.process.send_signal(signal.SIGCONT)
    resumed = time.time()
    wait_for(lambda: set(rung.since(resumed)) == set(names), what="each application to be rung again")
    # One ring for all that was missed, then one per slot: at most two in the first whole period.
    window = collections.Counter(app for at, app in list(rung.seen) if resumed <= at < resumed + 1.9)
    assert max(window.values()) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("trouble", ["killed and restarted", "frozen", "commands paused", "read-only replica"])
def test_beats_live_through_trouble_of_redis(
    start, rung: Rung, server: RedisServer, tmp_path: Path, trouble: str
) -> None:
    """Field case j7: they ring again within 30 s, without a restart, and say once that Redis was away."""
    names = write_catalog(tmp_path / "catalog", 100, "1s")
    beats = [start(), start()]
    client = redis.Redis.from_url(server.url, socket_timeout=None)
    wait_for(lambda: client.zcard(keys.BEATS) == 2 and set(rung.since(0)) == set(names), what="both beats", timeout=30)

    def noticed() -> bool:
        return all(beat.said("Nothing is rung until Redis answers again") for beat in beats)

    if trouble == "killed and restarted":
        server.kill()
        wait_for(noticed, what="both beats to notice", timeout=30)
        server.start()
    elif trouble == "frozen":
        server.pause()
        wait_for(noticed, what="both beats to notice", timeout=30)
        server.resume()
    elif trouble == "commands paused":
        client.execute_command("CLIENT", "PAUSE", 3000, "ALL")
        client.ping()  # answered when the pause is over
    else:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        wait_for(noticed, what="both beats to notice", timeout=30)
        client.execute_command("REPLICAOF", "NO", "ONE")
    over = time.time()
    wait_for(lambda: set(rung.since(over)) == set(names), what="all to be rung again", timeout=30)
    assert all(beat.process.poll() is None for beat in beats)
    if trouble != "commands paused":
        assert [beat.said("Nothing is rung") for beat in beats] == [1, 1]
        wait_for(
            lambda: all(beat.said("Redis answers again after") == 1 for beat in beats),
            what="both to say it is back",
            timeout=30,
        )
    client.close()


def test_beat_waits_for_a_redis_that_is_not_there_yet(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names = write_catalog(tmp_path / "catalog", 10, "1h")
    server.kill()
    beat = start()
    wait_for(lambda: beat.said("Nothing is rung"), what="beat to notice", timeout=30)
    server.start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=30)


def test_a_ring_reaches_the_queue_at_once(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names = write_catalog(tmp_path / "catalog", 10, "1h")
    start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=30)
    due = DueSet(Store(server.url, KEY), Beat())
    delays = []
    for name in names:
        began = time.time()
        assert due.ring(name)
        wait_for(lambda name=name, began=began: rung.since(began)[name], what="the ring")
        delays.append(time.time() - began)
    assert sorted(delays)[len(delays) // 2] < 0.5, "beat slept through the bell"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_beat_stops_at_once_and_leaves_nothing(start, server: RedisServer, tmp_path: Path, number: int) -> None:
    write_catalog(tmp_path / "catalog", 3, "1h")
    beat = start()
    with redis.Redis.from_url(server.url) as client:
        wait_for(lambda: client.zcard(keys.BEATS) == 1, what="the heartbeat", timeout=30)
        beat.process.send_signal(number)
        assert beat.process.wait(5) == 0, beat.log.read_text()
        assert client.zcard(keys.BEATS) == 0
    assert [entry.name for entry in beat.folder.iterdir()] == ["log"]
    assert "Traceback" not in beat.log.read_text()


def test_a_broken_catalog_changes_nothing_until_it_is_repaired(
    start, rung: Rung, server: RedisServer, tmp_path: Path
) -> None:
    names = write_catalog(tmp_path / "catalog", 20, "1s")
    beat = start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung", timeout=30)
    catalogs = Catalogs(Store(server.url, KEY))
    write_catalog(tmp_path / "catalog", 5, "1s", extra="---\nkind: Applicaton\n")
    wait_for(lambda: catalogs.status().error, what="the error to be shown", timeout=30)
    broken = time.time()
    wait_for(lambda: set(rung.since(broken)) == set(names), what="the last good catalog to be rung", timeout=10)
    assert "fleet.yaml" in catalogs.status().error
    assert catalogs.names() == names
    told = beat.said("ERROR")
    few = write_catalog(tmp_path / "catalog", 5, "1s")
    wait_for(
        lambda: catalogs.names() == few and not catalogs.status().error, what="the repaired one in force", timeout=30
    )
    assert beat.said("ERROR") == told == 1, "each problem is logged once"
    repaired = time.time()
    wait_for(lambda: set(rung.since(repaired)) == set(few), what="the remaining ones to be rung", timeout=10)
    assert set(rung.since(repaired + 0.5)) <= set(few)


def test_without_a_catalog_directory_beat_says_what_to_set(start) -> None:
    beat = start(FLEETBEAT_CATALOG="")
    assert beat.process.wait(20) != 0
    assert beat.said("FLEETBEAT_CATALOG is not set. Beat reads the catalog")
