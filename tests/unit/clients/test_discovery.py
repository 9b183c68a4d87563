"""What discovery documents mean, and how often they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fleetbeat.clients import discovery
from fleetbeat.clients.discovery import Discovery, discover
from fleetbeat.errors import ClusterUnavailable
from fleetbeat.model import ApiResource

CORE = {"kind": "APIGroupDiscoveryList", "items": []}


def aggregated(*versions: Mapping[str, Any], group: str = "example.com") -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": group}, "versions": list(versions)}]}


def version(name: str, *kinds: str, freshness: str = "Current") -> dict[str, Any]:
    resources = [
        {"resource": f"{kind.lower()}s", "responseKind": {"group": "", "version": "", "kind": kind}, "scope": "Cluster"}
        for kind in kinds
    ]
    return {"version": name, "freshness": freshness, "resources": resources}


class Server:
    """Documents by path; counts how often it is asked."""

    def __init__(self, **documents: Any) -> None:
        self.documents = {"/api": CORE, "/apis": CORE, "/version": {"gitVersion": "v1.30.2"}}
        self.documents |= {"/" + path: document for path, document in documents.items()}
        self.asked: list[str] = []

    def __call__(self, path: str) -> Mapping[str, Any]:
        self.asked.append(path)
        document = self.documents[path]
        if isinstance(document, Exception):
            raise document
        return dict(document)


def test_first_version_is_the_preferred_one() -> None:
    apis = discover(Server(apis=aggregated(version("v2", "Boat"), version("v1", "Boat", "Oar"))))
    assert apis.resources == (
        ApiResource("example.com", "v2", "Boat", "boats", False, True, has_status=False),
        ApiResource("example.com", "v1", "Boat", "boats", False, False, has_status=False),
        ApiResource("example.com", "v1", "Oar", "oars", False, False, has_status=False),
    )
    assert (apis.complete, apis.version) == (True, "v1.30.2")
    assert apis.find("example.com", "Oar") == apis.resources[2]


def test_what_only_answers_questions_cannot_be_listed() -> None:
    review = version("v1", "Review")
    review["resources"][0]["verbs"] = ["create"]
    boat = version("v2", "Boat")
    boat["resources"][0]["verbs"] = ["create", "list"]
    apis = discover(Server(apis=aggregated(review, boat)))
    assert [resource.listable for resource in apis.resources] == [False, True]


def test_status_subresources_are_seen() -> None:
    """In both forms of discovery: whether a kind reports at all decides what its silence means (field case h1)."""
    boat = version("v1", "Boat")
    boat["resources"][0]["subresources"] = [{"subresource": "scale"}, {"subresource": "status"}]
    assert discover(Server(apis=aggregated(boat))).resources[0].has_status is True
    entries = [
        {"name": name, "kind": kind, "namespaced": True}
        for name, kind in (("boats", "Boat"), ("boats/status", "Boat"), ("oars", "Oar"), ("oars/scale", "Scale"))
    ]
    old = {"api": {"kind": "APIVersions", "versions": ["v1"]}, "apis": {"kind": "APIGroupList", "groups": []}}
    found = discover(Server(**old, **{"api/v1": {"resources": entries}})).resources
    assert [(r.kind, r.has_status) for r in found] == [("Boat", True), ("Oar", False)]


@pytest.mark.parametrize("freshness", ["Stale", "", "SomethingNew"])
def test_anything_but_current_is_incomplete(freshness: str) -> None:
    assert not discover(Server(apis=aggregated(version("v1", freshness=freshness)))).complete


@pytest.mark.parametrize(
    "documents",
    [{"api": {"kind": "Status"}}, {"apis": {}}, {"apis": {"kind": "APIGroup"}}],
    ids=["status", "empty", "other"],
)
def test_unknown_documents_are_incomplete(documents: dict[str, Any]) -> None:
    assert not discover(Server(**documents)).complete


@pytest.mark.parametrize("item", [{}, {"metadata": None}, {"versions": None}, {"metadata": {"name": "x"}}], ids=repr)
def test_sparse_items(item: dict[str, Any]) -> None:
    assert discover(Server(apis={"kind": "APIGroupDiscoveryList", "items": [item]})).resources == ()


def test_resource_without_a_kind_is_left_out() -> None:
    """Subresource-only entries have a null responseKind."""
    broken = {"version": "v1", "resources": [{"resource": "x", "responseKind": None, "scope": "Cluster"}]}
    assert discover(Server(apis=aggregated(broken))).resources == ()


# ── cache ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def asks(cache: Discovery, server: Server, *, refresh: bool = False) -> bool:
    """Did this call reach the server?"""
    before = len(server.asked)
    cache.get(server, refresh=refresh)
    return len(server.asked) > before


def test_kept_for_its_time(clock: Clock) -> None:
    cache, server = Discovery(clock), Server()
    assert asks(cache, server)
    clock.now += discovery.TTL - 1
    assert not asks(cache, server)
    clock.now += 2
    assert asks(cache, server)
    assert server.asked.count("/version") == 1


def test_incomplete_set_is_asked_for_again_soon(clock: Clock) -> None:
    cache, server = Discovery(clock), Server(apis=aggregated(version("v1", freshness="Stale")))
    assert asks(cache, server)
    clock.now += discovery.INCOMPLETE_TTL + 1
    assert asks(cache, server)


def test_refreshes_are_bounded(clock: Clock) -> None:
    """Field case k8."""
    cache, server = Discovery(clock), Server()
    cache.get(server, refresh=False)
    # A kind that another process has just defined is found at once, again and again for a while …
    assert [asks(cache, server, refresh=True) for _ in range(discovery.BURST)] == [True] * discovery.BURST
    # … and a kind that never comes costs one refresh now and then.
    assert not asks(cache, server, refresh=True)
    clock.now += discovery.REFRESH_EVERY + 0.1
    assert asks(cache, server, refresh=True)
    assert not asks(cache, server, refresh=True)


def test_crd_written_here_lifts_the_bound_for_a_while(clock: Clock) -> None:
    """Field case k8."""
    cache, server = Discovery(clock), Server()
    cache.get(server, refresh=False)
    cache.kinds_written()
    clock.now += discovery.REFRESH_EVERY_AFTER_CRD + 0.01
    assert asks(cache, server, refresh=True)
    assert not asks(cache, server, refresh=True)
    for _ in range(2 * discovery.BURST):
        clock.now += discovery.REFRESH_EVERY_AFTER_CRD + 0.01
        assert asks(cache, server, refresh=True)


def test_failure_is_not_kept_and_does_not_bring_back_the_old_set(clock: Clock) -> None:
    cache, server = Discovery(clock), Server()
    cache.get(server, refresh=False)
    clock.now += discovery.TTL + 1
    server.documents["/apis"] = ClusterUnavailable("down")
    for _ in range(2):
        with pytest.raises(ClusterUnavailable):
            cache.get(server, refresh=False)
    server.documents["/apis"] = CORE
    assert asks(cache, server)
