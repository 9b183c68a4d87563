"""A circuit breaker per API server: while it is silent, one request at a time finds out whether it is back.

Without one, every application of a dead cluster holds a worker for a whole time-out, again and again, and applications
of other clusters wait behind them (field cases j9, k1). Only silence counts. A refused connection costs no time, and
any answer is a sign of life, an error too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FIRST_PAUSE = 1.0  #: seconds between the first silence and the first probe; doubled after each one in vain
LONGEST_PAUSE = 30.0  #: seconds; a cluster that is back is noticed so late at worst
PROBE_LIFE = 60.0  #: seconds after which a probe that never came back no longer keeps others from trying


class Breaker:
    """Thread-safe; of one process, so each process probes for itself."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._heard = float("-inf")  # the last answer
        self._opened: float | None = None  # when it fell silent; None = it speaks
        self._next = 0.0  # the next probe
        self._pause = FIRST_PAUSE

    def refusal(self) -> str | None:
        """Why not to ask now, in words; None: ask, and tell ``heard`` or ``silent``."""
        with self._lock:
            if self._opened is None:
                return None
            now = self._clock()
            if now >= self._next:
                self._next = now + PROBE_LIFE
                return None
            return f"silent for {now - self._opened:.0f} s; requests wait until one has been answered"

    def heard(self) -> None:
        with self._lock:
            self._heard = self._clock()
            self._opened = None

    def silent(self, began: float) -> None:
        """A request that began at ``began`` (by ``now``) got no answer in time."""
        with self._lock:
            if self._heard > began:
                return  # others were answered meanwhile: that request was slow, not the server dead
            now = self._clock()
            if self._opened is None:
                self._opened, self._pause = now, FIRST_PAUSE
            elif began >= self._opened:  # a probe; what was under way before says nothing new
                self._pause = min(self._pause * 2, LONGEST_PAUSE)
            else:
                return
            self._next = now + self._pause

    def now(self) -> float:
        return self._clock()
