"""Registries and clusters that are away, hang or refuse: said in words, nothing lost, nobody else held up."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet import Fleet, config_map
from people import Hands
from stories import answer_to
from waiting import wait_for

from fleetbeat.clients.oci_push import push
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry
from fleetbeat.model import Credential, RegistryAuth, SecretText

#: so short that a test need not wait, so long that a busy machine does not look dead
TIMEOUTS = {"FLEETBEAT_HTTP_CONNECT": "3", "FLEETBEAT_HTTP_READ": "8", "FLEETBEAT_HTTP_TOTAL": "16"}
RETRY = {"limit": 20, "backoff": {"duration": "1s", "factor": 1}}


class Places:
    """One fleet between a registry and a cluster that last, and others that a test may break."""

    def __init__(self, fleet: Fleet, registry: Registry, cluster: Cluster, folder: Path) -> None:
        self.fleet, self.registry, self.cluster, self._folder = fleet, registry, cluster, folder

    def application(self, word: str, *, registry: Registry, cluster: str, **source: Any) -> str:
        """One ConfigMap ``web`` in a namespace of the application's name. Returns that name."""
        app = self.fleet.name(word)
        status, answer = self.fleet.clusters[cluster].request("POST", "/api/v1/namespaces", {"metadata": {"name": app}})
        assert status == 201, answer
        self.push(app, registry, "v1")
        where = {"oci": f"{registry.host}/{app}", **source}
        self.fleet.application(app, namespace=app, cluster=cluster, source=where, retry=RETRY)
        return app

    def push(self, app: str, registry: Registry, value: str, login: RegistryAuth = RegistryAuth()) -> None:  # noqa: B008
        folder = self._folder / secrets.token_hex(4)
        folder.mkdir()
        (folder / "web.yaml").write_text(yaml.safe_dump(config_map("web", data={"value": value})))
        push(folder, f"{registry.host}/{app}:stable", auth=login, plain_http=True)

    def live(self, app: str, cluster: str = "test") -> str:
        body = self.fleet.get(f"/api/v1/namespaces/{app}/configmaps/web", cluster)
        return body["data"]["value"] if body else "nothing"

    def said(self, app: str, reason: str, words: str = "") -> str:
        """The message once the application's state has this reason, and these words in it."""

        def told() -> str:
            state = self.fleet.state(app)
            message = state.get("message", "")
            return message if state.get("reason") == reason and words in message else ""

        try:
            return wait_for(told, timeout=120, what=f"{app}: {reason}: {words}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.fleet.state(app)}\n{self.fleet.logs()[-4000:]}") from None


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Places]:
    folder = tmp_path_factory.mktemp("places")
    with (
        RedisServer() as redis,
        Registry() as shaky_registry,
        Cluster(name="shaky") as shaky,
        Fleet(folder / "fleet", redis, registry, [cluster, shaky], **TIMEOUTS) as fleet,
    ):
        (folder / "bundles").mkdir()
        yield Places(fleet, shaky_registry, shaky, folder / "bundles")


@pytest.fixture(scope="module")
def bystander(places: Places) -> str:
    """An application that has nothing to do with what is broken."""
    app = places.application("bystander", registry=places.fleet.registry, cluster="test")
    places.fleet.wait_run(app, phase="Succeeded")
    return app


def unaffected(places: Places, bystander: str) -> None:
    """It is synced while somebody else's registry or cluster is still away."""
    assert places.fleet.sync(bystander)["phase"] == "Succeeded"


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        pytest.param(Registry.kill, "connection refused", id="refused"),
        pytest.param(Registry.pause, "no answer for 8 s", id="black hole"),
    ],
)
def test_unreachable_registry(places: Places, bystander: str, breaks: Callable[[Registry], None], says: str) -> None:
    fleet, broken = places.fleet, places.registry
    app = places.application("far", registry=broken, cluster="test")
    good = fleet.wait_run(app, phase="Succeeded")
    places.push(app, broken, "v2")
    start = fleet.clusters["test"].audit_position()
    breaks(broken)
    try:
        request = fleet.request(app)
        assert broken.host in places.said(app, "SourceUnavailable", says)
        state = fleet.state(app)
        assert (state["sync"], state["health"]) == ("Unknown", "Healthy")
        assert state["digest"] == good["revision"]["digest"], "what is in force is still known"
        assert places.live(app) == "v1"
        unaffected(places, bystander)
        assert not fleet.writes(app, since=start, parents=True)
    finally:
        broken.resume()
        broken.start()
    assert answer_to(fleet, app, request, 120)["phase"] == "Succeeded", "by itself, and for the one who asked"
    assert places.live(app) == "v2"
    assert fleet.state(app)["sync"] == "Synced"


