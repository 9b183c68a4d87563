"""The processes of an installation on one machine: how each is started. `up` and `demo` share them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

from fleetbeat import wire
from fleetbeat.errors import ConfigurationError
from fleetbeat.local.process import Process
from fleetbeat.local.redis import RedisServer

USER = "fleetbeat"
"""Flower's user name."""


def need_flower(other: str = "") -> None:
    """Raises ConfigurationError when Flower is not installed. ``other``: what to do instead of installing it."""
    if importlib.util.find_spec("flower") is None:
        raise ConfigurationError(
            "Flower is not installed. It comes with the extra `local`: in a checkout, pip install '.[local]'; "
            f"with a wheel, pip install './fleetbeat-VERSION-py3-none-any.whl[local]'{other}"
        )


class Parts:
    """Makes the processes; nothing is started here."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        """``env``: FLEETBEAT_REDIS_URL, FLEETBEAT_KEY, … for all of them. Logs go to ``folder/logs``."""
        self._folder = folder
        self._env = dict(env)

    def beat(self) -> Process:
        return self._celery("beat", ["-A", "scheduler.app", "beat", "--loglevel=INFO"])

    def worker(self, number: int) -> Process:
        queues = f"{wire.TICK_QUEUE},{wire.WORK_QUEUE}"
        options = ["-P", "threads", "-c", "8", "-E", "--without-gossip", "--without-mingle", "-Q", queues]
        name = f"worker-{number}"
        return self._celery(name, ["-A", "workers.app", "worker", *options, "-n", f"{name}@%h", "--loglevel=INFO"])

    def watch(self) -> Process:
        return self._python("watch", ["-m", "scheduler.watch"])

    def flower(self, port: int, password: str) -> Process:
        """Only on this machine, with a password, and unable to change anything."""
        options = ["--address=127.0.0.1", f"--port={port}", "--read_only"]
        # in the environment, as `ps` shows command lines to everybody
        login = {"FLOWER_BASIC_AUTH": f"{USER}:{password}"}
        return self._celery("flower", ["-A", "workers.app", "flower", *options], login)

    def _celery(self, name: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Process:
        return self._python(name, ["-m", "celery", *arguments], env)

    def _python(self, name: str, arguments: list[str], env: Mapping[str, str] | None = None) -> Process:
        return Process(
            name,
            [sys.executable, *arguments],
            log=self._folder / "logs" / f"{name}.log",
            env={**self._env, **(env or {})},
            # Celery and `-m` put the working folder first on the import path: somebody's `workers` must not be found.
            cwd=self._folder,
        )


class EmbeddedRedis:
    """The embedded Redis as a supervised part. It ends with its context manager, after everything that uses it."""

    name = "Redis"
    exit_code = None  # the server keeps it to itself

    def __init__(self, server: RedisServer) -> None:
        self._server = server

    @property
    def log(self) -> Path:
        return self._server.log

    @property
    def alive(self) -> bool:
        return self._server.alive

    def start(self) -> None:
        """Same port, same data; harmless when it runs."""
        self._server.start()

    def stop(self, grace: float) -> None:
        """Not here: workers that are ending still write."""
