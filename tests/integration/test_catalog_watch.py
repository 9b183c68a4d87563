"""Beat's eye on the catalog directory, on a real Redis: who publishes when copies of the directory differ."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetbeat import keys
from fleetbeat.clients.catalogs import Catalogs
from fleetbeat.clients.due import DueSet
from fleetbeat.clients.store import Store
from fleetbeat.settings import Beat
from scheduler.catalog import CatalogWatch

KEY = bytes(range(32))

CLUSTER = "apiVersion: fleetbeat.dev/v1alpha1\nkind: Cluster\nmetadata: {name: prod}\nspec: {inCluster: true}\n"
APPLICATION = """apiVersion: fleetbeat.dev/v1alpha1
kind: Application
metadata: {name: NAME}
spec:
  source: {oci: registry.example.com/shop, tag: stable}
  destination: {cluster: prod, namespace: shop}
"""


def write(folder: Path, *names: str) -> None:
    """The directory holds exactly these applications, one file each, and the cluster."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    (folder / "cluster.yaml").write_text(CLUSTER)
    for name in names:
        (folder / f"{name}.yaml").write_text(APPLICATION.replace("NAME", name))


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, KEY)


@pytest.fixture
def catalogs(store: Store) -> Catalogs:
    return Catalogs(store)


@pytest.fixture
def watch(store: Store, tmp_path: Path) -> Callable[[str], CatalogWatch]:
    """A beat's watch on ``tmp_path/<name>``."""
    return lambda name: CatalogWatch(tmp_path / name, Catalogs(store), DueSet(store, Beat()), 100.0)


def test_a_changed_added_or_removed_file_is_in_force_at_the_next_look(watch, catalogs, tmp_path) -> None:
    beat = watch("a")
    for names in (["shop"], ["shop", "blog"], ["blog"], []):
        write(tmp_path / "a", *names)
        beat.look()
        assert catalogs.names() == sorted(names)


def test_an_unchanged_directory_is_not_read_again(watch, catalogs, tmp_path, monkeypatch) -> None:
    write(tmp_path / "a", "shop")
    beat = watch("a")
    beat.look()
    monkeypatch.setattr("scheduler.catalog.catalog.load", lambda _: pytest.fail("read again"))
    beat.look()


def test_an_edit_of_a_project_makes_its_applications_due_at_once(watch, catalogs, store, tmp_path) -> None:
    def rules(manager: str) -> None:
        head = "apiVersion: fleetbeat.dev/v1alpha1\nkind: Project\nmetadata: {name: team}\n"
        (tmp_path / "a" / "project.yaml").write_text(
            head + f"spec: {{conflicts: [{{manager: {manager}, policy: yield}}]}}\n"
        )

    write(tmp_path / "a", "blog")
    (tmp_path / "a" / "shop.yaml").write_text(APPLICATION.replace("NAME", "shop") + "  project: team\n")
    rules("one")
    beat = watch("a")
    beat.look()
    far = {"shop": 9e12, "blog": 9e12}
    store.redis.zadd(keys.DUE, far)
    rules("another")
    beat.look()
    assert store.redis.zscore(keys.DUE, "shop") < far["shop"]
    assert store.redis.zscore(keys.DUE, "blog") == far["blog"]
    found = catalogs.application("shop")
    assert found[0].conflicts[0].manager == "another"


@pytest.mark.parametrize("lost", [None, keys.CATALOG, keys.CATALOG_STATUS, keys.DUE, keys.PERIODS])
def test_what_redis_lost_is_back_at_the_next_look(watch, catalogs, store, tmp_path, lost) -> None:
    write(tmp_path / "a", "shop", "blog")
    beat = watch("a")
    beat.look()
    if lost is None:
        store.redis.flushall()
    else:
        store.redis.delete(lost)
    beat.look()
    assert catalogs.names() == ["blog", "shop"]
    assert catalogs.application("shop")
    assert store.redis.zcard(keys.DUE) == store.redis.hlen(keys.PERIODS) == 2


