"""Which process watches which cluster: a lease in Redis each, renewed while the process lives."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors


class WatchLease:
    """One process's leases. Thread-safe; every method raises only StoreUnavailable."""

    def __init__(self, store: Store, seconds: float, who: str) -> None:
        """``who``: for people, ``host:pid``."""
        self._store = store
        self._ttl = int(seconds * 1000)
        self._token = f"{who} {secrets.token_hex(8)}"

    def take(self, cluster: str) -> bool:
        """Get it or keep it. False: another process has it."""
        key = keys.watching(cluster)
        if self._store.script("lock_renew", [key], [self._token, self._ttl]):
            return True
        with errors():
            return bool(self._store.redis.set(key, self._token, px=self._ttl, nx=True))

    def release(self, cluster: str) -> None:
        self._store.script("lock_release", [keys.watching(cluster)], [self._token])


def watchers(store: Store, clusters: Iterable[str]) -> dict[str, str]:
    """Cluster → ``host:pid`` of the process that watches it, "" without one. Raises StoreUnavailable."""
    names = list(clusters)
    if not names:
        return {}
    with errors():
        tokens: Any = store.redis.mget([keys.watching(name) for name in names])
    return {name: token.decode().partition(" ")[0] if token else "" for name, token in zip(names, tokens, strict=True)}
