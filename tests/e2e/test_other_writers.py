"""Who wins: the other writers of a real cluster, one by one and all together.

For each: what is left and what is put back, that nobody writes any more when it has been decided (four further looks,
the API server's own log), and that status or history say it. Webhooks are real ones that the API server calls.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from fleet import PATIENT, Fleet, config_map, outcomes
from kubectl import PROGRAM, Kubectl, Program, Requests
from people import Hands, quiet
from rivals import Rival, over_a_key
from waiting import wait_for
from webhook import Mutate, Webhook

from fleetbeat.cli.status_view import view
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@pytest.fixture
def hands(cluster: Cluster) -> Hands:
    return Hands(cluster)


@pytest.fixture
def synced(fleet: Fleet, namespace: str) -> Callable[..., str]:
    """``synced(manifest, …, spec={…})``: an application with these objects in place; its name."""

    def sync(*manifests: Body, spec: Body | None = None) -> str:
        app = fleet.name("writers")
        fleet.push(app, manifests)
        fleet.application(app, namespace=namespace, spec=spec)
        fleet.wait_run(app, phase="Succeeded")
        return app

    return sync


@pytest.fixture(params=["requests", "kubectl"])
def kubectl(request: pytest.FixtureRequest, cluster: Cluster, namespace: str, hands: Hands, tmp_path: Path) -> Kubectl:
    if request.param == "requests":
        return Requests(hands, namespace)
    if PROGRAM is None:
        pytest.skip("kubectl is not installed")
    return Program(cluster, namespace, tmp_path)


def look(fleet: Fleet, app: str) -> Body:
    """What the look at what somebody has done finds: the newest run."""
    assert "began: Drift" in fleet.tick(app)
    return fleet.history(app)[0]


def at_peace(fleet: Fleet, app: str, *paths: str, cluster: str = "", versions: bool = True) -> None:
    """Four further looks: nothing is written, no generation and no version grows, and the application is Synced.

    ``versions`` False: of objects whose status controllers write when they get round to it.
    """
    of = fleet.clusters[cluster] if cluster else next(iter(fleet.clusters.values()))
    seen = {path: fleet.get(path, cluster) for path in paths}
    start = of.audit_position()
    for _ in range(4):
        assert fleet.tick(app) == "nothing to do"
    assert fleet.writes(app, cluster=cluster, since=start) == []
    for path, body in seen.items():
        now = fleet.get(path, cluster)
        assert body is not None
        assert now is not None
        for count in ("generation", "resourceVersion") if versions else ("generation",):
            assert now["metadata"].get(count) == body["metadata"].get(count), path
    assert fleet.state(app)["sync"] == "Synced"


def conditions(fleet: Fleet, app: str) -> list[Body]:
    """Those that name an object, as ``fleetbeat status -o json`` shows them."""
    found: list[Body] = view(app, fleet.runs.look(app), now_ms=0, due_ms=None).to_json()["conditions"]
    return [one for one in found if "object" in one]


def again(fleet: Fleet, app: str, *manifests: Body) -> Body:
    """The next revision, and its run."""
    revision = fleet.push(app, manifests)
    fleet.tick(app)
    entry = fleet.history(app)[0]
    assert (entry["phase"], entry["revision"]["digest"]) == ("Succeeded", revision.digest), entry
    return entry


def deployment(replicas: int | None = 3, image: str = "web:1", name: str = "web") -> Body:
    spec: Body = {
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return quiet({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec})


def pod(image: str) -> Body:
    spec = {"containers": [{"name": "web", "image": image}]}
    return quiet({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "single"}, "spec": spec})


@contextmanager
def served(
    hands: Hands, folder: Path, namespace: str, mutate: Mutate, group: str, resource: str, *operations: str
) -> Iterator[None]:
    """The webhook, known to the API server, until the end."""
    name = f"{namespace}-{resource}"
    with Webhook(folder, mutate) as hook:
        chosen = operations or ("CREATE", "UPDATE")
        hands.create(CONFIGURATIONS, hook.configuration(name, namespace, group, resource, chosen))
        try:
            wait_for(lambda: _called(hands, namespace, resource), what="the API server to know the webhook")
            yield
        finally:
            hands.delete(f"{CONFIGURATIONS}/{name}")


def _called(hands: Hands, namespace: str, resource: str) -> bool:
    """Configurations reach the API server by a watch: does a trial come back changed?"""
    if resource == "pods":
        trial, path = pod("trial:1"), f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    else:
        trial, path = deployment(name="trial"), f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
    trial["metadata"] |= {"name": "trial", "namespace": namespace}
    return "mutated" in (hands.create(path, trial)["metadata"].get("annotations") or {})


def _marked(body: Body) -> list[Body]:
    """So that ``_called`` sees it; webhooks of real tools leave such a mark too."""
    if "mutated" in (body["metadata"].get("annotations") or {}):
        return []
    if not body["metadata"].get("annotations"):
        return [{"op": "add", "path": "/metadata/annotations", "value": {"mutated": "yes"}}]
    return [{"op": "add", "path": "/metadata/annotations/mutated", "value": "yes"}]


def defaults(body: Body) -> list[Body]:
    """A policy engine: what is missing is filled in, what is there stays."""
    patch = _marked(body)
    for number, container in enumerate(body["spec"]["template"]["spec"]["containers"]):
        if not container.get("resources"):
            path = f"/spec/template/spec/containers/{number}/resources"
            patch.append({"op": "add", "path": path, "value": {"limits": {"cpu": "1"}}})
    if not body["spec"]["template"]["spec"].get("nodeSelector"):
        patch.append({"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"pool": "general"}})
    return patch


def sidecar_of(at: str) -> Mutate:
    """An injector: one more container, a volume, and its mount in the others, as service meshes have it."""

    def inject(body: Body) -> list[Body]:
        spec = body["spec"]["template"]["spec"] if at else body["spec"]
        patch = _marked(body)
        if all(container["name"] != "proxy" for container in spec["containers"]):
            proxy = {"name": "proxy", "image": "proxy:1", "volumeMounts": [{"name": "mesh", "mountPath": "/mesh"}]}
            patch.append({"op": "add", "path": f"{at}/spec/containers/-", "value": proxy})
            volume = {"name": "mesh", "emptyDir": {}}
            if spec.get("volumes"):
                patch.append({"op": "add", "path": f"{at}/spec/volumes/-", "value": volume})
            else:
                patch.append({"op": "add", "path": f"{at}/spec/volumes", "value": [volume]})
        return patch

    return inject


# ── one by one ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_autoscaler(controlled: Fleet) -> None:
    """The real controller scales to its minimum: the number is its, the rest of the Deployment is the bundle's."""
    (cluster,) = controlled.clusters.values()
    hands, app = Hands(cluster), controlled.name("hpa")
    space = controlled.name("s")
    path = f"/apis/apps/v1/namespaces/{space}/deployments/web"
    hands.create("/api/v1/namespaces", {"metadata": {"name": space}})
    scaler = quiet(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 4,
                "maxReplicas": 5,
            },
        }
    )
    controlled.push(app, [deployment(1), scaler])
    controlled.application(app, namespace=space)
    controlled.wait_run(app, phase="Succeeded")
    wait_for(lambda: hands.get(path)["spec"]["replicas"] == 4, timeout=120, what="the autoscaler")
    entry = look(controlled, app)
    assert outcomes(entry) == {f"Deployment {space}/web": "unchanged"}
    assert "spec.replicas is left to kube-controller-manager (Update of scale" in entry["results"][0]["reason"]
    generation = hands.get(path)["metadata"]["generation"]
    for _ in range(4):
        controlled.tick(app)
    assert hands.get(path)["metadata"]["generation"] == generation
    assert controlled.state(app)["sync"] == "Synced"

    entry = again(controlled, app, deployment(1, "web:2"), scaler)
    assert "spec.replicas is left to kube-controller-manager" in entry["results"][0]["reason"]
    live = hands.get(path)
    assert live["spec"]["replicas"] == 4
    assert live["metadata"]["generation"] == generation + 1
    said = f"Deployment {space}/web: spec.replicas is left to kube-controller-manager (Update of scale"
    assert [one["message"].startswith(said) for one in conditions(controlled, app)] == [True]
    controlled.push(app, [deployment(None, "web:2"), scaler])
    controlled.tick(app)
    assert conditions(controlled, app) == []


