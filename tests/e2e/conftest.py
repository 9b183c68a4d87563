"""Installations on the session's registry and cluster, each with a Redis server of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nursery
import pytest
from click.testing import CliRunner, Result
from fleet import PATIENT, Fleet

from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry


@pytest.fixture(scope="session", autouse=True)
def births() -> Iterator[None]:
    """Whoever starts a worker or a beat has a nursery started; it ends with the session."""
    yield
    nursery.end()


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Fleet]:
    """One installation for all tests that leave it whole. Applications get names of their own: ``fleet.name``."""
    folder = tmp_path_factory.mktemp("fleet")
    with RedisServer() as redis, Fleet(folder, redis, registry, [cluster], **PATIENT) as running:
        yield running


@pytest.fixture(scope="session")
def controlled(
    tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster_with_controllers: Cluster
) -> Iterator[Fleet]:
    """The same on a cluster where Deployments become available."""
    folder = tmp_path_factory.mktemp("controlled")
    with RedisServer() as redis, Fleet(folder, redis, registry, [cluster_with_controllers], **PATIENT) as running:
        yield running


@pytest.fixture
def make_fleet(tmp_path: Path, registry: Registry, cluster: Cluster) -> Iterator[Callable[..., Fleet]]:
    """``make_fleet(workers=2, lock_ttl=3.0, …)`` starts one to be broken; everything of it ends with the test."""
    with ExitStack() as parts:

        def make(**options: Any) -> Fleet:
            redis = parts.enter_context(RedisServer())
            clusters = options.pop("clusters", [cluster])
            number = len(list(tmp_path.glob("fleet*"))) + 1
            return parts.enter_context(Fleet(tmp_path / f"fleet{number}", redis, registry, clusters, **options))

        yield make


@pytest.fixture
def command(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """``command("status", app)``: the command line in this process, as a person of ``fleet`` has it."""
    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)
    return lambda *words: CliRunner().invoke(cli, list(words), obj=Session())
