"""The Kubernetes client against servers that misbehave (field cases k1, k9). No API server needed."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from unhurried import UNHURRIED

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.cluster_transport import Transport
from fleetbeat.errors import ClusterUnavailable, Conflict, FleetbeatError, LostLock, NotYet, Unauthorized
from fleetbeat.model import ApiResource, Body, Cluster, Credential, SecretText
from fleetbeat.ports import Absent, Seen

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
BODY: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "shop"}}
OK = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "settings", "uid": "u", "resourceVersion": "7"}}
TOKEN = "marker-of-the-token"

Reply = Callable[[BaseHTTPRequestHandler], None]


# ── a server that does as it is told ─────────────────────────────────────────────────────────────────────────────


def answer(status: int, body: Any = None, content_type: str = "application/json", **headers: str) -> Reply:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    return reply


def status_object(code: int, reason: str, message: str, **headers: str) -> Reply:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message}
    return answer(code, {**body, "code": code}, **headers)


def reset(handler: BaseHTTPRequestHandler) -> None:
    """RST instead of an answer."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.close_connection = True
    handler.connection.close()


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


def half_an_answer(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"kind":')
    hang_up(handler)


def no_http(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n")
    hang_up(handler)


class Script:
    """Answers in order; the last one again and again. ``seen`` lists the requests that came."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.seen: list[str] = []
        self._lock = threading.Lock()
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with script._lock:
                    script.seen.append(f"{self.command} {self.path}")
                    reply = script.replies.pop(0) if len(script.replies) > 1 else script.replies[0]
                reply(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def script() -> Iterator[Script]:
    running = Script()
    yield running
    running.close()


def connect(url: str, **fields: Any) -> KubernetesCluster:
    token = Credential(inline=SecretText(TOKEN))
    return KubernetesCluster.connect(Cluster(name="prod", server=url, token=token, **fields), http=UNHURRIED, pool=4)


class Pauses(list[float]):
    """Stands in for ``time.sleep``."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def impatient(script: Script, guard: Callable[[], None] | None = None) -> tuple[KubernetesCluster, Pauses]:
    pauses = Pauses()
    connection = connect(script.url)._transport.connection
    return KubernetesCluster(Transport(connection, "fleetbeat/test", guard, sleep=pauses)), pauses


# ── passing failures ─────────────────────────────────────────────────────────────────────────────────────────────

PASSING = {
    "429": status_object(429, "TooManyRequests", "too many requests"),
    "429 in plain text": answer(429, b"Too many requests, please try again later.", "text/plain", Audit_Id="1"),
    "503": status_object(503, "ServiceUnavailable", "apiserver not ready"),
    "etcd leader change": status_object(500, "InternalError", "etcdserver: leader changed"),
    "reset": reset,
    "hang-up": hang_up,
}
PASSING_FOR_READS = {
    "500": status_object(500, "InternalError", "oops"),
    "502 of a proxy": answer(502, b"<html>bad gateway</html>", "text/html"),
}


@pytest.mark.parametrize("failure", {**PASSING, **PASSING_FOR_READS}.values(), ids={**PASSING, **PASSING_FOR_READS})
def test_reads_outlive_two_failures(script: Script, failure: Reply) -> None:
    """Field case k9."""
    script.replies = [failure, failure, answer(200, OK)]
    kube, pauses = impatient(script)
    assert kube.get(CONFIG_MAP, "shop", "settings") == OK
    assert len(script.seen) == 3
    assert len(pauses) == 2
    assert 0 < sum(pauses) < 1


@pytest.mark.parametrize("failure", PASSING.values(), ids=PASSING)
def test_writes_outlive_two_failures_and_ask_the_guard_each_time(script: Script, failure: Reply) -> None:
    """Field case k9. Safe because the write says what it expects: done twice, the second one is a conflict."""
    script.replies = [failure, failure, answer(201, OK, Audit_Id="a-1")]
    asked: list[int] = []
    kube, _ = impatient(script, guard=lambda: asked.append(1))
    assert kube.apply(CONFIG_MAP, BODY, expect=Absent()).audit_id == "a-1"
    assert (len(script.seen), len(asked)) == (3, 3)


def test_lock_lost_between_two_attempts_stops_the_second(script: Script) -> None:
    script.replies = [PASSING["503"]]
    asked: list[int] = []

    def guard() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise LostLock("taken over")

    kube, _ = impatient(script, guard)
    with pytest.raises(LostLock):
        kube.apply(CONFIG_MAP, BODY, expect=Absent())
    assert len(script.seen) == 1


def test_attempts_end(script: Script) -> None:
    script.replies = [PASSING["503"]]
    kube, _ = impatient(script)
    with pytest.raises(ClusterUnavailable, match=r"ConfigMap shop/settings: get answered 503 .*apiserver not ready"):
        kube.get(CONFIG_MAP, "shop", "settings")
    assert len(script.seen) == 3


def test_retry_after_is_honoured_within_the_budget(script: Script) -> None:
    script.replies = [status_object(429, "TooManyRequests", "slow down", Retry_After="1"), answer(200, OK)]
    kube, pauses = impatient(script)
    kube.get(CONFIG_MAP, "shop", "settings")
    assert pauses == [1.0]


def test_long_retry_after_is_handed_to_the_caller(script: Script) -> None:
    script.replies = [status_object(429, "TooManyRequests", "slow down", Retry_After="30")]
    kube, pauses = impatient(script)
    with pytest.raises(ClusterUnavailable) as caught:
        kube.apply(CONFIG_MAP, BODY, expect=Absent())
    assert caught.value.retry_after == 30
    assert (len(script.seen), len(pauses)) == (1, 0)


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (status_object(500, "InternalError", "oops"), ClusterUnavailable),
        (status_object(504, "Timeout", "request did not complete"), ClusterUnavailable),
        (status_object(500, "InternalError", 'failed calling webhook "a.b": no endpoints'), NotYet),
        (status_object(409, "Conflict", "the object has been modified"), Conflict),
        (status_object(401, "Unauthorized", "Unauthorized"), Unauthorized),
    ],
    ids=["500", "504", "dead webhook", "conflict", "401"],
)
def test_writes_are_not_repeated_for(script: Script, failure: Reply, error: type[FleetbeatError]) -> None:
    script.replies = [failure]
    kube, _ = impatient(script)
    with pytest.raises(error):
        kube.apply(CONFIG_MAP, BODY, expect=Seen("u", "7"))
    assert len(script.seen) == 1


