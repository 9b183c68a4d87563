"""People and controllers beside Fleetbeat, each under the field manager the API server knows them by."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fleet import Fleet

from fleetbeat.cli.preview import preview
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.oci import OciSource
from fleetbeat.engine.preview import Preview
from fleetbeat.local.cluster import Cluster

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
Body = dict[str, Any]


class Hands:
    """Whoever writes to a cluster by hand or by another tool. Every request must succeed."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, path: str, body: Mapping[str, Any], manager: str = "kubectl-create") -> Body:
        """POST to a collection."""
        query = f"{'&' if '?' in path else '?'}fieldManager={manager}"
        return self._ask("POST", f"{path}{query}", dict(body), None, 201)

    def client_side_apply(self, path: str, body: Mapping[str, Any]) -> Body:
        """``kubectl apply`` of something that is not there yet."""
        body = json.loads(json.dumps(body))
        text = json.dumps(body)
        body["metadata"].setdefault("annotations", {})[LAST_APPLIED] = text
        return self.create(path, body, "kubectl-client-side-apply")

    def merge(self, path: str, patch: Mapping[str, Any], manager: str = "kubectl-edit") -> Body:
        """``kubectl edit``, ``patch``, ``label``, or a controller's update."""
        return self._ask("PATCH", f"{path}?fieldManager={manager}", dict(patch), "application/merge-patch+json", 200)

    def apply(self, path: str, body: Mapping[str, Any], manager: str, *, force: bool = True) -> Body:
        """``kubectl apply --server-side`` to an object's own path."""
        query = f"fieldManager={manager}&force={str(force).lower()}"
        return self._ask("PATCH", f"{path}?{query}", dict(body), "application/apply-patch+yaml", 200, 201)

    def replace(self, path: str, body: Mapping[str, Any], manager: str) -> Body:
        """PUT of a whole object."""
        return self._ask("PUT", f"{path}?fieldManager={manager}", dict(body), None, 200)

    def debug(self, path: str, image: str = "busybox:1") -> Body:
        """``kubectl debug``: one more container in a Pod that runs, for as long as the Pod does."""
        patch = {"spec": {"ephemeralContainers": [{"name": "debugger", "image": image}]}}
        query = "fieldManager=kubectl-debug"
        kind = "application/strategic-merge-patch+json"
        return self._ask("PATCH", f"{path}/ephemeralcontainers?{query}", patch, kind, 200)

    def scale(self, path: str, replicas: int, manager: str) -> Body:
        """Through the scale subresource: an autoscaler, or ``kubectl scale`` (manager ``kubectl``)."""
        return self.merge(f"{path}/scale", {"spec": {"replicas": replicas}}, manager)

    def delete(self, path: str) -> None:
        self._ask("DELETE", path, None, None, 200, 202)

    def get(self, path: str) -> Body:
        return self._ask("GET", path, None, None, 200)

    def gone(self, path: str) -> bool:
        return self._cluster.request("GET", path)[0] == 404

    def _ask(self, method: str, path: str, body: Any, content_type: str | None, *expected: int) -> Body:
        status, answer = self._cluster.request(method, path, body, content_type=content_type, user_agent="kubectl")
        assert status in expected, answer
        return answer


def differences(fleet: Fleet, app: str) -> list[Preview]:
    """What ``fleetbeat diff`` says: everything is compared by the API server, whatever a sync remembers."""
    application, cluster, _ = fleet.catalogs.application(app) or (None, None, None)
    assert application is not None
    assert cluster is not None
    client = KubernetesCluster.connect(cluster, http=fleet.settings.http)
    source = OciSource(fleet.settings.http, fleet.settings.bundles)
    found, *_ = preview(source, client, application, fleet.settings)
    return found


def versions(fleet: Fleet, paths: list[str]) -> list[str]:
    return [
        (fleet.get(path) or {"metadata": {"resourceVersion": "gone"}})["metadata"]["resourceVersion"] for path in paths
    ]


def managers(body: Mapping[str, Any]) -> set[str]:
    """``{"fleetbeat Apply", "kubectl-edit Update"}``."""
    return {f"{entry['manager']} {entry['operation']}" for entry in body["metadata"].get("managedFields", ())}


def quiet(manifest: Body) -> Body:
    """The same, without waiting for its health: nothing here runs workloads."""
    manifest["metadata"].setdefault("annotations", {})["argocd.argoproj.io/ignore-healthcheck"] = "true"
    return manifest
