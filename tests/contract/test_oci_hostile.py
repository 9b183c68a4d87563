"""The OCI source against a registry that lies, stalls, throttles and sends us elsewhere."""

from __future__ import annotations

import base64
import contextlib
import email.utils
import json
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleetbeat.clients.oci import OciSource
from fleetbeat.clients.oci_push import push
from fleetbeat.decisions import artifact, bundles
from fleetbeat.errors import (
    BundleError,
    ConfigurationError,
    DigestMismatch,
    FleetbeatError,
    SourceNotFound,
    SourceThrottled,
    SourceUnavailable,
    Unauthorized,
)
from fleetbeat.model import Credential, RegistryAuth, Revision, SecretText, Source
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
def running() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Server]:
    with running() as made:
        yield made


def client(read: float = 5, total: float = 10) -> OciSource:
    return OciSource(Http(connect=2, read=read, total=total), Bundles(max_layer=1_000_000))


def wanted(server: Server, **fields: Any) -> Source:
    return Source(**{"oci": f"{server.host}/shop", "tag": "v1", "plain_http": True} | fields)


def secret(text: str) -> Credential:
    return Credential(inline=SecretText(text))


# ── how many requests ────────────────────────────────────────────────────────────────────────────────────────────


def test_requests_of_a_look_and_a_pull(server: Server) -> None:
    """Field case g5: a tag is one HEAD, a digest no request, a pull one GET each for manifest and layer."""
    assert client().resolve(wanted(server)) == REVISION
    assert server.asked == [("HEAD", "/v2/shop/manifests/v1")]
    server.seen.clear()
    assert client().resolve(wanted(server, digest=DIGEST)) == Revision(DIGEST)
    assert server.asked == []
    assert client().pull(wanted(server), REVISION).layer == LAYER
    assert server.asked == [("GET", "/v2/shop" + BY_DIGEST), ("GET", "/v2/shop" + BLOB)]


@pytest.mark.parametrize("head", [fixed(200, MANIFEST), fixed(200, MANIFEST, Docker_Content_Digest="md5:1"), None])
def test_registry_that_tells_no_digest(server: Server, head: Route | None) -> None:
    """Field case g5."""

    def route(handler: Handler) -> None:
        ((head if handler.command == "HEAD" else None) or fixed(200 if handler.command == "GET" else 405, MANIFEST))(
            handler
        )

    server.routes[TAG] = route
    assert client().resolve(wanted(server)) == REVISION
    assert [method for method, _ in server.asked] == ["HEAD", "GET"]


def test_pages_of_tags(server: Server) -> None:
    def page(handler: Handler) -> None:
        if "last=" in handler.path:
            return handler.answer(200, b'{"tags": ["1.10.0", null, "-bad"]}')
        link = '</v2/shop/tags/list?last=1.9.0&n=1000>; rel="next"'
        return handler.answer(200, b'{"tags": ["1.9.0", "latest"]}', Link=link)

    server.routes[TAGS] = page
    server.routes["/manifests/1.10.0"] = server.routes[TAG]
    assert client().resolve(wanted(server, semver="1.x")) == Revision(DIGEST, "1.10.0")


def test_next_page_on_another_host_is_not_followed(server: Server, other: Server) -> None:
    link = f'<http://{other.host}/v2/shop/tags/list>; rel="next"'
    server.routes[TAGS] = fixed(200, b'{"tags": []}', Link=link)
    with pytest.raises(BundleError, match="on another host"):
        client().resolve(wanted(server, semver="*", auth=RegistryAuth(token=secret("tok-1"))))
    assert other.seen == []


# ── content that is not what it says ─────────────────────────────────────────────────────────────────────────────


