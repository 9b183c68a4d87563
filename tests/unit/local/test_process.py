"""Child processes: ready, late, dead, and never left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from waiting import wait_for

from fleetbeat.errors import ConfigurationError
from fleetbeat.local.process import LocalError, Process, free_port, listens

SLEEPER = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def gone(pid: int) -> bool:
    """No such process, or one that only waits to be collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_ready_then_stopped(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, log=tmp_path / "log")
    process.start()
    try:
        process.wait_ready(lambda: "up" in process.tail(), timeout=60)
        assert process.alive
        assert process.pid
    finally:
        process.stop(grace=60)
    assert process.exit_code == -signal.SIGTERM
    assert process.pid is None
    process.stop()  # harmless


def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    code = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    process = Process("stubborn", [sys.executable, "-c", code], log=tmp_path / "log")
    process.start()
    process.wait_ready(lambda: "up" in process.tail(), timeout=60)
    process.stop(grace=0.1)
    assert process.exit_code == -signal.SIGKILL


def test_a_paused_one_stops(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, log=tmp_path / "log")
    process.start()
    process.wait_ready(lambda: "up" in process.tail(), timeout=60)
    process.pause()
    process.stop(grace=60)
    assert process.exit_code == -signal.SIGTERM


def test_death_while_starting_is_told_with_the_end_of_the_log(tmp_path: Path) -> None:
    code = "import sys; print('no such flag: --wrong'); sys.exit(7)"
    process = Process("server", [sys.executable, "-c", code], log=tmp_path / "log")
    process.start()
    with pytest.raises(LocalError, match=r"(?s)server ended with exit code 7 .*no such flag: --wrong") as caught:
        process.wait_ready(lambda: False, timeout=60)
    assert isinstance(caught.value, ConfigurationError)


def test_not_ready_in_time(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, log=tmp_path / "log")
    process.start()
    try:
        with pytest.raises(LocalError, match=r"sleeper is not ready after 0\.1 s"):
            process.wait_ready(lambda: False, timeout=0.1)
    finally:
        process.kill()


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    process = Process("server", [tmp_path / "missing"], log=tmp_path / "log")
    with pytest.raises(LocalError, match=r"server cannot be started: there is no program .*missing"):
        process.start()


def test_environment_is_added(tmp_path: Path) -> None:
    code = "import os; print(os.environ['GREETING'], 'PATH' in os.environ)"
    process = Process("greeter", [sys.executable, "-c", code], log=tmp_path / "log", env={"GREETING": "hello"})
    process.start()
    assert process.wait(60) == 0
    assert process.tail() == "hello True"


def test_starts_again_after_a_kill(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, log=tmp_path / "log")
    process.start()
    first = process.pid
    process.start()
    assert process.pid == first
    process.kill()
    process.start()
    assert process.pid not in (None, first)
    process.kill()


def test_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    process = Process("sleeper", SLEEPER, log=tmp_path / "log")
    thread = threading.Thread(target=process.start)
    thread.start()
    thread.join()
    try:
        process.wait_ready(lambda: "up" in process.tail(), timeout=60)
        assert process.alive
    finally:
        process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="PR_SET_PDEATHSIG is Linux")
def test_dies_with_a_parent_that_got_sigkill(tmp_path: Path) -> None:
    code = f"""if True:
        import time
        from pathlib import Path
        from fleetbeat.local.process import Process
        process = Process("sleeper", {SLEEPER!r}, log=Path({str(tmp_path / "log")!r}))
        process.start()
        process.wait_ready(lambda: "up" in process.tail(), timeout=60)
        print(process.pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert not gone(child)
        os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: gone(child), what="the child to die with its parent")


def test_free_ports_differ_and_are_free() -> None:
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(port < 32768 for port in ports)
    assert not listens(ports[0])


def test_free_ports_of_a_narrow_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETBEAT_LOCAL_PORTS", "32100-32163")
    assert {free_port() for _ in range(8)} <= set(range(32_100, 32_164))


@pytest.mark.parametrize(
    "text", ["", "20000", "20000-", "abc-def", "80-90", "30000-20000", "20000-70000", "20000 - 30000"]
)
def test_what_is_no_range_of_ports(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FLEETBEAT_LOCAL_PORTS", text)
    with pytest.raises(LocalError, match=r"FLEETBEAT_LOCAL_PORTS: .* is not a range of ports"):
        free_port()


def test_no_port_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("FLEETBEAT_LOCAL_PORTS", f"{port}-{port}")
        with pytest.raises(LocalError, match=f"No free TCP port between {port} and {port}"):
            free_port()
