"""Workers that start in a moment: a process that has imported everything forks one whenever it is asked.

A test that kills forty workers would else spend its minutes importing. Each child is a worker process like any other,
in a session of its own; they end with the nursery, and the nursery with the test.

Run as a program it is the nursery: ``python nursery.py PORT``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
_PR_SET_PDEATHSIG = 1


class Worker:
    """One worker process. ``plan``: what it is to do to itself (saboteur.py)."""

    def __init__(self, name: str, pid: int, log: Path) -> None:
        self.name, self.pid, self.log = name, pid, log

    @property
    def state(self) -> str:
        """Letter of the main thread as in /proc: R, S, T = stopped; "" when it is gone."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0].replace("Z", "")
        except OSError:
            return ""

    @property
    def alive(self) -> bool:
        return bool(self.state)

    @property
    def stopped(self) -> bool:
        """SIGSTOP has reached every thread."""
        try:
            tasks = list(Path(f"/proc/{self.pid}/task").iterdir())
            return all((task / "stat").read_text().rpartition(")")[2].split()[0] in "Tt" for task in tasks)
        except OSError:
            return False

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)


class Nursery:
    """Asks the nursery at ``port`` for workers. ``folder``: where their logs go."""

    def __init__(self, port: int, folder: Path, *, concurrency: int = 4) -> None:
        self._port, self._folder, self._concurrency = port, folder, concurrency

    def worker(self, plan: Mapping[str, Any] | None = None) -> Worker:
        name = f"n{uuid.uuid4().hex[:6]}"
        log = self._folder / f"worker-{name}.log"
        arguments = ["-A", "workers.app", "worker", "-P", "threads", "-c", str(self._concurrency), "-l", "INFO", "-E"]
        arguments += ["--without-gossip", "--without-mingle", "-n", f"{name}@fleet"]
        order = {"log": str(log), "arguments": arguments, "plan": dict(plan) if plan else None}
        with socket.create_connection((HOST, self._port), timeout=20) as connection:
            connection.sendall(json.dumps(order).encode() + b"\n")
            answer = connection.makefile().readline()
        return Worker(name, int(answer), log)


def serve(port: int) -> None:
    """Fork a worker per connection. Nothing here may start a thread: a fork would leave it behind."""
    import celery.apps.worker
    import celery.bin.celery
    import celery.concurrency.thread
    import celery.worker.consumer  # noqa: F401

    import workers.app  # noqa: F401

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
                _become_worker(order, connection, parent)
            connection.close()


def _become_worker(order: Mapping[str, Any], connection: socket.socket, parent: int) -> None:
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        connection.sendall(f"{os.getpid()}\n".encode())
        connection.close()
        if order["plan"]:
            import saboteur

            saboteur.lay(order["plan"])
        from celery.bin.celery import main

        sys.argv = ["celery", *order["arguments"]]
        main()
    finally:
        os._exit(1)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