def chunked(*pieces: bytes) -> Route:
    """A body without Content-Length."""

    def route(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for piece in (*pieces, b""):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    return route


ALTERED = bytes([*LAYER[:-1], LAYER[-1] ^ 1])


@pytest.mark.parametrize(
    ("path", "route"),
    [
        pytest.param(BY_DIGEST, fixed(200, MANIFEST + b" "), id="manifest altered"),
        pytest.param(BY_DIGEST, fixed(200, b"{}"), id="another manifest"),
        pytest.param(BLOB, fixed(200, ALTERED), id="layer altered"),
        pytest.param(BLOB, fixed(200, LAYER[:-1]), id="layer shorter"),
        pytest.param(BLOB, fixed(200, LAYER + b"x"), id="layer longer"),
        pytest.param(BLOB, fixed(200, b""), id="layer empty"),
        pytest.param(BLOB, chunked(LAYER, b"x" * 100_000), id="layer longer, chunked"),
        pytest.param(BLOB, chunked(LAYER[:10], LAYER[10:-1]), id="layer shorter, chunked"),
    ],
)
def test_content_with_another_digest_or_size(server: Server, path: str, route: Route) -> None:
    """Field case g4."""
    server.routes[path] = route
    with pytest.raises(DigestMismatch):
        client().pull(wanted(server), REVISION)


def test_chunked_content_is_fine(server: Server) -> None:
    server.routes[BLOB] = chunked(LAYER[:10], LAYER[10:])
    assert client().pull(wanted(server), REVISION).layer == LAYER


def test_endless_layer_is_left_at_its_size(server: Server) -> None:
    """Field case g4."""
    sent = []

    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        while not server.over.is_set():
            handler.wfile.write(b"x" * 65536)
            sent.append(65536)

    server.routes[BLOB] = endless
    with pytest.raises(DigestMismatch, match="longer than the announced"):
        client().pull(wanted(server), REVISION)
    assert sum(sent) < 50_000_000, "what the sockets' buffers hold"


def test_endless_manifest(server: Server) -> None:
    server.routes[BY_DIGEST] = fixed(200, b" " * (artifact.MAX_MANIFEST + 1))
    with pytest.raises(BundleError, match="more than 4194304 bytes"):
        client().pull(wanted(server), REVISION)


def test_connection_that_breaks_off_is_worth_another_try(server: Server) -> None:
    def half(handler: Handler) -> None:
        handler.answer(200, LAYER[:50], Content_Length=str(len(LAYER)))
        handler.close_connection = True

    server.routes[BLOB] = half
    with pytest.raises(SourceUnavailable):
        client().pull(wanted(server), REVISION)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def silent(handler: Handler) -> None:
    handler.server.over.wait(20)


def dripping(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(LAYER)))
    handler.end_headers()
    for byte in LAYER:
        handler.wfile.write(bytes([byte]))
        if handler.server.over.wait(0.05):
            return


def dripping_header(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"x")


@pytest.mark.parametrize(
    ("route", "word"),
    [
        pytest.param(silent, "no answer for 0.5 s", id="silent"),
        pytest.param(dripping, "not done within 1 s", id="dripping body"),
        pytest.param(dripping_header, "not done within 1 s", id="dripping header"),
    ],
)
def test_slow_registry_is_left_in_time(server: Server, route: Route, word: str) -> None:
    server.routes[BLOB] = route
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match=word):
        client(read=0.5, total=1).pull(wanted(server), REVISION)
    assert time.monotonic() - began < 3


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        place = f"127.0.0.1:{taken.getsockname()[1]}/shop"
        with pytest.raises(SourceUnavailable, match="connection refused"):
            client().resolve(Source(place, tag="v1", plain_http=True))


