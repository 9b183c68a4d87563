"""Lists where rights are given per namespace: the LIST of all is refused, so its namespaces are listed one by one.

A refusal is remembered for a minute per connection, which is one identity: a run lists a kind several times, and each
would begin with a request that is known to be refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from itertools import chain

from fleetbeat.errors import Unauthorized
from fleetbeat.model import NAMESPACE, ApiResource, Body
from fleetbeat.ports import ClusterPort

_FOR = 60.0  # seconds until a LIST that was refused is tried again

#: namespace, "" = all of them → the objects there; raises Unauthorized
Ask = Callable[[str], list[Body]]


class RefusedLists:
    """Which kinds may not be listed in all namespaces at once. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[tuple[str, str], float] = {}

    def listed(
        self, ask: Ask, resource: ApiResource, namespaces: Collection[str], is_gone: Callable[[str], bool]
    ) -> list[Body]:
        """All objects of a namespaced kind that are anywhere, or if that is refused, in any of ``namespaces``.

        ``is_gone`` is asked of a namespace that is refused: rights in it are gone too, and so is what was there. Raises
        what ``ask`` raises; Unauthorized names the namespace, so nothing that could not be seen counts as absent.
        """
        remembered = self._stands(resource)
        if not remembered:
            try:
                return ask("")
            except Unauthorized:
                self._note(resource)
        try:
            return list(chain.from_iterable(_one(ask, name, is_gone) for name in sorted(namespaces)))
        except Unauthorized as error:
            if not remembered:
                raise
            try:  # the right may have come since
                found = ask("")
            except Unauthorized:
                raise error from None
            self._forget(resource)
            return found

    def _stands(self, resource: ApiResource) -> bool:
        with self._lock:
            return self._clock() < self._until.get((resource.group, resource.plural), 0.0)

    def _note(self, resource: ApiResource) -> None:
        with self._lock:
            self._until[resource.group, resource.plural] = self._clock() + _FOR

    def _forget(self, resource: ApiResource) -> None:
        with self._lock:
            self._until.pop((resource.group, resource.plural), None)


def is_gone(cluster: ClusterPort, namespace: str) -> bool:
    """Is there certainly no such namespace? False also when it may not be looked at. Raises what a read raises."""
    try:
        return cluster.get(NAMESPACE, "", namespace) is None
    except Unauthorized:
        return False


def _one(ask: Ask, namespace: str, is_gone: Callable[[str], bool]) -> list[Body]:
    try:
        return ask(namespace)
    except Unauthorized:
        if is_gone(namespace):
            return []
        raise
