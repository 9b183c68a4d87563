"""Which application is behind a foreign ApplySet id: asked of the cluster only when an object of one is met."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from fleetbeat.decisions.inventory import ID, TOOLING, is_ours
from fleetbeat.errors import Unauthorized
from fleetbeat.model import CONFIG_MAP
from fleetbeat.ports import ClusterPort


class SetOwner(NamedTuple):
    """Who is behind an ApplySet."""

    text: str  #: "of application shop", or the parent's name, or the id itself when no parent is found
    application: str = ""  #: of this installation: it keeps its record in the same namespace


def owner_name(cluster: ClusterPort, namespace: str, *others: str) -> Callable[[str], SetOwner]:
    """ApplySet id → its owner, each asked once. ``namespace``: of this installation's ApplySet parents.

    ``others``: where else to look for the parent of another tool when not all namespaces may be looked into. Raises
    what a LIST raises, but for a missing right: an outage must not make a shared object a foreign one.
    """

    @functools.cache
    def name(applyset: str) -> SetOwner:
        parents = []
        for instead in ({namespace, *others} - {""}, {namespace}):
            try:
                parents = cluster.list(CONFIG_MAP, selector=f"{ID}={applyset}", metadata_only=True, instead=instead)
                break
            except Unauthorized:
                continue  # nobody needs the right to look into another application's namespace
        for parent in parents:
            metadata = parent["metadata"]
            annotations = metadata.get("annotations") or {}
            app = annotations.get("fleetbeat.dev/application")
            if app and metadata.get("namespace") == namespace:
                return SetOwner(f"of application {app}", app if is_ours(annotations.get(TOOLING, "")) else "")
            return SetOwner(f"{metadata.get('namespace')}/{metadata['name']}")
        return SetOwner(applyset)

    return name