def test_black_hole() -> None:
    """A full accept queue drops further connection attempts, as a firewall does."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        place = f"127.0.0.1:{listening.getsockname()[1]}/shop"
        black = OciSource(Http(connect=0.3, read=0.3, total=5), Bundles())
        with pytest.raises(SourceUnavailable, match=r"no connection within 0\.3 s|no answer for 0\.3 s"):
            black.resolve(Source(place, tag="v1", plain_http=True))


def test_unknown_host() -> None:
    with pytest.raises(SourceUnavailable, match="host name is not known"):
        client().resolve(Source("registry.invalid/shop", tag="v1"))


# ── statuses ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BundleError),
        (401, Unauthorized),
        (403, Unauthorized),
        (404, SourceNotFound),
        (418, BundleError),
        (429, SourceThrottled),
        (500, SourceUnavailable),
        (502, SourceUnavailable),
        (503, SourceUnavailable),
    ],
)
@pytest.mark.parametrize(
    ("path", "pull"), [(TAG, False), (BY_DIGEST, True), (BLOB, True)], ids=["look", "manifest", "layer"]
)
def test_status(server: Server, path: str, pull: bool, status: int, error: type[FleetbeatError]) -> None:
    server.routes[path] = fixed(status, b'{"errors": []}')
    with pytest.raises(error, match=f"{server.host}/shop") as caught:
        client().pull(wanted(server), REVISION) if pull else client().resolve(wanted(server))
    assert type(caught.value) is error
    assert len(server.seen) == (1 if path != BLOB else 2), "no retries of our own: the run's back-off is the one policy"


def test_retry_after(server: Server) -> None:
    """Field case g5."""
    server.routes[TAG] = fixed(429, Retry_After="30")
    with pytest.raises(SourceThrottled) as caught:
        client().resolve(wanted(server))
    assert caught.value.retry_after == 30
    server.routes[TAG] = fixed(503, Retry_After=email.utils.formatdate(time.time() + 60, usegmt=True))
    with pytest.raises(SourceUnavailable) as later:
        client().resolve(wanted(server))
    assert 50 < (later.value.retry_after or 0) <= 60
    for nonsense in ("soon", "-5", "9" * 30):
        server.routes[TAG] = fixed(429, Retry_After=nonsense)
        with pytest.raises(SourceThrottled) as unclear:
            client().resolve(wanted(server))
        assert unclear.value.retry_after is None


def garbage(handler: Handler) -> None:
    handler.wfile.write(b"\x00\x01 not HTTP\r\n\r\n")
    handler.close_connection = True


@pytest.mark.parametrize(
    "route",
    [
        pytest.param(garbage, id="garbage"),
        pytest.param(fixed(302, Location="/v2/shop/manifests/v1"), id="redirect to itself"),
        pytest.param(fixed(302, Location="gopher://x/"), id="redirect to another scheme"),
        pytest.param(fixed(302, Location="http://[bad/"), id="redirect to no URL"),
        pytest.param(fixed(302), id="redirect to nowhere"),
    ],
)
def test_foreign_exceptions_stop_here(server: Server, route: Route) -> None:
    server.routes[TAG] = route
    with pytest.raises(FleetbeatError) as caught:
        client().resolve(wanted(server))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"tags": {"a": 1}}', b"[" * 100_000, b"\xff"])
def test_list_of_tags_that_is_none(server: Server, body: bytes) -> None:
    server.routes[TAGS] = fixed(200, body)
    with pytest.raises(BundleError):
        client().resolve(wanted(server, semver="*"))


# ── credentials ──────────────────────────────────────────────────────────────────────────────────────────────────


def needs(*accepted: str, challenge: str) -> Callable[[Route], Route]:
    """A route behind a login: one of the Authorization values, else 401 with the challenge."""

    def around(route: Route) -> Route:
        def guarded(handler: Handler) -> None:
            if handler.headers.get("Authorization", "") in accepted:
                return route(handler)
            return handler.answer(401, WWW_Authenticate=challenge)

        return guarded

    return around


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ANN = RegistryAuth(username="ann", password=secret("hunter2"))


@pytest.mark.parametrize("auth", [RegistryAuth(), ANN], ids=["anonymous", "user"])
def test_token_dance(server: Server, other: Server, auth: RegistryAuth) -> None:
    """Field case g8: the token server gets the password, the registry only the token."""
    challenge = f'Bearer realm="http://{other.host}/token",service="reg",scope="repository:shop:pull"'
    server.routes[TAG] = needs("Bearer tok-1", challenge=challenge)(server.routes[TAG])
    other.routes["/token"] = fixed(200, b'{"token": "tok-1", "expires_in": 10}')
    assert client().resolve(wanted(server, auth=auth)).digest == DIGEST
    assert [sent for *_, sent in server.seen] == ["", "Bearer tok-1"]
    expected = basic("ann", "hunter2") if auth.username else ""
    assert other.seen == [("GET", "/token?service=reg&scope=repository%3Ashop%3Apull", expected)]


def test_token_that_expires_during_a_pull_is_renewed_once(server: Server) -> None:
    """Field case g8."""
    issued: list[str] = []

    def issue(handler: Handler) -> None:
        issued.append(f"tok-{len(issued) + 1}")
        handler.answer(200, json.dumps({"access_token": issued[-1]}).encode())

    server.routes["/token"] = issue
    challenge = f'Bearer realm="http://{server.host}/v2/shop/token"'
    for path, token in ((BY_DIGEST, "Bearer tok-1"), (BLOB, "Bearer tok-2")):
        server.routes[path] = needs(token, challenge=challenge)(server.routes[path])
    assert client().pull(wanted(server), REVISION).layer == LAYER
    assert issued == ["tok-1", "tok-2"]
    issued.clear()
    server.routes[BLOB] = needs(challenge=challenge)(missing)
    with pytest.raises(Unauthorized):
        client().pull(wanted(server), REVISION)
    assert issued == ["tok-1", "tok-2"], "one for the manifest, one more for the layer, then it is an error"


@pytest.mark.parametrize("auth", [ANN, RegistryAuth(token=secret("tok-own"))], ids=["password", "token"])
def test_refused_credential_is_asked_for_once(server: Server, auth: RegistryAuth) -> None:
    """Field case g8."""
    server.routes[TAG] = needs(challenge='Basic realm="r"')(missing)
    with pytest.raises(Unauthorized, match=f"{server.host}/shop"):
        client().resolve(wanted(server, auth=auth))
    assert len(server.seen) <= 2


def test_basic_beside_other_challenges(server: Server) -> None:
    challenge = 'Negotiate, Basic realm="a, b", charset="UTF-8"'
    server.routes[TAG] = needs(basic("ann", "hunter2"), challenge=challenge)(server.routes[TAG])
    assert client().resolve(wanted(server, auth=ANN)).digest == DIGEST


@pytest.mark.parametrize(
    ("route", "error"),
    [
        (fixed(401), Unauthorized),
        (fixed(403), Unauthorized),
        (fixed(404), SourceUnavailable),
        (fixed(429, Retry_After="7"), SourceThrottled),
        (fixed(503), SourceUnavailable),
        (fixed(200, b"{}"), SourceUnavailable),
        (fixed(200, b"no"), SourceUnavailable),
        (fixed(200, b'{"token": "a b"}'), ConfigurationError),
        (fixed(302, Location="http://127.0.0.1:1/"), FleetbeatError),
    ],
    ids=["401", "403", "404", "429", "503", "no token", "no JSON", "no header value", "redirect"],
)
def test_token_server_that_fails(server: Server, route: Route, error: type[FleetbeatError]) -> None:
    server.routes[TAG] = needs(challenge=f'Bearer realm="http://{server.host}/v2/shop/token"')(missing)
    server.routes["/token"] = route
    with pytest.raises(error):
        client().resolve(wanted(server, auth=ANN))


@pytest.mark.parametrize("realm", ["", "ftp://x/token", "http://user:pw@x/token", "/token"])
def test_token_server_that_is_none(server: Server, realm: str) -> None:
    server.routes[TAG] = needs(challenge=f'Bearer realm="{realm}"')(missing)
    with pytest.raises(Unauthorized, match="names no usable token server"):
        client().resolve(wanted(server, auth=ANN))


def test_redirected_blob_goes_without_the_login(server: Server, other: Server) -> None:
    """Registries keep blobs in storage elsewhere; its URLs are signed and the registry's login is not for it."""
    other.routes["/storage/blob"] = fixed(200, LAYER)
    server.routes[BLOB] = fixed(307, Location=f"http://{other.host}/storage/blob?signature=abc")
    auth = RegistryAuth(token=secret("tok-1"))
    assert client().pull(wanted(server, auth=auth), REVISION).layer == LAYER
    assert {sent for *_, sent in server.seen} == {"Bearer tok-1"}
    assert other.seen == [("GET", "/storage/blob?signature=abc", "")]
    other.routes["/storage/blob"] = silent
    with pytest.raises(SourceUnavailable) as caught:
        client(read=0.3).pull(wanted(server, auth=auth), REVISION)
    assert "abc" not in str(caught.value), "a signed URL is a credential"


