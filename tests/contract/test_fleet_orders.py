"""Marks of the orders for the fleet: who has to note them, what a cluster remembers, and what is lost in between."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat import keys
from fleetbeat.cli.key import new_key
from fleetbeat.client import Fleetbeat
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.fleet_orders import FleetOrdersStore
from fleetbeat.clients.holds import Holds
from fleetbeat.clients.orders import Orders
from fleetbeat.clients.runs import Runs
from fleetbeat.clients.store import Store
from fleetbeat.decisions.fleet_orders import FleetOrders
from fleetbeat.settings import Settings, load

DIGEST, OTHER = "sha256:" + "0" * 64, "sha256:" + "1" * 64


@pytest.fixture
def settings(redis_url: str) -> Settings:
    return load({"FLEETBEAT_REDIS_URL": redis_url, "FLEETBEAT_KEY": new_key()})


@pytest.fixture
def store(settings: Settings) -> Store:
    return Store.open(settings)


def drain(store: Store) -> str:
    return Holds(store).add("cluster", "prod", seconds=60, scope="sync", by="ada", reason="drain").id


def test_a_new_redis_asks_each_cluster_once_and_has_nothing_to_note(store: Store, settings: Settings) -> None:
    client, runs = FleetOrdersStore(store), Runs(store, settings)
    assert runs.look("shop", "prod").fleet == ("", None)
    assert client.restore("prod", FleetOrders(), there=False) == frozenset()
    assert runs.look("shop", "prod").fleet == ("", "")
    assert runs.look("shop", "test").fleet == ("", None)


def test_every_change_has_to_be_noted_and_those_of_one_application_have_not(store: Store, settings: Settings) -> None:
    client, runs, orders, holds = FleetOrdersStore(store), Runs(store, settings), Orders(store), Holds(store)
    client.restore("prod", FleetOrders(), there=False)
    seen = {""}

    def changed() -> bool:
        mark, noted = runs.look("shop", "prod").fleet
        new = mark != noted and mark not in seen
        seen.add(mark)
        return new

    orders.veto(DIGEST, by="ada", reason="x")
    assert changed()
    made = drain(store)
    assert changed()
    holds.lift(made)
    assert changed()
    orders.lift(DIGEST)
    assert changed()
    holds.add("app", "shop", seconds=60, scope="sync", by="ada", reason="x")
    orders.pin("shop", DIGEST, by="ada", reason="x")
    assert not changed()


def test_after_a_flush_what_the_cluster_remembers_comes_back_once(store: Store) -> None:
    client, orders = FleetOrdersStore(store), Orders(store)
    client.restore("prod", FleetOrders(), there=False)
    orders.veto(DIGEST, by="ada", reason="loses orders")
    hold = drain(store)
    before = client.read("prod")
    store.redis.flushall()
    assert client.restore("prod", before.orders, there=True) == {DIGEST, hold}
    again = client.read("prod")
    assert again.orders == before.orders
    assert again.noted not in (None, again.mark)  # so it is compared with the note
    # a second worker, and a cluster that is known: nothing comes back any more
    orders.lift(DIGEST)
    assert client.restore("prod", before.orders, there=True) == frozenset()
    assert orders.vetoes() == []
    # nor from another cluster whose note lags
    assert client.restore("test", before.orders, there=True) == frozenset()
    assert client.restore("third", FleetOrders(before.orders.vetoes), there=True) == frozenset()
    # what was ordered anew after that does
    orders.veto(DIGEST, by="ada", reason="once more")
    newer = client.read("prod").orders
    store.redis.hdel(keys.VETOES, DIGEST)
    assert client.restore("fourth", newer, there=True) == {DIGEST}


def test_clusters_that_remember_different_things_make_up_all_of_it(store: Store) -> None:
    client, orders = FleetOrdersStore(store), Orders(store)
    for digest in (DIGEST, OTHER):
        orders.veto(digest, by="ada", reason="x")
    both = client.read("prod").orders.vetoes
    store.redis.flushall()
    for cluster, veto in zip(("prod", "test"), both, strict=True):
        client.restore(cluster, FleetOrders((veto,)), there=True)
    assert set(client.read("prod").orders.vetoes) == set(both)
    assert all(client.read(cluster).noted == "?" for cluster in ("prod", "test"))


def test_one_notes_and_a_change_meanwhile_is_noted_too(store: Store) -> None:
    client, orders = FleetOrdersStore(store), Orders(store)
    client.restore("prod", FleetOrders(), there=False)
    orders.veto(DIGEST, by="ada", reason="x")
    turn = client.begin_note("prod")
    assert turn is not None
    assert client.begin_note("prod") is None
    seen = client.read("prod").mark
    orders.veto(OTHER, by="ada", reason="x")
    assert not client.noted("prod", seen, turn[0])
    assert client.noted("prod", client.read("prod").mark, turn[0])
    assert client.read("prod").noted == client.read("prod").mark
    assert client.begin_note("prod") is not None


def test_a_flush_between_note_and_mark_leaves_the_cluster_unknown(store: Store) -> None:
    client, orders = FleetOrdersStore(store), Orders(store)
    client.restore("prod", FleetOrders(), there=False)
    orders.veto(DIGEST, by="ada", reason="x")
    turn = client.begin_note("prod")
    assert turn is not None
    mark = client.read("prod").mark
    store.redis.flushall()
    assert not client.noted("prod", mark, turn[0])
    assert not client.noted("prod", "", turn[0])
    assert client.read("prod").noted is None


def test_orders_of_an_earlier_version_are_noted_too(store: Store) -> None:
    client = FleetOrdersStore(store)
    Orders(store).veto(DIGEST, by="ada", reason="x")
    store.redis.delete(keys.FLEET_ORDERS)
    client.restore("prod", FleetOrders(), there=False)
    found = client.read("prod")
    assert found.mark
    assert found.noted not in (None, found.mark)


def documents(places: dict[str, str]) -> dict[str, dict[str, Any]]:
    """A catalog of applications, each on its cluster; ``gone`` is none that is described."""
    head = {"apiVersion": "fleetbeat.dev/v1alpha1"}
    found: dict[str, dict[str, Any]] = {}
    for app, cluster in places.items():
        spec = {"source": {"oci": "registry.example.com/x"}, "destination": {"cluster": cluster}}
        found[f"Application/{app}"] = {**head, "kind": "Application", "metadata": {"name": app}, "spec": spec}
        if cluster != "gone":
            entry = {**head, "kind": "Cluster", "metadata": {"name": cluster}, "spec": {"inCluster": True}}
            found[f"Cluster/{cluster}"] = entry
    return found


def test_whoever_orders_has_one_application_of_each_cluster_looked_at(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for the hour of an idle one; an order stands whatever is wrong with an application."""
    apps = {"lost": "gone", "shop": "prod", "shop-too": "prod", "bank": "test", "quiet": "rest"}
    catalog = documents(apps)
    catalog["Application/quiet"]["spec"]["suspend"] = True
    Catalogs(store).publish(catalog, "d1")
    client, rung = Fleetbeat(settings, store=store), list[list[str]]()
    monkeypatch.setattr(client, "ring", lambda names: rung.append(list(names)))
    held = client.hold("cluster", "prod", seconds=60, by="ada", reason="drain")
    assert rung == [["shop"]]
    client.hold("label", "team=web", seconds=60, by="ada", reason="freeze")
    client.hold("namespace", "shop", seconds=60, by="ada", reason="freeze", cluster="test")
    client.hold("app", "shop-too", seconds=60, by="ada", reason="freeze")
    assert rung[1:] == [["bank", "shop"], ["bank"], ["shop-too"]]
    assert client.lift(held.id) == held
    assert rung[-1] == ["shop"]
