"""The catalog in Redis: beat publishes what it read from the directory, workers read the entry they were rung for.

Every document is sealed, because clusters and sources may carry credentials. A worker asks once per message and
keeps what it parsed for as long as the sealed bytes stay the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import orjson

from fleetbeat import keys
from fleetbeat.catalog import parse_cluster, parse_entry
from fleetbeat.clients import departures
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions import deletion
from fleetbeat.errors import ConfigurationError, NotYet
from fleetbeat.model import Application, Cluster

_APPLICATION = "Application/"
_CLUSTER = "Cluster/"
_FORGET_AFTER = 7 * 86_400_000  # ms

T = TypeVar("T")


@dataclass(frozen=True)
class CatalogStatus:
    """What is known of the catalog in force. Times are ms since epoch by the server's clock, 0 = never."""

    at: int  #: last published or found broken
    error: str  #: what is wrong with the catalog on disk, "" when it is the one in force
    digest: str  #: keyed digest of the catalog in force, "" when there is none, or when Redis has lost part of it
    published: int  #: since when it is in force
    departing: tuple[str, ...] = ()  #: applications that have left it and whose objects are to go (departures.py)


class _Parsed(tuple[bytes, bytes, Any]):
    """Of one entry: sealed bytes, what of it says what is wanted (``_wanted``), parsed value."""

    __slots__ = ()


