"""The catalog in Redis: published whole, sealed, read in one round trip, and never mistaken for empty when lost."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from fleetbeat import keys
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.store import Store
from fleetbeat.errors import ConfigurationError, NotYet, StoreUnavailable
from fleetbeat.model import ConflictRule

KEY = bytes(range(32))


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, KEY)


@pytest.fixture
def catalogs(store: Store) -> Catalogs:
    return Catalogs(store)


def application(name: str, cluster: str = "prod", **source: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": name},
        "spec": {
            "source": {"oci": "registry.example.com/shop", "tag": "stable"} | source,
            "destination": {"cluster": cluster, "namespace": name},
        },
    }


def cluster(name: str, token: str = "token-marker") -> dict[str, Any]:  # noqa: S107
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {"server": "https://192.0.2.1:6443", "token": {"inline": token}},
    }


CONFLICT = {"manager": "keda-*", "policy": "yield"}


def project(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "shop"},
        "spec": spec,
    }


def documents(*names: str) -> dict[str, dict[str, Any]]:
    return {f"Application/{name}": application(name) for name in names} | {"Cluster/prod": cluster("prod")}


def calls(store: Store) -> dict[str, int]:
    """How often each command ran on the server, but for the check of a connection that nobody used for ten seconds."""
    stats = store.redis.info("commandstats")
    found = {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}
    return {name: count for name, count in found.items() if name != "ping"}


def test_what_is_published_is_read_back_parsed(catalogs: Catalogs) -> None:
    assert catalogs.publish(documents("shop", "blog"), "d1")
    found = catalogs.application("shop")
    assert found is not None
    app, target, digest = found
    assert (app.name, app.source.tag, app.destination.cluster) == ("shop", "stable", "prod")
    assert target.server == "https://192.0.2.1:6443"
    assert target.token is not None
    assert target.token.inline is not None
    assert target.token.inline.reveal() == "token-marker"
    assert len(digest) == 64
    assert catalogs.names() == ["blog", "shop"]


def test_another_process_reads_the_same(catalogs: Catalogs, redis_url: str) -> None:
    catalogs.publish(documents("shop"), "d1")
    assert Catalogs(Store(redis_url, KEY)).application("shop") == catalogs.application("shop")


def test_redis_shows_no_content_and_no_unkeyed_hash(catalogs: Catalogs, store: Store) -> None:
    digest = "0123456789abcdef-content-digest"
    catalogs.publish(documents("shop"), digest)
    stored = b"".join(
        b"%b %b" % pair for key in (keys.CATALOG, keys.CATALOG_STATUS) for pair in store.redis.hgetall(key).items()
    )
    for marker in (b"token-marker", b"192.0.2.1", b"registry.example.com", digest.encode()):
        assert marker not in stored


def test_thousands_of_windows_take_little_room(catalogs: Catalogs, store: Store, redis_url: str) -> None:
    """Each application carries the windows that match it: a hundred applications must not fill Redis with them."""
    windows = [
        {"kind": "deny", "schedule": f"{number % 60} {number // 60} * * *", "duration": "5m", "applications": ["*"]}
        for number in range(1000)
    ]
    document = application("shop") | {"project": project(syncWindows=windows)}
    catalogs.publish(documents("shop") | {"Application/shop": document}, "d1")
    assert store.redis.hstrlen(keys.CATALOG, "Application/shop") < 10_000
    found = Catalogs(Store(redis_url, KEY)).application("shop")
    assert found is not None
    assert len(found[0].windows) == 1000
    assert not catalogs.publish(documents("shop") | {"Application/shop": document}, "d1")
    # a worker has them once, whatever the number of applications
    both = {name: application(name) | {"project": document["project"]} for name in ("shop", "blog")}
    catalogs.publish(documents() | {f"Application/{name}": one for name, one in both.items()}, "d2")
    first, second = (Catalogs(store).application(name) for name in both)
    assert first is not None
    assert second is not None
    assert all(one is other for one, other in zip(first[0].windows, second[0].windows, strict=True))


def test_publishing_the_same_again_writes_no_entry(catalogs: Catalogs, store: Store) -> None:
    catalogs.publish(documents("shop"), "d1")
    held = store.redis.hgetall(keys.CATALOG)
    assert not catalogs.publish(documents("shop"), "d1")
    assert store.redis.hgetall(keys.CATALOG) == held


def test_only_what_changed_is_written_and_what_vanished_goes(catalogs: Catalogs, store: Store) -> None:
    catalogs.publish(documents("shop", "blog", "wiki"), "d1")
    held = store.redis.hgetall(keys.CATALOG)
    changed = documents("shop", "blog")
    changed["Application/blog"] = application("blog", tag="next")
    assert catalogs.publish(changed, "d2")
    now = store.redis.hgetall(keys.CATALOG)
    assert sorted(now) == [b"Application/blog", b"Application/shop", b"Cluster/prod"]
    assert {entry for entry in now if now[entry] != held[entry]} == {b"Application/blog"}


def test_a_change_of_application_or_cluster_changes_the_digest(catalogs: Catalogs) -> None:
    digests = set()
    wanted = documents("shop")
    for change in (
        {},
        {"Application/shop": application("shop", tag="next")},
        {"Cluster/prod": cluster("prod", token="rotated")},
        {"Application/shop": application("shop") | {"project": project(conflicts=[])}},
        {"Application/shop": application("shop") | {"project": project(conflicts=[CONFLICT])}},
    ):
        wanted |= change
        catalogs.publish(wanted, "d")
        found = catalogs.application("shop")
        assert found is not None
        digests.add(found[2])
    assert len(digests) == 5


def test_an_application_is_read_with_the_rules_of_its_project(catalogs: Catalogs, store: Store) -> None:
    """In the same round trip as without one."""
    with_project = {"Application/shop": application("shop") | {"project": project(conflicts=[CONFLICT])}}
    catalogs.publish(documents("shop") | with_project, "d1")
    catalogs.application("shop")
    store.redis.config_resetstat()
    found = catalogs.application("shop")
    assert found is not None
    assert found[0].conflicts == (ConflictRule("yield", "keda-*"),)
    assert calls(store) == {"hmget": 1, "config|resetstat": 1}


def test_an_application_that_moves_to_another_cluster_is_read_with_it(catalogs: Catalogs) -> None:
    catalogs.publish(documents("shop"), "d1")
    catalogs.application("shop")
    moved = documents("shop") | {"Cluster/new": cluster("new"), "Application/shop": application("shop", "new")}
    catalogs.publish(moved, "d2")
    found = catalogs.application("shop")
    assert found is not None
    assert (found[0].destination.cluster, found[1].name) == ("new", "new")


def test_a_known_application_costs_one_round_trip_and_no_parsing(catalogs: Catalogs, store: Store) -> None:
    catalogs.publish(documents("shop"), "d1")
    first = catalogs.application("shop")
    store.redis.config_resetstat()
    again = catalogs.application("shop")
    assert calls(store) == {"hmget": 1, "config|resetstat": 1}
    assert first is not None
    assert again is not None
    assert again[0] is first[0]


def test_an_unknown_application_is_none(catalogs: Catalogs) -> None:
    catalogs.publish(documents("shop"), "d1")
    assert catalogs.application("blog") is None


def test_a_removed_application_is_none_afterwards(catalogs: Catalogs) -> None:
    catalogs.publish(documents("shop", "blog"), "d1")
    assert catalogs.application("blog")
    catalogs.publish(documents("shop"), "d2")
    assert catalogs.application("blog") is None


def test_the_empty_catalog_is_a_catalog(catalogs: Catalogs) -> None:
    catalogs.publish({}, "d0")
    assert not catalogs.needs_publish("d0")
    assert catalogs.application("shop") is None
    assert catalogs.names() == []


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda client: client.flushall(), id="flushed"),
        pytest.param(lambda client: client.delete(keys.CATALOG), id="entries lost"),
        pytest.param(lambda client: client.delete(keys.CATALOG_STATUS), id="status lost"),
        pytest.param(lambda client: client.hdel(keys.CATALOG, "Application/shop"), id="one entry lost"),
    ],
)
def test_a_lost_catalog_is_no_removal(catalogs: Catalogs, store: Store, lose) -> None:
    """A flush must not look as if every application had been removed; the next look publishes again."""
    catalogs.publish(documents("shop"), "d1")
    catalogs.application("shop")
    assert not catalogs.needs_publish("d1")
    lose(store.redis)
    assert catalogs.needs_publish("d1")
    if not store.redis.hexists(keys.CATALOG, "Application/shop"):
        with pytest.raises(NotYet, match="beat publishes it again"):
            catalogs.application("shop")
    catalogs.publish(documents("shop"), "d1")
    assert not catalogs.needs_publish("d1")
    assert catalogs.application("shop")


def test_never_published_is_not_yet(catalogs: Catalogs) -> None:
    with pytest.raises(NotYet):
        catalogs.application("shop")
    assert catalogs.status().at == 0


def test_an_error_leaves_the_last_good_catalog_in_force_until_repaired(catalogs: Catalogs) -> None:
    catalogs.publish(documents("shop"), "d1")
    catalogs.publish_error("apps/shop.yaml, document 1: spec.sync.selfheal: unknown field.")
    status = catalogs.status()
    assert "selfheal" in status.error
    assert status.digest == catalogs.digest("d1")
    assert status.at >= status.published > 1_700_000_000_000
    assert catalogs.application("shop")
    catalogs.publish(documents("shop"), "d1")
    assert catalogs.status().error == ""


def test_entries_of_another_key_are_told_to_readers_and_replaced_by_publishers(
    catalogs: Catalogs, redis_url: str
) -> None:
    catalogs.publish(documents("shop"), "d1")
    other = Catalogs(Store(redis_url, KEY[::-1]))
    with pytest.raises(ConfigurationError, match="FLEETBEAT_KEY"):
        other.application("shop")
    assert other.needs_publish("d1")
    assert other.publish(documents("shop"), "d1")
    assert other.application("shop")


def test_an_entry_moved_to_another_name_is_refused(catalogs: Catalogs, store: Store) -> None:
    catalogs.publish(documents("shop", "blog"), "d1")
    sealed = store.redis.hget(keys.CATALOG, "Application/shop")
    assert isinstance(sealed, bytes)
    store.redis.hset(keys.CATALOG, "Application/blog", sealed)
    with pytest.raises(ConfigurationError):
        catalogs.application("blog")


def test_a_reader_never_sees_half_a_catalog(catalogs: Catalogs, redis_url: str) -> None:
    """Publishing is one script: a monitor on the server sees every write of it between no two others."""
    with redis.Redis.from_url(redis_url, socket_timeout=60) as watcher, watcher.monitor() as monitor:
        catalogs.publish(documents("shop"), "d1")
        seen = []
        for line in monitor.listen():
            seen.append((line["command"].split()[0].upper(), line["client_type"]))
            if seen[-1][0] == "HSET" and "published" in line["command"]:
                break
    writes = [kind for command, kind in seen if command in {"HSET", "HDEL"}]
    assert writes == ["lua", "lua", "lua"]


def test_foreign_errors_stop_here() -> None:
    catalogs = Catalogs(Store("redis://user:hunter2@127.0.0.1:1/0", KEY))
    for call in (
        lambda: catalogs.publish(documents("shop"), "d"),
        lambda: catalogs.publish_error("x"),
        lambda: catalogs.status(),
        lambda: catalogs.application("shop"),
        lambda: catalogs.names(),
        lambda: catalogs.needs_publish("d"),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert "hunter2" not in str(caught.value)


def test_what_is_known_of_an_application_that_left_goes_a_week_later(catalogs, store) -> None:
    """Field case j8: no key stays for ever without an owner."""
    catalogs.publish(documents("shop", "blog"), "d1")
    for name in ("shop", "blog"):
        store.redis.hset(keys.state(name), "sync", "Synced")
        store.redis.lpush(keys.history(name), "{}")
    catalogs.publish(documents("blog"), "d2")
    for key in (keys.state("shop"), keys.history("shop")):
        assert 0 < store.redis.ttl(key) <= 7 * 86_400
    for key in (keys.state("blog"), keys.history("blog")):
        assert store.redis.ttl(key) == -1
