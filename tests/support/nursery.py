"""Workers, beats and commands that start in a moment: a process that has imported everything forks them when asked.

Importing takes seconds of a core's time; a run of the suite starts some five hundred of these processes. Each is a
process like any other, in a session of its own. They end with the nursery, and the nursery with the test session.

Run as a program it is the nursery: ``python nursery.py PORT``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import wrong_clock
from waiting import wait_for

from fleetbeat.local.process import Process, free_port, listens

HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1

#: what they import at their start, but for the two modules that read the settings
_SLOW = (
    *("celery.apps.beat", "celery.apps.worker", "celery.bin.celery", "celery.beat", "celery.concurrency.thread"),
    *("celery.worker.consumer", "kombu.transport.redis", "kubernetes.client", "scheduler.beat"),
    *(f"workers.{name}" for name in ("apply", "diff", "events", "parts", "pull", "reconcile", "render", "report")),
    *("workers.choice", "workers.removal", "workers.task", "fleetbeat.clients.cluster_connect"),
    *("click", "fleetbeat.clients.oci", "fleetbeat.clients.oci_push", "rich.console", "rich.table", "rich.text"),
)


class Child:
    """One process of celery, or a watch. It can be started again after its end, as a supervisor would."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        plan: Mapping[str, Any] | None = None,
    ) -> None:
        """``arguments``: of ``celery``; none = a watch. ``env`` is added to ours, and may give it another clock
        (wrong_clock.py). ``plan``: what it does to itself (saboteur.py).
        """
        self.log = log
        self._order = {"log": str(log), "celery": list(arguments), "plan": dict(plan) if plan else None}
        self._env = dict(env)
        self._pid = 0

    def start(self) -> None:
        if not self.alive:
            with _ask({**self._order, "env": {**os.environ, **self._env}}) as connection:
                self._pid = int(connection.makefile().readline())

    @property
    def pid(self) -> int | None:
        """None when it does not run."""
        return self._pid if self.alive else None

    @property
    def state(self) -> str:
        """Letter of the main thread as in /proc: R, S, T = stopped; "" when it is gone."""
        try:
            return Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0].replace("Z", "")
        except OSError:
            return ""

    @property
    def alive(self) -> bool:
        return bool(self._pid and self.state)

    @property
    def stopped(self) -> bool:
        """SIGSTOP has reached every thread."""
        try:
            tasks = list(Path(f"/proc/{self._pid}/task").iterdir())
            return all((task / "stat").read_text().rpartition(")")[2].split()[0] in "Tt" for task in tasks)
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> None:
        if self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def kill(self) -> None:
        """SIGKILL; returns when it is gone, and its connections with it.

        Its main thread may be gone before the others, which hold the sockets: a message sent then would be lost.
        """
        self.signal(signal.SIGKILL)
        wait_for(
            lambda: not self._pid or not Path(f"/proc/{self._pid}").exists(),
            timeout=60,
            every=0.005,
            what=f"process {self._pid} to be gone",
        )

    def pause(self) -> None:
        """SIGSTOP; returns when all of it stands still."""
        self.signal(signal.SIGSTOP)
        wait_for(lambda: self.stopped or not self.alive, what=f"process {self._pid} to stand still")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


Worker = Child  # what nearly all of them are


class Nursery:
    """Workers of one installation. ``env``: its settings. ``folder``: where their logs go."""

    def __init__(self, env: Mapping[str, str], folder: Path, *, concurrency: int = 4) -> None:
        self._env, self._folder, self._concurrency = env, folder, concurrency
        self._made: list[Child] = []

    def worker(self, plan: Mapping[str, Any] | None = None, **env: str) -> Child:
        """One that has been started. ``plan``: what it is to do to itself. ``env``: what is its own."""
        name = f"n{uuid.uuid4().hex[:6]}"
        log = self._folder / f"worker-{name}.log"
        child = Child(
            worker_arguments(f"{name}@fleet", self._concurrency), log=log, env={**self._env, **env}, plan=plan
        )
        self._made.append(child)
        child.start()
        return child

    def end(self) -> None:
        """SIGKILL to all of them; more can be had afterwards."""
        while self._made:
            self._made.pop().kill()


