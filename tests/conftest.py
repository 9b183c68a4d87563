"""Real parts for tests: a Redis server, an OCI registry and Kubernetes API servers, each started once per session.

A test that breaks a part (kill, pause, fill) starts its own with the classes of ``fleetbeat.local``, and asks for
``local_binary`` so that it is skipped where the binary cannot be had. Where CI is set a missing part is a failure.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from fleetbeat.local import build
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import LocalError
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

NEED_BINARY = {"local_binary", "registry", "cluster", "cluster_with_controllers", "namespace"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """``-m "not cluster"`` leaves out everything that needs the binary."""
    for item in items:
        if NEED_BINARY & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the binary before the first test: it takes minutes, and a fixture's time counts against its test."""
    if session.config.option.collectonly or not any(item.get_closest_marker("cluster") for item in session.items):
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # the progress of a build must be seen
            build.binary()
    except LocalError as error:
        session.config.stash[_MISSING] = str(error)


_MISSING = pytest.StashKey[str]()


def _unavailable(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def local_binary(request: pytest.FixtureRequest) -> Path:
    """The fleetbeat-local binary."""
    if missing := request.config.stash.get(_MISSING, ""):
        _unavailable(missing)
    return build.binary()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    try:
        server = RedisServer()
    except LocalError as error:
        _unavailable(str(error))
        raise
    with server:
        yield server


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """URL of the session's Redis, empty at the start of the test."""
    redis_server.resume()  # whatever the test before did to it
    redis_server.start()
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
        client.config_resetstat()
        client.script_flush()
    return redis_server.url


@pytest.fixture(scope="session")
def registry(local_binary: Path) -> Iterator[Registry]:
    """Anonymous, plain HTTP; use a repository name of your own."""
    with Registry() as running:
        yield running


@pytest.fixture(scope="session")
def cluster(local_binary: Path) -> Iterator[Cluster]:
    """An API server without controllers."""
    with Cluster(name="test") as running:
        yield running


@pytest.fixture(scope="session")
def cluster_with_controllers(local_binary: Path) -> Iterator[Cluster]:
    """One where Deployments become available, Jobs complete and namespaces go away."""
    with Cluster(name="test-controllers", controllers=True) as running:
        yield running


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A new namespace in ``cluster``; it stays, since nothing there could delete it."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    return name
