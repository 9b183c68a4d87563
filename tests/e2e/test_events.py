"""Whoever follows the events hears of each thing once, whichever worker dies meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from breaking import breakable, new_namespace
from fleet import Fleet, config_map, run
from people import Hands
from waiting import wait_for

from fleetbeat.client import Fleetbeat
from fleetbeat.clients.events import Events
from fleetbeat.decisions.events import Event
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry


def follower(fleet: Fleet, out: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "fleetbeat.cli.main", "events", "--follow", "-o", "json", *more]
    with out.open("wb") as stream:
        return subprocess.Popen(command, env={**os.environ, **fleet.env}, stdout=stream)


def heard(*files: Path) -> list[dict[str, str]]:
    """Whole lines only: the last one may be on its way."""
    return [
        json.loads(line) for path in files for line in path.read_text().splitlines(keepends=True) if line[-1] == "\n"
    ]


def test_followed_over_killed_workers_without_a_gap_or_a_double(
    tmp_path: Path, registry: Registry, cluster: Cluster
) -> None:
    """A worker is killed before and after each change of the record; the follower is killed as well, and goes on."""
    namespace = new_namespace(cluster)
    points = ["after start", "after begin", "before advance", "after advance", "before finish", "after finish"]
    with breakable(tmp_path, registry, cluster) as (fleet, nursery):
        first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl"
        fleet.push("shop", [config_map("web", data={"v": "0"})])
        fleet.application("shop", namespace=namespace)
        plain = nursery.worker()
        fleet.wait_run("shop", phase="Succeeded")
        plain.kill()
        following = follower(fleet, first, "--since", "0000000000-0")
        digests = []
        for number, point in enumerate(points, 1):
            digests.append(fleet.push("shop", [config_map("web", data={"v": str(number)})]).digest)
            doomed = nursery.worker({"point": point, "do": "kill", "app": "shop"})
            fleet.ring("shop")
            wait_for(lambda worker=doomed: not worker.alive, timeout=120, what=f"death {point}")  # type: ignore[misc]
            helper = nursery.worker()
            fleet.wait_run("shop", digest=digests[-1], phase="Succeeded")
            helper.kill()
            if number == len(points) // 2:
                wait_for(lambda: len(heard(first)) >= 2, timeout=120, what="the follower to hear something")
                following.kill()
                following.wait()
                following = follower(fleet, second, "--since", heard(first)[-1]["id"])
        wanted = list(Fleetbeat(fleet.settings, store=fleet.store).events("shop"))
        wait_for(lambda: len(heard(first, second)) >= len(wanted), timeout=120, what="the follower to hear everything")
        following.terminate()
        following.wait()
        told = heard(first, second)
        assert [one["id"] for one in told] == [event.id for event in wanted]
        runs = [entry["run"] for entry in reversed(fleet.history("shop"))]
    by_run: dict[str, list[str]] = {}
    for event in wanted:
        by_run.setdefault(event.run, []).append(event.reason)
    assert list(by_run) == runs
    assert Counter(map(tuple, by_run.values())) == {("Progressing", "ReconciliationSucceeded"): len(runs)}


def reasons(fleet: Fleet, app: str) -> list[str]:
    return [event.reason for event in Events(fleet.store).read(app)]


def test_drift_is_told_when_it_is_found_and_when_it_is_healed(fleet: Fleet, cluster: Cluster, namespace: str) -> None:
    app = fleet.name("drifting")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    Hands(cluster).merge(f"/api/v1/namespaces/{namespace}/configmaps/web", {"data": {"key": "edited"}})
    fleet.tick(app)
    found = list(Events(fleet.store).read(app))[2:]
    assert [(event.reason, event.message) for event in found] == [
        ("DriftDetected", f"drift found: ConfigMap {namespace}/web"),
        ("DriftHealed", "Succeeded: 1 configured"),
    ]


def test_a_look_that_finds_nothing_and_a_look_that_fails_again_tell_nothing(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("quiet")
    fleet.application(app, namespace=namespace)
    wait_for(lambda: fleet.state(app).get("trouble"), what="the trouble")
    for _ in range(2):
        fleet.tick(app)
    assert reasons(fleet, app) == ["ArtifactFailed"]
    fleet.push(app, [config_map("web")])
    fleet.ring(app)
    fleet.wait_run(app, phase="Succeeded")
    before = reasons(fleet, app)
    assert before == ["ArtifactFailed", "Progressing", "ReconciliationSucceeded"]
    for _ in range(2):
        assert fleet.tick(app) == "nothing to do"
    assert reasons(fleet, app) == before


def test_no_secret_is_in_an_event(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("secret")
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"token": "hunter2-value"}}
    bad = {**body, "metadata": {"name": "bad"}, "stringDatum": {"token": "hunter2-other"}}
    fleet.push(app, [body, bad])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Failed")
    told = [Event.dump(event) for event in Events(fleet.store).read(app)]
    assert told
    assert not any("hunter2" in text for text in told)


@pytest.mark.parametrize("since", ["yesterday", "2026-11-30T12:00:00", "12"])
def test_a_position_that_means_nothing_is_refused(fleet: Fleet, since: str) -> None:
    done = run(fleet, "events", "--since", since)
    assert done.returncode == (0 if since == "12" else 2), done.stderr  # twelve seconds