class Catalogs:
    """Thread-safe. Raises StoreUnavailable, and ConfigurationError when entries are sealed with another key."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parsed: dict[str, _Parsed] = {}  # entry → last seen; single reads and writes are atomic

    def digest(self, content_digest: str) -> str:
        """What ``status().digest`` is while the catalog of this content digest is in force."""
        return self._store.fingerprint(content_digest.encode())

    def needs_publish(self, content_digest: str) -> bool:
        """False only while Redis holds exactly this catalog, whole: a flush is noticed here."""
        return self.status().digest != self.digest(content_digest)

    def publish(self, documents: Mapping[str, Mapping[str, Any]], content_digest: str) -> frozenset[str]:
        """Put these documents (``Application/<name>`` | ``Cluster/<name>`` → document) in force, all in one step.

        Only what differs is written; returns those entries, new and vanished ones among them.
        """
        with errors():
            stored = cast("dict[bytes, bytes]", self._store.redis.hgetall(keys.CATALOG))
            departing = cast("list[bytes]", self._store.redis.hkeys(keys.DEPARTING))
        old = {entry.decode(): sealed for entry, sealed in stored.items()}
        changed: list[str | bytes] = []
        for entry, document in documents.items():
            plain = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
            if self._plain(entry, old.get(entry)) != plain:
                changed += [entry, self._store.seal_document(plain, context=_context(entry))]
        gone = [entry for entry in old if entry not in documents]
        leaving = self._leaving(old, gone)
        applications = {entry.removeprefix(_APPLICATION) for entry in documents if entry.startswith(_APPLICATION)}
        gone_already = set(departures.names_of(departing)) - applications
        held = deletion.held(len(gone_already | leaving.keys()), len(applications), len(documents))
        triples = [part for app, (seen, kept) in leaving.items() for part in (app, seen, kept)]
        self._store.script(
            "publish",
            [keys.CATALOG, keys.CATALOG_STATUS, keys.DEPARTING],
            [
                self.digest(content_digest),
                len(documents),
                len(changed) // 2,
                len(leaving),
                held,
                *changed,
                *triples,
                *gone,
            ],
        )
        left = (entry.removeprefix(_APPLICATION) for entry in gone if entry.startswith(_APPLICATION))
        self.forget(app for app in left if app not in leaving)
        return frozenset([*(str(entry) for entry in changed[::2]), *gone])

    def _leaving(self, old: Mapping[str, bytes], gone: Iterable[str]) -> dict[str, tuple[bytes, bytes]]:
        """Of what is gone the applications whose objects are to go too: name → document as it was read, what is kept.

        What cannot be opened asks for nothing: its objects stay.
        """
        found: dict[str, tuple[bytes, bytes]] = {}
        for entry in gone:
            plain = self._plain(entry, old[entry]) if entry.startswith(_APPLICATION) else None
            document = orjson.loads(plain) if plain is not None else {}
            if not deletion.wants_deletion(document):
                continue
            cluster_entry = _CLUSTER + document["spec"]["destination"]["cluster"]
            cluster = self._plain(cluster_entry, old.get(cluster_entry))
            if cluster is not None:
                app = entry.removeprefix(_APPLICATION)
                found[app] = (old[entry], departures.seal(self._store, app, document, orjson.loads(cluster)))
        return found

    def forget(self, applications: Iterable[str]) -> None:
        """What is known of an application that left goes a week later; one that comes back keeps it."""
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            for name in applications:
                for key in (keys.state(name), keys.history(name), keys.request(name)):
                    pipe.pexpire(key, _FORGET_AFTER)
            pipe.execute()

    def publish_error(self, text: str) -> None:
        """The catalog on disk is broken: say so. The last good one stays in force."""
        now = self._store.now()
        with errors():
            self._store.redis.hset(keys.CATALOG_STATUS, mapping={"error": text, "at": now})

    def status(self) -> CatalogStatus:
        with errors():
            pipe = self._store.redis.pipeline()
            pipe.hmget(keys.CATALOG_STATUS, "at", "error", "digest", "published", "entries")
            pipe.hlen(keys.CATALOG)
            pipe.hkeys(keys.DEPARTING)
            (at, error, digest, published, entries), held, departing = pipe.execute()
        whole = entries is not None and int(entries) == held
        return CatalogStatus(
            at=int(at or 0),
            error=(error or b"").decode(),
            digest=(digest or b"").decode() if whole else "",
            published=int(published or 0),
            departing=tuple(departures.names_of(departing)),
        )

    def application(self, name: str) -> tuple[Application, Cluster, str] | None:
        """The application with the rules of its project, its cluster, and a keyed digest that changes when any does.

        One whose cluster is suspended is suspended too.

        None when the catalog has no such application. Raises NotYet while Redis holds no whole catalog (after a flush,
        until beat has published again): nobody may take that for a removal. One round trip once the application's
        cluster is known, two before.
        """
        entry = _APPLICATION + name
        known = self._parsed.get(entry)
        fields = [entry, _CLUSTER + known[2].destination.cluster] if known else [entry]
        sealed = self._read(fields)
        if sealed[0] is None:
            self._parsed.pop(entry, None)
            if not self.status().digest:
                raise NotYet("Redis holds no catalog at the moment; beat publishes it again within seconds.")
            return None
        application = self._entry(entry, sealed[0], parse_entry)
        cluster_entry = _CLUSTER + application[2].destination.cluster
        if fields[1:] != [cluster_entry]:
            sealed = self._read([entry, cluster_entry])
            if sealed[0] is None:
                return self.application(name)  # it left between the two reads
            application = self._entry(entry, sealed[0], parse_entry)
        if sealed[1] is None:
            raise NotYet(f"Application {name} names {cluster_entry}, which the catalog in Redis does not hold (yet).")
        cluster = self._entry(cluster_entry, sealed[1], parse_cluster)
        spec_digest = self._store.fingerprint(application[1] + b"\n" + cluster[1])
        return _on(application[2], cluster[2]), cluster[2], spec_digest

    def clusters(self) -> dict[str, Cluster]:
        """All clusters by name. Two round trips."""
        with errors():
            entries = cast("list[bytes]", self._store.redis.hkeys(keys.CATALOG))
        names = sorted(entry.decode() for entry in entries if entry.startswith(_CLUSTER.encode()))
        sealed = self._read(names) if names else []
        parsed = {n: self._entry(n, text, parse_cluster)[2] for n, text in zip(names, sealed, strict=True) if text}
        return {name.removeprefix(_CLUSTER): cluster for name, cluster in parsed.items()}

    def names(self) -> list[str]:
        """Names of all applications, sorted."""
        with errors():
            entries = cast("list[bytes]", self._store.redis.hkeys(keys.CATALOG))
        texts = (entry.decode() for entry in entries)
        return sorted(text.removeprefix(_APPLICATION) for text in texts if text.startswith(_APPLICATION))

    def _read(self, entries: list[str]) -> list[bytes | None]:
        with errors():
            return cast("list[bytes | None]", self._store.redis.hmget(keys.CATALOG, entries))

    def _entry(self, entry: str, sealed: bytes, parse: Callable[[Mapping[str, Any], str], T]) -> _Parsed:
        known = self._parsed.get(entry)
        if known is None or known[0] != sealed:
            plain = self._store.unseal_document(sealed, context=_context(entry))
            document = orjson.loads(plain)
            known = _Parsed((sealed, _wanted(document), parse(document, f"{entry} in Redis")))
            self._parsed[entry] = known
        return known

    def _plain(self, entry: str, sealed: bytes | None) -> bytes | None:
        if sealed is None:
            return None
        try:
            return self._store.unseal_document(sealed, context=_context(entry))
        except ConfigurationError:
            return None  # of an older key, or altered: written anew


def _wanted(document: dict[str, Any]) -> bytes:
    """A document without its sync windows: they say when, not what. An edit of them is no change to sync."""
    spec = document.get("spec") or {}
    if "windows" in (spec.get("sync") or {}):
        sync = {name: value for name, value in spec["sync"].items() if name != "windows"}
        document = {**document, "spec": {**spec, "sync": sync}}
    if "project" in document:
        project = document["project"]
        rules = {name: value for name, value in project["spec"].items() if name != "syncWindows"}
        document = {**document, "project": {**project, "spec": rules}}
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


def _on(application: Application, cluster: Cluster) -> Application:
    if not cluster.suspended or application.suspended:
        return application
    return dataclasses.replace(application, suspended=cluster.suspended)


def _context(entry: str) -> str:
    return f"catalog:{entry}"
