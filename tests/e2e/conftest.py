"""A fresh installation per test on the session's registry and cluster, with a Redis server of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry


@pytest.fixture
def make_fleet(tmp_path: Path, registry: Registry, cluster: Cluster) -> Iterator[Callable[..., Fleet]]:
    """``make_fleet(workers=2, lock_ttl=3.0, …)`` starts one; everything it started ends with the test."""
    started: list[Any] = []

    def make(**options: Any) -> Fleet:
        redis = RedisServer().start()
        started.append(redis)
        clusters = options.pop("clusters", [cluster])
        fleet = Fleet(tmp_path / f"fleet{len(started)}", redis, registry, clusters, **options)
        started.append(fleet)
        return fleet.start()

    yield make
    for part in reversed(started):
        part.stop()


@pytest.fixture
def fleet(make_fleet: Callable[..., Fleet]) -> Fleet:
    return make_fleet()