# ── answers that are none ────────────────────────────────────────────────────────────────────────────────────────

NONSENSE = {
    "load balancer's 404": (answer(404, b"404 page not found\n", "text/plain"), "not an API server's answer"),
    "login page": (answer(200, b"<html>log in</html>", "text/html"), "not a JSON object"),
    "JSON list": (answer(200, []), "not a JSON object"),
    "redirect": (answer(302, b"", Location="http://127.0.0.1:1/", Audit_Id="1"), "a redirect"),
    "half an answer": (half_an_answer, "closed before a whole answer"),
    "another protocol": (no_http, "cluster prod at http://127"),
    "bad gateway page": (answer(502, b"<html>x</html>", "text/html"), "answered 502"),
}


@pytest.mark.parametrize(("reply", "text"), NONSENSE.values(), ids=NONSENSE)
@pytest.mark.parametrize("call", ["get", "list", "apply", "api_set", "delete"])
def test_nonsense_is_neither_absence_nor_success(script: Script, reply: Reply, text: str, call: str) -> None:
    script.replies = [reply]
    kube, _ = impatient(script)
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: kube.get(CONFIG_MAP, "shop", "settings"),
        "list": lambda: kube.list(CONFIG_MAP),
        "apply": lambda: kube.apply(CONFIG_MAP, BODY, expect=Absent()),
        "api_set": kube.api_set,
        "delete": lambda: kube.delete(CONFIG_MAP, "shop", "settings", seen=Seen("u", "7")),
    }
    with pytest.raises(ClusterUnavailable, match=text) as caught:
        calls[call]()
    assert TOKEN not in str(caught.value)
    assert "<html>" not in str(caught.value)


