"""The same work as Fleetbeat does, done one request after another: what a plain loop costs.

A sync is read, dry-run, apply: the requests of a simple server-side applier. A look lists each kind of one application.
Both go through the client that Fleetbeat itself uses.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.local.cluster import Cluster
from fleetbeat.model import CONFIG_MAP, ApiResource, Body, Credential, SecretText
from fleetbeat.model import Cluster as Described
from fleetbeat.ports import Absent, Seen
from fleetbeat.settings import Http


def connect(cluster: Cluster) -> KubernetesCluster:
    """As the user that Fleetbeat is."""
    described = Described(
        name="serial",
        server=cluster.server,
        ca=Credential(inline=SecretText(cluster.ca_pem)),
        token=Credential(inline=SecretText(cluster.token)),
    )
    return KubernetesCluster.connect(described, http=Http())


def sync(cluster: KubernetesCluster, bodies: Sequence[Body]) -> tuple[float, int]:
    """Seconds it took, and how many objects were written. All are compared before the first write."""
    began = time.monotonic()
    differing: list[tuple[Body, Seen | None]] = []
    for body in bodies:
        metadata = body["metadata"]
        live = cluster.get(CONFIG_MAP, metadata["namespace"], metadata["name"])
        answer = cluster.apply(CONFIG_MAP, body, dry_run=True, force=True).body
        if live is None:
            differing.append((body, None))
        elif (live["data"], live["metadata"]["labels"]) != (answer["data"], answer["metadata"]["labels"]):
            differing.append((body, Seen(live["metadata"]["uid"], live["metadata"]["resourceVersion"])))
    for body, seen in differing:
        cluster.apply(CONFIG_MAP, body, expect=seen or Absent(), force=True)
    return time.monotonic() - began, len(differing)


def look(cluster: KubernetesCluster, resources: Sequence[ApiResource], selector: str) -> int:
    """How many objects of one application there are: one LIST of metadata per kind, shared with nobody."""
    return sum(len(cluster.list(resource, selector=selector, metadata_only=True)) for resource in resources)
