"""`fleetbeat up` and the commands beside it, as a person uses them: real processes, registry and API server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from fleet import far_interval
from waiting import wait_for

from fleetbeat.cli.demo_repository import EXAMPLE
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import Process, free_port
from fleetbeat.local.registry import Registry

FLEETBEAT = [sys.executable, "-m", "fleetbeat.cli.main"]


def fleetbeat(*arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    everything = {**os.environ, **(env or {})}
    return subprocess.run(
        [*FLEETBEAT, *arguments], env=everything, capture_output=True, text=True, timeout=240, check=False
    )


def children_of(pid: int) -> list[int]:
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


def child(parent: int, command: str) -> int:
    """The one child whose command line matches."""
    found = subprocess.run(["pgrep", "-P", str(parent), "-f", command], capture_output=True, text=True, check=True)
    return int(found.stdout)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@dataclass
class Up:
    process: Process
    data: Path
    env: dict[str, str]
    flower: str
    password: str
    reference: str

    def said(self) -> str:
        return self.process.log.read_text()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return fleetbeat(*arguments, env=self.env)

    def json(self, *arguments: str) -> Any:
        done = self.run(*arguments, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module")
def target(local_binary: Path) -> Iterator[Cluster]:
    """A cluster of its own: the example's names are taken in the shared one by the demo's tests."""
    with Cluster(name="up", controllers=True) as running:
        yield running


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, registry: Registry, target: Cluster) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    catalog = folder / "catalog"
    catalog.mkdir()
    application = yaml.safe_load((EXAMPLE / "catalog" / "shop.yaml").read_text())
    application["spec"]["source"]["oci"] = f"{registry.host}/up/shop"
    application["spec"]["sync"]["interval"] = far_interval(
        "shop"
    )  # what is pushed waits for the command that a test gives next
    entry = yaml.safe_load((EXAMPLE / "catalog" / "local.yaml").read_text())
    context = yaml.safe_load(target.kubeconfig.read_text())["current-context"]
    entry["spec"] = {"kubeconfig": str(target.kubeconfig), "context": context}
    (catalog / "all.yaml").write_text(yaml.safe_dump_all([application, entry]))
    reference = f"{registry.host}/up/shop:stable"
    assert fleetbeat("push", str(EXAMPLE / "v1"), reference, "--plain-http").returncode == 0

    data = folder / "data"
    command = [*FLEETBEAT, "up", str(catalog), "--data", str(data), "--port", str(free_port())]
    process = Process("fleetbeat up", command, log=folder / "up.log")
    process.start()
    try:
        process.wait_ready(lambda: "Ctrl-C stops everything" in process.log.read_text(), timeout=240)
        exports = fleetbeat("env", "--data", str(data)).stdout
        env = dict(re.findall(r"export (\w+)='?([^'\n]*)'?", exports))
        found = re.search(r"(http://127.0.0.1:\d+)   user fleetbeat, password (\S+)", process.log.read_text())
        assert found is not None
        yield Up(process, data, env, found[1], found[2], reference)
    finally:
        process.stop(60)


def test_the_first_sync_comes_by_itself(up: Up) -> None:
    wait_for(lambda: "shop: Synced, Healthy, Succeeded: 6 created" in up.said(), timeout=240)
    status = up.json("status", "shop")
    assert (status["sync"], status["health"], status["objects"]) == ("Synced", "Healthy", 6), status
    (entry,) = up.json("history", "shop")
    assert entry["trigger"] == "First"


def test_doctor_finds_nothing_wrong(up: Up) -> None:
    def is_sound() -> bool:
        """Workers have a second to answer, which a machine that stands still misses."""
        found = up.run("doctor")
        assert found.returncode == 0, found.stdout
        assert "2 answer: worker-1@" in found.stdout
        return True

    wait_for(is_sound, timeout=120, every=1.0, what="a sound installation")


def test_diff_tells_what_a_sync_then_does(up: Up) -> None:
    same = up.run("diff", "shop")
    assert (same.returncode, same.stdout) == (0, "shop: nothing would change\n"), same.stderr
    reference = up.reference.replace(":stable", ":v2")
    assert fleetbeat("push", str(EXAMPLE / "v2"), reference, "--plain-http").returncode == 0
    differs = up.run("diff", "shop", "--revision", "v2")
    assert differs.returncode == 1, differs.stderr
    assert "+  greeting: Welcome to the shop, now with free delivery" in differs.stdout

    assert fleetbeat("push", str(EXAMPLE / "v2"), up.reference, "--plain-http").returncode == 0
    synced = up.run("sync", "shop", "--wait", "--reason", "release v2", "--timeout", "180s")
    assert synced.returncode == 0, synced.stderr
    assert "configured ConfigMap shop/web-config" in synced.stdout
    newest = up.json("history", "shop")[0]
    assert newest["reason"] == "release v2"
    shown = up.run("history", "shop", "--run", newest["run"]).stdout
    assert "configured Deployment shop/web" in shown


def test_a_broken_bundle_is_refused_and_the_exit_code_says_so(up: Up) -> None:
    assert fleetbeat("push", str(EXAMPLE / "v3-broken"), up.reference, "--plain-http").returncode == 0
    failed = up.run("sync", "shop", "--wait", "--timeout", "180s")
    assert failed.returncode == 1
    assert "imagePullPolcy" in failed.stderr
    status = up.json("status", "shop")
    assert (status["sync"], status["phase"]) == ("OutOfSync", "Failed")
    assert status["attempted"]


def test_flower_asks_for_a_password_and_changes_nothing(up: Up) -> None:
    def ask(path: str, method: str = "GET", password: str = "") -> int:
        headers = urllib3.make_headers(basic_auth=f"fleetbeat:{password}") if password else {}
        try:
            return int(urllib3.request(method, up.flower + path, headers=headers, retries=False, timeout=60).status)
        except urllib3.exceptions.HTTPError:
            return 0

    wait_for(lambda: ask("/healthcheck") == 200, timeout=120, what="Flower")
    assert ask("/workers") == 401
    assert ask("/workers", password=up.password) == 200
    worker = wait_for(lambda: next(iter(up.run("doctor").stdout.partition("answer: ")[2].split(",")), ""), timeout=120)
    assert ask(f"/api/worker/shutdown/{worker.strip()}", "POST", up.password) == 403
    commands = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert up.password not in commands


def test_a_killed_worker_and_a_killed_redis_come_back(up: Up) -> None:
    assert up.process.pid is not None
    before = set(children_of(up.process.pid))
    os.kill(child(up.process.pid, "worker-2@"), signal.SIGKILL)
    os.kill(child(up.process.pid, "valkey-server|redis-server"), signal.SIGKILL)
    wait_for(lambda: "worker-2 started again" in up.said())
    wait_for(lambda: "Redis started again" in up.said())
    wait_for(lambda: up.run("doctor").stdout.count("fail ") == 0, timeout=120, every=1.0, what="a sound installation")
    assert set(children_of(up.process.pid)) != before
    assert up.json("status", "shop")["objects"] == 6  # the append-only file brought the state back


def test_a_second_one_on_the_same_data_folder_is_refused(up: Up, tmp_path: Path) -> None:
    second = fleetbeat("up", str(tmp_path), "--data", str(up.data))
    assert second.returncode == 3
    assert "is running already" in second.stderr


def test_ctrl_c_stops_everything_soon(up: Up) -> None:
    assert up.process.pid is not None
    children = children_of(up.process.pid)
    assert len(children) >= 5
    os.kill(up.process.pid, signal.SIGINT)
    assert up.process.wait(60) == 0
    assert "stopped; key, state and logs are kept" in up.said()
    wait_for(lambda: not any(map(alive, children)))
    assert fleetbeat("env", "--data", str(up.data)).returncode == 3


def test_started_again_from_a_shell_that_reached_the_one_before(up: Up) -> None:
    """Runs last: nothing is up any more, and that shell still names its Redis."""
    command = [*FLEETBEAT, "up", str(up.data.parent / "catalog"), "--data", str(up.data), "--no-flower"]
    again = Process("fleetbeat up", command, log=up.data.parent / "again.log", env={**os.environ, **up.env})
    again.start()
    try:
        again.wait_ready(lambda: "Ctrl-C stops everything" in again.log.read_text(), timeout=240)
        assert "data in" in again.log.read_text()
        assert up.json("status", "shop")["objects"] == 6
    finally:
        again.stop(60)


def test_a_redis_that_does_not_answer_is_said_at_once(tmp_path: Path) -> None:
    env = {**os.environ, "FLEETBEAT_REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    (tmp_path / "catalog").mkdir()
    command = [*FLEETBEAT, "up", str(tmp_path / "catalog"), "--data", str(tmp_path / "data"), "--no-flower"]
    up = Process("fleetbeat up", command, log=tmp_path / "up.log", env=env)
    up.start()
    try:
        up.wait_ready(lambda: "Ctrl-C stops everything" in up.log.read_text(), timeout=240)
        assert "Nothing is done before it answers" in up.log.read_text()
    finally:
        up.stop(60)
