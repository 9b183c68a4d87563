"""The shared look at a cluster: one metadata-only LIST per kind tells all applications whether anything moved.

A sweep lists everything that carries any ApplySet label and leaves its fingerprints in Redis, by application. Whoever
comes while they are fresh enough reads only its own; whoever comes first afterwards sweeps, and the others wait for
its answer instead of asking too. An unchanged fleet therefore costs its clusters one request per kind and sweep,
however many applications and workers there are.

Where the cluster-wide LIST is forbidden, the same is done per namespace.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any

import orjson

from fleetbeat import keys
from fleetbeat.clients.refused_lists import is_gone
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.changes import Fingerprint, fingerprint
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.errors import NotYet, Unauthorized
from fleetbeat.model import ApiResource, ApiSet, ObjectId
from fleetbeat.ports import ClusterPort

_AT = "@"  # field: ms by the server's clock, before the LIST was sent; no ApplySet id looks like it
_FORBIDDEN = "@forbidden"  # field: this LIST is not allowed to us
_TTL = 3_600_000  # ms; a cluster nobody asks about is forgotten
_FORBIDDEN_FOR = 60_000  # ms until a right that was missing is tried again
_SWEEP = 10_000  # ms a sweep may take before another worker tries: the first one was killed, or the cluster hangs
_WAIT = 0.5  # seconds to wait for somebody else's sweep; one that takes longer must not hold more workers than its own
_POLL = 0.01  # seconds

#: [namespace, name, *Fingerprint] of one object, as kept in Redis
Entry = list[Any]


class UnderWay(NotYet):
    """Another worker asks the cluster right now, and has had no answer for a while: come back later."""


class Observations:
    """Thread-safe. Raises StoreUnavailable, UnderWay, and what ``ClusterPort.list`` raises where it cannot list."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def look(
        self,
        cluster: ClusterPort,
        apis: ApiSet,
        applyset: str,
        places: Mapping[tuple[str, str], Iterable[str]],
        *,
        age: float,
        since: int = 0,
    ) -> dict[ObjectId, Fingerprint]:
        """Fingerprints of everything with this ApplySet label.

        ``places``: (group, kind) → the namespaces to look in when the cluster-wide LIST is forbidden. ``age``: seconds
        a sweep may be old; ``since``: ms by the server's clock before which it must not have begun (the end of the
        application's last run: an older sweep knows less than that run did). A kind that is not served has no objects.
        """
        resources = {resource: spaces for (g, k), spaces in places.items() if (resource := apis.find(g, k))}
        shelves = [_Shelf(self._store, cluster, resource, "") for resource in resources]
        now, kept = self._read(shelves, applyset)
        # A run that ends in the future ended before the clock went back (field case j4); so did a sweep (``_read``).
        oldest = max(now - int(age * 1000), min(since, now))
        found: dict[ObjectId, Fingerprint] = {}
        for shelf, answer in zip(shelves, kept, strict=True):
            entries = answer.entries if answer.at >= oldest else None
            if entries is None and not answer.forbidden:
                entries = self._fresh(shelf, applyset, oldest)
            if entries is None:
                entries = self._by_namespace(shelf, resources[shelf.resource], applyset, oldest)
            found |= {_id(shelf.resource, entry): Fingerprint(*entry[2:]) for entry in entries}
        return found

    def _by_namespace(self, shelf: _Shelf, namespaces: Iterable[str], applyset: str, oldest: int) -> list[Entry]:
        """The share of each namespace. A kind without namespaces has nowhere else to look: the refusal stands."""
        if not shelf.resource.namespaced:
            raise Unauthorized(f"listing {shelf.resource.plural} in cluster {shelf.cluster.name} is forbidden")
        shelves = [_Shelf(shelf.store, shelf.cluster, shelf.resource, name) for name in sorted(set(namespaces))]
        entries: list[Entry] = []
        for place, answer in zip(shelves, self._read(shelves, applyset)[1], strict=True):
            share = answer.entries if answer.at >= oldest else self._fresh(place, applyset, oldest)
            if share is None and is_gone(place.cluster, place.namespace):
                continue  # and so are the rights in it
            if share is None:
                raise Unauthorized(
                    f"listing {shelf.resource.plural} in namespace {place.namespace} of cluster "
                    f"{shelf.cluster.name} is forbidden"
                )
            entries += share
        return entries

    def _fresh(self, shelf: _Shelf, applyset: str, oldest: int) -> list[Entry] | None:
        """This application's share of a sweep begun since ``oldest``, made here or by whoever was first.

        None when the LIST is forbidden.
        """
        token = secrets.token_hex(8)
        deadline = time.monotonic() + _WAIT
        while not (mine := shelf.claim(token)) and time.monotonic() < deadline:
            time.sleep(_POLL)
        try:
            # Somebody may have swept since the last look, also right before the claim.
            answer = self._read([shelf], applyset)[1][0]
            if answer.at >= oldest or answer.forbidden:
                return None if answer.forbidden else answer.entries
            if not mine:
                what = f"{shelf.resource.plural} of cluster {shelf.cluster.name}"
                raise UnderWay(f"another worker is asking for the {what}", retry_after=1.0)
            return shelf.sweep().get(applyset, [])
        except Unauthorized:
            shelf.forbid()
            return None
        finally:
            if mine:
                shelf.release(token)

    def _read(self, shelves: list[_Shelf], applyset: str) -> tuple[int, list[_Kept]]:
        """Now (ms, server's clock) and what is kept of each place, in one round trip."""
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            pipe.time()
            for shelf in shelves:
                pipe.hmget(shelf.key, _AT, _FORBIDDEN, applyset)
            (seconds, micros), *answers = pipe.execute()
        now = seconds * 1000 + micros // 1000
        kept = []
        for at, forbidden, share in answers:
            began = int(at or 0)
            kept.append(
                _Kept(began if began <= now else 0, forbidden is not None, orjson.loads(share) if share else [])
            )
        return now, kept


