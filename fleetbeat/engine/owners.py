"""Which application is behind a foreign ApplySet id: asked of the cluster only when an object of one is met."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from fleetbeat.decisions.inventory import ID, TOOLING, is_ours
from fleetbeat.errors import FleetbeatError
from fleetbeat.model import CONFIG_MAP
from fleetbeat.ports import ClusterPort


class SetOwner(NamedTuple):
    """Who is behind an ApplySet."""

    text: str  #: "of application shop", or the parent's name, or the id itself when no parent is found
    application: str = ""  #: of this installation: it keeps its record in the same namespace


def owner_name(cluster: ClusterPort, namespace: str) -> Callable[[str], SetOwner]:
    """ApplySet id → its owner, each asked once. ``namespace``: of this installation's ApplySet parents."""

    @functools.cache
    def name(applyset: str) -> SetOwner:
        try:
            parents = cluster.list(CONFIG_MAP, selector=f"{ID}={applyset}", metadata_only=True)
        except FleetbeatError:
            return SetOwner(applyset)
        for parent in parents:
            metadata = parent["metadata"]
            annotations = metadata.get("annotations") or {}
            app = annotations.get("fleetbeat.dev/application")
            if app and metadata.get("namespace") == namespace:
                return SetOwner(f"of application {app}", app if is_ours(annotations.get(TOOLING, "")) else "")
            return SetOwner(f"{metadata.get('namespace')}/{metadata['name']}")
        return SetOwner(applyset)

    return name
