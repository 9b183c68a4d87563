"""Keeps child processes running: starts one again after it died, more slowly each time, and ends all of them fast."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleetbeat.errors import ConfigurationError

_FIRST_PAUSE = 1.0  # seconds before the first restart; each further one doubles it
_LONGEST_PAUSE = 30.0
_STEADY = 60.0  # seconds of life after which earlier deaths are forgotten
_POLL = 0.25
_GRACE = 3.0  # seconds a process gets to end; what it had begun is taken up again at the next start


class Part(Protocol):
    """A process as the supervisor sees it; ``fleetbeat.local.process.Process`` is one."""

    name: str

    @property
    def log(self) -> Path: ...

    @property
    def alive(self) -> bool: ...

    @property
    def exit_code(self) -> int | None: ...

    def start(self) -> None: ...

    def stop(self, grace: float) -> None: ...


@dataclass
class _Child:
    process: Part
    started: float
    deaths: int = 0
    restart_at: float | None = None  # monotonic; None while it runs


class Supervisor:
    """Watches processes it has started. One thread drives it."""

    def __init__(self, say: Callable[[str], None], *, clock: Callable[[], float] = time.monotonic) -> None:
        """``say`` gets one line for each death and restart."""
        self._say = say
        self._clock = clock
        self._children: list[_Child] = []

    def start(self, process: Part) -> None:
        """Start it and watch it from now on. Raises LocalError when the program cannot be run."""
        process.start()
        self._children.append(_Child(process, self._clock()))

    def check(self) -> None:
        """Look once: tell what died, start again what has waited long enough."""
        now = self._clock()
        for child in self._children:
            if child.restart_at is None and not child.process.alive:
                self._died(child, now)
            elif child.restart_at is not None and now >= child.restart_at:
                self._restart(child, now)

    def run(self, stop: threading.Event, every: Callable[[], None] = lambda: None) -> None:
        """Until ``stop`` is set. ``every`` is called at each look, a few times a second."""
        while not stop.wait(_POLL):
            self.check()
            every()

    def stop(self) -> None:
        """End all of them at the same time: SIGTERM, SIGKILL three seconds later."""
        if not self._children:
            return
        with ThreadPoolExecutor(len(self._children)) as pool:
            list(pool.map(lambda child: child.process.stop(_GRACE), self._children))
        self._children.clear()

    def _died(self, child: _Child, now: float) -> None:
        child.deaths = 1 if now - child.started > _STEADY else child.deaths + 1
        pause = min(_FIRST_PAUSE * 2 ** (child.deaths - 1), _LONGEST_PAUSE)
        child.restart_at = now + pause
        name, code = child.process.name, child.process.exit_code
        if code is None:
            how = "ended"
        else:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._say(f"{name} {how}; started again in {pause:g} s. Its log: {child.process.log}")

    def _restart(self, child: _Child, now: float) -> None:
        try:
            child.process.start()
        except ConfigurationError as error:
            self._say(str(error))
            child.restart_at = now + _LONGEST_PAUSE
            return
        child.started, child.restart_at = now, None
        self._say(f"{child.process.name} started again")
