"""The shared look: how many requests a fleet costs, and that nobody sees anything stale."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from unhurried import UNHURRIED
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.clients import observe
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.observe import Observations
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.inventory import PART_OF, applyset_id
from fleetbeat.errors import ClusterUnavailable, Unauthorized
from fleetbeat.local.cluster import Cluster
from fleetbeat.model import Cluster as ClusterEntry
from fleetbeat.model import Credential, ObjectId, SecretText

KINDS = (("", "ConfigMap"), ("", "Secret"), ("", "ServiceAccount"))


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, bytes(32))


def connect(cluster: Cluster, token: str, name: str) -> KubernetesCluster:
    entry = ClusterEntry(
        name=name,
        server=cluster.server,
        ca=Credential(inline=SecretText(cluster.ca_pem)),
        token=Credential(inline=SecretText(token)),
    )
    return KubernetesCluster.connect(entry, http=UNHURRIED)


def agent() -> str:
    """A User-Agent nobody else has, so that a test counts its own requests."""
    return f"fleetbeat/test {uuid.uuid4().hex}"


@pytest.fixture
def kube(cluster: Cluster) -> KubernetesCluster:
    return connect(cluster, cluster.token, "test").acting(agent(), None)


def place(cluster: Cluster, namespace: str, kind: str, name: str, app: str) -> None:
    plural = {"ConfigMap": "configmaps", "Secret": "secrets", "ServiceAccount": "serviceaccounts"}[kind]
    body = {"metadata": {"name": name, "labels": {PART_OF: applyset_id(app, "fleetbeat")}}}
    status, answer = cluster.request("POST", f"/api/v1/namespaces/{namespace}/{plural}", body)
    assert status == 201, answer


def lists(cluster: Cluster, kube: KubernetesCluster, since: int) -> list[str]:
    """Those of ``kube``, without further pages: they are about objects that other tests have left in this cluster."""
    mine = kube._transport._user_agent
    asked = [e for e in cluster.audit(since) if e["verb"] == "list" and e.get("userAgent") == mine]
    return [e["requestURI"].split("?")[0] for e in asked if "continue=" not in e["requestURI"]]


def test_a_fleet_of_applications_costs_one_request_per_kind(
    store: Store, cluster: Cluster, kube: KubernetesCluster, namespace: str
) -> None:
    apps = [f"app-{uuid.uuid4().hex[:6]}" for _ in range(50)]
    for app in apps:
        for _, kind in KINDS:
            place(cluster, namespace, kind, app, app)
    apis, look = kube.api_set(), Observations(store)
    places = {kind: [namespace] for kind in KINDS}
    since = cluster.audit_position()
    for app in apps:
        found = look.look(kube, apis, applyset_id(app, "fleetbeat"), places, age=60)
        assert set(found) == {ObjectId(g, k, namespace, app) for g, k in KINDS}
    assert sorted(lists(cluster, kube, since)) == ["/api/v1/configmaps", "/api/v1/secrets", "/api/v1/serviceaccounts"]


def test_many_at_once_are_answered_by_one_sweep(
    store: Store, cluster: Cluster, kube: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Single-flight: workers that come while a sweep is under way wait for its answer."""
    monkeypatch.setattr(observe, "_WAIT", 60)  # however long the API server takes
    monkeypatch.setattr(observe, "_SWEEP", 60_000)
    app = f"app-{uuid.uuid4().hex[:6]}"
    place(cluster, namespace, "ConfigMap", "web", app)
    apis, begin = kube.api_set(), threading.Barrier(12)
    answers: list[Any] = []

    def ask() -> None:
        look = Observations(Store(store_url, bytes(32)))
        begin.wait(60)
        answers.append(look.look(kube, apis, applyset_id(app, "fleetbeat"), {("", "ConfigMap"): [namespace]}, age=60))

    store_url = f"redis://127.0.0.1:{store.redis.connection_pool.connection_kwargs['port']}/0"
    since = cluster.audit_position()
    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(answers) == 12
    assert all(set(answer) == {ObjectId("", "ConfigMap", namespace, "web")} for answer in answers)
    assert lists(cluster, kube, since) == ["/api/v1/configmaps"]


def now_ms(store: Store) -> int:
    with errors():
        seconds, micros = store.redis.time()  # type: ignore[misc]
    return seconds * 1000 + micros // 1000


@pytest.mark.parametrize(
    ("limits", "asks_again"),
    [
        pytest.param(lambda _: {"age": 60}, False, id="fresh enough"),
        pytest.param(lambda _: {"age": 0}, True, id="too old"),
        pytest.param(lambda store: {"age": 60, "since": now_ms(store) + 1}, True, id="begun before the last run ended"),
    ],
)
def test_what_is_too_old_is_asked_again(
    store: Store,
    cluster: Cluster,
    kube: KubernetesCluster,
    namespace: str,
    limits: Callable[[Store], dict[str, Any]],
    asks_again: bool,
) -> None:
    app = f"app-{uuid.uuid4().hex[:6]}"
    place(cluster, namespace, "ConfigMap", "old", app)
    apis, look = kube.api_set(), Observations(store)
    places = {("", "ConfigMap"): [namespace]}
    before = look.look(kube, apis, applyset_id(app, "fleetbeat"), places, age=60)
    place(cluster, namespace, "ConfigMap", "new", app)
    with errors():
        store.redis.hincrby(keys.observed("test", "ConfigMap", ""), "@", -1)  # so that the same millisecond is over
    after = look.look(kube, apis, applyset_id(app, "fleetbeat"), places, **limits(store))
    assert (len(after) > len(before)) is asks_again


