"""Workers and beats that start in a moment: a process that has imported everything forks one whenever it is asked.

Importing takes seconds of a core's time; a run of the suite starts some three hundred of these processes. Each is a
process like any other, in a session of its own. They end with the nursery, and the nursery with the test session.

Run as a program it is the nursery: ``python nursery.py PORT``.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from waiting import wait_for

from fleetbeat.local.process import Process, free_port, listens

HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1

#: what a worker or a beat imports at its start, but for the two modules that read the settings
_SLOW = (
    *("celery.apps.beat", "celery.apps.worker", "celery.bin.celery", "celery.beat", "celery.concurrency.thread"),
    *("celery.worker.consumer", "kombu.transport.redis", "kubernetes.client", "scheduler.beat"),
    *(f"workers.{name}" for name in ("apply", "diff", "events", "parts", "pull", "reconcile", "render", "report")),
    *("workers.choice", "workers.removal", "workers.task", "fleetbeat.clients.cluster_connect"),
)


class Child:
    """One celery process. It can be started again after its end, as a supervisor would."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        plan: Mapping[str, Any] | None = None,
    ) -> None:
        """``arguments``: of ``celery``. ``env`` is added to ours. ``plan``: what it does to itself (saboteur.py)."""
        self.log = log
        self._order = {"log": str(log), "arguments": list(arguments), "plan": dict(plan) if plan else None}
        self._env = dict(env)
        self._pid = 0

    def start(self) -> None:
        if not self.alive:
            self._pid = _ask({**self._order, "env": {**os.environ, **self._env}})

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
        """SIGKILL; returns when it is gone."""
        self.signal(signal.SIGKILL)
        wait_for(lambda: not self.alive, timeout=30, every=0.005, what=f"process {self._pid} to be gone")

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


Worker = Child  # what nearly all of them are


class Nursery:
    """Workers of one installation. ``env``: its settings. ``folder``: where their logs go."""

    def __init__(self, env: Mapping[str, str], folder: Path, *, concurrency: int = 4) -> None:
        self._env, self._folder, self._concurrency = env, folder, concurrency
        self._made: list[Child] = []

    def worker(self, plan: Mapping[str, Any] | None = None) -> Child:
        """One that has been started. ``plan``: what it is to do to itself."""
        name = f"n{uuid.uuid4().hex[:6]}"
        log = self._folder / f"worker-{name}.log"
        child = Child(worker_arguments(f"{name}@fleet", self._concurrency), log=log, env=self._env, plan=plan)
        self._made.append(child)
        child.start()
        return child

    def end(self) -> None:
        """SIGKILL to all of them."""
        for child in self._made:
            child.kill()


def worker_arguments(name: str, concurrency: int) -> list[str]:
    return [
        *("-A", "workers.app", "worker", "-P", "threads", "-c", str(concurrency), "-l", "INFO", "-E"),
        *("--without-gossip", "--without-mingle", "-n", name),
    ]


# ── the nursery of this session ──────────────────────────────────────────────────────────────────────────────────

_folder = tempfile.TemporaryDirectory(prefix="fleetbeat-nursery-")
_port = 0
_mother: Process | None = None


def end() -> None:
    """End the nursery and all that were born there; for the end of the session."""
    global _mother
    if _mother is not None:
        _mother.kill()
        _mother = None


def _ask(order: Mapping[str, Any]) -> int:
    """The process id of a child that has been started as ordered."""
    global _mother, _port
    if _mother is None:
        _port = free_port()
        command = [sys.executable, __file__, str(_port)]
        _mother = Process("nursery", command, log=Path(_folder.name) / "log", port=_port)
        _mother.start()
        _mother.wait_ready(lambda: listens(_port), timeout=120)
    with socket.create_connection((HOST, _port), timeout=30) as connection:
        connection.sendall(json.dumps(order).encode() + b"\n")
        answer = connection.makefile().readline()
    return int(answer)


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
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.environ.clear()
        os.environ.update(order["env"])
        random.seed()
        connection.sendall(f"{os.getpid()}\n".encode())
        connection.close()
        if order["plan"]:
            import saboteur

            import workers.app  # noqa: F401 - everything it takes a function from must be there

            saboteur.lay(order["plan"])
        from celery.bin.celery import main

        sys.argv = ["celery", *order["arguments"]]
        main()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