def test_plain_http_behind_https(script: Script) -> None:
    script.replies = [answer(200, OK)]
    with pytest.raises(ClusterUnavailable, match=r"TLS: "):
        connect(script.url.replace("http:", "https:")).get(CONFIG_MAP, "shop", "settings")


# ── lists that break off ─────────────────────────────────────────────────────────────────────────────────────────


def page(*names: str, following: str = "") -> Reply:
    items = [{"metadata": {"name": name}} for name in names]
    return answer(200, {"kind": "ConfigMapList", "metadata": {"continue": following}, "items": items})


EXPIRED = status_object(410, "Expired", "The provided continue parameter is too old")


def test_expired_list_begins_again_once(script: Script) -> None:
    """Field case k9."""
    script.replies = [page("a", following="x"), EXPIRED, page("a", "b", following="y"), page("c")]
    kube, _ = impatient(script)
    assert [item["metadata"]["name"] for item in kube.list(CONFIG_MAP)] == ["a", "b", "c"]
    assert ["continue" in request for request in script.seen] == [False, True, False, True]


def test_list_that_expires_twice_is_an_error_and_never_a_part(script: Script) -> None:
    """Field case k9."""
    script.replies = [page("a", following="x"), EXPIRED, page("a", following="y"), EXPIRED]
    kube, _ = impatient(script)
    with pytest.raises(ClusterUnavailable, match="list expired"):
        kube.list(CONFIG_MAP)


@pytest.mark.parametrize(
    "failure",
    [reset, half_an_answer, status_object(503, "ServiceUnavailable", "x"), status_object(404, "NotFound", "x")],
    ids=["reset", "half", "503", "404"],
)
def test_list_that_breaks_off_is_an_error_and_never_a_part(script: Script, failure: Reply) -> None:
    """Field case k9."""
    script.replies = [page("a", following="x"), failure]
    kube, _ = impatient(script)
    with pytest.raises(FleetbeatError):
        kube.list(CONFIG_MAP)


# ── discovery ────────────────────────────────────────────────────────────────────────────────────────────────────


def groups(freshness: str) -> Reply:
    version = {"version": "v1", "freshness": freshness, "resources": []}
    items = [{"metadata": {"name": "a.example.com"}, "versions": [version]}]
    return answer(200, {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items})


VERSION = answer(200, {"gitVersion": "v1.36.1-eks"})


def test_stale_group_makes_the_set_incomplete(script: Script) -> None:
    script.replies = [groups("Current"), groups("Stale"), VERSION]
    apis = impatient(script)[0].api_set()
    assert (apis.complete, apis.version) == (False, "v1.36.1-eks")


def test_group_version_that_fails_makes_the_set_incomplete(script: Script) -> None:
    listing = answer(200, {"kind": "APIResourceList", "resources": []})
    group = {"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1", "version": "v1"}]}
    dead = status_object(503, "ServiceUnavailable", "the server is currently unable to handle the request")
    script.replies = [
        answer(200, {"kind": "APIVersions", "versions": ["v1"]}),
        listing,
        answer(200, {"kind": "APIGroupList", "groups": [group]}),
        dead,
        dead,
        dead,
        VERSION,
    ]
    assert not impatient(script)[0].api_set().complete


def test_discovery_that_fails_is_an_error(script: Script) -> None:
    script.replies = [groups("Current"), answer(503, {}, Audit_Id="1")]
    with pytest.raises(ClusterUnavailable):
        impatient(script)[0].api_set()


def test_threads_share_one_discovery(script: Script) -> None:
    script.replies = [groups("Current"), groups("Current"), VERSION]
    kube, _ = impatient(script)
    threads = [threading.Thread(target=kube.api_set) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(script.seen) == 3
