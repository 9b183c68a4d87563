"""Hosts of an installation, each with processes of its own and its own idea of what time it is; killed as a whole."""

from __future__ import annotations

import re
import uuid
from datetime import datetime

from fleet import Fleet
from nursery import Child, worker_arguments
from waiting import wait_for
from wrong_clock import WrongClock

from fleetbeat.clients.pulse import read_pulse


class Host:
    """A beat, workers and a watch, all of which live by ``clock``."""

    def __init__(self, fleet: Fleet, clock: WrongClock, *, workers: int = 1) -> None:
        self._fleet, self._name = fleet, f"h{uuid.uuid4().hex[:6]}"
        self._env = {**fleet.env, **clock.env}
        self._beat = self._child("beat", ["-A", "scheduler.app", "beat", "-l", "INFO", "--pidfile="])
        self._watch = self._child("watch", [])
        self._workers = [
            self._child(f"worker-{number}", worker_arguments(f"{self._name}-{number}@fleet", 4))
            for number in range(workers)
        ]
        self.processes = [self._beat, self._watch, *self._workers]

    def _child(self, word: str, arguments: list[str]) -> Child:
        return Child(arguments, log=self._fleet.folder / f"{word}-{self._name}.log", env=self._env)

    def start(self, timeout: float = 120) -> Host:
        """Returns when beat has spoken, the workers take messages and the watch has begun."""
        for process in self.processes:
            process.start()
        try:
            wait_for(self._is_ready, timeout=timeout, what="the host's processes", every=0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._fleet.logs()[-6000:]}") from None
        return self

    def _is_ready(self) -> bool:
        beats = read_pulse(self._fleet.store).beats
        return (
            any(name.endswith(f":{self._beat.pid}") for name in beats)
            and all("ready." in one.log.read_text(errors="replace") for one in self._workers)
            and "watching" in self._watch.log.read_text(errors="replace")
        )

    @property
    def said_at(self) -> datetime:
        """What time it was for its first worker when that said its last line; the log is in the machine's zone."""
        log = self._workers[0].log.read_text(errors="replace")
        found = re.findall(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),", log, re.MULTILINE)
        return datetime.fromisoformat(found[-1]).astimezone()

    def kill(self) -> None:
        """SIGKILL to all of them; returns when they are gone."""
        for process in self.processes:
            process.kill()

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
