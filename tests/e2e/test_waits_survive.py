"""What waits, waits in Redis: it outlives every process, wakes once and in time, and no host's clock has a say in it.

Four applications of one fleet wait: for a hold's end, a sync window's opening, a retry, another application. What is
noted in Redis of that is exact: the very millisecond, and who is waited for. That nobody begins before it, and how long
after, is told by the clocks of the servers: when a run began, by Redis; when it first wrote, by the API server's log.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from breaking import kept
from fleet import Fleet, config_map, run
from hosts import Host
from waiting import wait_for
from wrong_clock import WrongClock

from fleetbeat import keys
from fleetbeat.clients.events import Events
from fleetbeat.clients.holds import Holds
from fleetbeat.decisions.windows import stamp
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

HOUR = 3600.0
LATEST = 20_000  #: ms after its time by which something has begun; nobody would look for half an hour


@dataclass(frozen=True)
class Site:
    """An installation on the only cluster there is; its processes come and go with their hosts."""

    fleet: Fleet
    cluster: Cluster
    clock: WrongClock  #: of every host

    def host(self, *, workers: int = 1) -> Host:
        return Host(self.fleet, self.clock, workers=workers)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("waits")
    with RedisServer() as redis:
        # A watch that was killed gives its cluster back soon.
        fleet = Fleet(folder / "fleet", redis, registry, [cluster], workers=0, FLEETBEAT_WATCH_LEASE="2")
        fleet.beats.clear()
        with fleet:
            run(fleet, "--help")  # begins the nursery, which takes its time once
            yield Site(fleet, cluster, WrongClock(folder, 0.0))


@dataclass(frozen=True)
class Waits:
    """Four applications that wait, and the server's ms for which they do."""

    held: str
    windowed: str
    retried: str
    dependent: str  #: on ``held``
    hold_ends: int
    window_opens: int
    retry_is_due: int
    runs: dict[str, str]  #: application → id of the run that waits; the retried one has none

    @property
    def apps(self) -> tuple[str, ...]:
        return self.held, self.windowed, self.retried, self.dependent


def waits(site: Site, seconds: float) -> Waits:
    """Put them into the catalog and wait until each waits; the times come one after another, in so many seconds."""
    fleet, cluster = site.fleet, site.cluster
    held, windowed, retried, dependent = (fleet.name(word) for word in ("held", "windowed", "retried", "dependent"))
    for app in (held, windowed, retried, dependent):
        fleet.push(app, [config_map("web", app if app == retried else "")])
        if app != retried:
            make_namespace(cluster, app)
    pause = {"limit": 9, "backoff": {"duration": f"{seconds:g}s", "factor": 1}}
    fleet.application(retried, namespace=retried, retry=pause)
    window, opens = shut_for(fleet, seconds + 2)
    ends = Holds(fleet.store).add("app", held, seconds=seconds, scope="sync", by="ada@ops", reason="a test").until
    fleet.application(held, namespace=held)
    fleet.application(windowed, namespace=windowed, windows=[window])
    fleet.application(dependent, namespace=dependent, spec={"dependsOn": [{"name": held}]})

    blocks = {held: "Hold", windowed: "SyncWindow", dependent: "DependencyNotReady"}
    records = {app: blocked(fleet, app, word) for app, word in blocks.items()}
    assert (int(records[held]["wake"]), int(records[windowed]["wake"])) == (ends, opens)
    assert fleet.store.redis.smembers(keys.waiters(held)) == {dependent.encode()}
    wait_for(lambda: fleet.runs_ended(retried) == 1 and not fleet.runs.look(retried).run, timeout=120, what="a failure")
    assert fleet.history(retried)[0]["phase"] == "Failed", "its namespace is not there yet"
    due = fleet.store.redis.zscore(keys.DUE, retried)
    make_namespace(cluster, retried)
    runs = {app: record["run"] for app, record in records.items()}
    return Waits(held, windowed, retried, dependent, ends, opens, int(due), runs)


