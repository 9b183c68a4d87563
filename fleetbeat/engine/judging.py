"""Health as one sync of one application sees it: with its own rules, and what its cluster knows beside the objects."""

from __future__ import annotations

import threading

from fleetbeat.decisions.health import binds_late, health, is_ignored, reporting
from fleetbeat.decisions.health.custom import by_kind
from fleetbeat.errors import FleetbeatError, LostLock, Unauthorized
from fleetbeat.model import ApiResource, ApiSet, Application, Body
from fleetbeat.model_results import Health
from fleetbeat.ports import ClusterPort

_STORAGE_CLASS = ApiResource("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
_UNREAD = "whether it waits for its first Pod cannot be told without the right to list StorageClasses"


class Judge:
    """Thread-safe. Makes no request, but one for the storage classes at the first claim that is not bound."""

    def __init__(self, application: Application, cluster: ClusterPort, apis: ApiSet) -> None:
        self._rules = by_kind(application.health_rules)
        self._cluster = cluster
        self._has_status = reporting(apis.resources)
        self._lock = threading.Lock()
        self._late_binding: frozenset[str] | None = None
        self._unread = False  #: may the classes not be read?

    def health(self, live: Body | None) -> Health:
        """Never raises but LostLock. An object that asks to be left out is Healthy, with that as the message."""
        if live is None:
            return health(None)
        if is_ignored(live):
            return Health("Healthy", "asks not to be judged (ignore-healthcheck)")
        api_version, kind = str(live.get("apiVersion", "")), str(live.get("kind", ""))
        unbound = _unbound_claim(live)
        found = health(
            live,
            rules=self._rules,
            has_status=self._has_status.get((api_version.rpartition("/")[0], kind)),
            now=self._cluster.now(),  # ages are of the server's stamps, and hosts' clocks may be wrong
            late_binding=self._classes() if unbound else (),
        )
        if unbound and self._unread and found.status == "Progressing":
            return Health(found.status, f"{found.message}; {_UNREAD}")
        return found

    def _classes(self) -> frozenset[str]:
        """Names of the classes that wait for a first Pod; none when they may not be read: the claim is waited for."""
        with self._lock:
            if self._late_binding is None:
                try:
                    listed = self._cluster.list(_STORAGE_CLASS)
                except LostLock:
                    raise
                except FleetbeatError as error:
                    listed, self._unread = [], isinstance(error, Unauthorized)
                self._late_binding = frozenset(body["metadata"]["name"] for body in listed if binds_late(body))
            return self._late_binding


def _unbound_claim(live: Body) -> bool:
    if live.get("kind") != "PersistentVolumeClaim" or live.get("apiVersion") != "v1":
        return False
    status = live.get("status")
    return not isinstance(status, dict) or status.get("phase") != "Bound"
