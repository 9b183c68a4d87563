"""Which kinds a cluster serves: aggregated discovery, two requests, kept for five minutes (field case k8).

Completeness matters more than freshness: what a group that could not be asked would have served is unknown, and
nothing may be pruned on the unknown. Servers before 1.26 list one group version per request; they are read that way.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fleetbeat.errors import FleetbeatError
from fleetbeat.model import ApiResource, ApiSet

#: v2 since Kubernetes 1.30, v2beta1 since 1.26, then the unaggregated form
ACCEPT = ",".join(
    [f"application/json;g=apidiscovery.k8s.io;v={v};as=APIGroupDiscoveryList" for v in ("v2", "v2beta1")]
    + ["application/json"]
)

TTL = 300.0  #: seconds an answer is used without asking again
INCOMPLETE_TTL = 15.0  #: seconds when a group was missing from it: it may be back at any moment
REFRESH_EVERY = 2.0  #: seconds per forced refresh on average: a wrong kind in one bundle must not become a flood
BURST = 5  #: forced refreshes that may come sooner than that, as long as they are saved up
REFRESH_EVERY_AFTER_CRD = 0.25  #: the same for a while after this process wrote a CRD or APIService
CRD_SETTLES = 30.0  #: seconds that "while" lasts

#: GET of a discovery path → the parsed document
Ask = Callable[[str], Mapping[str, Any]]


class Discovery:
    """One cluster's API set with its age. Thread-safe: whoever comes while it is being asked waits for that answer."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: ApiSet | None = None
        self._at = 0.0
        self._failure: FleetbeatError | None = None
        self._failed_at = 0.0
        self._kinds_written = -CRD_SETTLES - 1.0
        self._saved = float(BURST)  # forced refreshes that may be had now
        self._saved_at = clock()

    def get(self, ask: Ask, *, refresh: bool) -> ApiSet:
        """The cached set while it is young enough. Raises what ``ask`` raises; an old set is not used instead."""
        entered = self._clock()
        with self._lock:
            if self._known and self._at > entered:
                return self._known  # asked by another thread while this one waited
            if self._failure and self._failed_at > entered:
                raise self._failure  # likewise: a dead cluster costs its time-out once, not once per thread
            if self._known and not self._is_due(self._known, refresh):
                return self._known
            try:
                known = discover(ask, version=self._known.version if self._known else "")
            except FleetbeatError as error:
                self._failure, self._failed_at = error, self._clock()
                raise
            self._known, self._at, self._failure = known, self._clock(), None
            return known

    def kinds_written(self) -> None:
        """A CRD or APIService was just written: new kinds are about to appear."""
        self._kinds_written = self._clock()

    def _is_due(self, known: ApiSet, refresh: bool) -> bool:
        now = self._clock()
        if not refresh:
            return now - self._at >= (TTL if known.complete else INCOMPLETE_TTL)
        if now - self._kinds_written < CRD_SETTLES:
            return now - self._at >= REFRESH_EVERY_AFTER_CRD
        self._saved = min(BURST, self._saved + (now - self._saved_at) / REFRESH_EVERY)
        self._saved_at = now
        if self._saved < 1:
            return False
        self._saved -= 1
        return True


def discover(ask: Ask, *, version: str = "") -> ApiSet:
    """Ask for everything the cluster serves; ``/version`` too unless ``version`` is known."""
    resources: list[ApiResource] = []
    complete = True
    for root in ("/api", "/apis"):
        document = ask(root)
        if document.get("kind") == "APIGroupDiscoveryList":
            found, whole = _aggregated(document)
        else:
            found, whole = _one_by_one(root, document, ask)
        resources += found
        complete = complete and whole
    version = version or str(ask("/version").get("gitVersion", ""))
    return ApiSet(tuple(resources), complete, version)


def _aggregated(document: Mapping[str, Any]) -> tuple[list[ApiResource], bool]:
    """``apidiscovery.k8s.io`` v2 and v2beta1. Versions come in the server's order of preference."""
    found: list[ApiResource] = []
    complete = True
    for group in document.get("items") or ():
        name = (group.get("metadata") or {}).get("name", "")
        for index, version in enumerate(group.get("versions") or ()):
            complete = complete and version.get("freshness", "Current") == "Current"
            for entry in version.get("resources") or ():
                kind = (entry.get("responseKind") or {}).get("kind", "")
                if kind:
                    namespaced = entry.get("scope") == "Namespaced"
                    parts = {part.get("subresource") for part in entry.get("subresources") or ()}
                    found.append(
                        ApiResource(
                            *(name, version["version"], kind, entry["resource"], namespaced, index == 0),
                            has_status="status" in parts,
                            short_names=tuple(entry.get("shortNames") or ()),
                            listable="list" in entry.get("verbs", ("list",)),
                        )
                    )
    return found, complete


def _one_by_one(root: str, document: Mapping[str, Any], ask: Ask) -> tuple[list[ApiResource], bool]:
    """``APIVersions`` and ``APIGroupList``, then one ``APIResourceList`` for each group version."""
    found: list[ApiResource] = []
    complete = document.get("kind") in ("APIVersions", "APIGroupList")
    for group, version, preferred in _group_versions(document):
        try:
            listed = ask(f"{root}/{group}/{version}" if group else f"{root}/{version}")
        except FleetbeatError:
            complete = False
            continue
        entries = listed.get("resources") or ()
        names = {entry["name"] for entry in entries}
        found += [
            ApiResource(
                *(group, version, entry["kind"], entry["name"], bool(entry["namespaced"]), preferred),
                has_status=f"{entry['name']}/status" in names,
                short_names=tuple(entry.get("shortNames") or ()),
                listable="list" in entry.get("verbs", ("list",)),
            )
            for entry in entries
            if "/" not in entry["name"]  # subresources
        ]
    return found, complete


def _group_versions(document: Mapping[str, Any]) -> Iterable[tuple[str, str, bool]]:
    for index, version in enumerate(document.get("versions") or ()):
        yield "", version, index == 0
    for group in document.get("groups") or ():
        preferred = (group.get("preferredVersion") or {}).get("version")
        for entry in group.get("versions") or ():
            yield group["name"], entry["version"], entry["version"] == preferred