def test_netrc_is_not_read(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.routes[BLOB] = fixed(307, Location="/v2/shop/moved")
    server.routes["/moved"] = fixed(200, LAYER)
    client().pull(wanted(server), REVISION)
    assert {sent for *_, sent in server.seen} == {""}


@pytest.mark.parametrize(
    "route", [silent, garbage, fixed(401), fixed(403), fixed(500)], ids=["silent", "garbage", "401", "403", "500"]
)
@pytest.mark.parametrize("auth", [ANN, RegistryAuth(token=secret("hunter2"))], ids=["password", "token"])
def test_no_secret_in_any_error(server: Server, auth: RegistryAuth, route: Route) -> None:
    """Field case l9: not in the text, and not in a traceback with local variables either."""
    challenge = f'Bearer realm="http://{server.host}/v2/shop/token"'
    server.routes[TAG] = needs(challenge=challenge)(missing)
    server.routes["/token"] = route
    source = wanted(server, auth=auth)
    with pytest.raises(FleetbeatError) as caught:
        client(read=0.3).resolve(source)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    encoded = base64.b64encode(b"ann:hunter2").decode()
    assert "hunter2" not in shown + repr(source)
    assert encoded not in shown


def test_multiline_token_is_refused_without_repeating_it(server: Server) -> None:
    with pytest.raises(ConfigurationError) as caught:
        client().resolve(wanted(server, auth=RegistryAuth(token=secret("hunter2\r\nX-Evil: 1"))))
    assert "hunter2" not in str(caught.value)


def test_upload_elsewhere_goes_without_the_login(server: Server, other: Server, tmp_path: Path) -> None:
    (tmp_path / "cm.yaml").write_text("kind: ConfigMap\n")
    server.routes["/blobs/uploads/"] = fixed(202, Location=f"http://{other.host}/upload?state=1")
    server.routes["/manifests/v2"] = fixed(201)
    other.routes["/upload"] = fixed(201)
    auth = RegistryAuth(token=secret("tok-1"))
    pushed = push(tmp_path, f"{server.host}/shop:v2", auth=auth, plain_http=True)
    assert pushed.tag == "v2"
    assert {method for method, *_ in other.seen} == {"PUT"}
    assert {sent for *_, sent in other.seen} == {""}
    assert all("&digest=sha256:" in path for _, path, _ in other.seen)
