"""The ConfigMap in a cluster that notes the orders for the whole fleet (``decisions/fleet_orders.py``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleetbeat.clients.applyset import create
from fleetbeat.decisions.fleet_orders import NAME
from fleetbeat.decisions.ledger import Place
from fleetbeat.model import CONFIG_MAP, NAMESPACE, Body, ObjectId
from fleetbeat.ports import ClusterPort

RECORD = "fleetbeat.dev/record"  #: annotation: "orders": no bundle may take the ConfigMap over
#: annotation: which installation has written it; two that share a cluster do not take each other's orders
INSTALLATION = "fleetbeat.dev/installation"
_LABELS = {"app.kubernetes.io/managed-by": "fleetbeat"}


@dataclass(frozen=True)
class Note:
    installation: str
    data: dict[str, str]
    body: Body = field(repr=False)


def read(cluster: ClusterPort, namespace: str) -> Note | None:
    """None when there is none. One request."""
    body = cluster.get(CONFIG_MAP, namespace, NAME)
    if body is None:
        return None
    annotations = body["metadata"].get("annotations") or {}
    return Note(annotations.get(INSTALLATION, ""), dict(body.get("data") or {}), body)


def places(namespace: str) -> tuple[Place, ...]:
    """What ``write`` may write."""
    home = ObjectId("", "Namespace", "", namespace)
    return Place(ObjectId("", "ConfigMap", namespace, NAME), CONFIG_MAP.plural), Place(home, NAMESPACE.plural)


def write(cluster: ClusterPort, namespace: str, before: Note | None, installation: str, data: dict[str, str]) -> None:
    """Put ``data`` in the place of ``before``. No request when it says so already.

    Raises Conflict when somebody else has written to it since.
    """
    if before and before.data == data and before.installation == installation:
        return
    metadata: dict[str, Any] = dict(before.body["metadata"]) if before else {"name": NAME, "namespace": namespace}
    metadata.pop("managedFields", None)
    metadata["labels"] = {**(metadata.get("labels") or {}), **_LABELS}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        RECORD: "orders",
        INSTALLATION: installation,
    }
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    if before is None:
        create(cluster, namespace, body)
    else:
        cluster.replace(CONFIG_MAP, body)
