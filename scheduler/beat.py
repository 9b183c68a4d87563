"""Beat: a Celery beat scheduler over the due set. Any number run at once; nobody leads.

One tick:

1. every ``catalog_every`` seconds, look at the catalog directory (scheduler/catalog.py), in a thread of its own;
2. claim what is due, in batches; publish each batch, then settle it;
3. sleep on the bell until the next score, at most ``idle`` seconds.

A beat killed between claim and settle has lost nothing: the lease rings its batch again. Without Redis there is
nothing to do and nothing to lose, so beat waits for it to come back and says so once.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import socket
import time
from pathlib import Path
from typing import Any

import celery.beat

from fleetbeat import wire
from fleetbeat.clients.broker import Celery, publish_reconcile
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.due import DueSet
from fleetbeat.clients.store import Store
from fleetbeat.errors import ConfigurationError, FleetbeatError, StoreUnavailable
from scheduler.catalog import CatalogWatch
from scheduler.looking import Looking

logger = logging.getLogger("fleetbeat.beat")

_PAUSES = (0.1, 0.25, 0.5, 1.0, 2.0)  # seconds between tries while Redis is away; the last one repeats
_HEARTBEAT = 1.0  # seconds
_PATIENCE = 0.25  # seconds that nobody is rung for a look; a catalog that takes longer to read is read beside it
_LOOK_SHARE = 20  # times as long as a look took it is not looked again: at most a twentieth of beat's time
_CLOCK_JUMP = 2.0  # seconds back that are worth realigning the due set for; less is made up for by waiting


class DueScheduler(celery.beat.Scheduler):
    """``beat_scheduler = "scheduler.beat:DueScheduler"``. It has no entries of its own and writes no schedule file."""

    app: Celery

    def setup_schedule(self) -> None:
        """Raises ConfigurationError when no catalog directory or sealing key is set."""
        settings = self.app.settings
        if not settings.catalog:
            raise ConfigurationError(
                "FLEETBEAT_CATALOG is not set. Beat reads the catalog: give it the directory of catalog YAML."
            )
        store = Store.open(settings)
        self._settings = settings.beat
        self._due = DueSet(store, settings.beat)
        beat, catalogs = settings.beat, Catalogs(store)
        self._catalog = CatalogWatch(
            Path(settings.catalog), catalogs, self._due, beat.start_rate, grace=beat.removal_grace
        )
        self._id = f"{socket.gethostname()}:{os.getpid()}"
        self._next_look = self._next_heartbeat = time.monotonic()
        self._looking: Looking | None = None
        self._failures = 0
        self._away_since = 0.0
        atexit.register(self._leave)

    def tick(self, *_args: Any, **_kwargs: Any) -> float:
        """One round. Returns the seconds Celery shall sleep: none, as the bell has been waited for, or a pause."""
        try:
            now = time.monotonic()
            if now >= self._next_heartbeat:
                self._heartbeat()
                self._next_heartbeat = now + _HEARTBEAT
            self._look(now)
            idle = self._ring()
            self._recovered()
            self._due.wait(min(idle, self._settings.idle))
        except StoreUnavailable as error:
            return self._away(error)
        return 0.0

    def close(self) -> None:
        """Nothing to save. Called inside the signal handler too, so it must not touch Redis."""

    def _heartbeat(self) -> None:
        back = self._due.heartbeat(self._id)
        if back > _CLOCK_JUMP:
            moved = self._due.realign()
            logger.warning("the clock of Redis went back by %.0f s: %d applications are due earlier", back, moved)

    def _look(self, now: float) -> None:
        patience = 0.0
        if self._looking is None and now >= self._next_look:
            self._looking, patience = Looking(self._catalog.look), _PATIENCE
        if self._looking is None or not self._looking.is_over(patience):
            return
        looking, self._looking = self._looking, None
        changed, took = looking.result()
        # A hundred files take 1 ms, ten thousand 160 ms: beat is to have its time for ringing.
        rest = 0.0 if changed else took * _LOOK_SHARE
        self._next_look = time.monotonic() + max(self._settings.catalog_every, rest)

    def _ring(self) -> float:
        """Publish everything that is due; returns the seconds until the next one."""
        while True:
            claimed = self._due.claim(self._settings.batch)
            publish_reconcile(self.app, claimed.urgent, wire.WORK_QUEUE)
            publish_reconcile(self.app, claimed.ticks, wire.TICK_QUEUE)
            self._due.settle(claimed)
            if claimed.looked < self._settings.batch:
                return claimed.idle

    def _away(self, error: StoreUnavailable) -> float:
        if not self._failures:
            self._away_since = time.monotonic()
            logger.warning("%s. Nothing is rung until Redis answers again.", error)
        pause = _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        return pause

    def _recovered(self) -> None:
        if self._failures:
            logger.info("Redis answers again after %.1f s", time.monotonic() - self._away_since)
            self._failures = 0

    def _leave(self) -> None:
        if not self._failures:
            with contextlib.suppress(FleetbeatError):
                self._due.leave(self._id)

    @property
    def info(self) -> str:
        """A line for Celery's banner."""
        return f"    . catalog -> {self.app.settings.catalog}"
