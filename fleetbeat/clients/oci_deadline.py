"""One end for a whole conversation with a registry, however slowly it talks.

Timeouts of a socket count silence: a server that sends a byte of a header every few seconds holds a reader for ever.
So at the deadline a timer shuts the connections down, which wakes whoever waits on them.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection


class Deadline:
    """``seconds`` from now. Call ``cancel`` at the end: from the first connection on a thread waits for it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._timer: threading.Timer | None = None

    def left(self) -> float:
        """Seconds, not positive when it has passed."""
        return self._ends - time.monotonic()

    def watch(self, connection: HTTPConnection) -> None:
        """Shut this connection down at the deadline."""
        if not isinstance(connection.sock, socket.socket):
            return
        with self._lock:
            self._sockets.append(connection.sock)
            if self._timer is None:
                self._timer = threading.Timer(max(self.left(), 0), self._cut)
                self._timer.daemon = True
                self._timer.start()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _cut(self) -> None:
        with self._lock:
            for connection in self._sockets:
                with contextlib.suppress(OSError):  # closed long ago
                    # not SSLSocket's own, which takes the TLS state away from under the reader
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)


class DeadlineAdapter(HTTPAdapter):
    """Connections for a ``requests`` session that end with the deadline; over TLS with ``context`` where given.

    A given context holds its certificates already: ``requests`` would load the public ones for each connection, which
    takes some 20 ms of CPU.
    """

    def __init__(self, deadline: Deadline, context: ssl.SSLContext | None = None) -> None:
        self._deadline = deadline
        self._tls: dict[str, Any] = {} if context is None else {"ssl_context": context}
        super().__init__()

    def init_poolmanager(self, connections: int, maxsize: int, block: bool = False, **options: Any) -> None:
        super().init_poolmanager(connections, maxsize, block, **options, **self._tls)
        self._watched(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **options: Any) -> Any:
        return self._watched(super().proxy_manager_for(proxy, **options, **self._tls))

    def cert_verify(self, conn: Any, url: str, verify: bool | str, cert: Any) -> None:
        if verify is not True or not self._tls:  # a path comes from REQUESTS_CA_BUNDLE and is honoured
            super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]

    def _watched(self, manager: PoolManager) -> PoolManager:
        deadline = self._deadline

        class Plain(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self)

        class Tls(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class TlsPool(HTTPSConnectionPool):
            ConnectionCls = Tls

        manager.pool_classes_by_scheme = {"http": PlainPool, "https": TlsPool}
        return manager