@dataclass(frozen=True)
class _Kept:
    at: int  #: ms, when the sweep began; 0 = there was none
    forbidden: bool
    entries: list[Entry]


@dataclass(frozen=True)
class _Shelf:
    """Where the sweep of one kind in one cluster (or one namespace of it) is kept."""

    store: Store
    cluster: ClusterPort
    resource: ApiResource
    namespace: str

    @property
    def group_kind(self) -> str:
        return ObjectId(self.resource.group, self.resource.kind, "", "").group_kind

    @property
    def key(self) -> str:
        return keys.observed(self.cluster.name, self.group_kind, self.namespace)

    def claim(self, token: str) -> bool:
        with errors():
            return bool(self.store.redis.set(f"{self.key}:sweeping", token, px=_SWEEP, nx=True))

    def release(self, token: str) -> None:
        self.store.script("lock_release", [f"{self.key}:sweeping"], [token])

    def sweep(self) -> dict[str, list[Entry]]:
        """List, keep, return: ApplySet id → entries."""
        now = self.store.now()
        bodies = self.cluster.list(self.resource, selector=PART_OF, namespace=self.namespace, metadata_only=True)
        shares: dict[str, list[Entry]] = {}
        for body in bodies:
            metadata = body["metadata"]
            mark = astuple(fingerprint(body, self.group_kind))
            shares.setdefault(metadata["labels"][PART_OF], []).append(
                [metadata.get("namespace", ""), metadata["name"], *mark]
            )
        fields: Any = {_AT: now}
        fields |= {owner: orjson.dumps(share) for owner, share in shares.items()}
        with errors():
            pipe = self.store.redis.pipeline(transaction=True)
            pipe.delete(self.key)
            pipe.hset(self.key, mapping=fields)
            pipe.pexpire(self.key, _TTL)
            pipe.execute()
        return shares

    def forbid(self) -> None:
        with errors():
            self.store.redis.hset(self.key, _FORBIDDEN, "1")
            self.store.redis.pexpire(self.key, _FORBIDDEN_FOR)


def _id(resource: ApiResource, entry: Entry) -> ObjectId:
    return ObjectId(resource.group, resource.kind, entry[0], entry[1])