def command(*arguments: str, env: Mapping[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """``fleetbeat ARGUMENTS``; ``env`` is added to ours. Killed after ``timeout`` seconds: TimeoutExpired."""
    out, err = (_mother().folder / f"{uuid.uuid4().hex}.{stream}" for stream in ("out", "err"))
    order = {"log": str(out), "errors": str(err), "fleetbeat": arguments, "env": {**os.environ, **env}}
    with _ask(order) as connection:
        connection.settimeout(timeout)
        answers = connection.makefile()
        pid = int(answers.readline())
        try:
            code = int(answers.readline() or "-9")  # killed, as subprocess tells it
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(["fleetbeat", *arguments], timeout) from None
    said = subprocess.CompletedProcess(["fleetbeat", *arguments], code, out.read_text(), err.read_text())
    out.unlink()
    err.unlink()
    return said


def worker_arguments(name: str, concurrency: int) -> list[str]:
    return [
        *("-A", "workers.app", "worker", "-P", "threads", "-c", str(concurrency), "-l", "INFO", "-E"),
        *("--without-gossip", "--without-mingle", "-n", name),
    ]


# ── the nursery of this session ──────────────────────────────────────────────────────────────────────────────────


class _Mother:
    """The process that forks, and the folder of what it and commands say."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fleetbeat-nursery-")
        self.folder = Path(self._folder.name)
        self.port = free_port()
        command = [sys.executable, __file__, str(self.port)]
        self._process = Process("nursery", command, log=self.folder / "log", port=self.port)
        self._process.start()
        self._process.wait_ready(lambda: listens(self.port), timeout=240)

    def end(self) -> None:
        self._process.kill()
        self._folder.cleanup()


@functools.cache
def _mother() -> _Mother:
    return _Mother()


def end() -> None:
    """End the nursery and all that were born there; for the end of the session."""
    if _mother.cache_info().currsize:
        _mother().end()
        _mother.cache_clear()


@contextlib.contextmanager
def _ask(order: Mapping[str, Any]) -> Iterator[socket.socket]:
    """A connection to a process that has been started as ordered; its first line is the process id."""
    with socket.create_connection((HOST, _mother().port), timeout=60) as connection:
        connection.sendall(json.dumps(order).encode() + b"\n")
        yield connection


# ── the nursery itself ───────────────────────────────────────────────────────────────────────────────────────────


def serve(port: int) -> None:
    """Fork a process per connection. Nothing here may start a thread: a fork would leave it behind."""
    for module in _SLOW:
        importlib.import_module(module)
    assert threading.active_count() == 1

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    parent = os.getpid()
    with socket.create_server((HOST, port)) as server:
        while True:
            connection, _ = server.accept()
            line = connection.makefile().readline()
            if not line:  # somebody only looked whether we are ready
                connection.close()
                continue
            order = json.loads(line)
            pid = os.fork()
            if pid == 0:
                server.close()
                _become(order, connection, parent)
            connection.close()


def _become(order: Mapping[str, Any], connection: socket.socket, parent: int) -> None:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        for descriptor, name in ((1, order["log"]), (2, order.get("errors", order["log"]))):
            opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(opened, descriptor)
        os.environ.clear()
        os.environ.update(order["env"])
        random.seed()
        if wrong_clock.VARIABLE in os.environ:
            wrong_clock.install()
        connection.sendall(f"{os.getpid()}\n".encode())
        if "fleetbeat" in order:
            connection.sendall(f"{_fleetbeat(order['fleetbeat'])}\n".encode())
        else:
            connection.close()
            if order["celery"]:
                _celery(order["celery"], order["plan"])
            os._exit(_watch())
    finally:
        os._exit(1)


def _celery(arguments: list[str], plan: dict[str, Any] | None) -> None:
    if plan:
        import saboteur

        import workers.app  # noqa: F401 - everything it takes a function from must be there

        saboteur.lay(plan)
    from celery.bin.celery import main

    sys.argv = ["celery", *arguments]
    main()


def _watch() -> int:
    from scheduler.watch import main

    return main()


def _fleetbeat(arguments: list[str]) -> int:
    """The exit code."""
    code: int | str | None = 1
    try:
        from fleetbeat.cli.main import main

        sys.argv = ["fleetbeat", *arguments]
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
