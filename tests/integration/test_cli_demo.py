"""`fleetbeat demo`: it does what it says, and leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import Process

DEMO = [sys.executable, "-m", "fleetbeat.cli.main", "demo"]


def processes_in(folder: Path) -> list[str]:
    """Command lines of whatever runs with a path below ``folder`` in its arguments or as its working folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = os.readlink(entry / "cwd")  # noqa: PTH115 - of a process that may vanish
        except OSError:
            continue
        if str(folder) in command or where.startswith(str(folder)):
            found.append(command)
    return found


@pytest.mark.slow
def test_once_ends_by_itself_with_nothing_left(local_binary: Path, tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    done = subprocess.run(
        [*DEMO, "--once", "--svg", str(picture)],
        env={**os.environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything did what it says" in done.stdout
    assert "data.greeting changed by kubectl-edit" in done.stdout
    assert re.search(r"configured +Deployment shop/web", done.stdout)
    assert "imagePullPolcy" in done.stdout
    assert picture.read_text().startswith("<svg")
    assert list(temporary.iterdir()) == []
    wait_for(lambda: not processes_in(temporary), what="the last of them to be gone")


@pytest.mark.slow
def test_a_killed_demo_takes_everything_with_it(local_binary: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    process = Process("demo", DEMO, log=tmp_path / "demo.log", env={"TMPDIR": str(temporary)})
    process.start()
    try:
        process.wait_ready(lambda: "It stays up" in process.log.read_text(), timeout=280)
        assert process.pid is not None
        assert len(processes_in(temporary)) >= 9  # 5 of the cluster, Redis, registry, beat, 2 workers, Flower
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: not processes_in(temporary), what="all of them to be gone")
    finally:
        process.kill()


@pytest.mark.slow
def test_a_cluster_of_the_users_own(cluster_with_controllers: Cluster, tmp_path: Path) -> None:
    config = yaml.safe_load(cluster_with_controllers.kubeconfig.read_text())
    command = [*DEMO, "--once", "--context", config["current-context"]]
    env = {**os.environ, "TMPDIR": str(tmp_path), "KUBECONFIG": str(cluster_with_controllers.kubeconfig)}
    path = "/api/v1/namespaces/shop"
    if cluster_with_controllers.request("GET", path)[0] == 404:
        cluster_with_controllers.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        refused = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
        assert refused.returncode == 1
        assert "a namespace shop of somebody else" in refused.stdout
        cluster_with_controllers.request("DELETE", path)
        wait_for(lambda: cluster_with_controllers.request("GET", path)[0] == 404, timeout=120)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "changed by kubectl-edit" in done.stdout
