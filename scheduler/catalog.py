"""Beat's eye on the catalog directory: what is there gets into force, and what Redis lost is put back.

Several beats look at copies of one directory, and during a roll-out the copies differ for a while. The catalog
published last wins; a beat whose copy has not changed since does not fight it. Redis going back in time (a flush, a
fail-over) is told from that by the server's time of publication.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from fleetbeat import catalog
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.due import DueSet
from fleetbeat.errors import CatalogError, ConfigurationError
from fleetbeat.model import Catalog, iter_problems

logger = logging.getLogger("fleetbeat.beat")

#: seconds between two looks at an application that has left the catalog and whose objects are to go
DEPARTING_EVERY = 60.0

#: path, time of last change (ns), size, inode of every file
Fingerprint = tuple[tuple[str, int, int, int], ...]


class CatalogWatch:
    def __init__(self, directory: Path, catalogs: Catalogs, due: DueSet, rate: float, grace: float = 0.0) -> None:
        """``rate``: applications per second that are rung because their entries changed.

        ``grace``: seconds after which one that has left is rung to be deleted.
        """
        self._rate = rate
        self._grace = grace
        self._directory = directory
        self._catalogs = catalogs
        self._due = due
        self._seen: Fingerprint | None = None
        self._loaded: catalog.Loaded | None = None
        self._unpublished = False  #: the directory has changed since ``_loaded`` was last in force
        self._published = 0  #: server's ms at which it came into force
        self._problems: list[str] = []
        self._untold = False  #: ``_problems`` are not in Redis yet

    def look(self) -> bool:
        """Read the directory if it changed (True), then bring Redis to what was read last. Raises StoreUnavailable."""
        fingerprint = _fingerprint(self._directory)
        changed = fingerprint != self._seen
        if changed:
            self._read()
            self._seen = fingerprint
        if self._problems and self._untold:
            self._catalogs.publish_error("\n".join(self._problems))
            self._untold = False
        if self._loaded is not None:
            self._enforce(self._loaded)
        return changed

    def _read(self) -> None:
        try:
            self._loaded = catalog.load(self._directory)
        except (CatalogError, ConfigurationError) as error:
            problems = list(iter_problems(error))
            for problem in problems:
                if problem not in self._problems:
                    logger.log(logging.ERROR, "catalog: %s", problem)  # a person's mistake: no traceback
            self._problems, self._untold = problems, True
            return
        if self._problems:
            logger.info("catalog: repaired")
        self._problems, self._untold, self._unpublished = [], False, True

    def _enforce(self, loaded: catalog.Loaded) -> None:
        status = self._catalogs.status()
        if self._unpublished or not status.digest:
            replace = True
        elif status.digest == self._catalogs.digest(loaded.digest):
            self._published = max(self._published, status.published)
            replace = False
        else:  # another beat's, or Redis went back in time
            replace = status.published <= self._published
        if replace:
            first = not status.digest
            changed = self._catalogs.publish(loaded.documents, loaded.digest)
            self._unpublished = False
            status = self._catalogs.status()
            self._published = status.published
            if self._problems:
                self._untold = True  # publishing has cleared the error of what is on disk now
            if changed:
                logger.info("catalog: %d entries in force", len(loaded.documents))
            if not first:
                self._ring(_touched(loaded.catalog, changed))
            departed = [name for name in status.departing if f"Application/{name}" in changed]
            self._ring(departed, after=self._grace)
            if departed:
                logger.info("catalog: %d applications have left it and are to be deleted", len(departed))
        elif status.digest != self._catalogs.digest(loaded.digest):
            return  # the newer catalog's applications are for the beat that knows them
        periods = {name: application.sync.interval for name, application in loaded.catalog.applications.items()}
        periods |= dict.fromkeys(status.departing, DEPARTING_EVERY)
        registered = self._due.register(periods)
        if registered.added or registered.removed:
            logger.info("due set: %d applications added, %d removed", registered.added, registered.removed)

    def _ring(self, names: list[str], *, after: float = 0.0) -> None:
        """Somebody has edited these and waits: look at them now (``after`` so many seconds), spread like new ones."""
        for number, name in enumerate(names):
            self._due.ring(name, self._published + int((after + number / self._rate) * 1000))


def _touched(loaded: Catalog, changed: frozenset[str]) -> list[str]:
    """Applications whose own entry, or whose cluster's, is among the changed ones."""
    return [
        name
        for name, application in loaded.applications.items()
        if not changed.isdisjoint((f"Application/{name}", f"Cluster/{application.destination.cluster}"))
    ]


def _fingerprint(directory: Path) -> Fingerprint:
    """Cheap to take, and different after any change of a file; links are followed, as Kubernetes mounts use them."""
    files = []
    real: set[str] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        if os.path.realpath(folder) in real:  # a link to a folder above
            folders.clear()
            continue
        real.add(os.path.realpath(folder))
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(folder, name)
            try:
                stat = path.stat()
            except OSError:
                continue  # went away in between, or a dangling link
            files.append((str(path), stat.st_mtime_ns, stat.st_size, stat.st_ino))
    return tuple(sorted(files))
