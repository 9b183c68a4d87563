"""Rights per namespace: what is asked where, and that nothing out of sight counts as absent."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from fleetbeat.clients.refused_lists import RefusedLists
from fleetbeat.errors import ClusterUnavailable, Unauthorized
from fleetbeat.model import CONFIG_MAP, Body


class Server:
    """Lists what is in the namespaces that are open ("" = in all at once), and counts."""

    def __init__(self, *open_: str, there: Collection[str] = ("a", "b")) -> None:
        self.open, self.there = set(open_), set(there)
        self.asked: list[str] = []
        self.down = False
        self.time = 0.0
        self.refusals = RefusedLists(lambda: self.time)

    def ask(self, namespace: str) -> list[Body]:
        self.asked.append(namespace or "*")
        if self.down:
            raise ClusterUnavailable("connection refused")
        if namespace not in self.open:
            raise Unauthorized(f"forbidden in {namespace or 'all'}")
        return [{"in": name} for name in sorted(self.there) if namespace in ("", name)]

    def list(self, *namespaces: str) -> list[str]:
        """Where objects were found. ``asked`` is of this list alone."""
        self.asked.clear()
        found = self.refusals.listed(self.ask, CONFIG_MAP, namespaces, lambda name: name not in self.there)
        return [body["in"] for body in found]


def test_one_request_where_all_may_be_listed() -> None:
    server = Server("", there="abc")
    assert server.list("a") == ["a", "b", "c"]
    assert server.asked == ["*"]


def test_a_refusal_is_remembered_for_a_minute() -> None:
    server = Server("a", "b")
    assert server.list("b", "a") == ["a", "b"]
    assert server.asked == ["*", "a", "b"]
    assert server.list("a") == ["a"]
    assert server.asked == ["a"]
    server.time = 60.0
    assert server.list("a") == ["a"]
    assert server.asked == ["*", "a"]


def test_what_may_not_be_seen_is_not_absent() -> None:
    server = Server("a")
    for _ in range(2):  # the second time the refusal is remembered
        with pytest.raises(Unauthorized, match="forbidden in b"):
            server.list("a", "b")
        assert server.asked[-1] in ("b", "*")


def test_a_namespace_that_is_gone_takes_its_rights_along() -> None:
    assert Server("a", there="a").list("a", "b") == ["a"]


def test_a_right_to_everything_that_comes_late_is_used_at_once() -> None:
    server = Server()
    with pytest.raises(Unauthorized):
        server.list("a")
    server.open = {""}
    assert server.list("a") == ["a", "b"]
    assert server.asked == ["a", "*"]
    assert server.list("a") == ["a", "b"]
    assert server.asked == ["*"]


def test_an_outage_is_no_refusal() -> None:
    server = Server("a")
    server.down = True
    with pytest.raises(ClusterUnavailable):
        server.list("a")
    assert server.asked == ["*"]
    server.down = False
    assert server.list("a") == ["a"]
    assert server.asked == ["*", "a"]
