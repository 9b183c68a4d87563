"""The watch of one cluster: its ApplySet parents say what there is, and each of their kinds is followed by a thread.

Where the cluster-wide watch of a kind is forbidden, it is followed per namespace; where that is forbidden too, the
regular ticks have to do, and the log says so once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterator
from functools import partial

from fleetbeat import __version__
from fleetbeat.clients import applyset
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.cluster_watch import Event, Listed, follow
from fleetbeat.decisions.inventory import (
    ADDITIONAL_NAMESPACES,
    CONTAINS_GROUP_KINDS,
    ID,
    PART_OF,
    parse_group_kinds,
    split_group_kind,
)
from fleetbeat.decisions.watching import Sights
from fleetbeat.errors import FleetbeatError, Unauthorized
from fleetbeat.model import CONFIG_MAP, ApiResource, Body, Cluster
from fleetbeat.settings import Settings

logger = logging.getLogger("fleetbeat.watch")

_AGAIN = 60.0  # seconds until something that could not be followed is tried again
_POOL = 64  # connections a process keeps to a cluster; watches that last have theirs beside it


class Parents:
    """The ApplySet parents of one cluster: whose the members are, and where there are any."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._annotations: dict[str, dict[str, str]] = {}  # ApplySet id → annotations of its parent

    def listed(self, bodies: list[Body]) -> None:
        self._annotations = {_label(body): body["metadata"].get("annotations") or {} for body in bodies}

    def event(self, word: str, body: Body) -> None:
        self._annotations.pop(_label(body), None)
        if word != "DELETED":
            self._annotations[_label(body)] = body["metadata"].get("annotations") or {}

    def application(self, applyset_id: str) -> str:
        """ "" when no parent has this id."""
        return self._annotations.get(applyset_id, {}).get(applyset.APPLICATION, "")

    def places(self, forbidden: Collection[str]) -> set[tuple[str, str]]:
        """(``Kind.group``, namespace) of what is to be followed.

        The namespace is "" for all of them, but for kinds that are ``forbidden`` to be: those are followed where an
        application has them. Elsewhere nobody needs the right to.
        """
        found: set[tuple[str, str]] = set()
        for notes in self._annotations.values():
            spaces = parse_group_kinds(notes.get(ADDITIONAL_NAMESPACES, ""))
            if applyset.MEMBERS_HERE in notes:
                spaces |= {self._namespace}
            for kind in parse_group_kinds(notes.get(CONTAINS_GROUP_KINDS, "")):
                found |= {(kind, space) for space in spaces} if kind in forbidden else {(kind, "")}
        return found


def _label(body: Body) -> str:
    return str((body["metadata"].get("labels") or {}).get(ID, ""))


class ClusterWatch:
    """Threads that ask the bell for the applications of one cluster."""

    def __init__(self, cluster: Cluster, settings: Settings, ask: Callable[[str], None]) -> None:
        self.cluster = cluster
        self._settings = settings
        self._ask = ask
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._parents = Parents(settings.namespace)
        self._followed: set[tuple[str, str]] = set()  # (Kind.group, namespace or "")
        self._forbidden: set[str] = set()  # kinds whose cluster-wide watch is not allowed

    def start(self) -> None:
        self._thread("parents", self._follow_parents)

    def stop(self) -> None:
        """The threads end at the next line of their watches; until then they ring nobody."""
        self._stop.set()

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────────

    def _follow_parents(self) -> None:
        while not self._stop.is_set():
            try:
                for news in self._news(CONFIG_MAP, ID, self._settings.namespace):
                    with self._lock:
                        if isinstance(news, Listed):
                            self._parents.listed(news.bodies)
                        else:
                            self._parents.event(news.word, news.body)
                    self._widen()
            except FleetbeatError as error:
                logger.warning("cluster %s cannot be watched: %s", self.cluster.name, error)
                self._stop.wait(_AGAIN)

    def _widen(self) -> None:
        """Follow what is new. What is not there any more costs a quiet watch until the process ends."""
        with self._lock:
            late = bool(self._followed)
            fresh = self._parents.places(self._forbidden) - self._followed
            self._followed |= fresh
        for group_kind, namespace in sorted(fresh):
            self._thread(f"{group_kind} {namespace}", partial(self._follow, group_kind, namespace, late))

    # ── one kind ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _follow(self, group_kind: str, namespace: str, late: bool) -> None:
        """``late``: the kind came up while we watched, so somebody may have been faster than the first list."""
        sights, told = Sights(group_kind, rings_at_first=late), False
        where = f"cluster {self.cluster.name}: {group_kind}" + (f" in {namespace}" if namespace else "")
        while not self._stop.is_set():
            resource = None
            try:
                resource = self._resource(group_kind)
                if resource is None:
                    logger.info("%s: not served at the moment", where)
                else:
                    for news in self._news(resource, PART_OF, namespace):
                        moved = (
                            sights.listed(news.bodies)
                            if isinstance(news, Listed)
                            else sights.event(news.word, news.body)
                        )
                        self._ring(moved)
            except Unauthorized as error:
                if not namespace and resource is not None and resource.namespaced:
                    with self._lock:
                        self._forbidden.add(group_kind)
                    logger.info("%s: %s; watching by namespace", where, error)
                    self._widen()
                    return
                if not told:
                    logger.warning("%s: not watched, the regular ticks find what changes: %s", where, error)
                told = True
            except FleetbeatError as error:
                logger.warning("%s: %s", where, error)
            self._stop.wait(_AGAIN)

    def _ring(self, applysets: frozenset[str]) -> None:
        for mark in applysets:
            with self._lock:
                app = self._parents.application(mark)
            if app and not self._stop.is_set():
                self._ask(app)

    def _resource(self, group_kind: str) -> ApiResource | None:
        found = self._connect().api_set().find(*split_group_kind(group_kind))
        return found or self._connect().api_set(refresh=True).find(*split_group_kind(group_kind))

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _news(self, resource: ApiResource, selector: str, namespace: str) -> Iterator[Listed | Event]:
        return follow(
            self._connect,
            resource,
            selector=selector,
            namespace=namespace,
            stop=self._stop,
            silence=self._settings.watch.silence,
        )

    def _connect(self) -> KubernetesCluster:
        connected = KubernetesCluster.connect(self.cluster, http=self._settings.http, pool=_POOL)
        return connected.acting(f"fleetbeat/{__version__} watch", None)

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"{self.cluster.name} {name}", daemon=True).start()
