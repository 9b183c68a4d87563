"""Looking for a secret in everything a system leaves behind, in the forms it may have taken on the way."""

from __future__ import annotations

import base64
import binascii
import re
import socket
import threading
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit

import redis

_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")


def forms(secret: str) -> dict[str, bytes]:
    """The text, and what base64 makes of it wherever it stands in what is encoded (three alignments), and hex."""
    plain = secret.encode()
    found = {"plain": plain, "hex": plain.hex().encode()}
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + plain)
        # Characters that depend on the neighbours are left out.
        found[f"base64 at {shift}"] = encoded[-(-shift * 8 // 6) : len(encoded) - 4]
    return found


def traces(evidence: bytes, secret: str, depth: int = 3) -> list[str]:
    """In which forms the secret is in there; base64 in it is opened too, again and again."""
    found = [form for form, pattern in forms(secret).items() if pattern in evidence]
    if depth:
        for inner in _opened(evidence):
            found += [f"in base64: {trace}" for trace in traces(inner, secret, depth - 1)]
    return sorted(set(found))


def _opened(evidence: bytes) -> Iterator[bytes]:
    for text in set(_BASE64.findall(evidence)):
        padded = text.rstrip(b"=") + b"=" * (-len(text.rstrip(b"=")) % 4)
        try:
            yield base64.b64decode(padded, altchars=b"-_" if b"-" in text or b"_" in text else None)
        except binascii.Error:
            continue


def contents(server: redis.Redis) -> dict[str, bytes]:
    """Every key with its whole value, as text a search finds everything in."""
    read = {
        b"none": lambda _: None,
        b"string": server.get,
        b"hash": server.hgetall,
        b"list": lambda key: server.lrange(key, 0, -1),
        b"set": server.smembers,
        b"zset": lambda key: server.zrange(key, 0, -1, withscores=True),
        b"stream": server.xrange,
    }
    found = {}
    for key in server.scan_iter("*"):
        value = read[server.type(key)](key)
        if not value:
            continue  # its time was over between two questions
        found[key.decode(errors="replace")] = value if isinstance(value, bytes) else repr(value).encode()
    return found


class Monitor:
    """Every command Redis is sent, with its arguments: messages and events too that nobody ever stores."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 6379))
        if parts.password:
            self._socket.sendall(f"AUTH {parts.password}\r\n".encode())
        self._socket.sendall(b"MONITOR\r\n")
        self._heard = bytearray()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._socket.close()

    @property
    def heard(self) -> bytes:
        return bytes(self._heard)

    def _listen(self) -> None:
        while piece := self._socket.recv(256 * 1024):
            self._heard += piece
