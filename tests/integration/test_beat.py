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
        self.process.wait(60)


class Rung:
    """Takes ticks from the queue as they come: (seconds since epoch, application)."""

    def __init__(self, url: str) -> None:
        self.seen: list[tuple[float, str]] = []
        self._url = url
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()

    def _drain(self) -> None:
        client = redis.Redis.from_url(self._url, socket_timeout=30.0)  # what a later answer brings is lost
        while not self._over.wait(0.01):
            try:
                messages = client.rpop(QUEUE, 1000)
            except redis.exceptions.RedisError:
                continue
            now = time.time()  # not before it was rung
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
    whole = folder.parent / "fleet.yaml"
    whole.write_text(text + extra)
    whole.rename(folder / "fleet.yaml")  # beat never reads half a file
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


def slots_begun(app: str, period: float, since: float, until: float) -> int:
    """How many slots of the application lie after ``since`` and not after ``until``, seconds since epoch."""
    period_ms = int(period * 1000)
    offset = slot_offset(app, period_ms)
    return (int(until * 1000) - offset) // period_ms - (int(since * 1000) - offset) // period_ms


def too_often(seen: list[tuple[float, str]], period: float, since: float) -> dict[str, int]:
    """Application → its first ring too many, where it was rung more than once beside once per slot since ``since``.

    However late a ring is seen: at any moment no more can have been seen than slots had begun by then.
    """
    counted: collections.Counter[str] = collections.Counter()
    wrong: dict[str, int] = {}
    for at, app in seen:
        counted[app] += 1
        if counted[app] > 1 + slots_begun(app, period, since, at):
            wrong.setdefault(app, counted[app])
    return wrong


def last_moment_without_periods(server: RedisServer) -> float:
    """Seconds since epoch when no application was registered yet, right before they were."""
    moment = 0.0
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:

        def registered() -> bool:
            nonlocal moment
            before = time.time()
            if client.exists(keys.PERIODS):
                return True
            moment = before
            return False

        wait_for(registered, what="the applications to be registered")
    return moment


def tenths(seen: list[tuple[float, str]]) -> int:
    """In how many tenths of a second somebody was rung."""
    return len({int(at * 10) for at, _ in seen})


@pytest.mark.slow
def test_two_beats_ring_2000_applications_once_per_period(
    start, rung: Rung, server: RedisServer, tmp_path: Path
) -> None:
    """Field case j3, j10: two beats, each application once per slot, spread over the period."""
    period = 4.0
    names = write_catalog(tmp_path / "catalog", 2000, "4s")
    beats = [start(), start()]
    since = last_moment_without_periods(server)
    wait_for(
        lambda: min(map(rung.since(0).__getitem__, names)) >= 4,
        what="each application to be rung for three periods",
        timeout=240,
        every=0.5,
    )
    wrong = too_often(list(rung.seen), period, since)
    assert not wrong, f"{len(wrong)} of {len(names)} rung more than once per slot: {list(wrong.items())[:5]}"
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        latest = max(due for _, due in client.zrange(keys.DUE, 0, -1, withscores=True))
        assert latest <= client.time()[0] * 1000 + 1000 + period * 1000, "nobody's next slot is passed over"
    # Bunched, they would fill a tenth or two of each period.
    wait_for(lambda: tenths(rung.seen) >= 60, what="rings in sixty tenths of a second")
    assert all(beat.process.poll() is None for beat in beats)


