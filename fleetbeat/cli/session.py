"""What the commands need of an installation, each part opened at its first use. Tests hand in another one.

Imports are inside the properties: `fleetbeat key` should not pay for a Redis client.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from fleetbeat.decisions.problems import shown
from fleetbeat.errors import CatalogError, ConfigurationError
from fleetbeat.settings import Settings, load, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from fleetbeat.cli.preview import Previewed
    from fleetbeat.client import Fleetbeat
    from fleetbeat.clients.catalogs import Catalogs
    from fleetbeat.clients.departures import Departures
    from fleetbeat.clients.drift import Drifts
    from fleetbeat.clients.events import Events
    from fleetbeat.clients.holds import Holds
    from fleetbeat.clients.ledger import Ledger
    from fleetbeat.clients.orders import Orders
    from fleetbeat.clients.pulse import Pulse, ServerFacts
    from fleetbeat.clients.runs import Runs
    from fleetbeat.clients.store import Store
    from fleetbeat.model import Application, Cluster, Revision
    from fleetbeat.ports import ClusterPort, SourcePort


class Session:
    """One invocation of the CLI. Raises ConfigurationError where a setting is missing."""

    @cached_property
    def settings(self) -> Settings:
        return load()

    @cached_property
    def store(self) -> Store:
        from fleetbeat.clients.store import Store

        return Store.open(self.settings)

    @cached_property
    def runs(self) -> Runs:
        from fleetbeat.clients.runs import Runs

        return Runs(self.store, self.settings)

    @cached_property
    def ledger(self) -> Ledger:
        from fleetbeat.clients.ledger import Ledger

        return Ledger(self.store, self.settings.ledger)

    @cached_property
    def drifts(self) -> Drifts:
        from fleetbeat.clients.drift import Drifts

        return Drifts(self.store)

    @cached_property
    def catalogs(self) -> Catalogs:
        from fleetbeat.clients.catalogs import Catalogs

        return Catalogs(self.store)

    @cached_property
    def departures(self) -> Departures:
        from fleetbeat.clients.departures import Departures

        return Departures(self.store)

    @cached_property
    def events(self) -> Events:
        from fleetbeat.clients.events import Events

        return Events(self.store)

    @cached_property
    def holds(self) -> Holds:
        from fleetbeat.clients.holds import Holds

        return Holds(self.store)

    @cached_property
    def orders(self) -> Orders:
        from fleetbeat.clients.orders import Orders

        return Orders(self.store)

    @cached_property
    def fleetbeat(self) -> Fleetbeat:
        from fleetbeat.client import Fleetbeat

        return Fleetbeat(self.settings, store=self.store)

    @cached_property
    def source(self) -> SourcePort:
        from fleetbeat.clients.oci import OciSource

        return OciSource(self.settings.http, self.settings.bundles)

    def cluster(self, cluster: Cluster) -> ClusterPort:
        """A connection to a target cluster."""
        from fleetbeat.clients.cluster import KubernetesCluster

        return KubernetesCluster.connect(cluster, http=self.settings.http)

    def application(self, name: str) -> tuple[Application, Cluster]:
        """Application and cluster as the catalog in force has them. Raises CatalogError with the nearest name."""
        found = self.catalogs.application(name)
        if found is None:
            raise unknown_application(name, self.catalogs.names())
        return found[0], found[1]

    def pulse(self) -> Pulse:
        """The beats, and the time by Redis' clock."""
        from fleetbeat.clients.pulse import read_pulse

        return read_pulse(self.store)

    def due(self, apps: Sequence[str]) -> dict[str, float | None]:
        """Application → ms since epoch when beat rings it, None when it never does."""
        from fleetbeat.clients.pulse import due_times

        return due_times(self.store, apps)

    def messages(self) -> int:
        """How many messages wait for a worker."""
        from fleetbeat.clients.pulse import messages

        return messages(self.store)

    def server_facts(self) -> ServerFacts:
        """How the Redis server is set up."""
        from fleetbeat.clients.pulse import server_facts

        return server_facts(self.store)

    def ping_workers(self) -> list[str]:
        """Names of the workers that answer within a second."""
        from fleetbeat.clients.broker import make_app
        from fleetbeat.clients.pulse import ping_workers

        return ping_workers(make_app(self.settings, "fleetbeat.cli"))

    def override_marks(self) -> dict[str, str]:
        """Worker → mark of its FLEETBEAT_OVERRIDE_KEY, "" = it has none."""
        from fleetbeat.clients.broker import make_app
        from fleetbeat.clients.pulse import override_marks

        return override_marks(make_app(self.settings, "fleetbeat.cli"))

    def watchers(self) -> dict[str, str]:
        """Cluster of the catalog → the process that watches it, "" without one."""
        from fleetbeat.clients.watch_lease import watchers

        return watchers(self.store, sorted(self.catalogs.clusters()))

    def push(self, directory: Path, reference: str, *, annotations: Mapping[str, str], plain_http: bool) -> Revision:
        """Pack a folder and push it, logged in as docker's config says."""
        from fleetbeat.cli.login import auth_for
        from fleetbeat.clients.oci_push import push

        return push(
            directory,
            reference,
            annotations=annotations,
            auth=auth_for(reference),
            plain_http=plain_http,
            http=self.settings.http,
            limits=self.settings.bundles,
        )

    def preview(
        self, application: Application, cluster: Cluster, *, spec: str = "", asked_for: bool = False
    ) -> Previewed:
        """Everything a sync would change, and why nothing would be pruned ("" when that is not held back)."""
        from fleetbeat.cli.preview import preview

        there = self.cluster(cluster)
        return preview(self.source, there, application, self.settings, spec=spec, asked_for=asked_for)


def unknown_application(name: str, names: list[str]) -> CatalogError:
    """Says the nearest known name, or that there is no application at all."""
    if not names:
        return CatalogError(
            [
                f"no application is called {shown(name)}: no catalog is in force. Start beat with FLEETBEAT_CATALOG "
                "pointing at a folder of applications, or look at its log"
            ]
        )
    return CatalogError([f"no application is called {shown(name)}.{nearest(name, names)} All: fleetbeat status"])


def unknown_cluster(name: str, names: Iterable[str]) -> ConfigurationError:
    """Says the nearest known name, and all of them."""
    known = sorted(names)
    all_of_them = ", ".join(known) or "none: no catalog is in force"
    return ConfigurationError(f"no cluster is called {shown(name)}.{nearest(name, known)} Known: {all_of_them}")
