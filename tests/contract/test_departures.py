"""Applications that leave the catalog with their objects: seen once, sealed, forgotten when they are back."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fleetbeat import keys
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.departures import Departures
from fleetbeat.clients.store import Store
from fleetbeat.errors import ConfigurationError, StoreUnavailable

KEY = bytes(range(32))
Documents = dict[str, dict[str, Any]]


def application(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name},
        "spec": {
            "source": {"oci": "registry.example.com/shop", "tag": "stable"},
            "destination": {"cluster": "prod", "namespace": name},
            **spec,
        },
    }


def cluster(name: str, token: str = "token-marker") -> dict[str, Any]:  # noqa: S107
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"server": "https://192.0.2.1:6443", "token": {"inline": token}},
    }


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, KEY)


@pytest.fixture
def catalogs(store: Store) -> Catalogs:
    return Catalogs(store)


@pytest.fixture
def departures(store: Store) -> Departures:
    return Departures(store)


def fleet(*names: str, policy: str = "Delete") -> Documents:
    found = {f"Application/{name}": application(name, deletionPolicy=policy) for name in names}
    return found | {"Cluster/prod": cluster("prod")}


def without(found: Documents, *names: str) -> Documents:
    return {entry: body for entry, body in found.items() if entry.removeprefix("Application/") not in names}


def test_one_that_says_delete_departs_with_its_last_document_and_its_cluster(catalogs, departures) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    catalogs.publish(without(fleet("shop", "blog"), "shop"), "d2")
    assert catalogs.status().departing == ("shop",)
    assert catalogs.application("shop") is None
    found = departures.get("shop")
    assert (found.application.name, found.application.deletion_policy, found.cluster.name) == ("shop", "Delete", "prod")
    assert abs(found.since - catalogs.status().at) < 1000
    assert (found.held, found.go, found.confirmed, found.skip_hooks) == ("", False, False, False)
    assert departures.get("blog") is None


def test_one_that_says_orphan_or_nothing_does_not(catalogs, store) -> None:
    catalogs.publish(fleet("shop", policy="Orphan") | {"Application/blog": application("blog")}, "d1")
    catalogs.publish({"Cluster/prod": cluster("prod")}, "d2")
    assert catalogs.status().departing == ()
    assert not store.redis.exists(keys.DEPARTING)


def test_its_cluster_may_leave_with_it_and_its_credentials_may_change(catalogs, departures) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    catalogs.publish({"Cluster/other": cluster("other")}, "d2")
    found = departures.get("shop")
    assert found.cluster.token.inline.reveal() == "token-marker"
    catalogs.publish({"Cluster/prod": cluster("prod", token="rotated")}, "d3")
    again = departures.get("shop")
    assert again.cluster.token.inline.reveal() == "rotated"
    assert again.spec != found.spec


def test_two_publishers_of_the_same_change_are_one(catalogs, departures, store) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    rest = without(fleet("shop", "blog"), "shop")
    catalogs.publish(rest, "d2")
    first = departures.get("shop")
    departures.note("shop", confirmed=True)
    Catalogs(store).publish(rest, "d2")
    second = departures.get("shop")
    assert (second.since, second.go, second.confirmed) == (first.since, True, True)


def test_one_that_is_back_departs_no_more_and_nothing_is_remembered_for_the_next_time(catalogs, departures) -> None:
    whole = fleet("shop", "blog")
    catalogs.publish(whole, "d1")
    catalogs.publish(without(whole, "shop"), "d2")
    departures.note("shop", confirmed=True, skip_hooks=True)
    catalogs.publish(whole, "d1")
    assert departures.get("shop") is None
    assert departures.held() == {}
    catalogs.publish(without(whole, "shop"), "d2")
    found = departures.get("shop")
    assert (found.go, found.confirmed, found.skip_hooks) == (False, False, False)


def test_most_of_a_catalog_at_once_is_held_until_a_person_says_so(catalogs, departures) -> None:
    names = ("a", "b", "c", "d", "e", "f")
    catalogs.publish(fleet(*names), "d1")
    catalogs.publish(fleet("e", "f"), "d2")
    held = departures.held()
    assert sorted(held) == ["a", "b", "c", "d"]
    assert all("4 applications have left the catalog and 2 stay" in why for why in held.values())
    assert "4 applications" in departures.get("a").held
    assert departures.note("a")
    assert departures.get("a").held == ""
    assert departures.held()["a"] == ""
    catalogs.publish(fleet("e"), "d3")
    assert departures.held()["a"] == "", "a person has said so"
    assert departures.held()["f"]


def test_a_folder_that_empties_itself_over_several_looks_is_held_in_the_end(catalogs, departures) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    for count in range(len(names), 0, -1):
        catalogs.publish(fleet(*names[:count]), f"d{count}")
    assert all(departures.held().values())
    assert sorted(departures.held()) == names[1:]


def test_hooks_that_have_run_are_remembered_for_this_departure(catalogs, departures) -> None:
    whole = fleet("shop", "blog")
    catalogs.publish(whole, "d1")
    catalogs.publish(without(whole, "shop"), "d2")
    departures.passed("shop", ["PreDelete"])
    found = departures.get("shop")
    assert (found.done, found.go) == ({"PreDelete"}, False)
    departures.passed("shop", ["PreDelete", "PostDelete"])
    assert departures.get("shop").done == {"PreDelete", "PostDelete"}
    assert list(departures.held()) == ["shop"]
    catalogs.publish(whole, "d1")
    catalogs.publish(without(whole, "shop"), "d2")
    assert departures.get("shop").done == frozenset()


def test_a_phase_that_has_passed_does_not_end_what_holds_it(catalogs, departures) -> None:
    catalogs.publish(fleet("shop"), "d1")
    catalogs.publish({}, "d2")
    departures.passed("shop", ["PreDelete"])
    assert departures.get("shop").held


def test_a_person_can_say_something_only_about_one_that_departs(catalogs, departures) -> None:
    catalogs.publish(fleet("shop"), "d1")
    assert not departures.note("shop", confirmed=True)
    assert departures.held() == {}


def test_the_end_is_of_this_departure_only(catalogs, departures, store) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    catalogs.publish(fleet("blog"), "d2")
    since = departures.get("shop").since
    assert not departures.end("shop", since - 1)
    assert departures.departs("shop")
    assert departures.end("shop", since)
    assert not store.redis.exists(keys.DEPARTING)


def test_what_cannot_be_opened_asks_for_nothing(catalogs, redis_url) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    other = Catalogs(Store(redis_url, KEY[::-1]))
    other.publish(fleet("blog"), "d2")
    assert other.status().departing == ()


def test_it_is_sealed_and_bound_to_its_name(catalogs, departures, store, redis_url) -> None:
    catalogs.publish(fleet("shop", "blog", "wiki"), "d1")
    catalogs.publish(fleet("wiki"), "d2")
    stored = store.redis.hgetall(keys.DEPARTING)
    assert b"token-marker" not in b"".join(stored.values())
    store.redis.hset(keys.DEPARTING, "shop", stored[b"blog"])
    with pytest.raises(ConfigurationError):
        departures.get("shop")
    with pytest.raises(ConfigurationError, match="FLEETBEAT_KEY"):
        Departures(Store(redis_url, KEY[::-1])).get("blog")


def test_a_lost_catalog_is_no_departure(catalogs, store) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    store.redis.delete(keys.CATALOG)
    catalogs.publish(fleet("blog"), "d2")
    assert catalogs.status().departing == ()


def test_what_is_known_of_one_that_departs_stays_until_it_has(catalogs, store) -> None:
    catalogs.publish(fleet("shop", "blog"), "d1")
    store.redis.hset(keys.state("shop"), "sync", "Synced")
    catalogs.publish(fleet("blog"), "d2")
    assert store.redis.ttl(keys.state("shop")) == -1


def test_the_rules_of_its_project_go_along(catalogs, departures) -> None:
    whole = fleet("shop", "blog")
    whole["Application/shop"]["project"] = {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "web"},
        "spec": {"healthCheckExprs": [{"apiVersion": "v1", "kind": "Service", "current": "true"}]},
    }
    whole["Application/shop"]["spec"]["project"] = "web"
    catalogs.publish(whole, "d1")
    catalogs.publish(without(whole, "shop"), "d2")
    assert departures.get("shop").application.health_rules


def test_foreign_errors_stop_here() -> None:
    departures = Departures(Store("redis://user:hunter2@127.0.0.1:1/0", KEY))
    for call in (
        lambda: departures.get("shop"),
        lambda: departures.held(),
        lambda: departures.departs("shop"),
        lambda: departures.note("shop"),
        lambda: departures.end("shop", 1),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert "hunter2" not in str(caught.value)


def test_the_kept_text_is_plain_json(catalogs, store) -> None:
    """A later version must be able to read what this one left."""
    catalogs.publish(fleet("shop", "blog"), "d1")
    catalogs.publish(fleet("blog"), "d2")
    plain = store.unseal(store.redis.hget(keys.DEPARTING, "shop"), context="departing:shop")
    assert set(orjson.loads(plain)) == {"application", "cluster"}