def test_what_is_in_force_is_healed_while_the_registry_is_away(places: Places) -> None:
    fleet, broken = places.fleet, places.registry
    app = places.application("cached", registry=broken, cluster="test")
    fleet.wait_run(app, phase="Succeeded")
    places.push(app, broken, "v2")
    broken.kill()
    try:
        request = fleet.request(app)
        places.said(app, "SourceUnavailable")
        web = f"/api/v1/namespaces/{app}/configmaps/web"
        Hands(fleet.clusters["test"]).merge(web, {"data": {"value": "mine"}}, "kubectl-edit")
        wait_for(lambda: fleet.ring(app) or places.live(app) == "v1", what="the heal", every=0.5)
        wait_for(lambda: not fleet.runs.look(app).run, what="it to end")
        (heal,) = (entry for entry in fleet.history(app) if entry["trigger"] == "Drift")
        assert (heal["phase"], heal["request"]) == ("Succeeded", ""), "nobody asked for this one"
        state = fleet.state(app)
        assert (state["sync"], state["health"], state["reason"]) == ("Unknown", "Healthy", "SourceUnavailable")
    finally:
        broken.start()
    assert answer_to(fleet, app, request, 120)["phase"] == "Succeeded"
    assert places.live(app) == "v2"


@pytest.mark.parametrize(
    ("breaks", "says"),
    [
        pytest.param(Cluster.kill, "connection refused", id="refused"),
        pytest.param(Cluster.pause, "no answer within 8 s", id="black hole"),
    ],
)
def test_unreachable_cluster(places: Places, bystander: str, breaks: Callable[[Cluster], None], says: str) -> None:
    fleet, broken = places.fleet, places.cluster
    app = places.application("near", registry=fleet.registry, cluster="shaky")
    good = fleet.wait_run(app, phase="Succeeded")
    places.push(app, fleet.registry, "v2")
    since = fleet.runs_ended(app)
    breaks(broken)
    try:
        fleet.request(app)
        assert "cluster shaky" in places.said(app, "ClusterUnavailable", says)
        state = fleet.state(app)
        assert state["sync"] == "Unknown"
        assert state["digest"] == good["revision"]["digest"]
        unaffected(places, bystander)
    finally:
        broken.resume()
        broken.restart()
    mended = fleet.wait_run(app, phase="Succeeded", since=since)
    assert mended["revision"]["digest"] != good["revision"]["digest"]
    assert places.live(app, "shaky") == "v2"
    assert fleet.state(app)["sync"] == "Synced"


def test_token_the_cluster_does_not_know(places: Places, bystander: str) -> None:
    """Field case l9: the refusal does not repeat the token."""
    fleet, known = places.fleet, places.fleet.clusters["test"]
    spec = {"server": known.server, "ca": {"inline": known.ca_pem}, "token": {"inline": "wrong-" + "t0k3n" * 4}}
    catalog(fleet, "Cluster", "locked", spec)
    fleet.clusters["locked"] = known  # for looking, not for Fleetbeat
    app = places.application("locked-out", registry=fleet.registry, cluster="locked")
    message = places.said(app, "Unauthorized")
    assert "cluster locked" in message
    assert "credentials" in message
    assert "t0k3n" not in fleet.logs() + message
    unaffected(places, bystander)
    assert places.live(app) == "nothing"
    catalog(fleet, "Cluster", "locked", spec | {"token": {"inline": known.token}})
    fleet.wait_run(app, phase="Succeeded")
    assert places.live(app) == "v1"


