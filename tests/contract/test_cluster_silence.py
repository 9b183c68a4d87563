"""The Kubernetes client and servers that do not answer (field case k1), and what it never lets out. No API server."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import urllib3.exceptions

from fleetbeat.clients import breaker
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.cluster_transport import Transport
from fleetbeat.errors import ClusterUnavailable
from fleetbeat.model import ApiResource, Body, Cluster
from fleetbeat.ports import Absent, Seen
from fleetbeat.settings import Http

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
BODY: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}}
LIVE: Body = {"metadata": {"name": "settings", "namespace": "shop", "uid": "u", "resourceVersion": "7"}}


def connect(url: str) -> KubernetesCluster:
    return KubernetesCluster.connect(Cluster(name="prod", server=url), http=Http(connect=0.5, read=0.5), pool=4)


# ── silence ──────────────────────────────────────────────────────────────────────────────────────────────────────


class BlackHole:
    """Accepts connections and never says a word."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        listening.setblocking(False)
        self.address = f"127.0.0.1:{listening.getsockname()[1]}"

    def knocks(self) -> int:
        """How many connections were made since the last question."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self._listening.accept()[0].close()
                count += 1
        return count


@pytest.fixture
def black_hole() -> Iterator[BlackHole]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield BlackHole(listening)


@pytest.fixture
def full_backlog() -> Iterator[str]:
    """host:port whose queue of new connections is full: SYNs are dropped, as behind a firewall."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
            fillers.append(filler)
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize("scheme", ["http", "https"], ids=["no answer", "no TLS handshake"])
def test_black_hole(black_hole: BlackHole, scheme: str) -> None:
    """Field case k1."""
    url = f"{scheme}://{black_hole.address}"
    with pytest.raises(ClusterUnavailable, match=f"cluster prod at {url}: no answer within 0.5 s"):
        connect(url).get(CONFIG_MAP, "shop", "settings")
    assert black_hole.knocks() == 1, "silence costs its time once"


def test_dropped_packets(full_backlog: str) -> None:
    """Field case k1."""
    kube = connect(f"https://{full_backlog}")
    begin = time.monotonic()
    with pytest.raises(ClusterUnavailable, match=r"no connection within 0\.5 s"):
        kube.apply(CONFIG_MAP, BODY, expect=Absent())
    assert time.monotonic() - begin < 60, "the system itself would try for two minutes"


def test_refused() -> None:
    address = "127.0.0.1:1"
    with pytest.raises(ClusterUnavailable, match=f"at https://{address}: connection refused"):
        connect(f"https://{address}").list(CONFIG_MAP)


def test_unknown_host() -> None:
    with pytest.raises(ClusterUnavailable, match="host name cannot be resolved"):
        connect("https://nowhere.invalid:6443").get(CONFIG_MAP, "shop", "settings")


def test_waiting_for_a_connection_ends(black_hole: BlackHole) -> None:
    """Field case k1. More threads than connections: they queue, and the guard is asked after the queue."""
    kube = connect(f"http://{black_hole.address}")
    slots = kube._transport.connection.slots
    asked: list[int] = []
    for _ in range(4):
        assert slots.acquire(blocking=False)
    with pytest.raises(ClusterUnavailable, match=r"all connections of this process were busy for 0\.5 s"):
        kube.acting("fleetbeat/test", lambda: asked.append(1)).apply(CONFIG_MAP, BODY, expect=Absent())
    assert not asked
    assert black_hole.knocks() == 0
    slots.release(4)
    with pytest.raises(ClusterUnavailable, match="no answer"):
        kube.get(CONFIG_MAP, "shop", "settings")


def test_dead_cluster_costs_waiting_threads_its_timeout_once(
    black_hole: BlackHole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Field case k1."""
    monkeypatch.setattr(breaker, "FIRST_PAUSE", 3600.0)  # a thread that comes late is not the one that tries again
    kube = connect(f"http://{black_hole.address}")

    def ask() -> None:
        with pytest.raises(ClusterUnavailable):
            kube.api_set()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert black_hole.knocks() == 1


# ── nothing foreign comes out ────────────────────────────────────────────────────────────────────────────────────

RAISED = [
    urllib3.exceptions.HTTPError("x"),
    urllib3.exceptions.ProtocolError("x", ConnectionResetError(104, "Connection reset by peer")),
    urllib3.exceptions.SSLError("x"),
    urllib3.exceptions.ProxyError("x", OSError("y")),
    urllib3.exceptions.DecodeError("x"),
    urllib3.exceptions.LocationParseError("x"),
    urllib3.exceptions.IncompleteRead(1, 2),
    urllib3.exceptions.EmptyPoolError(None, "x"),  # type: ignore[arg-type]
    urllib3.exceptions.ReadTimeoutError(None, "/", "x"),  # type: ignore[arg-type]
    OSError(9, "Bad file descriptor"),
    TimeoutError(),
]


@pytest.mark.parametrize("foreign", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("call", ["get", "list", "apply", "create", "replace", "delete", "api_set"])
def test_foreign_exceptions_stop_here(foreign: Exception, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = connect("http://127.0.0.1:1")._transport.connection
    kube = KubernetesCluster(Transport(connection, "fleetbeat/test", sleep=lambda _: None))

    def fail(*_: Any, **__: Any) -> None:
        raise foreign

    monkeypatch.setattr(connection.pool, "urlopen", fail)
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: kube.get(CONFIG_MAP, "shop", "settings"),
        "list": lambda: kube.list(CONFIG_MAP),
        "apply": lambda: kube.apply(CONFIG_MAP, BODY, dry_run=True),
        "create": lambda: kube.create(CONFIG_MAP, BODY),
        "replace": lambda: kube.replace(CONFIG_MAP, LIVE),
        "delete": lambda: kube.delete(CONFIG_MAP, "shop", "settings", seen=Seen("u", "7")),
        "api_set": kube.api_set,
    }
    with pytest.raises(ClusterUnavailable, match=r"cluster prod at http://127\.0\.0\.1:1: ."):
        calls[call]()
