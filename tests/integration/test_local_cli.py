"""``fleetbeat local …`` as a person uses it: start, copy what it prints, Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
import urllib3
import yaml
from waiting import wait_for

from fleetbeat.local.process import listens

RUN = "from fleetbeat.cli.local import local; local(prog_name='fleetbeat local')"
#: what a shell that is no terminal does to a program it starts in the background
DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "


@contextmanager
def running(
    arguments: Sequence[str], tmp_path: Path, program: str = RUN
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process and what it printed until it was ready. Its temporary files go to ``tmp_path``."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "Ctrl-C" in line:
                    break
            yield process, "".join(lines)
        finally:
            process.kill()


def word_after(text: str, mark: str) -> str:
    return text.split(mark, 1)[1].split()[0]


@pytest.mark.parametrize(
    ("number", "program"),
    [
        pytest.param(signal.SIGINT, RUN, id="Ctrl-C"),
        pytest.param(signal.SIGINT, DEAF + RUN, id="SIGINT in the background"),
        pytest.param(signal.SIGTERM, RUN, id="SIGTERM"),
    ],
)
def test_redis_until_stopped(number: signal.Signals, program: str, redis_url: str, tmp_path: Path) -> None:
    with running(["redis"], tmp_path, program) as (process, text):
        url = word_after(text, "FLEETBEAT_REDIS_URL=")
        with redis.Redis.from_url(url, socket_timeout=60) as client:
            assert client.ping()
        process.send_signal(number)
        assert process.wait(60) == 0
        assert not listens(int(url.rsplit(":", 1)[1].split("/")[0]))
    assert list(tmp_path.iterdir()) == []


def test_registry_keeps_a_given_folder(local_binary: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with running(["registry", "--folder", str(folder)], tmp_path) as (process, text):
        url = word_after(text, "ready at ")
        assert urllib3.request("GET", f"{url}/v2/", retries=False).status == 200
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert (folder / "registry.yaml").exists()


def test_cluster_prints_a_kubeconfig_that_works_and_dies_with_its_parent(local_binary: Path, tmp_path: Path) -> None:
    with running(["cluster", "--no-controllers", "--context", "try"], tmp_path) as (process, text):
        config = yaml.safe_load(Path(word_after(text, "KUBECONFIG=")).read_text())
        assert config["current-context"] == "try"
        server = config["clusters"][0]["cluster"]["server"]
        assert f"ready at {server}" in text
        port = int(server.rsplit(":", 1)[1])
        assert listens(port)
        process.kill()
    wait_for(lambda: not listens(port), what="the API server to die with its parent")


def test_a_port_that_is_taken_is_an_error_with_the_reason(redis_url: str, tmp_path: Path) -> None:
    port = redis_url.rsplit(":", 1)[1].split("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", RUN, "redis", "--port", port],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode != 0
    assert f"port {port} on 127.0.0.1 is already in use" in done.stderr
