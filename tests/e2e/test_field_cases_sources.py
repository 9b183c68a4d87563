"""Many applications on one bundle: the registry hears of them as one, and nobody gets what only others may read."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import lying_registry
import pytest
from fleet import Fleet, config_map
from hostile import blob, honest, manifest_of
from lying_registry import TAG, TAGS, Handler, Route, Server, fixed
from stories import answer_to, doc
from waiting import wait_for

from fleetbeat.decisions import artifact, bundles
from fleetbeat.local.cluster import Cluster

APPS = 24
PAUSE = 4  # seconds the registry wants to be left alone


@pytest.fixture
def server() -> Iterator[Server]:
    with lying_registry.running() as running:
        yield running


def serve(server: Server, value: str) -> bytes:
    content = bundles.pack({"web.yaml": doc(config_map("web", data={"value": value})).encode()})
    manifest = manifest_of([(artifact.LAYER, content)])
    server.routes = honest(content, manifest)
    return content


def applications(fleet: Fleet, cluster: Cluster, server: Server, count: int, **source: Any) -> list[str]:
    names = [fleet.name("many") for _ in range(count)]
    for name in names:
        cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        where = {"oci": f"{server.host}/shop", "tag": "v1"} | source
        fleet.application(name, namespace=name, source=where, retry={"limit": 3, "backoff": {"duration": "1s"}})
    return names


def asked(server: Server) -> Counter[tuple[str, str]]:
    """(method, what) of every request since the last call."""
    found = Counter((method, path.partition("?")[0].rsplit("/", 2)[-2]) for method, path in server.asked)
    server.seen.clear()
    return found


def test_one_look_and_one_pull_serve_all(fleet: Fleet, cluster: Cluster, server: Server) -> None:
    """Field cases g5 and j10. The fleet's looks are shared for 0.2 s here; by default it is 5 s."""
    serve(server, "v1")
    names = applications(fleet, cluster, server, APPS)
    for name in names:
        assert fleet.wait_run(name)["phase"] == "Succeeded"
    first = asked(server)
    assert first["GET", "blobs"] == 1, "who comes while it is being pulled waits for it"
    assert first["GET", "manifests"] == 1
    assert first["HEAD", "manifests"] < APPS

    requests = {name: fleet.request(name) for name in names}
    for name in names:
        assert answer_to(fleet, name, requests[name], 60)["counts"] == {"unchanged": 1}
    assert asked(server)["GET", "blobs"] == 0, "what was pulled is not pulled again"


def test_a_digest_is_never_looked_up(fleet: Fleet, cluster: Cluster, server: Server) -> None:
    """Field case g5."""
    serve(server, "v1")
    digest = next(path for path in server.routes if path.startswith("/manifests/sha256")).removeprefix("/manifests/")
    (name,) = applications(fleet, cluster, server, 1, digest=digest)
    assert fleet.wait_run(name)["phase"] == "Succeeded"
    for _ in range(3):
        assert fleet.sync(name)["counts"] == {"unchanged": 1}
    assert asked(server) == {("GET", "manifests"): 1, ("GET", "blobs"): 1}


def test_throttled_registry_is_left_alone_by_all(fleet: Fleet, cluster: Cluster, server: Server) -> None:
    """Field case g5: one application hears 429 and the others know; nothing is pruned, the state says why."""
    serve(server, "v1")
    names = applications(fleet, cluster, server, 6)
    for name in names:
        fleet.wait_run(name, phase="Succeeded")
    good = dict(server.routes)
    server.routes[TAG] = server.routes[TAGS] = fixed(429, b"slow down", Retry_After=str(PAUSE))
    wait_for(lambda: not fleet.store.redis.keys("fleetbeat:resolved:*"), what="shared looks to expire")
    asked(server)
    position, began = cluster.audit_position(), time.monotonic()
    requests = {name: fleet.request(name) for name in names}
    for name in names:
        wait_for(lambda name=name: fleet.state(name)["reason"] == "SourceThrottled", timeout=60, what="the throttling")
        assert "too many requests" in fleet.state(name)["message"]
        assert fleet.state(name)["sync"] == "Unknown"
    pauses = int((time.monotonic() - began) / PAUSE)
    assert 1 <= sum(asked(server).values()) <= 1 + pauses, "once for all, and again only when the pause is over"
    assert [event for name in names for event in fleet.writes(name, since=position)] == []
    server.routes = good
    for name in names:
        assert answer_to(fleet, name, requests[name], 60)["phase"] == "Succeeded"


def test_a_shared_pull_needs_the_same_login(fleet: Fleet, cluster: Cluster, server: Server) -> None:
    """Field case g8: what one application could pull, one with another password must not get from us."""
    content = serve(server, "private")
    for path, route in list(server.routes.items()):
        server.routes[path] = locked(route)

    def login(password: str) -> dict[str, Any]:
        return {"auth": {"username": "ci", "password": {"inline": password}}}

    (owner,) = applications(fleet, cluster, server, 1, **login("right"))
    assert fleet.wait_run(owner)["phase"] == "Succeeded"
    asked(server)
    (friend,) = applications(fleet, cluster, server, 1, **login("right"))
    assert fleet.wait_run(friend)["phase"] == "Succeeded"
    assert asked(server)["GET", "blobs"] == 0
    (stranger,) = applications(fleet, cluster, server, 1, **login("wrong"))
    wait_for(lambda: fleet.state(stranger).get("reason") == "Unauthorized", timeout=60, what="the stranger's refusal")
    digest = next(path for path in server.routes if path.startswith("/manifests/sha256")).removeprefix("/manifests/")
    (guesser,) = applications(fleet, cluster, server, 1, digest=digest, **login("wrong"))
    assert fleet.wait_run(guesser)["error"] == "Unauthorized", "even who knows the digest"
    assert blob(content) in server.routes


def locked(route: Route) -> Route:
    """Only for user ci with the password right."""

    def guarded(handler: Handler) -> None:
        if handler.headers.get("Authorization") == "Basic Y2k6cmlnaHQ=":
            route(handler)
        else:
            handler.answer(401, WWW_Authenticate='Basic realm="test"')

    return guarded
