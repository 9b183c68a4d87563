"""What workers remember between messages, in Redis: tags resolved a moment ago, inventories, blobs by meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from fleetbeat import keys
from fleetbeat.clients.single_flight import single_flight
from fleetbeat.clients.store import errors
from fleetbeat.engine.plan import Known, known_from_json, known_to_json
from fleetbeat.errors import SourceThrottled
from fleetbeat.model import ObjectId, Revision, Source
from workers.parts import Parts


def resolve(shared: Parts, source: Source, *, fresh: bool = False) -> Revision:
    """The revision the source means now. All applications of one source share a look for a few seconds (case g5).

    ``fresh``: somebody waits who may have pushed a moment ago; only a look that begins from now on will do. A
    registry's "not so fast" is shared all the same, for as long as it asked for. Raises the errors of
    ``ports.SourcePort``.
    """
    if source.digest:
        return Revision(source.digest)
    mark = _mark(shared, source, source.tag or "", source.semver or "")
    since = shared.store.now() if fresh else 0

    def accept(found: bytes) -> Revision | None:
        digest, said = found.decode().split(" ", 1)
        if digest == _THROTTLED:
            with errors():
                left = shared.store.redis.pttl(keys.resolved(mark))
            raise SourceThrottled(said, retry_after=max(left, 1) / 1000)
        tag, _, asked = said.rpartition(" ")
        if not tag or not asked.isdigit():  # kept by the version before, which did not say when
            return None
        return Revision(digest, tag) if int(asked) >= since else None

    def ask(now: int) -> Revision:
        try:
            revision = shared.source.resolve(source)
        except SourceThrottled as error:
            wanted = error.retry_after or shared.settings.resolve_ttl
            _keep(shared, keys.resolved(mark), f"{_THROTTLED} {error}", min(wanted, _LONGEST_THROTTLE))
            raise
        told = f"{revision.digest} {revision.tag} {now}"
        _keep(shared, keys.resolved(mark), told, shared.settings.resolve_ttl)
        return revision

    return single_flight(shared.store, keys.resolved(mark), keys.asking(mark), accept=accept, ask=ask, wait=_PATIENCE)


def pull(shared: Parts, source: Source, revision: Revision) -> tuple[str, Revision]:
    """The digest of the layer, which is in the blob store now, and the revision with what its annotations say.

    Applications of one bundle share a pull (case j10), if they log in alike: nobody gets what only others may read.
    """
    mark = _mark(shared, source, revision.digest)

    def accept(found: bytes) -> tuple[str, Revision] | None:
        layer, *described = orjson.loads(found)
        return (layer, Revision(revision.digest, revision.tag, *described)) if shared.blobs.keep(layer) else None

    def ask(_: int) -> tuple[str, Revision]:
        pulled = shared.source.pull(source, revision)
        layer, full = shared.blobs.put(pulled.layer), pulled.revision
        told = orjson.dumps([layer, full.source, full.revision, full.created]).decode()
        _keep(shared, keys.pulled(mark), told, shared.settings.blobs.ttl)
        return layer, full

    return single_flight(shared.store, keys.pulled(mark), keys.asking(mark), accept=accept, ask=ask, wait=_PATIENCE)


def is_pulled(shared: Parts, source: Source, revision: Revision) -> bool:
    """Would ``pull`` ask no registry?"""
    with errors():
        found = shared.store.redis.get(keys.pulled(_mark(shared, source, revision.digest)))
    return isinstance(found, bytes) and shared.blobs.keep(orjson.loads(found)[0])


_THROTTLED = "throttled"
#: seconds to wait for another worker's look or pull of the same before asking too; asking would hold us up as well
_PATIENCE = 5.0
#: seconds; a registry that asks for more is asked again all the same, once for all its applications
_LONGEST_THROTTLE = 600.0


def _keep(shared: Parts, key: str, text: str, seconds: float) -> None:
    with errors():
        shared.store.redis.set(key, text, px=max(int(seconds * 1000), 1))


def _mark(shared: Parts, source: Source, *more: str) -> str:
    """The same for the same place, the same way in and the same login; nobody can tell the login from it (case g8)."""
    parts = [source.oci, str(source.plain_http), str(source.insecure_skip_tls_verify), source.auth.username, *more]
    for credential in (source.auth.password, source.auth.token, source.ca):
        secret = credential.inline if credential is not None else None
        parts.append(repr((secret.reveal() if secret else None, credential and (credential.file, credential.env))))
    return shared.store.fingerprint("\n".join(parts).encode())[:32]


def load_known(shared: Parts, digest: str) -> dict[ObjectId, Known] | None:
    """The inventory a run left; None when it was never made, has expired, or was lost in a flush."""
    text = shared.blobs.get(digest) if digest else None
    return known_from_json(orjson.loads(text)) if text is not None else None


def save_known(shared: Parts, known: dict[ObjectId, Known]) -> str:
    """Returns the blob's digest: the same inventory has the same one."""
    return shared.blobs.put(orjson.dumps(known_to_json(known), option=orjson.OPT_SORT_KEYS))


def first_tried(record: Mapping[str, str], state: Mapping[str, str]) -> int:
    """ms since epoch when a sync of the run's digest was first tried. After another digest it begins anew."""
    if state.get("attempted") == record["digest"] and state.get("attempted_since"):
        return int(state["attempted_since"])
    return int(record["created"])


def joined(items: Iterable[object], most: int = 5) -> str:
    """``a, b, c and 4 more``."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
