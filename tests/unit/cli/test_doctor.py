"""`fleetbeat doctor`: what each finding is, and that no failing part keeps the others from being looked at."""

# ruff: noqa: ARG002 - fakes have the signature of what they stand for
from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from click.testing import CliRunner

from fleetbeat.cli import checks, checks_outside
from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.clients.catalogs import CatalogStatus
from fleetbeat.clients.pulse import Pulse, ServerFacts
from fleetbeat.decisions.overrides import mark
from fleetbeat.errors import ClusterUnavailable, ConfigurationError, SourceUnavailable, StoreUnavailable
from fleetbeat.model import ApiSet, Application, Cluster, Destination, Revision, SecretText, Source
from fleetbeat.ports import Written
from fleetbeat.settings import Settings

GOOD = ServerFacts("valkey", "9.1.2", "noeviction", "yes")
SHOP = Application("shop", Source("r.example.com/shop"), Destination("prod"))


KEY = base64.b64encode(bytes(32)).decode()
MARK = mark(bytes(32))
HAS_KEY = Settings(override_key=SecretText(KEY))


class Catalogs:
    error = ""
    other_key = False

    def names(self) -> list[str]:
        return ["shop"]

    def status(self) -> CatalogStatus:
        return CatalogStatus(1, self.error, "digest", 1)

    def application(self, name: str) -> tuple[Application, Cluster, str]:
        if self.other_key:
            raise ConfigurationError("catalog:Application/shop in Redis was sealed with another FLEETBEAT_KEY")
        return SHOP, Cluster("prod", server="https://prod.example.com"), "spec"


class Api:
    """A cluster that grants what it is told to."""

    def __init__(self, allowed: bool = True, down: bool = False, complete: bool = True) -> None:
        self._allowed, self._down, self._complete = allowed, down, complete

    def api_set(self) -> ApiSet:
        if self._down:
            raise ClusterUnavailable("cluster prod: connection refused by https://prod.example.com")
        return ApiSet((), self._complete, "v1.36.1")

    def create(self, resource: Any, body: Any) -> Written:
        return Written({"status": {"allowed": self._allowed}}, True, "")

    def apply(self, resource: Any, body: Any, *, dry_run: bool) -> Written:
        assert dry_run
        return Written({"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z"}}, True, "")


class Registry:
    down = False

    def resolve(self, source: Source) -> Revision:
        if self.down:
            raise SourceUnavailable("r.example.com: connection refused")
        return Revision("sha256:" + "a" * 64, "latest")


class Fake(Session):
    def __init__(self, **changes: Any) -> None:
        self.catalogs = Catalogs()  # type: ignore[assignment]
        self.source = Registry()
        self.api = Api()
        self.facts = GOOD
        self.workers = ["worker-1@host"]
        self.marks = {"worker-1@host": ""}
        self.settings = Settings()
        self.beats = {"beat": 0.5}
        self.watched = {"prod": "host:7", "test": "host:7"}
        self.redis_down = False
        for name, value in changes.items():
            setattr(self, name, value)

    def pulse(self) -> Pulse:
        if self.redis_down:
            raise StoreUnavailable("Redis: refused")
        return Pulse(1, 0.1, self.beats)

    def server_facts(self) -> ServerFacts:
        return self.facts

    def watchers(self) -> dict[str, str]:
        return self.watched

    def ping_workers(self) -> list[str]:
        return self.workers

    def override_marks(self) -> dict[str, str]:
        return self.marks

    def cluster(self, cluster: Cluster) -> Any:
        return self.api


def examine(session: Session) -> tuple[int, dict[str, str]]:
    """Exit code, and check → state (the worst where a check has several lines)."""
    shown = CliRunner().invoke(cli, ["doctor", "-o", "json"], obj=session)
    order = {"ok": 0, "warn": 1, "fail": 2}
    worst: dict[str, str] = {}
    for check in json.loads(shown.stdout):
        worst[check["name"]] = max(worst.get(check["name"], "ok"), check["state"], key=order.__getitem__)
    return shown.exit_code, worst


def broken_catalog() -> Catalogs:
    catalogs = Catalogs()
    catalogs.error = "shop.yaml: spec.sorce: unknown field"
    return catalogs


def other_key() -> Catalogs:
    catalogs = Catalogs()
    catalogs.other_key = True
    return catalogs


