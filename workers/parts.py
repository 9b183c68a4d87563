"""What every step of this process shares, opened at first use: settings, Redis, clients."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fleetbeat.clients.blobs import Blobs
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.departures import Departures
from fleetbeat.clients.drift import Drifts
from fleetbeat.clients.due import DueSet
from fleetbeat.clients.ledger import Ledger
from fleetbeat.clients.observe import Observations
from fleetbeat.clients.oci import OciSource
from fleetbeat.clients.runs import Runs
from fleetbeat.clients.store import Store
from fleetbeat.engine.parallel import Lanes
from fleetbeat.settings import Settings, load

#: Begun when they are needed and kept. The bounds that count are each cluster's and each step's: a process never has
#: more calls under way than steps (the worker's concurrency) times ``steps.parallel``.
_THREADS = 1024


@dataclass(frozen=True)
class Parts:
    settings: Settings
    store: Store
    runs: Runs
    ledger: Ledger
    drifts: Drifts
    blobs: Blobs
    catalogs: Catalogs
    departures: Departures
    due: DueSet
    source: OciSource
    observations: Observations
    requests: Lanes


@functools.cache
def parts() -> Parts:
    """Raises ConfigurationError; a worker calls it at start so that a bad setting stops it there and then."""
    settings = load()
    settings.signing_key()
    store = Store.open(settings)
    return Parts(
        settings=settings,
        store=store,
        runs=Runs(store, settings),
        ledger=Ledger(store, settings.ledger),
        drifts=Drifts(store),
        blobs=Blobs(store, settings.blobs),
        catalogs=Catalogs(store),
        departures=Departures(store),
        due=DueSet(store, settings.beat),
        source=OciSource(settings.http, settings.bundles),
        observations=Observations(store),
        requests=Lanes(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="requests"),
            width=settings.steps.parallel * 2,
            at_once=settings.steps.parallel,
        ),
    )
