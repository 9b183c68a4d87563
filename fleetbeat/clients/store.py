"""The connection to Redis: one client per process, Lua scripts by file name, sealing, and nothing else.

What is kept there is the business of the modules beside this one (blobs, due, catalogs, runs). No command is retried
by the client: a retry after a lost reply would run twice, so every script is written to be safe to repeat and the
callers decide.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import importlib.resources
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleetbeat.errors import ConfigurationError, StoreUnavailable
from fleetbeat.model import SecretText
from fleetbeat.settings import Settings

_NONCE = 12  # bytes; AES-GCM's standard nonce length
_LARGE = 65_536  # bytes of JSON from which on compressing pays: thousands of windows shrink to a twentieth


class Store:
    """A Redis connection pool and the sealing key of this installation. Thread-safe."""

    def __init__(self, url: SecretText | str, key: bytes) -> None:
        """``key``: 32 bytes. Connects at the first command."""
        plain = url.reveal() if isinstance(url, SecretText) else url
        self.redis: redis.Redis = redis.Redis.from_url(
            plain,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=10.0,
            socket_connect_timeout=3.0,
            socket_keepalive=True,
            health_check_interval=10,
        )
        self._seal = AESGCM(key)
        self._fingerprint_key = hmac.digest(key, b"fleetbeat fingerprint", "sha256")
        self._scripts: dict[str, Any] = {}

    @classmethod
    def open(cls, settings: Settings) -> Store:
        """Raises ConfigurationError when the key is missing."""
        return cls(settings.redis_url, settings.sealing_key())

    def script(self, name: str, keys: Sequence[str], args: Sequence[str | int | float | bytes]) -> Any:
        """Run ``clients/<name>.lua`` atomically. Raises StoreUnavailable."""
        with errors():
            if name not in self._scripts:
                self._scripts[name] = self.redis.register_script(source(name))
            return self._scripts[name](keys=list(keys), args=list(args))

    def now(self) -> int:
        """ms since epoch by the server's clock. Raises StoreUnavailable."""
        with errors():
            now: Any = self.redis.time()
        return int(now[0] * 1000 + now[1] // 1000)

    def seal(self, plain: bytes, context: str) -> bytes:
        """Encrypt and authenticate. ``context`` (the key it is stored under) must be the same when opening."""
        nonce = os.urandom(_NONCE)
        return nonce + self._seal.encrypt(nonce, plain, context.encode())

    def unseal(self, sealed: bytes, context: str) -> bytes:
        """Raises ConfigurationError when it was sealed with another key, or altered, or for another context."""
        try:
            return self._seal.decrypt(sealed[:_NONCE], sealed[_NONCE:], context.encode())
        except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
            raise ConfigurationError(
                f"{context} in Redis was sealed with another FLEETBEAT_KEY, or was altered. "
                "Give every process the same key; entries of an old key may be deleted, they are rebuilt."
            ) from None

    def seal_document(self, plain: bytes, context: str) -> bytes:
        """``seal`` for a JSON object; a large one is compressed."""
        return self.seal(zlib.compress(plain, 3) if len(plain) >= _LARGE else plain, context)

    def unseal_document(self, sealed: bytes, context: str) -> bytes:
        """Raises what ``unseal`` raises."""
        plain = self.unseal(sealed, context)
        return plain if plain.startswith(b"{") else zlib.decompress(plain)

    def fingerprint(self, content: bytes) -> str:
        """64 hex digits that tell whether content changed; without the key nothing can be guessed from them."""
        return hmac.digest(self._fingerprint_key, content, "sha256").hex()


@functools.cache
def source(name: str) -> str:
    """Text of a Lua script shipped with this package."""
    return (importlib.resources.files("fleetbeat.clients") / f"{name}.lua").read_text()


def sha256(content: bytes) -> str:
    """``sha256:<hex>``, the form used everywhere."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@contextmanager
def errors() -> Iterator[None]:
    """Turn redis-py's exceptions into StoreUnavailable. The message never holds the URL, which may hold a password."""
    try:
        yield
    except redis.exceptions.RedisError as error:
        raise StoreUnavailable(f"Redis: {type(error).__name__}: {error}") from error