def no_registry() -> Registry:
    registry = Registry()
    registry.down = True
    return registry


def test_a_sound_installation_but_for_the_clusters_clock() -> None:
    code, states = examine(Fake())
    assert code == Exit.OK
    assert {name for name, state in states.items() if state != "ok"} == {"cluster prod clock"}
    assert {"Redis eviction", "beat", "workers", "key", "catalog", "source r.example.com/shop"} <= set(states)


@pytest.mark.parametrize(
    ("changes", "check", "state"),
    [
        ({"redis_down": True}, "Redis", "fail"),
        ({"facts": ServerFacts("redis", "6.0.20", "noeviction", "yes")}, "Redis version", "fail"),
        ({"facts": ServerFacts("redis", "7.2", "allkeys-lru", "yes")}, "Redis eviction", "fail"),
        ({"facts": ServerFacts("redis", "7.2", "", "")}, "Redis eviction", "warn"),
        ({"facts": ServerFacts("redis", "7.2", "noeviction", "no")}, "Redis persistence", "warn"),
        ({"beats": {}}, "beat", "fail"),
        ({"beats": {"beat": 300.0}}, "beat", "fail"),
        ({"workers": []}, "workers", "fail"),
        ({"marks": {"w1": "", "w2": ""}, "settings": HAS_KEY}, "overrides", "warn"),
        ({"marks": {"w1": MARK, "w2": MARK}}, "overrides", "ok"),
        ({"marks": {"w1": MARK, "w2": MARK}, "settings": HAS_KEY}, "overrides", "ok"),
        ({"marks": {"w1": MARK, "w2": ""}, "settings": HAS_KEY}, "overrides", "fail"),
        ({"marks": {"w1": MARK, "w2": "another"}, "settings": HAS_KEY}, "overrides", "fail"),
        ({"marks": {"w1": "another", "w2": "another"}, "settings": HAS_KEY}, "overrides", "fail"),
        ({"settings": Settings(override_key=SecretText("hunter2"))}, "overrides", "fail"),
        ({"watched": {"prod": "", "test": ""}}, "watch", "ok"),
        ({"watched": {"prod": "host:7", "test": ""}}, "watch", "warn"),
        ({"catalogs": broken_catalog()}, "catalog", "fail"),
        ({"catalogs": other_key()}, "catalog", "fail"),
        ({"api": Api(down=True)}, "cluster prod", "fail"),
        ({"api": Api(complete=False)}, "cluster prod", "warn"),
        ({"api": Api(allowed=False)}, "cluster prod rights", "warn"),
        ({"source": no_registry()}, "source r.example.com/shop", "fail"),
    ],
    ids=[
        "no redis",
        "old redis",
        "evicting redis",
        "silent redis",
        "forgetful redis",
        "no beat",
        "silent beat",
        "no workers",
        "only this shell has a key for overrides",
        "overrides are signed, by others",
        "overrides are signed",
        "a worker without the key for overrides",
        "two keys for overrides",
        "another key for overrides than the workers'",
        "a key for overrides that is none",
        "nobody watches, which nobody has to",
        "one cluster is left out",
        "broken catalog",
        "other key",
        "no cluster",
        "partial discovery",
        "few rights",
        "no registry",
    ],
)
def test_each_trouble_is_found(changes: dict[str, Any], check: str, state: str) -> None:
    code, states = examine(Fake(**changes))
    assert states[check] == state
    assert code == (Exit.FAILED if state == "fail" else Exit.OK)


def test_what_to_do_is_said() -> None:
    shown = CliRunner().invoke(cli, ["doctor"], obj=Fake(workers=[]))
    assert "workers: start one: celery -A workers.app worker" in shown.output


def test_strangers_with_our_package_names(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"fleetbeat": ["fleetbeat"], "workers": ["fleetbeat", "workers-lib"], "scheduler": ["fleetbeat"]}
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: owners)
    (found,) = [check for check in checks.packages() if check.state == "fail"]
    assert "workers is also installed by workers-lib" in found.detail


def test_the_clusters_clock_is_the_stamp_of_a_dry_run() -> None:
    found = [check for check in checks_outside.cluster(Fake(), Cluster("prod"), []) if check.name.endswith("clock")]
    assert "behind this machine's" in found[0].detail