def test_a_ca_injector(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """The bundle has no caBundle: it is the injector's, and a later revision leaves it where it is."""
    hook: Body = {
        "name": "w.example.com",
        "clientConfig": {"service": {"name": "w", "namespace": namespace}},
        "rules": [{"apiGroups": ["x.example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "namespaceSelector": {"matchLabels": {"never": "there"}},
    }
    configuration: Body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [hook],
    }
    app = synced(configuration)
    path = f"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{namespace}"
    bundle = base64.b64encode(cluster.ca_pem.encode()).decode()
    live = hands.get(path)
    live["webhooks"][0]["clientConfig"]["caBundle"] = bundle
    hands.merge(path, {"webhooks": live["webhooks"]}, "cainjector")
    assert look(fleet, app)["counts"] == {"unchanged": 1}
    at_peace(fleet, app, path)
    hook["timeoutSeconds"] = 7
    assert again(fleet, app, configuration)["counts"] == {"configured": 1}
    live = hands.get(path)["webhooks"][0]
    assert (live["timeoutSeconds"], live["clientConfig"]["caBundle"]) == (7, bundle)
    at_peace(fleet, app, path)


def test_a_webhook_that_fills_in_defaults(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, tmp_path: Path
) -> None:
    """What it fills in is no difference, also after a revision and after somebody took a default away."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    with served(hands, tmp_path, namespace, defaults, "apps", "deployments"):
        app = synced(deployment())
        at_peace(fleet, app, path)
        assert again(fleet, app, deployment(image="web:2"))["counts"] == {"configured": 1}
        hands.merge(path, {"spec": {"template": {"spec": {"nodeSelector": None}}}})
        fleet.tick(app)
        live = hands.get(path)["spec"]["template"]["spec"]
        assert live["nodeSelector"] == {"pool": "general"}
        assert live["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
        assert live["containers"][0]["image"] == "web:2"
        at_peace(fleet, app, path)


@pytest.mark.parametrize("operations", [("CREATE",), ("CREATE", "UPDATE")], ids=["at creation", "at each write"])
def test_an_injector_into_templates(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, tmp_path: Path, operations: tuple[str, ...]
) -> None:
    """The sidecar stays, also with an injector that never comes back to put it in again."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    with served(hands, tmp_path, namespace, sidecar_of("/spec/template"), "apps", "deployments", *operations):
        app = synced(deployment())
        at_peace(fleet, app, path)
        assert again(fleet, app, deployment(image="web:2"))["counts"] == {"configured": 1}
        spec = hands.get(path)["spec"]["template"]["spec"]
        assert [container["image"] for container in spec["containers"]] == ["web:2", "proxy:1"]
        assert [volume["name"] for volume in spec["volumes"]] == ["mesh"]
        at_peace(fleet, app, path)


def test_an_injector_into_pods(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, tmp_path: Path
) -> None:
    """A Pod of the bundle keeps its sidecar: containers of a Pod cannot be taken away again."""
    path = f"/api/v1/namespaces/{namespace}/pods/single"
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    hands.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    with served(hands, tmp_path, namespace, sidecar_of(""), "", "pods", "CREATE"):
        app = synced(pod("web:1"))
        at_peace(fleet, app, path)
        assert again(fleet, app, pod("web:2"))["counts"] == {"configured": 1}
        assert [one["image"] for one in hands.get(path)["spec"]["containers"]] == ["web:2", "proxy:1"]
        at_peace(fleet, app, path)


@pytest.mark.parametrize("yields", [False, True], ids=["by default", "with a rule"])
def test_an_operator_with_a_key_of_its_own(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, yields: bool
) -> None:
    """A key the bundle does not have is the operator's; one it has is the bundle's, unless a rule says otherwise."""
    rule = {"manager": "elector", "policy": "yield", "kind": "ConfigMap", "fields": ["/data/leader"]}
    app = synced(config_map("web", data={"leader": "nobody", "k": "1"}), spec={"conflicts": [rule]} if yields else None)
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    hands.apply(path, config_map("web", namespace, {"leader": "pod-1", "epoch": "7"}), "elector")
    (result,) = look(fleet, app)["results"]
    assert hands.get(path)["data"] == {"leader": "pod-1" if yields else "nobody", "k": "1", "epoch": "7"}
    assert bool(conditions(fleet, app)) is yields
    if yields:
        assert result["outcome"] == "unchanged"
        assert "data.leader is left to elector (Apply, " in result["reason"]
    else:
        assert (result["outcome"], result["fields"]) == ("configured", ["data.leader"])
        assert "data.leader changed by elector (Apply, " in result["reason"]
    at_peace(fleet, app, path)


def test_kubectl_edit(fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, kubectl: Kubectl) -> None:
    """A value of the bundle is put back and the editor named; a new key stays."""
    app = synced(config_map("web", data={"k": "1"}))
    path = f"/api/v1/namespaces/{namespace}/configmaps/web"
    kubectl.edit("web", "k", "9")
    (result,) = look(fleet, app)["results"]
    assert (result["outcome"], result["managers"]) == ("configured", ["kubectl-edit"])
    assert "data.k changed by kubectl-edit (Update, " in result["reason"]
    kubectl.edit("web", "extra", "theirs")
    assert look(fleet, app)["counts"] == {"unchanged": 1}
    assert hands.get(path)["data"] == {"k": "1", "extra": "theirs"}
    at_peace(fleet, app, path)


def test_kubectl_scale(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, kubectl: Kubectl
) -> None:
    """With a number in the bundle that is put back; without one, whoever scales decides."""
    app = synced(deployment(3), deployment(None, name="free"))
    web, free = (f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}" for name in ("web", "free"))
    kubectl.scale("web", 9)
    kubectl.scale("free", 9)
    entry = look(fleet, app)
    (result,) = entry["results"]
    assert entry["counts"] == {"configured": 1, "unchanged": 1}
    assert "spec.replicas changed by kubectl (Update of scale" in result["reason"]
    assert [hands.get(path)["spec"]["replicas"] for path in (web, free)] == [3, 9]
    at_peace(fleet, app, web, free)
    again(fleet, app, deployment(3, "web:2"), deployment(None, "web:2", name="free"))
    assert [hands.get(path)["spec"]["replicas"] for path in (web, free)] == [3, 9]


def test_kubectl_rollout_restart(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, kubectl: Kubectl
) -> None:
    """A restart is not undone, by the next look nor by the next revision."""
    app = synced(deployment())
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    kubectl.restart("web")
    restarted = hands.get(path)["spec"]["template"]["metadata"]["annotations"]
    assert set(restarted) == {"kubectl.kubernetes.io/restartedAt"}
    assert look(fleet, app)["counts"] == {"unchanged": 1}
    at_peace(fleet, app, path)
    again(fleet, app, deployment(image="web:2"))
    assert hands.get(path)["spec"]["template"]["metadata"]["annotations"] == restarted
    at_peace(fleet, app, path)


def test_kubectl_debug_in_a_pod_of_the_bundle(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands
) -> None:
    """An ephemeral container cannot be taken away again: it stays, also with the next revision."""
    path = f"/api/v1/namespaces/{namespace}/pods/single"
    app = synced(pod("web:1"))
    hands.debug(path)
    fleet.tick(app)
    at_peace(fleet, app, path)
    assert again(fleet, app, pod("web:2"))["counts"] == {"configured": 1}
    spec = hands.get(path)["spec"]
    assert [one["image"] for one in spec["containers"]] == ["web:2"]
    assert [one["name"] for one in spec["ephemeralContainers"]] == ["debugger"]
    at_peace(fleet, app, path)


def test_people_at_work_on_pods_and_nodes_of_a_deployment(controlled: Fleet) -> None:
    """``kubectl debug`` in a pod of it, ``kubectl cordon`` of the node it runs on: no look even begins a run."""
    ((name, cluster),) = controlled.clusters.items()
    hands, app = Hands(cluster), controlled.name("debugged")
    controlled.push(app, [deployment(1)])
    controlled.application(app, namespace=app, options=["CreateNamespace=true"])
    controlled.wait_run(app, phase="Succeeded")
    pods, web = f"/api/v1/namespaces/{app}/pods", f"/apis/apps/v1/namespaces/{app}/deployments/web"

    def ready() -> Body | None:
        (one,) = hands.get(pods)["items"] or [None]
        return one if one and hands.get(web)["status"].get("availableReplicas") == 1 else None

    one = wait_for(ready, what="its pod")
    controlled.tick(app)
    start = cluster.audit_position()
    hands.debug(f"{pods}/{one['metadata']['name']}")
    node = f"/api/v1/nodes/{one['spec']['nodeName']}"
    hands.merge(node, {"spec": {"unschedulable": True}}, "kubectl-cordon")
    try:
        at_peace(controlled, app, web, f"{pods}/{one['metadata']['name']}", cluster=name, versions=False)
        assert hands.get(node)["spec"]["unschedulable"] is True
        assert controlled.writes(app, cluster=name, since=start, parents=True) == []
    finally:
        hands.merge(node, {"spec": {"unschedulable": None}}, "kubectl-cordon")


# ── all together ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_any_sequence_of_them_costs_a_write_for_each_deed_and_ends_in_peace(
    fleet: Fleet, synced: Callable[..., str], namespace: str, hands: Hands, cluster: Cluster, tmp_path: Path, seed: int
) -> None:
    """Twenty deeds in a random order, a look after some of them: never more writes than deeds, then none."""
    chance = random.Random(seed)
    web, free = (f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}" for name in ("web", "free"))
    shared = f"/api/v1/namespaces/{namespace}/configmaps/shared"
    people = Requests(hands, namespace)
    deeds: dict[str, Callable[[int], object]] = {
        "autoscaler": lambda n: hands.scale(free, n + 1, "kube-controller-manager"),
        "scale": lambda n: people.scale("web", n + 10),
        "restart": lambda _: people.restart("web"),
        "edit": lambda n: people.edit("shared", "k", f"edit {n}"),
        "extra": lambda n: people.edit("shared", f"extra-{n % 3}", f"{n}"),
        "operator": lambda n: hands.apply(shared, config_map("shared", namespace, {"leader": f"pod-{n}"}), "elector"),
        "insists": lambda n: hands.apply(shared, config_map("shared", namespace, {"k": f"op {n}"}), "elector"),
        "label": lambda n: hands.merge(free, {"metadata": {"labels": {"team": f"t{n}"}}}, "kubectl-label"),
    }
    with served(hands, tmp_path, namespace, sidecar_of("/spec/template"), "apps", "deployments"):
        app = synced(deployment(3), deployment(1, name="free"), config_map("shared", data={"k": "1"}))
        start = cluster.audit_position()
        done = []
        for number in range(20):
            name = chance.choice(sorted(deeds))
            deeds[name](number)
            done.append(name)
            if chance.random() < 0.5:
                fleet.tick(app)
        fleet.sync(app)  # some fields may be fought over by now: whoever asks gets them put back
        ours = fleet.writes(app, since=start)
        assert len(ours) <= sum(name in ("scale", "edit", "insists") for name in done), (done, ours)
        assert hands.get(web)["spec"]["replicas"] == 3
        assert hands.get(shared)["data"]["k"] == "1"
        at_peace(fleet, app, web, free, shared)


def test_all_of_them_insisting_at_once(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Whoever writes again after each heal gets its field for a while: writes end, and the status names each."""
    fleet = make_fleet(**PATIENT, FLEETBEAT_FIGHTS_PAUSE="600")  # longer than this takes on any machine
    app = fleet.name("crowd")
    web = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    shared = f"/api/v1/namespaces/{namespace}/configmaps/shared"
    fleet.push(app, [deployment(3), config_map("shared", data={"a": "1", "b": "1", "c": "1"})])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    start = cluster.audit_position()
    with ExitStack() as crowd:
        rivals = [
            over_a_key(hands, shared, "a", "x", "kubectl-edit"),
            over_a_key(hands, shared, "b", "x", "operator"),
            Rival(lambda: hands.get(web)["spec"]["replicas"] == 9, lambda: hands.scale(web, 9, "kubectl")),
            Rival(
                lambda: hands.get(web)["spec"]["template"]["spec"]["containers"][0]["image"] == "other:1",
                lambda: hands.merge(
                    web,
                    {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "other:1"}]}}}},
                    "image-updater",
                ),
            ),
        ]
        for rival in rivals:
            crowd.enter_context(rival)
        for _ in range(8):
            for rival in rivals:
                rival.has_its_way()
            if fleet.tick(app) == "nothing to do":
                break
        for _ in range(4):
            assert fleet.tick(app) == "nothing to do"
    assert len(fleet.writes(app, since=start)) <= 2 * 2 * 3
    state = fleet.state(app)
    assert (state["sync"], state["reason"]) == ("OutOfSync", "Conflict")
    for party in ("kubectl-edit", "operator", "kubectl", "image-updater"):
        assert f'["fleetbeat","{party}"]' in state["conflicts"]
    assert hands.get(shared)["data"] == {"a": "x", "b": "x", "c": "1"}
