"""Following a kind on a real API server: a list, then every event, over breaks, time-outs and lost histories."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from unhurried import UNHURRIED
from waiting import wait_for

from fleetbeat.clients import cluster_connect, cluster_watch
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.cluster_watch import Event, Listed, follow
from fleetbeat.errors import FleetbeatError, NotYet, Unauthorized
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import CONFIG_MAP, ApiResource, Cluster, Credential, SecretText

LABEL = "applyset.kubernetes.io/part-of"


def connect(local: LocalCluster, token: str = "") -> KubernetesCluster:
    ca, credential = Credential(inline=SecretText(local.ca_pem)), Credential(inline=SecretText(token or local.token))
    return KubernetesCluster.connect(Cluster(name="test", server=local.server, ca=ca, token=credential), http=UNHURRIED)


@pytest.fixture
def kube(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> KubernetesCluster:
    monkeypatch.setattr(cluster_connect, "_connections", type(cluster_connect._connections)())  # nothing cached
    return connect(cluster)


class Follower:
    """What came, in order."""

    def __init__(self) -> None:
        self.news: list[Listed | Event] = []
        self.error: FleetbeatError | None = None

    @property
    def words(self) -> list[str]:
        return [
            f"{news.word} {news.body['metadata']['name']}"
            if isinstance(news, Event)
            else f"LISTED {sorted(body['metadata']['name'] for body in news.bodies)}"
            for news in self.news
        ]


@contextmanager
def following(
    kube: Callable[[], KubernetesCluster], namespace: str, resource: ApiResource = CONFIG_MAP, silence: float = 30
) -> Iterator[Follower]:
    stop, follower = threading.Event(), Follower()

    def run() -> None:
        try:
            for news in follow(kube, resource, selector=LABEL, namespace=namespace, stop=stop, silence=silence):
                follower.news.append(news)
        except FleetbeatError as error:
            follower.error = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield follower
    finally:
        stop.set()


def put(local: LocalCluster, namespace: str, name: str, *, label: str | None = "x", data: str = "1") -> None:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL: label} if label else {}},
        "data": {"secret-ish": data},
    }
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    status, answer = local.request("POST", path, body)
    if status == 409:
        status, answer = local.request("PUT", f"{path}/{name}", body)
    assert status in (200, 201), answer


def test_a_list_and_then_every_event(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    put(cluster, namespace, "there")
    put(cluster, namespace, "nobodys", label=None)
    with following(lambda: kube, namespace) as follower:
        wait_for(lambda: follower.words == ["LISTED ['there']"])
        put(cluster, namespace, "there", data="2")
        put(cluster, namespace, "new")
        put(cluster, namespace, "new", label=None)
        put(cluster, namespace, "nobodys", label=None, data="2")
        cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/there")
        expected = ["MODIFIED there", "ADDED new", "DELETED new", "DELETED there"]
        wait_for(lambda: follower.words[1:] == expected)
        bodies = [news.body for news in follower.news if isinstance(news, Event)]
    assert all("data" not in body for body in bodies), "an event carries metadata alone"


def test_the_server_ends_a_watch_and_nothing_is_missed(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_watch, "_ENDS_AFTER", (1, 1))
    position = cluster.audit_position()
    with following(lambda: kube, namespace) as follower:

        def watches() -> int:
            events = cluster.audit(position)
            return sum(f"namespaces/{namespace}/configmaps?watch=1" in event["requestURI"] for event in events)

        wait_for(lambda: follower.words == ["LISTED []"])
        for number in range(3):
            before = watches()
            put(cluster, namespace, f"c{number}")
            wait_for(lambda number=number: f"ADDED c{number}" in follower.words)
            wait_for(lambda before=before: watches() > before, what="another watch")
    assert follower.words[1:] == ["ADDED c0", "ADDED c1", "ADDED c2"], "each once"


def test_a_history_the_server_has_dropped_is_listed_anew(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """410 Gone, as after a long break."""
    put(cluster, namespace, "there")
    monkeypatch.setattr(kube, "events", _expired_once(kube))
    with following(lambda: kube, namespace) as follower:
        wait_for(lambda: follower.words[:2] == ["LISTED ['there']", "LISTED ['there']"])
        put(cluster, namespace, "new")
        wait_for(lambda: follower.words[2:] == ["ADDED new"])


def _expired_once(kube: KubernetesCluster) -> object:
    """The server's own words for it: an ERROR event with a Status of code 410, then a real watch."""
    real, told = kube.events, threading.Event()

    @contextmanager
    def events(*args: object, **kwargs: object) -> Iterator[Iterator[bytes]]:
        if not told.is_set():
            told.set()
            yield iter([b'{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old resource version"}}'])
            return
        with real(*args, **kwargs) as lines:  # type: ignore[arg-type]
            yield lines

    return events


def test_a_kind_that_is_not_served(kube: KubernetesCluster, namespace: str) -> None:
    unknown = ApiResource("nowhere.example.com", "v1", "Thing", "things", True)
    with following(lambda: kube, namespace, unknown) as follower:
        error = wait_for(lambda: follower.error)
    assert isinstance(error, NotYet)


def test_wrong_credentials(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    with following(lambda: connect(cluster, "wrong"), namespace) as follower:
        error = wait_for(lambda: follower.error)
    assert isinstance(error, Unauthorized)
    assert "wrong" not in str(error).replace("are wrong or", "")


def test_the_server_goes_away_and_comes_back(local_binary: object) -> None:
    with LocalCluster(name="restarted") as own:
        own.request("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
        put(own, "shop", "there")
        with following(lambda: connect(own), "shop") as follower:
            wait_for(lambda: follower.words == ["LISTED ['there']"])
            own.pause()
            own.resume()
            put(own, "shop", "new")
            wait_for(lambda: "ADDED new" in follower.words)
