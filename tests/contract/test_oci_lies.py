"""How often the OCI source asks, and that content which is not what it says is never used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lying_registry import (
    BLOB,
    BY_DIGEST,
    DIGEST,
    LAYER,
    MANIFEST,
    REVISION,
    TAG,
    TAGS,
    Handler,
    Route,
    Server,
    client,
    fixed,
    running,
    secret,
    wanted,
)

from fleetbeat.decisions import artifact
from fleetbeat.errors import (
    BundleError,
    DigestMismatch,
    SourceUnavailable,
)
from fleetbeat.model import RegistryAuth, Revision


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Server]:
    with running() as made:
        yield made


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
