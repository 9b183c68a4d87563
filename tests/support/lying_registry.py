"""A registry for tests that serves one good bundle, ``shop:v1``, until a test replaces a route by a lie."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fleetbeat.clients.oci import OciSource
from fleetbeat.decisions import artifact, bundles
from fleetbeat.model import Credential, Revision, SecretText, Source
from fleetbeat.settings import Bundles, Http

LAYER = bundles.pack({"cm.yaml": b"kind: ConfigMap\n" * 100})
MANIFEST = artifact.build(artifact.Descriptor.of(LAYER, artifact.LAYER), {artifact.REVISION: "main@sha1:" + "b" * 40})
DIGEST, LAYER_DIGEST = artifact.digest_of(MANIFEST), artifact.digest_of(LAYER)
REVISION = Revision(DIGEST, "v1")
TAG, BY_DIGEST, BLOB, TAGS = "/manifests/v1", f"/manifests/{DIGEST}", f"/blobs/{LAYER_DIGEST}", "/tags/list"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, self.headers.get("Authorization", "")))
        path = self.path.partition("?")[0].removeprefix("/v2/shop")
        self.server.routes.get(path, missing)(self)

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the base class looks for these names

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        headers.setdefault("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string((time.time() if timestamp is None else timestamp) + self.server.ahead)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


Route = Callable[[Handler], None]


class Server(ThreadingHTTPServer):
    """Serves one good bundle under ``shop:v1``; tests replace routes. ``seen``: method, path, Authorization."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[tuple[str, str, str]] = []
        self.over = threading.Event()
        self.ahead = 0.0  #: seconds its clock is ahead of ours
        self.routes: dict[str, Route] = {
            TAG: fixed(200, MANIFEST, Docker_Content_Digest=DIGEST),
            BY_DIGEST: fixed(200, MANIFEST),
            BLOB: fixed(200, LAYER),
            TAGS: fixed(200, json.dumps({"tags": ["v1"]}).encode()),
        }

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    @property
    def asked(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path, _ in self.seen]

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are what is tested


def fixed(status: int, body: bytes = b"", **headers: str) -> Route:
    return lambda handler: handler.answer(status, body, **headers)


def missing(handler: Handler) -> None:
    handler.answer(404)


@contextlib.contextmanager
def running(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    server = Server()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(60)


def silent(handler: Handler) -> None:
    handler.server.over.wait(300)


def garbage(handler: Handler) -> None:
    handler.wfile.write(b"\x00\x01 not HTTP\r\n\r\n")
    handler.close_connection = True


def client(read: float = 60, total: float = 120) -> OciSource:
    return OciSource(Http(connect=60, read=read, total=total), Bundles(max_layer=1_000_000))


def wanted(server: Server, **fields: Any) -> Source:
    return Source(**{"oci": f"{server.host}/shop", "tag": "v1", "plain_http": True} | fields)


def secret(text: str) -> Credential:
    return Credential(inline=SecretText(text))
