"""The OCI source against a registry that stalls, throttles and breaks."""

from __future__ import annotations

import contextlib
import email.utils
import itertools
import socket
import time
from collections.abc import Iterator

import pytest
from lying_registry import (
    BLOB,
    BY_DIGEST,
    LAYER,
    REVISION,
    TAG,
    TAGS,
    Handler,
    Route,
    Server,
    client,
    fixed,
    garbage,
    running,
    silent,
    wanted,
)

from fleetbeat.clients.oci import OciSource
from fleetbeat.errors import (
    BundleError,
    FleetbeatError,
    SourceNotFound,
    SourceThrottled,
    SourceUnavailable,
    Unauthorized,
)
from fleetbeat.model import Source
from fleetbeat.settings import Bundles, Http


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Server]:
    with running() as made:
        yield made


def dripping(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(100 * len(LAYER)))
    handler.end_headers()
    for byte in itertools.islice(itertools.cycle(LAYER), 100 * len(LAYER)):
        handler.wfile.write(bytes([byte]))
        if handler.server.over.wait(0.05):
            return


def dripping_header(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"x")


@pytest.mark.parametrize(
    ("route", "limits", "word"),
    [
        pytest.param(silent, {"read": 0.5}, "no answer for 0.5 s", id="silent"),
        pytest.param(dripping, {"total": 1}, "not done within 1 s", id="dripping body"),
        pytest.param(dripping_header, {"total": 1}, "not done within 1 s", id="dripping header"),
    ],
)
def test_slow_registry_is_left_in_time(server: Server, route: Route, limits: dict[str, float], word: str) -> None:
    server.routes[BLOB] = route
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match=word):
        client(**limits).pull(wanted(server), REVISION)
    assert time.monotonic() - began < 60, "a drop at a time could go on for ever"


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
    assert 0 < (later.value.retry_after or 0) <= 60
    # A date is by the registry's clock, which need not be ours.
    server.ahead = 3600.0
    server.routes[TAG] = fixed(503, Retry_After=email.utils.formatdate(time.time() + 3660, usegmt=True))
    with pytest.raises(SourceUnavailable) as theirs:
        client().resolve(wanted(server))
    assert 0 < (theirs.value.retry_after or 0) <= 60
    for nonsense in ("soon", "-5", "9" * 30):
        server.routes[TAG] = fixed(429, Retry_After=nonsense)
        with pytest.raises(SourceThrottled) as unclear:
            client().resolve(wanted(server))
        assert unclear.value.retry_after is None


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