def test_the_survivor_of_two_beats_rings_alone(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names = write_catalog(tmp_path / "catalog", 200, "2s")
    beats = [start(), start()]
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        wait_for(lambda: client.zcard(keys.BEATS) == 2 and set(rung.since(0)) == set(names), what="both beats")
    beats[0].process.kill()
    killed = time.time()
    # What was in the queue by then may have been rung by either, once.
    wait_for(lambda: min(map(rung.since(killed).__getitem__, names)) >= 2, what="the survivor to ring all")
    assert beats[1].process.poll() is None


def test_a_catalog_that_takes_long_to_read_holds_nobody_up(
    start, rung: Rung, server: RedisServer, tmp_path: Path
) -> None:
    names = write_catalog(tmp_path / "catalog", 50, "2s")
    beat = start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung")
    window = '{kind: deny, schedule: "%d %d * * *", duration: 1m, timeZone: Europe/London, applications: ["*"]}'
    text = "apiVersion: fleetbeat.dev/v1alpha1\nkind: Project\nmetadata: {name: default}\nspec:\n  syncWindows:\n"
    text += "".join(f"    - {window % (n % 60, n // 60 % 24)}\n".replace("1m", f"{n}s") for n in range(1, 4001))
    (tmp_path / "project.yaml").write_text(text)
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        before, began = client.hget(keys.CATALOG_STATUS, "digest"), time.time()
        (tmp_path / "project.yaml").rename(tmp_path / "catalog" / "project.yaml")
        wait_for(
            lambda: client.hget(keys.CATALOG_STATUS, "digest") != before or beat.said("catalog: ") > 1,
            what="the windows in force",
            timeout=120,
        )
        ended = time.time()
        assert client.hget(keys.CATALOG_STATUS, "digest") != before, beat.log.read_text()
    during = tenths([(at, app) for at, app in list(rung.seen) if began < at < ended])
    # Held up, they would be rung in the half second before it is looked at, and at the end. Ten are enough, however
    # long the machine stood still.
    assert during >= min(10, 5 * (ended - began)), f"rings in {during} tenths of {ended - began:.1f} s"


def test_a_flush_is_healed_within_seconds(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names, began = write_catalog(tmp_path / "catalog", 200, "1h"), time.time()
    start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung")
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        client.flushall()
    flushed = time.time()
    wait_for(lambda: set(rung.since(flushed)) == set(names), what="all to be rung again")
    again = [(at, app) for at, app in list(rung.seen) if at >= flushed]
    assert too_often(again, 3600, began) == {}
    assert Catalogs(Store(server.url, KEY)).names() == names


def test_a_beat_stopped_for_three_periods_does_not_catch_up(start, rung: Rung, tmp_path: Path) -> None:
    """Field case j4: missed periods are skipped."""
    names = write_catalog(tmp_path / "catalog", 50, "2s")
    beat = start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung")
    beat.process.send_signal(signal.SIGSTOP)
    stopped = time.time()
    wait_for(lambda: time.time() > stopped + 6.5, what="three periods to pass")
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
    """Field case j7: they ring again by themselves, without a restart, and say once that Redis was away."""
    names = write_catalog(tmp_path / "catalog", 100, "1s")
    beats = [start(), start()]
    client = redis.Redis.from_url(server.url, socket_timeout=None)
    wait_for(lambda: client.zcard(keys.BEATS) == 2 and set(rung.since(0)) == set(names), what="both beats")

    def noticed() -> bool:
        return all(beat.said("Nothing is rung until Redis answers again") for beat in beats)

    if trouble == "killed and restarted":
        server.kill()
        wait_for(noticed, what="both beats to notice")
        server.start()
    elif trouble == "frozen":
        server.pause()
        wait_for(noticed, what="both beats to notice")
        server.resume()
    elif trouble == "commands paused":
        client.execute_command("CLIENT", "PAUSE", 3000, "ALL")
        client.ping()  # answered when the pause is over
    else:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        wait_for(noticed, what="both beats to notice")
        client.execute_command("REPLICAOF", "NO", "ONE")
    over = time.time()
    wait_for(lambda: set(rung.since(over)) == set(names), what="all to be rung again")
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
    wait_for(lambda: beat.said("Nothing is rung"), what="beat to notice")
    server.start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung")


def test_a_ring_reaches_the_queue_at_once(start, rung: Rung, server: RedisServer, tmp_path: Path) -> None:
    names = write_catalog(tmp_path / "catalog", 10, "1h")
    start(FLEETBEAT_BEAT_IDLE="5")  # it would sleep so long
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung")
    due = DueSet(Store(server.url, KEY), Beat())
    delays = []
    for name in names:
        began = time.time()
        assert due.ring(name)
        wait_for(lambda name=name, began=began: rung.since(began)[name], what="the ring")
        delays.append(time.time() - began)
    assert sorted(delays)[len(delays) // 2] < 2.5, "beat slept through the bell"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_beat_stops_at_once_and_leaves_nothing(start, server: RedisServer, tmp_path: Path, number: int) -> None:
    write_catalog(tmp_path / "catalog", 3, "1h")
    beat = start()
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        wait_for(lambda: client.zcard(keys.BEATS) == 1, what="the heartbeat")
        beat.process.send_signal(number)
        assert beat.process.wait(30) == 0, beat.log.read_text()
        assert client.zcard(keys.BEATS) == 0
    assert [entry.name for entry in beat.folder.iterdir()] == ["log"]
    assert "Traceback" not in beat.log.read_text()


def test_a_broken_catalog_changes_nothing_until_it_is_repaired(
    start, rung: Rung, server: RedisServer, tmp_path: Path
) -> None:
    names = write_catalog(tmp_path / "catalog", 20, "1s")
    beat = start()
    wait_for(lambda: set(rung.since(0)) == set(names), what="each application to be rung")
    catalogs = Catalogs(Store(server.url, KEY))
    write_catalog(tmp_path / "catalog", 5, "1s", extra="---\nkind: Applicaton\n")
    wait_for(lambda: catalogs.status().error, what="the error to be shown")
    broken = time.time()
    wait_for(lambda: set(rung.since(broken)) == set(names), what="the last good catalog to be rung")
    assert "fleet.yaml" in catalogs.status().error
    assert catalogs.names() == names
    told = beat.said("ERROR")
    few = write_catalog(tmp_path / "catalog", 5, "1s")
    wait_for(lambda: catalogs.names() == few and not catalogs.status().error, what="the repaired one in force")
    assert beat.said("ERROR") == told == 1, "each problem is logged once"
    with redis.Redis.from_url(server.url, socket_timeout=60) as client:
        wait_for(lambda: client.hlen(keys.PERIODS) == len(few), what="the others to be rung no more")
    # What had been rung by then is in the queue before the next two rings of those that stay.
    for _ in range(2):
        position = len(rung.seen)
        wait_for(
            lambda position=position: {app for _, app in rung.seen[position:]} >= set(few),
            what="the remaining ones to be rung",
        )
    assert {app for _, app in rung.seen[position:]} == set(few)


def test_without_a_catalog_directory_beat_says_what_to_set(start) -> None:
    beat = start(FLEETBEAT_CATALOG="")
    assert beat.process.wait(120) != 0
    assert beat.said("FLEETBEAT_CATALOG is not set. Beat reads the catalog")
