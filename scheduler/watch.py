"""``fleetbeat watch``: early ticks. Turns what happens in the clusters into looks at the applications concerned.

Any number of these processes run; a lease per cluster says which of them watches it, and another one takes over when
it dies. A watch only rings (decisions/watching.py): everything it could miss, the next regular tick finds.

::

    Watch ── every second: the catalog's clusters, the leases ──► ClusterWatch (scheduler/watch_cluster.py), one each
      ▲                                                             │ events of each kind, by ApplySet label
      └── Bell: at most one ring per application and gap ◄──────────┘
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

from fleetbeat import wire
from fleetbeat.cli.signals import stopping
from fleetbeat.clients.broker import Celery, make_app, publish_reconcile
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.due import DueSet
from fleetbeat.clients.store import Store
from fleetbeat.clients.watch_lease import WatchLease
from fleetbeat.errors import FleetbeatError, StoreUnavailable
from fleetbeat.settings import Settings, load
from scheduler.watch_cluster import ClusterWatch

logger = logging.getLogger("fleetbeat.watch")

_LOOK = 1.0  # seconds between looks at the catalog's clusters and the leases


class Bell:
    """Rings applications at once, but in a storm only once per gap each, however often it is asked. Thread-safe."""

    _BURST = 4  # rings in a row without a gap: somebody's edit, and what healing it stirs up

    def __init__(self, ring: Callable[[str], bool], gap: float) -> None:
        """``ring`` says whether the application was rung: False when its run looks again anyway."""
        self._ring = ring
        self._gap = gap
        self._calm: dict[str, float] = {}  # application → monotonic seconds when all its rings so far have had a gap
        self._wanted: dict[str, float] = {}  # application → when it is to be rung
        self._change = threading.Condition()

    def ask(self, app: str) -> None:
        with self._change:
            now = time.monotonic()
            earliest = self._calm.get(app, now) - self._BURST * self._gap
            self._wanted.setdefault(app, max(now, earliest))
            self._change.notify()

    def run(self, stop: threading.Event) -> None:
        """Until ``stop``. What cannot be rung because Redis is away stays wanted."""
        while not stop.is_set():
            app = self._await()
            if app is None:
                continue
            try:
                rung = self._ring(app)
                with self._change:
                    now = time.monotonic()
                    self._calm[app] = max(now, self._calm.get(app, now)) + (self._gap if rung else self._gap / 5)
            except StoreUnavailable as error:
                logger.warning("%s: %s; rung again later", app, error)
                with self._change:
                    self._wanted.setdefault(app, time.monotonic() + _LOOK)

    def _await(self) -> str | None:
        with self._change:
            now = time.monotonic()
            due = [app for app, at in self._wanted.items() if at <= now]
            if not due:
                soonest = min(self._wanted.values(), default=now + _LOOK)
                self._change.wait(min(soonest - now, _LOOK))
                return None
            app = due[0]
            del self._wanted[app]
            for other in [name for name, at in self._calm.items() if at < now]:
                del self._calm[other]
            return app


class Watch:
    """The clusters of one catalog, as far as this process has their leases."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError when the sealing key is missing."""
        self._settings = settings
        store = Store.open(settings)
        self._catalogs = Catalogs(store)
        self._due = DueSet(store, settings.beat)
        self._lease = WatchLease(store, settings.watch.lease, f"{socket.gethostname()}:{os.getpid()}")
        self._celery: Celery = make_app(settings, "fleetbeat.watch")
        self._bell = Bell(self._ring, settings.watch.gap)
        self._watched: dict[str, ClusterWatch] = {}
        self._held: dict[str, float] = {}  # cluster → monotonic seconds until which the lease is surely ours
        self._away = False

    def run(self, stop: threading.Event) -> None:
        """Until ``stop``."""
        ringing = threading.Thread(target=self._bell.run, args=(stop,), name="bell", daemon=True)
        ringing.start()
        while not stop.is_set():
            try:
                self._look()
                self._away = False
            except FleetbeatError as error:
                if not self._away:
                    logger.warning("%s", error)
                self._away = True
                self._drop_expired()
            stop.wait(_LOOK)
        for name in list(self._watched):
            self._end(name, "stopping")

    def _look(self) -> None:
        clusters = self._catalogs.clusters()
        for name in [name for name in self._watched if name not in clusters]:
            self._end(name, "not in the catalog any more")
        for name, cluster in clusters.items():
            if name not in self._watched and len(self._watched) >= self._settings.watch.clusters:
                continue
            asked = time.monotonic()
            if not self._lease.take(name):
                if name in self._watched:
                    self._end(name, "another process has taken its lease")
                continue
            self._held[name] = asked + self._settings.watch.lease
            running = self._watched.get(name)
            if running is not None and running.cluster != cluster:
                running.stop()
                running = None
            if running is None:
                logger.info("cluster %s: watching", name)
                self._watched[name] = ClusterWatch(cluster, self._settings, self._bell.ask)
                self._watched[name].start()

    def _drop_expired(self) -> None:
        """Redis is away: what may be another process's by now is let go."""
        for name in [name for name, until in self._held.items() if time.monotonic() >= until]:
            self._end(name, "its lease has run out", release=False)

    def _end(self, name: str, why: str, *, release: bool = True) -> None:
        logger.info("cluster %s: not watched by this process any more: %s", name, why)
        self._held.pop(name, None)
        watched = self._watched.pop(name, None)
        if watched is not None:
            watched.stop()
        if release:
            try:
                self._lease.release(name)
            except StoreUnavailable as error:
                logger.warning("cluster %s: %s; its lease runs out by itself", name, error)

    def _ring(self, app: str) -> bool:
        claimed = self._due.notice(app)
        if claimed is None:
            return False
        publish_reconcile(self._celery, claimed.ticks, wire.WORK_QUEUE)
        self._due.settle(claimed)
        return True


def main() -> int:
    """Settings come from the environment."""
    try:
        settings = load()
        logging.basicConfig(level=settings.log_level, format="[%(asctime)s: %(levelname)s] %(message)s")
        logging.getLogger("urllib3").setLevel(logging.ERROR)
        watch = Watch(settings)
    except FleetbeatError as error:
        sys.stderr.write(f"fleetbeat watch: {error}\n")
        return 1
    with stopping() as stop:
        watch.run(stop)
    return 0


if __name__ == "__main__":
    sys.exit(main())