def test_copies_that_differ_during_a_roll_out_do_not_fight(watch, catalogs, store, tmp_path) -> None:
    """The catalog published last wins, and the beat with the older copy leaves it."""
    write(tmp_path / "old", "shop")
    write(tmp_path / "new", "shop")
    old, new = watch("old"), watch("new")
    old.look()
    new.look()
    write(tmp_path / "new", "shop", "blog")
    new.look()
    published = catalogs.status().published
    for beat in (old, new, old, new):
        beat.look()
    assert catalogs.names() == ["blog", "shop"]
    assert catalogs.status().published == published
    assert store.redis.hkeys(keys.PERIODS) != [b"shop"]
    write(tmp_path / "old", "shop", "blog")
    old.look()
    assert catalogs.names() == ["blog", "shop"]


def test_a_redis_that_went_back_in_time_is_brought_forward(watch, catalogs, store, tmp_path) -> None:
    """A replica that lacked the last catalog was promoted."""
    write(tmp_path / "a", "shop")
    beat = watch("a")
    beat.look()
    behind = {key: store.redis.dump(key) for key in store.redis.scan_iter()}
    write(tmp_path / "a", "shop", "blog")
    beat.look()
    store.redis.flushall()
    for key, value in behind.items():
        store.redis.restore(key, 0, value)
    assert catalogs.names() == ["shop"]
    beat.look()
    assert catalogs.names() == ["blog", "shop"]


def test_a_problem_is_logged_once_and_shown_until_it_is_repaired(watch, catalogs, store, tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO, "fleetbeat.beat")
    write(tmp_path / "a", "shop")
    beat = watch("a")
    beat.look()
    broken = tmp_path / "a" / "blog.yaml"
    broken.write_text("kind: Applicaton\n")
    beat.look()
    beat.look()
    broken.write_text("kind: Applicaton\n# still\n")
    beat.look()
    problems = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(problems) == 1
    assert "blog.yaml" in catalogs.status().error
    assert catalogs.names() == ["shop"]
    store.redis.flushall()
    beat.look()
    assert catalogs.names() == ["shop"], "the last good one is published again"
    beat.look()
    assert "blog.yaml" in catalogs.status().error, "and its error with it"
    broken.unlink()
    beat.look()
    assert catalogs.status().error == ""
    assert "catalog: repaired" in caplog.text


def test_a_directory_that_went_away_keeps_the_last_good_catalog(watch, catalogs, tmp_path) -> None:
    write(tmp_path / "a", "shop")
    beat = watch("a")
    beat.look()
    (tmp_path / "a").rename(tmp_path / "b")
    beat.look()
    assert catalogs.names() == ["shop"]
    assert "a" in catalogs.status().error


def test_a_kubernetes_volume_update_is_seen(watch, catalogs, tmp_path) -> None:
    """ConfigMap volumes swap a link, ``..data``, and leave the names in the directory alone."""
    mount = tmp_path / "a"
    for version, oci in (("..v1", "shop/one"), ("..v2", "shop/two")):
        (mount / version).mkdir(parents=True)
        text = (
            CLUSTER
            + "---\n"
            + APPLICATION.replace("NAME", "shop").replace("registry.example.com/shop", f"r.example.com/{oci}")
        )
        (mount / version / "all.yaml").write_text(text)
    (mount / "..data").symlink_to("..v1")
    (mount / "all.yaml").symlink_to("..data/all.yaml")
    beat = watch("a")
    beat.look()
    assert catalogs.application("shop")[0].source.oci == "r.example.com/shop/one"
    (mount / "..tmp").symlink_to("..v2")
    (mount / "..tmp").rename(mount / "..data")
    beat.look()
    assert catalogs.application("shop")[0].source.oci == "r.example.com/shop/two"
