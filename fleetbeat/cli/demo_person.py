"""The person in the demo: looks into the cluster, and edits what is none of their business."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleetbeat.errors import Rejected
from fleetbeat.model import Body, ObjectId
from fleetbeat.ports import ClusterPort, Seen

if TYPE_CHECKING:
    from fleetbeat.cli.demo_stage import Stage

_MANAGER = "kubectl-edit"  # the field manager `kubectl edit` writes under
_CONFIG = ObjectId("", "ConfigMap", "shop", "web-config")


def read(cluster: ClusterPort, key: ObjectId) -> Body | None:
    """The live object, None when it or its kind is not there."""
    resource = cluster.api_set().find(key.group, key.kind) or cluster.api_set(refresh=True).find(key.group, key.kind)
    return cluster.get(resource, key.namespace, key.name) if resource else None


def edit_greeting(stage: Stage, text: str) -> None:
    """Change ``data.greeting`` of the ConfigMap as ``kubectl edit`` would. Raises Rejected."""
    change = {"data": {"greeting": text}}
    if stage.simulated is not None:
        path = f"/api/v1/namespaces/{_CONFIG.namespace}/configmaps/{_CONFIG.name}?fieldManager={_MANAGER}"
        status, answer = stage.simulated.request("PATCH", path, change, user_agent="kubectl/v1.36.1")
        if status != 200:
            raise Rejected(f"{_CONFIG}: the edit was answered {status}: {answer}")
        return
    # In a cluster of the user's own the only way in is Fleetbeat's client, which applies and never patches.
    resource = stage.cluster.api_set().find(_CONFIG.group, _CONFIG.kind)
    live = read(stage.cluster, _CONFIG)
    if resource is None or live is None:
        raise Rejected(f"{_CONFIG}: not there to be edited")
    body = {
        "apiVersion": "v1",
        "kind": _CONFIG.kind,
        "metadata": {"name": _CONFIG.name, "namespace": _CONFIG.namespace},
        **change,
    }
    seen = Seen.of(live)
    stage.cluster.apply(resource, body, expect=seen, force=True, manager=_MANAGER)
