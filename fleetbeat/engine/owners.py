"""Which application is behind a foreign ApplySet id: asked of the cluster only when an object has to be refused."""

from __future__ import annotations

import functools
from collections.abc import Callable

from fleetbeat.decisions.inventory import ID
from fleetbeat.errors import FleetbeatError
from fleetbeat.model import CONFIG_MAP
from fleetbeat.ports import ClusterPort


def owner_name(cluster: ClusterPort, namespace: str) -> Callable[[str], str]:
    """ApplySet id → "application shop", or the parent's name, or the id itself when no parent is found."""

    @functools.cache
    def name(applyset: str) -> str:
        try:
            parents = cluster.list(CONFIG_MAP, selector=f"{ID}={applyset}", metadata_only=True)
        except FleetbeatError:
            return applyset
        for parent in parents:
            metadata = parent["metadata"]
            app = (metadata.get("annotations") or {}).get("fleetbeat.dev/application")
            if app and metadata.get("namespace") == namespace:
                return f"of application {app}"
            return f"{metadata.get('namespace')}/{metadata['name']}"
        return applyset

    return name
