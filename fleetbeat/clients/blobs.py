"""Content that steps hand to each other, by its keyed digest: compressed, sealed, and gone when nobody uses it.

A blob is a convenience, never the only copy: whoever misses one pulls and renders again. So everything that is wrong
with a stored blob has one answer, which is to delete it and report it as missing.
"""

from __future__ import annotations

import zlib
from typing import cast

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors
from fleetbeat.errors import BundleTooLarge, ConfigurationError
from fleetbeat.settings import Blobs as Limits

_LEVEL = 3  # zlib; on rendered manifests level 6 takes twice the time for a tenth less


class Blobs:
    """Thread-safe. Raises StoreUnavailable besides what the methods name."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._max = limits.max_size
        self._ttl = int(limits.ttl * 1000)

    def put(self, plain: bytes) -> str:
        """Keep ``plain``; returns its digest. Raises BundleTooLarge over ``max_size``.

        The digest is keyed (``Store.fingerprint``): from a plain one a weak Secret could be guessed offline.
        """
        if len(plain) > self._max:
            raise BundleTooLarge(
                f"{len(plain):,} bytes are more than FLEETBEAT_BLOBS_MAX_SIZE ({self._max:,}). "
                "Split the bundle, or raise the limit on every worker."
            )
        digest = self._store.fingerprint(plain)
        if self.keep(digest):
            return digest  # applications that share a bundle share its blobs
        key = keys.blob(digest)
        sealed = self._store.seal(zlib.compress(plain, _LEVEL), context=key)
        with errors():
            self._store.redis.set(key, sealed, px=self._ttl)
        return digest

    def keep(self, digest: str) -> bool:
        """Whether it is there, and then for another ``ttl``. What is stored is looked at by ``get`` only."""
        with errors():
            return bool(self._store.redis.pexpire(keys.blob(digest), self._ttl))

    def get(self, digest: str) -> bytes | None:
        """The content, verified, and kept for another ``ttl``. None when it is missing or was not what it should be."""
        key = keys.blob(digest)
        with errors():
            sealed = cast("bytes | None", self._store.redis.getex(key, px=self._ttl))
        if sealed is None:
            return None
        plain = self._open(sealed, key)
        if plain is not None and self._store.fingerprint(plain) == digest:
            return plain
        with errors():
            self._store.redis.delete(key)
        return None

    def _open(self, sealed: bytes, key: str) -> bytes | None:
        try:
            inflate = zlib.decompressobj()
            plain = inflate.decompress(self._store.unseal(sealed, context=key), self._max + 1)
        except (ConfigurationError, zlib.error):
            return None
        return plain if inflate.eof and len(plain) <= self._max else None
