"""A server that runs as our child: started with a log file, waited for until it is ready, never left behind.

Nothing outlives its parent, not even one that got SIGKILL: on Linux the child asks the kernel for SIGKILL at its
parent's death. Two facts of PR_SET_PDEATHSIG shape this module:

- It fires when the *thread* that forked ends, so every child is forked by one thread that lives as long as we do.
- It must be set by the child itself. ``preexec_fn`` runs Python between fork and exec, which may deadlock in a program
  with threads, so a few lines of Python in the child set it and then exec the real program.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fleetbeat.errors import ConfigurationError

#: argv: our pid, program, its arguments. A parent that died before prctl took effect is seen by the changed ppid.
_TIE_TO_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execvp(sys.argv[2], sys.argv[2:])
"""

_POLL = 0.03  # seconds between two looks at a condition; servers here are ready after 0.1 s to 5 s
_forker = ThreadPoolExecutor(1, thread_name_prefix="fleetbeat-local-forker")


class LocalError(ConfigurationError):
    """A local part did not start, died or is missing. The message ends with the last lines of its log, if any."""


class Process:
    """One child process in a process group of its own, so that a Ctrl-C in the terminal reaches only us.

    Thread-safe as far as its users need: starting and stopping are not to be raced against each other.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        port: int | None = None,
    ) -> None:
        """``name`` is for messages. ``env`` is added to ours. ``log`` gets stdout and stderr, appended.

        ``port``: where it will listen on 127.0.0.1; must be free at ``start``, or its owner would be taken for ready.
        """
        self.name = name
        self.log = log
        self._command = [str(word) for word in command]
        self._env = dict(env or {})
        self._cwd = cwd
        self._port = port
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; again after it ended. Raises LocalError: no such program, port taken."""
        if self.alive:
            return
        command = self._command
        if shutil.which(command[0]) is None:
            raise LocalError(f"{self.name} cannot be started: there is no program {command[0]}.")
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _TIE_TO_PARENT, str(os.getpid()), *command]
        if self._port is not None and listens(self._port):
            raise LocalError(f"{self.name} cannot be started: port {self._port} on 127.0.0.1 is already in use.")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            try:
                self._child = _forker.submit(
                    subprocess.Popen,
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self._env},
                    cwd=self._cwd,
                    start_new_session=True,
                ).result()
            except OSError as error:
                raise LocalError(f"{self.name} cannot be started: {error}") from error

    def wait_ready(self, ready: Callable[[], bool], timeout: float) -> None:
        """Return once ``ready()`` is true. Raises LocalError when the process ends first or after ``timeout`` s."""
        deadline = time.monotonic() + timeout
        while True:
            code = self._child.poll() if self._child else None
            if self._child is None or code is not None:
                raise LocalError(f"{self.name} ended with exit code {code} while starting.{self._quoted_log()}")
            if ready():
                return
            if time.monotonic() > deadline:
                raise LocalError(f"{self.name} is not ready after {timeout:g} s.{self._quoted_log()}")
            time.sleep(_POLL)

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int | None:
        """None when it does not run."""
        return self._child.pid if self._child is not None and self.alive else None

    @property
    def exit_code(self) -> int | None:
        """None before the start and while it runs; negative = the signal that ended it."""
        return self._child.poll() if self._child else None

    def wait(self, timeout: float) -> int:
        """The exit code. Raises LocalError when it still runs after ``timeout`` seconds."""
        if self._child is None:
            raise LocalError(f"{self.name} was never started.")
        try:
            return self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            raise LocalError(f"{self.name} still runs after {timeout:g} s.{self._quoted_log()}") from None

    def stop(self, grace: float = 5.0) -> None:
        """SIGTERM, then SIGKILL after ``grace`` seconds. Returns when it is gone; harmless when it already was."""
        self.resume()  # a stopped process would not see SIGTERM
        self._signal(signal.SIGTERM)
        if self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(grace)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the whole group; returns when it is gone."""
        self._signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nobody answers, like a hung machine. Returns when it stands still.

        On a busy machine the threads of a process may go on for a moment after the signal has been sent.
        """
        self._signal(signal.SIGSTOP)
        deadline = time.monotonic() + 10.0
        while self._runs_on() and time.monotonic() < deadline:
            time.sleep(_POLL)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def tail(self, lines: int = 15) -> str:
        """The last lines of the log."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - 64 * 1024))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None and self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)

    def _runs_on(self) -> bool:
        """Has a thread not been stopped yet? Told by Linux only."""
        if self._child is None or not self.alive:
            return False
        try:
            threads = [task / "stat" for task in Path(f"/proc/{self._child.pid}/task").iterdir()]
            return any(path.read_text().rpartition(")")[2].split()[0] not in "Tt" for path in threads)
        except OSError:  # a thread ended in between; without /proc there is nothing to ask
            return Path("/proc/self/task").exists()

    def _quoted_log(self) -> str:
        tail = self.tail()
        return f" The end of {self.log}:\n{tail}" if tail else " Its log is empty."


_given: set[int] = set()
_given_lock = threading.Lock()


def free_port() -> int:
    """A free TCP port on 127.0.0.1, never given twice by this process.

    From below the usual ephemeral range (32768 and up on Linux): a server that restarts on its port must not find it
    taken by somebody's outgoing connection. ``FLEETBEAT_LOCAL_PORTS`` (``20000-25999``) narrows the range, so that two
    programs side by side never give the same port to two servers that are about to start. Raises LocalError.
    """
    ports = _ports()
    for _ in range(1000):
        port = random.choice(ports)
        with _given_lock:
            if port in _given:
                continue
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            _given.add(port)
            return port
    raise LocalError(f"No free TCP port between {ports.start} and {ports.stop - 1} on 127.0.0.1.")


def _ports() -> range:
    given = os.environ.get("FLEETBEAT_LOCAL_PORTS", "20000-31999")
    first, _, last = given.partition("-")
    if not (first.isdecimal() and last.isdecimal() and 1024 <= int(first) <= int(last) <= 65_535):
        raise LocalError(
            f"FLEETBEAT_LOCAL_PORTS: {given!r} is not a range of ports between 1024 and 65535, such as 20000-25999."
        )
    return range(int(first), int(last) + 1)


def listens(port: int) -> bool:
    """True when something accepts connections on 127.0.0.1:``port``."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