@pytest.mark.parametrize("since", [0, 3_600_000], ids=["sweep", "sweep and run"])
def test_what_was_seen_before_the_clock_went_back_is_asked_again(
    store: Store, cluster: Cluster, kube: KubernetesCluster, namespace: str, since: int
) -> None:
    """Field case j4: a sweep of the future is not fresh; a run's end there does not hide a new one."""
    app = f"app-{uuid.uuid4().hex[:6]}"
    apis, look, places = kube.api_set(), Observations(store), {("", "ConfigMap"): [namespace]}
    look.look(kube, apis, applyset_id(app, "fleetbeat"), places, age=60)
    with errors():
        store.redis.hincrby(keys.observed("test", "ConfigMap", ""), "@", 3_600_000)
    place(cluster, namespace, "ConfigMap", "new", app)
    ended = now_ms(store) + since if since else 0
    assert len(look.look(kube, apis, applyset_id(app, "fleetbeat"), places, age=60, since=ended)) == 1


def test_a_kind_that_is_not_served_has_no_objects(store: Store, kube: KubernetesCluster) -> None:
    look = Observations(store)
    assert look.look(kube, kube.api_set(), "applyset-x", {("gone.example.com", "Boat"): ["x"]}, age=60) == {}


def test_a_failing_list_raises_and_keeps_nothing(store: Store, kube: KubernetesCluster) -> None:
    """Field case k9: nothing partial is ever taken for the truth, and the next one may try."""

    class Failing:
        name = "test"

        def list(self, *_: object, **__: object) -> list[Any]:
            raise ClusterUnavailable("gone")

    look, apis = Observations(store), kube.api_set()
    with pytest.raises(ClusterUnavailable):
        look.look(Failing(), apis, "applyset-x", {("", "ConfigMap"): ["x"]}, age=60)  # type: ignore[arg-type]
    with errors():
        assert store.redis.keys("*observed*") == []


def may_list(cluster: Cluster, user: str, namespace: str) -> bool:
    """May this user list ConfigMaps there? The authorizer learns of a binding a moment after it was written."""
    asked = {"verb": "list", "resource": "configmaps", "namespace": namespace}
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    _, answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_rights_per_namespace_are_enough(store: Store, cluster: Cluster, namespace: str) -> None:
    """Where the cluster-wide LIST is forbidden the sweep is made per namespace, shared all the same."""
    user = f"tenant-{uuid.uuid4().hex[:6]}"
    certificate = cluster.client_certificate(user)
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    assert cluster.request("POST", f"{rbac}/roles", {"metadata": {"name": "look"}, "rules": [rule]})[0] == 201
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "look"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": "look"}, "roleRef": reference, "subjects": [subject]}
    assert cluster.request("POST", f"{rbac}/rolebindings", binding)[0] == 201
    entry = ClusterEntry(
        name="limited",
        server=cluster.server,
        ca=Credential(inline=SecretText(cluster.ca_pem)),
        client_certificate=Credential(inline=SecretText(certificate.certificate)),
        client_key=Credential(inline=SecretText(certificate.key)),
    )
    kube = KubernetesCluster.connect(entry, http=UNHURRIED).acting(agent(), None)
    config_maps = f"/api/v1/namespaces/{namespace}/configmaps"
    wait_for(lambda: may_list(cluster, user, namespace), what="the server to know the binding")
    apps = [f"app-{uuid.uuid4().hex[:6]}" for _ in range(3)]
    for app in apps:
        place(cluster, namespace, "ConfigMap", app, app)
    apis, look = kube.api_set(), Observations(store)
    since = cluster.audit_position()
    for app in apps:
        found = look.look(kube, apis, applyset_id(app, "fleetbeat"), {("", "ConfigMap"): [namespace]}, age=60)
        assert set(found) == {ObjectId("", "ConfigMap", namespace, app)}
    assert lists(cluster, kube, since) == ["/api/v1/configmaps", config_maps]
    with pytest.raises(Unauthorized, match="secrets"):
        look.look(kube, apis, "applyset-x", {("", "Secret"): [namespace]}, age=60)
    places = {("", "ConfigMap"): [namespace, f"gone-{user}"]}
    with pytest.raises(Unauthorized, match=f"namespace gone-{user}"):  # it may be closed to us as well
        look.look(kube, apis, "applyset-x", places, age=60)

    sight = {"metadata": {"name": user}, "rules": [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]}
    base = "/apis/rbac.authorization.k8s.io/v1"
    assert cluster.request("POST", f"{base}/clusterroles", sight)[0] == 201
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    assert cluster.request("POST", f"{base}/clusterrolebindings", binding)[0] == 201

    def seen() -> bool:
        try:
            found = look.look(kube, apis, applyset_id(apps[0], "fleetbeat"), places, age=60)
        except Unauthorized:
            return False
        return set(found) == {ObjectId("", "ConfigMap", namespace, apps[0])}

    wait_for(seen, what="the namespace known to be gone")
