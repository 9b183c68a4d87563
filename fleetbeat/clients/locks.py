"""Holding a lock while working: renewal in the background, and a deadline that needs no network to be known."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fleetbeat.clients.runs import Runs, Turn
from fleetbeat.errors import LostLock, StoreUnavailable
from fleetbeat.settings import Lock

log = logging.getLogger(__name__)


class Lease:
    """The time for which an execution may still write.

    The deadline counts from before the renewing command was sent, on the monotonic clock, less a margin: it ends
    before Redis lets another worker in, even after the process was stopped and continued (the monotonic clock runs
    on meanwhile).
    """

    def __init__(self, settings: Lock, began: float, longest: float) -> None:
        """``began``: monotonic seconds before the lock was asked for; ``longest``: seconds the step may work at all."""
        self._hold = settings.ttl - settings.margin
        self._deadline = began + self._hold
        self.end = began + longest
        self._lost = False

    def check(self) -> None:
        """Raises LostLock when this execution must not write any more. Called before every write."""
        now = time.monotonic()
        if self._lost or now >= self._deadline or now >= self.end:
            raise LostLock("the application's lock has run out or was taken over; nothing more is written")

    def extend(self, asked_at: float) -> None:
        self._deadline = asked_at + self._hold

    def lose(self) -> None:
        self._lost = True


@contextmanager
def held(runs: Runs, turn: Turn, lease: Lease, settings: Lock) -> Iterator[Lease]:
    """Renew ``turn``'s lock every third of its time-to-live until the block ends or the step's time is over."""
    stop = threading.Event()

    def renew() -> None:
        while not stop.wait(settings.ttl / 3):
            asked_at = time.monotonic()
            if asked_at >= lease.end:
                return  # a hung step loses its lock, so that another worker can take it over
            try:
                if runs.renew(turn):
                    lease.extend(asked_at)
                else:
                    lease.lose()
                    return
            except StoreUnavailable as error:
                log.warning("%s run %s: lock not renewed yet: %s", turn.app, turn.run, error)

    thread = threading.Thread(target=renew, name=f"lock-{turn.app}", daemon=True)
    thread.start()
    try:
        yield lease
    finally:
        stop.set()
        lease.lose()  # the lock is given back or left to expire: whatever still has this guard must not pass it
