"""What workers remember between messages, in Redis: tags resolved a moment ago, inventories, blobs by meaning."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import orjson

from fleetbeat import keys
from fleetbeat.clients.store import errors
from fleetbeat.engine.plan import Known, known_from_json, known_to_json
from fleetbeat.model import ObjectId, Revision, Source
from workers.parts import Parts


def resolve(shared: Parts, source: Source, *, fresh: bool = False) -> Revision:
    """The revision the source means now. All applications of one source share a look for a few seconds (case g5)."""
    if source.digest:
        return Revision(source.digest)
    text = "\n".join((source.oci, source.tag or "", source.semver or "", source.auth.username, str(source.plain_http)))
    key = keys.resolved(hashlib.sha256(text.encode()).hexdigest()[:32])
    if not fresh:
        with errors():
            found = shared.store.redis.get(key)
        if isinstance(found, bytes):
            digest, tag = found.decode().split(" ", 1)
            return Revision(digest, tag)
    revision = shared.source.resolve(source)
    with errors():
        shared.store.redis.set(key, f"{revision.digest} {revision.tag}", px=int(shared.settings.resolve_ttl * 1000))
    return revision


def load_known(shared: Parts, digest: str) -> dict[ObjectId, Known] | None:
    """The inventory a run left; None when it was never made, has expired, or was lost in a flush."""
    text = shared.blobs.get(digest) if digest else None
    return known_from_json(orjson.loads(text)) if text is not None else None


def save_known(shared: Parts, known: dict[ObjectId, Known]) -> str:
    """Returns the blob's digest: the same inventory has the same one."""
    return shared.blobs.put(orjson.dumps(known_to_json(known), option=orjson.OPT_SORT_KEYS))


def joined(items: Iterable[object], most: int = 5) -> str:
    """``a, b, c and 4 more``."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more