def test_registry_that_wants_a_login(places: Places, bystander: str, local_binary: Path) -> None:
    fleet, password = places.fleet, "pa55" * 4
    login = RegistryAuth("ci", Credential(inline=SecretText(password)))
    app = fleet.name("private")
    fleet.clusters["test"].request("POST", "/api/v1/namespaces", {"metadata": {"name": app}})
    with Registry(users={"ci": password}) as guarded:
        places.push(app, guarded, "v1", login)
        where = {"oci": f"{guarded.host}/{app}"}
        fleet.application(app, namespace=app, source=where, retry=RETRY)
        assert places.said(app, "Unauthorized").endswith("the registry refused an anonymous request (401)")
        fleet.application(app, namespace=app, source=where | _login("ci", password + "x"), retry=RETRY)
        refused = places.said(app, "Unauthorized", "Check source.auth")
        assert f"{guarded.host}/{app}:stable" in refused
        unaffected(places, bystander)
        fleet.application(app, namespace=app, source=where | _login("ci", password), retry=RETRY)
        fleet.wait_run(app, phase="Succeeded")
        assert places.live(app) == "v1"
        assert password not in fleet.logs()


def _login(user: str, password: str) -> dict[str, Any]:
    return {"auth": {"username": user, "password": {"inline": password}}}


BROKEN_CATALOGS = [
    pytest.param(
        {"source": {"oci": "registry.example.com/shop"}, "destination": {"cluster": "test"}, "sink": {"prune": False}},
        ("app-broken.yaml", "Application broken", "spec.sink", "sync"),
        id="unknown field",
    ),
    pytest.param(
        {"source": {"oci": "registry.example.com/shop"}, "destination": {"cluster": "tset"}},
        ("app-broken.yaml", "Application broken", "tset", "test"),
        id="missing cluster",
    ),
    pytest.param(
        {"source": {"oci": "https://ci:hunter2@registry.example.com/shop"}, "destination": {"cluster": "test"}},
        ("app-broken.yaml", "spec.source.oci", "credentials"),
        id="password in a URL",
    ),
]


@pytest.mark.parametrize(("spec", "says"), BROKEN_CATALOGS)
def test_broken_catalog_leaves_the_last_good_one_in_force(
    places: Places, bystander: str, spec: dict[str, Any], says: tuple[str, ...]
) -> None:
    fleet = places.fleet
    before = fleet.catalogs.status()
    start = fleet.clusters["test"].audit_position()

    def told(*words: str) -> None:
        wait_for(lambda: all(word in fleet.catalogs.status().error for word in words), what=f"{words}")

    file, away = fleet.catalog / f"app-{bystander}.yaml", fleet.folder / "away"
    catalog(fleet, "Application", "broken", spec)
    try:
        told(*says)
        # Then an application's file goes away: while the catalog is broken that means nothing. Beat has looked at the
        # folder without it when it names the mistake that was made after that.
        file.rename(away)
        catalog(fleet, "Application", "worse", {})
        told(*says, "app-worse.yaml")
        assert fleet.catalogs.status().digest == before.digest
        assert "hunter2" not in fleet.catalogs.status().error + fleet.logs()
        assert bystander in fleet.catalogs.names()
        places.push(bystander, fleet.registry, f"while {says[1]}{secrets.token_hex(2)}")
        assert fleet.sync(bystander)["counts"] == {"configured": 1}, "what is in force goes on"
        assert not [event for event in fleet.writes(bystander, since=start) if event["verb"] == "delete"]
    finally:
        if away.exists():
            away.rename(file)
        for name in ("broken", "worse"):
            (fleet.catalog / f"app-{name}.yaml").unlink(missing_ok=True)
    wait_for(lambda: fleet.catalogs.status().error == "", what="the catalog to be repaired")


def catalog(fleet: Fleet, kind: str, name: str, spec: dict[str, Any]) -> None:
    document = {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    short = "app" if kind == "Application" else "cluster"
    fleet._write(f"{short}-{name}.yaml", document)