def make_namespace(cluster: Cluster, name: str) -> None:
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer


def shut_for(fleet: Fleet, seconds: float) -> tuple[dict[str, Any], int]:
    """A window that has shut with this minute and opens in so many seconds, and the server's ms of its opening."""
    now = fleet.runs.now()
    began = datetime.fromtimestamp(now // 60_000 * 60, UTC)
    opens = now + int(seconds * 1000)
    length = opens - now // 60_000 * 60_000
    return {"kind": "deny", "schedule": f"{began:%M %H} * * *", "duration": f"{length / 1000:.3f}s"}, opens


def blocked(fleet: Fleet, app: str, word: str) -> dict[str, str]:
    """The record of its run, once that waits for this."""

    def found() -> dict[str, str] | None:
        run = fleet.runs.look(app).run
        return run if run.get("state") == "waiting" and run.get("blocked") == word else None

    try:
        return wait_for(found, timeout=120, what=f"{app} to wait: {word}")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{fleet.runs.look(app)}\n{fleet.logs()[-5000:]}") from None


def lateness(fleet: Fleet, these: Waits) -> dict[str, int]:
    """What wakes at the end → ms after its time that it began. Each must have woken once, and not before its time."""
    for app in these.apps:
        fleet.wait_run(app, phase="Succeeded")
        wait_for(lambda app=app: not fleet.runs.look(app).run, what=f"the end of {app}'s run")  # type: ignore[misc]
    told = {app: [(event.reason, event.at) for event in Events(fleet.store).read(app)] for app in these.apps}
    well = dict(told[these.held])["ReconciliationSucceeded"]
    late = {
        "hold": first_write(fleet, these.held) - these.hold_ends,
        "window": first_write(fleet, these.windowed) - these.window_opens,
        "retry": fleet.history(these.retried)[0]["started"] - these.retry_is_due,
        "dependency": first_write(fleet, these.dependent) - well,
    }
    for app, waited in these.runs.items():
        assert [entry["run"] for entry in fleet.history(app)] == [waited], f"{app}: the run that waited, and no other"
    once = {
        these.held: ["Progressing", "Hold", "Unblocked", "ReconciliationSucceeded"],
        these.windowed: ["Progressing", "SyncWindow", "Unblocked", "ReconciliationSucceeded"],
        these.dependent: ["Progressing", "DependencyNotReady", "Unblocked", "ReconciliationSucceeded"],
        these.retried: ["Progressing", "ReconciliationFailed", "Progressing", "ReconciliationSucceeded"],
    }
    assert {app: [reason for reason, _ in events] for app, events in told.items()} == once
    assert [entry["trigger"] for entry in fleet.history(these.retried)] == ["Retry", "First"]
    assert {app: len(kept(fleet.writes(app))) for app in these.apps} == dict.fromkeys(these.apps, 1)
    assert min(late.values()) >= 0, f"too early: {late}"
    return late


def first_write(fleet: Fleet, app: str) -> int:
    """When the API server got the first request of it that writes, its claim of the application included; ms, up."""
    received = [event["requestReceivedTimestamp"] for event in fleet.writes(app, parents=True)]
    return -int(min(map(datetime.fromisoformat, received)).timestamp() * -1000 // 1)


# ── the tests ────────────────────────────────────────────────────────────────────────────────────────────────────


#: leaves four waits standing, and the host that is to wake them
Story = Callable[[], tuple[Waits, Host]]


def in_time(site: Site, story: Story) -> Waits:
    """Go through a story that leaves four waits standing; returns them when all have woken in time."""
    these, host = story()
    with host:
        late = lateness(site.fleet, these)
    assert max(late.values()) <= LATEST, f"ms late: {late}"
    return these


def waits_for(site: Site, host: Host) -> Waits:
    """Four waits that stand for long enough to begin another host meanwhile, as measured by how long this one took."""
    began = time.monotonic()
    host.start()
    return waits(site, min(8 + 4 * (time.monotonic() - began), 60))


def look_on_the_way(site: Site, these: Waits) -> None:
    """As ticks do; it wakes nobody."""
    for app in these.runs:
        site.fleet.tick(app)


def test_every_process_killed_while_four_applications_wait(site: Site) -> None:
    """Field cases e7 and f6."""

    def story() -> tuple[Waits, Host]:
        site.clock.jump(0)
        with site.host(workers=2) as first:
            these = waits_for(site, first)
        second = site.host(workers=2).start()
        look_on_the_way(site, these)
        return these, second

    in_time(site, story)


def test_one_host_does_all_the_work_while_its_clock_jumps_by_hours(site: Site) -> None:
    """An hour ahead; set two hours back while the four wait; all killed, begun anew, and set forward again."""
    fleet = site.fleet
    began = fleet.runs.now()

    def story() -> tuple[Waits, Host]:
        site.clock.jump(HOUR)
        with site.host() as first:
            these = waits_for(site, first)
            assert_ahead(site, first, HOUR)
            site.clock.jump(-HOUR)
            look_on_the_way(site, these)
            assert_ahead(site, first, -HOUR)
        second = site.host().start()
        look_on_the_way(site, these)
        site.clock.jump(HOUR)
        return these, second

    these = in_time(site, story)
    for app in these.apps:
        for entry in fleet.history(app):
            named = datetime.strptime(entry["run"].partition("-")[0], "%Y%m%dT%H%M%S%z").timestamp() * 1000
            assert began - 1000 <= named <= entry["started"] <= entry["finished"] <= fleet.runs.now()
        assert began <= int(fleet.state(app)["finished"]) <= fleet.runs.now()


def assert_ahead(site: Site, host: Host, seconds: float) -> None:
    """Else nothing would be shown by the rest."""
    now = datetime.fromtimestamp(site.fleet.runs.now() / 1000, UTC)
    assert abs((host.said_at - now).total_seconds() - seconds) < 300


def test_commands_tell_times_by_the_servers_clock(site: Site, tmp_path: Path) -> None:
    """Whoever asks has a host whose clock is an hour off; the processes have not."""
    fleet, app = site.fleet, site.fleet.name("asked")
    site.clock.jump(0)
    window, opens = shut_for(fleet, 900)
    fleet.push(app, [config_map("web", app)])
    make_namespace(site.cluster, app)
    fleet.application(app, namespace=app, windows=[window])
    began = fleet.runs.now()
    with site.host() as host:
        host.start()
        blocked(fleet, app, "SyncWindow")
    for ahead in (HOUR, -HOUR):
        before = fleet.runs.now()
        windows, why, status, events, made, holds = (
            run(fleet, *words.split(), **WrongClock(tmp_path, ahead).env).stdout
            for words in (
                f"windows {app} -o json",
                f"why {app} -o json",
                f"status {app}",
                f"events {app} --since 30m -o json",
                "hold namespace elsewhere --for 10m --reason test -o json",
                "hold -o json",
            )
        )
        after = fleet.runs.now()
        told = json.loads(windows)["automated"]
        assert (told["open"], ms(told["until"])) == (False, opens)
        # Of the host that is off by now it says first, a while later, that no worker is there.
        (shut,) = (one for one in json.loads(why)["findings"] if one["rule"] == "SyncWindow")
        assert ms(shut["until"]) == opens
        assert f"shut until {stamp(datetime.fromtimestamp(opens / 1000, UTC))}" in status
        seen = [json.loads(line) for line in events.splitlines()]
        assert [event["reason"] for event in seen] == ["Progressing", "SyncWindow"]
        assert began <= ms(seen[0]["timestamp"]) <= ms(seen[1]["timestamp"]) <= before
        hold = json.loads(made)
        assert before <= ms(hold["since"]) <= after
        assert ms(hold["until"]) == ms(hold["since"]) + 600_000
        assert hold in json.loads(holds)


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
