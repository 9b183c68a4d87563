"""Real parts for tests: a Redis server, an OCI registry and Kubernetes API servers, each started once per session.

``make rest`` runs two sessions side by side (pytest-xdist), each with parts of its own and whole files of tests. A test
that breaks a part (kill, pause, fill) starts its own with the classes of ``fleetbeat.local``, and asks for
``local_binary`` so that it is skipped where the binary cannot be had. Where CI is set a missing part is a failure.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import redis

from fleetbeat.local import build
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.process import LocalError
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

NEED_BINARY = {"local_binary", "registry", "cluster", "cluster_with_controllers", "namespace"}

#: Files of more than half a minute on a busy machine, longest first: two sessions shall end at about the same time.
LONGEST = [
    "test_beat",
    "test_cli_up",
    "test_delete_application",
    "test_holds",
    "test_cli_demo",
    "test_windows",
    "test_parent_says",
    "test_kill_points",
    "test_large_bundle",
    "test_kill_membership",
    "test_field_cases_ownership",
    "test_hooks",
    "test_redis_loss",
    "test_field_cases_queue",
    "test_field_cases_prune",
    "test_other_writers",
    "test_stopped_worker",
    "test_drift_kinds",
    "test_watch",
    "test_rights_per_namespace",
    "test_audit_join",
    "test_kill_blobs",
    "test_kill_hooks",
    "test_kill_random",
    "test_field_cases_health",
    "test_fights",
    "test_local_parts",
    "test_delete_hooks",
    "test_secrets",
    "test_field_cases_hooks",
    "test_bad_places",
    "test_moved_application",
    "test_rollback",
    "test_no_progress",
]

# The same examples each time, and no deadline that a busy machine misses. Others: --hypothesis-profile=default
hypothesis.settings.load_profile("ci")


def pytest_configure(config: pytest.Config) -> None:
    """Ports of our own, where other sessions run beside this one."""
    session = getattr(config, "workerinput", None)
    if session is not None:
        share = 12_000 // session["workercount"]
        first = 20_000 + share * int(session["workerid"].removeprefix("gw"))
        os.environ["FLEETBEAT_LOCAL_PORTS"] = f"{first}-{first + share - 1}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """``-m "not cluster"`` leaves out everything that needs the binary."""
    if hasattr(config, "workerinput"):
        place = {name: number for number, name in enumerate(LONGEST)}
        items.sort(key=lambda item: place.get(item.path.stem, len(place)))
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
    with redis.Redis.from_url(redis_server.url, socket_timeout=60) as client:
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
