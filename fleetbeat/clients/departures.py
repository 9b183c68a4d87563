"""Applications that have left the catalog and whose objects are to go: kept in Redis until nothing of them is left.

``Catalogs.publish`` puts them there in the same step that takes them out of the catalog, with their document and their
cluster's as they were last, sealed like the catalog's own. What Redis forgets is not deleted any more: its objects
stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import orjson

from fleetbeat import keys
from fleetbeat.catalog import parse_cluster, parse_entry
from fleetbeat.clients.store import Store, errors
from fleetbeat.model import Application, Cluster

_WORDS = ("since", "held", "go", "confirmed", "skip-hooks", "PreDelete", "PostDelete")


@dataclass(frozen=True)
class Departure:
    """One of them. ``go``, ``confirmed`` and ``skip_hooks`` are a person's words (``fleetbeat delete``)."""

    application: Application
    cluster: Cluster
    spec: str  #: keyed digest of both
    since: int  #: ms since epoch by the server's clock
    held: str  #: why nothing is deleted until a person says so, a sentence; "" = nothing holds it
    go: bool  #: at once, whatever holds it
    confirmed: bool  #: what asks for a confirmation (``Delete=confirm``) goes too
    skip_hooks: bool  #: without its PreDelete and PostDelete hooks
    done: frozenset[str] = frozenset()  #: of PreDelete and PostDelete those whose hooks have gone through


class Departures:
    """Thread-safe. Raises StoreUnavailable, and ConfigurationError for what was sealed with another key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, app: str) -> Departure | None:
        """None when it does not depart. The cluster is the catalog's as long as that has one of the name."""
        with errors():
            fields = [app, *(f"{app}/{word}" for word in _WORDS)]
            sealed, *said = cast("list[bytes | None]", self._store.redis.hmget(keys.DEPARTING, fields))
        if sealed is None:
            return None
        kept = orjson.loads(self._store.unseal_document(sealed, _context(app)))
        name = kept["cluster"]["metadata"]["name"]
        entry = f"Cluster/{name}"
        with errors():
            current = cast("bytes | None", self._store.redis.hget(keys.CATALOG, entry))
        # Credentials are rotated; those of the day it left may be good for nothing now.
        cluster = orjson.loads(self._store.unseal_document(current, f"catalog:{entry}")) if current else kept["cluster"]
        since, held, go, confirmed, skip_hooks, *phases = ((word or b"").decode() for word in said)
        both = orjson.dumps([kept["application"], cluster], option=orjson.OPT_SORT_KEYS)
        return Departure(
            application=parse_entry(kept["application"], f"Application {app} in Redis"),
            cluster=parse_cluster(cluster, f"Cluster {name} in Redis"),
            spec=self._store.fingerprint(both),
            since=int(since or 0),
            held=held if not go else "",
            go=bool(go),
            confirmed=bool(confirmed),
            skip_hooks=bool(skip_hooks),
            done=frozenset(phase for phase, said in zip(_WORDS[-2:], phases, strict=True) if said),
        )

    def held(self) -> dict[str, str]:
        """Every one of them, sorted, with why nothing is deleted yet; "" = it goes its way."""
        with errors():
            found = cast("dict[bytes, bytes]", self._store.redis.hgetall(keys.DEPARTING))
        names = names_of(found)
        return {app: "" if f"{app}/go".encode() in found else _text(found, f"{app}/held") for app in names}

    def departs(self, app: str) -> bool:
        with errors():
            return bool(self._store.redis.hexists(keys.DEPARTING, app))

    def note(self, app: str, *, confirmed: bool = False, skip_hooks: bool = False) -> bool:
        """A person wants it gone, now. False: it does not depart."""
        words = ["go", *(["confirmed"] if confirmed else []), *(["skip-hooks"] if skip_hooks else [])]
        return bool(self._store.script("departure_note", [keys.DEPARTING], [app, *words]))

    def passed(self, app: str, phases: Iterable[str]) -> None:
        """The hooks of these phases (PreDelete, PostDelete) have gone through: no later run runs them again."""
        self._store.script("departure_note", [keys.DEPARTING], [app, *phases])

    def end(self, app: str, since: int) -> bool:
        """Forget it, unless it departed anew since."""
        return bool(self._store.script("departure_end", [keys.DEPARTING], [app, since]))


def seal(store: Store, app: str, application: Mapping[str, Any], cluster: Mapping[str, Any]) -> bytes:
    """What is kept of one that departs."""
    return store.seal_document(orjson.dumps({"application": application, "cluster": cluster}), _context(app))


def names_of(fields: Mapping[bytes, bytes] | list[bytes]) -> list[str]:
    """Of the hash's fields those that are applications."""
    return sorted(field.decode() for field in fields if b"/" not in field)


def _text(found: Mapping[bytes, bytes], field: str) -> str:
    return found.get(field.encode(), b"").decode()


def _context(app: str) -> str:
    return f"departing:{app}"
