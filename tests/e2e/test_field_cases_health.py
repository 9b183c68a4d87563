"""Field cases of group h, on the real API server: what a wave waits for, what it passes, what it says.

Kinds whose controller must act live on ``controlled``; where a test plays the controller itself, by writing a status,
``fleet`` is enough. Every state of every kind is told without a server in tests/golden/health.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fleet import Fleet, config_map, in_wave, run
from unhurried import UNHURRIED
from waiting import wait_for
from webhook import Body, Webhook

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.engine.judging import Judge
from fleetbeat.local.cluster import Cluster
from fleetbeat.model import Application, Credential, Destination, SecretText, Source
from fleetbeat.model import Cluster as Described
from fleetbeat.model_results import Health

MERGE = "application/merge-patch+json"
GROUP = "health.example.com"


def manifest(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, **place}, **fields}


def workload(kind: str, name: str, namespace: str, template: Mapping[str, Any] | None = None, **spec: Any) -> Any:
    labels = {"app": name}
    pod = {"containers": [{"name": "c", "image": "registry.example.com/c:1"}], **(template or {})}
    body = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}, **spec}
    return manifest("apps/v1", kind, name, namespace, spec=body)


def job(name: str, namespace: str, template: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return manifest("batch/v1", "Job", name, namespace, spec={"template": {"spec": pod_spec(template)}, **spec})


def cron_job(name: str, namespace: str, template: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    inner = {"template": {"spec": pod_spec(template)}}
    body = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": inner}, **spec}
    return manifest("batch/v1", "CronJob", name, namespace, spec=body)


def pod_spec(more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    containers = [{"name": "c", "image": "registry.example.com/c:1"}]
    return {"restartPolicy": "Never", "containers": containers, **(more or {})}


#: a Pod with it fits on no node
NOWHERE = {"nodeSelector": {"no": "where"}}


def the_cluster(fleet: Fleet) -> Cluster:
    return next(iter(fleet.clusters.values()))


def path_of(body: Mapping[str, Any], plural: str = "") -> str:
    api_version, namespace = body["apiVersion"], body["metadata"].get("namespace")
    root = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
    place = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{place}/{plural or _PLURALS.get(body['kind'], body['kind'].lower() + 's')}"


_PLURALS = {"Ingress": "ingresses", "StorageClass": "storageclasses"}


def ask(fleet: Fleet, method: str, path: str, body: Any = None, **more: Any) -> Any:
    status, answer = the_cluster(fleet).request(method, path, body, **more)
    assert status in (200, 201), answer
    return answer


def reported(fleet: Fleet, body: dict[str, Any], status: Mapping[str, Any] | None) -> None:
    """Make the object, as somebody else has, with this status, as its controller would."""
    ask(fleet, "POST", path_of(body), body)
    if status is not None:
        name = body["metadata"]["name"]
        ask(fleet, "PATCH", f"{path_of(body)}/{name}/status", {"status": status}, content_type=MERGE)


def judge(fleet: Fleet) -> Judge:
    """As a worker has it, without rules."""
    running = the_cluster(fleet)
    described = Described(
        running.name,
        running.server,
        ca=Credential(inline=SecretText(running.ca_pem)),
        token=Credential(inline=SecretText(running.token)),
    )
    kube = KubernetesCluster.connect(described, http=UNHURRIED, pool=2)
    return Judge(Application("judge", Source("./x"), Destination(running.name)), kube, kube.api_set(refresh=True))


def seen(fleet: Fleet, body: Mapping[str, Any]) -> Health:
    return judge(fleet).health(ask(fleet, "GET", f"{path_of(body)}/{body['metadata']['name']}"))


def define(fleet: Fleet, kind: str, *, status: bool = True) -> None:
    """A kind whose controller is the test."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    if status:
        version["subresources"] = {"status": {}}
    plural = f"{kind.lower()}s"
    spec = {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural},
        "versions": [version],
    }
    crd = manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{GROUP}", spec=spec)
    found, answer = the_cluster(fleet).request("POST", path_of(crd), crd)
    assert found in (201, 409), answer
    wait_for(lambda: the_cluster(fleet).request("GET", f"/apis/{GROUP}/v1/{plural}")[0] == 200, what=f"{kind} served")


def sync(fleet: Fleet, name: str, bundle: Sequence[Any], namespace: str, **application: Any) -> dict[str, Any]:
    """Push and wait for the first run; returns its history entry."""
    fleet.push(name, bundle)
    fleet.application(name, namespace=namespace, **{"retry": {"limit": 0}, **application})
    return fleet.wait_run(name)


def healths(entry: Mapping[str, Any]) -> dict[str, str]:
    """Kind/name → health, of a history entry."""
    found = {}
    for result in entry["results"]:
        _, kind, _, name = result["id"].split("/")
        found[f"{kind}/{name}"] = result.get("health", "")
    return found


def new_namespace(fleet: Fleet, word: str) -> str:
    name = fleet.name(word)
    ask(fleet, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def space(controlled: Fleet, scaled: list[str]) -> str:
    """A new namespace beside the controllers."""
    name = new_namespace(controlled, "h")
    wait_for(lambda: controlled.get(f"/api/v1/namespaces/{name}/serviceaccounts/default"), what="the default account")
    return name


# Two syncs that take their time begin with the first test that could wait for them.


@pytest.fixture(scope="module")
def silent(fleet: Fleet) -> str:
    """Application and namespace of objects whose controller never says a word."""
    define(fleet, "Cart")
    define(fleet, "Basket", status=False)
    name = new_namespace(fleet, "silent")
    carts = [manifest(f"{GROUP}/v1", kind, "silent", name) for kind in ("Cart", "Basket")]
    fleet.push(name, [*carts, in_wave(1, config_map("after", name))])
    fleet.application(name, namespace=name)
    return name


@pytest.fixture(scope="module")
def scaled(controlled: Fleet) -> Iterator[list[str]]:
    """What is said while an autoscaler without metrics is waited for; its controller looks every 15 seconds.

    Noted by somebody who looks on from the beginning: nobody knows how long the other tests take.
    """
    name = new_namespace(controlled, "scaled")
    controlled.push(name, [workload("Deployment", "web", name, replicas=1), scaler("web", name)])
    controlled.application(name, namespace=name)
    said: list[str] = []
    over = threading.Event()

    def note() -> None:
        while not over.wait(0.1):
            message = controlled.runs.look(name).run.get("message", "")
            if message and message not in said:
                said.append(message)

    thread = threading.Thread(target=note)
    thread.start()
    yield said
    over.set()
    thread.join()


# ── h1 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def ready(status: str, reason: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "Ready", "status": status, "reason": reason or "Said", "message": "so", **more}


REPORTS: dict[str, tuple[Mapping[str, Any] | None, str]] = {
    "no-status": (None, "no status reported yet"),
    "never-observed": (
        {"observedGeneration": -1, "conditions": [ready("False", "Waiting")]},
        "the controller has not observed this generation yet",
    ),
    "unknown": ({"conditions": [ready("Unknown", "Progressing")]}, "Ready is Unknown: Progressing: so"),
    "stale": (
        {"observedGeneration": 0, "conditions": [ready("True")]},
        "the controller has not observed this generation yet",
    ),
    "as-text": (
        {"observedGeneration": "1", "conditions": [ready("True")]},
        "the controller has not observed this generation yet",
    ),
}


def test_h1_a_wave_waits_for_what_has_not_been_reported(fleet: Fleet, namespace: str, silent: str) -> None:
    """Field case h1: Progressing, never Healthy; the time-out ends the wait and names the reason."""
    define(fleet, "Cart")
    carts = {name: manifest(f"{GROUP}/v1", "Cart", name, namespace, spec={"size": 1}) for name in REPORTS}
    for name, (status, _) in REPORTS.items():
        if status is not None:
            reported(fleet, carts[name], status)
    app = fleet.name("reports")
    bundle = [*carts.values(), in_wave(1, config_map("after", namespace))]
    entry = sync(fleet, app, bundle, namespace, timeout="2s")
    assert entry["phase"] == "Failed"
    assert entry["error"] == "HealthCheckTimeout"
    assert "wave 0 is not ready after 2 s: " in entry["message"]
    assert "Progressing: " in entry["message"]
    found = healths(entry)
    assert {found[f"Cart/{name}"] for name in REPORTS} == {"Progressing"}
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/after") is None
    # Silence counts for a moment only: one that nobody has reported on is made anew for this.
    carts["no-status"]["metadata"]["name"] = "fresh"
    reported(fleet, carts["no-status"], None)
    for name, (_, message) in REPORTS.items():
        assert seen(fleet, carts[name]) == Health("Progressing", message)


def test_h1_a_wave_that_takes_longer_to_write_than_it_has_is_looked_at_all_the_same(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    """Field case h1: so that the message says what is not well, and why."""
    define(fleet, "Cart")

    def late(_: Body) -> list[Body]:
        threading.Event().wait(1.2)  # a webhook that takes its time, with the dry-run as well
        return []

    with Webhook(tmp_path, late) as webhook:
        configuration = webhook.configuration(f"{namespace}-late", namespace, GROUP, "carts")
        ask(fleet, "POST", path_of(configuration), configuration)
        try:
            trial = manifest(f"{GROUP}/v1", "Cart", "trial", namespace)
            path = f"{path_of(trial)}?dryRun=All"
            wait_for(lambda: took(lambda: ask(fleet, "POST", path, trial)) > 1, what="the webhook to be called")
            cart = manifest(f"{GROUP}/v1", "Cart", "late", namespace)
            entry = sync(fleet, fleet.name("late"), [cart], namespace, timeout="1s")
        finally:
            ask(fleet, "DELETE", f"{path_of(configuration)}/{namespace}-late")
    assert entry["error"] == "HealthCheckTimeout"
    assert "is Progressing: no status reported yet" in entry["message"]


def took(act: Callable[[], object]) -> float:
    began = time.monotonic()
    act()
    return time.monotonic() - began


def test_h1_silence_passes_after_a_moment_and_says_so(fleet: Fleet, silent: str) -> None:
    """Field cases c4 and h1, decided in docs/decisions/0011: who never reports does not block for ever."""
    entry = fleet.wait_run(silent)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert set(healths(entry).values()) == {"Healthy"}
    cart, basket = (manifest(f"{GROUP}/v1", kind, "silent", silent) for kind in ("Cart", "Basket"))
    assert seen(fleet, cart).message == "no status reported in 10 s: its controller writes none, or does not run"
    assert seen(fleet, basket) == Health("Healthy", "its kind reports no status")
    made = fleet.get(f"{path_of(cart)}/silent")
    after = fleet.get(f"/api/v1/namespaces/{silent}/configmaps/after")
    assert made is not None
    assert after is not None
    times = [datetime.fromisoformat(body["metadata"]["creationTimestamp"]) for body in (made, after)]
    assert (times[1] - times[0]).total_seconds() >= 9


def test_h1_a_rule_of_the_catalog_decides(fleet: Fleet, namespace: str) -> None:
    """Field case h1: a custom rule overrides a stale generation; one that changes is used at once."""
    define(fleet, "Cart")
    cart = manifest(f"{GROUP}/v1", "Cart", "ruled", namespace)
    reported(fleet, cart, {"observedGeneration": -1, "phase": "Full"})
    app = fleet.name("ruled")
    rule = {"apiVersion": f"{GROUP}/v1", "kind": "Cart", "current": "status.phase == 'Full'"}
    entry = sync(fleet, app, [cart], namespace, spec={"healthCheckExprs": [rule]})
    assert entry["phase"] == "Succeeded", entry["message"]
    assert fleet.state(app)["health"] == "Healthy"
    assert fleet.state(app)["rules"]

    lost = {**rule, "failed": "status.phase == 'Full'"}
    once = {"retry": {"limit": 0}}
    fleet.application(app, namespace=namespace, spec={"healthCheckExprs": [lost]}, **once)
    wait_for(lambda: fleet.state(app).get("health") == "Degraded", what="the new rule in force")
    fleet.application(app, namespace=namespace, timeout="1s", **once)
    wait_for(lambda: fleet.state(app).get("health") == "Progressing", what="no rule any more")
    assert fleet.history(app)[0]["error"] == "HealthCheckTimeout"


def test_a_rule_without_an_answer_is_never_healthy(fleet: Fleet, namespace: str) -> None:
    """What cannot be evaluated is waited for, and the reason is what the run ends with."""
    define(fleet, "Cart")
    rule = {"apiVersion": f"{GROUP}/v1", "kind": "Cart", "current": "status.nope.size() > 0"}
    cart = manifest(f"{GROUP}/v1", "Cart", "odd", namespace)
    entry = sync(fleet, fleet.name("odd"), [cart], namespace, timeout="1s", spec={"healthCheckExprs": [rule]})
    assert entry["error"] == "HealthCheckTimeout"
    assert "is Unknown: the rule's current has no answer: Key not found in map" in entry["message"]
    assert healths(entry) == {"Cart/odd": "Unknown"}


def test_what_asks_to_be_left_out_holds_nothing_up(fleet: Fleet, namespace: str) -> None:
    """`argocd.argoproj.io/ignore-healthcheck` leaves an object out of its wave's gate and of the application."""
    define(fleet, "Cart")
    cart = manifest(f"{GROUP}/v1", "Cart", "ignored", namespace)
    reported(fleet, cart, {"conditions": [{"type": "Stalled", "status": "True", "reason": "Broken"}]})
    cart["metadata"]["annotations"] = {"argocd.argoproj.io/ignore-healthcheck": "true"}
    app = fleet.name("ignored")
    entry = sync(fleet, app, [cart, in_wave(1, config_map("after", namespace))], namespace)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert fleet.state(app)["health"] == "Healthy"


# ── h2, h3 ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_h2_jobs_that_succeed_and_fail(controlled: Fleet, space: str) -> None:
    """Field case h2: a finished Job is Healthy, a failed one fails its wave with the controller's words."""
    entry = sync(controlled, controlled.name("migrate"), [job("migrate", space)], space)
    assert entry["phase"] == "Succeeded", entry["message"]
    late = job("late", space, NOWHERE, activeDeadlineSeconds=1, backoffLimit=0)
    entry = sync(controlled, controlled.name("late"), [late], space)
    assert entry["error"] == "HealthCheckFailed"
    assert f"Job {space}/late is Degraded: DeadlineExceeded" in entry["message"]


def test_h2_a_job_that_still_retries(fleet: Fleet, namespace: str) -> None:
    """Field case h2: failed Pods alone are no failure."""
    retrying = job("retrying", namespace)
    reported(fleet, retrying, {"startTime": "2026-01-01T12:00:00Z", "active": 1, "failed": 2})
    assert seen(fleet, retrying) == Health("Progressing", "1 Pods running, 2 failed")


def test_h3_suspended_objects_leave_the_application_healthy(controlled: Fleet, space: str) -> None:
    """Field case h3."""
    bundle = [
        cron_job("nightly", space, suspend=True),
        job("once", space, suspend=True),
        in_wave(1, config_map("after", space)),
    ]
    app = controlled.name("asleep")
    entry = sync(controlled, app, bundle, space)
    assert entry["phase"] == "Succeeded", entry["message"]
    found = healths(entry)
    assert (found["CronJob/nightly"], found["Job/once"]) == ("Suspended", "Suspended")
    assert controlled.state(app)["health"] == "Healthy"


def test_h3_the_last_run_of_a_cron_job_is_told_and_does_not_flap(fleet: Fleet, namespace: str) -> None:
    """Field case h3: a failed run is in the message, also while the next one is under way; ``explain`` shows it."""
    nightly = cron_job("nightly", namespace, schedule="0 0 * * *")
    app = fleet.name("nightly")
    sync(fleet, app, [nightly], namespace)
    status = {"lastScheduleTime": "2999-01-02T00:00:00Z", "lastSuccessfulTime": "2999-01-01T00:05:00Z"}
    ask(fleet, "PATCH", f"{path_of(nightly)}/nightly/status", {"status": status}, content_type=MERGE)
    assert seen(fleet, nightly) == Health("Healthy", "the run of 2999-01-02T00:00:00Z did not succeed")
    next_run = datetime.fromisoformat("2999-01-03T00:00:00Z")
    active = {"kind": "Job", "apiVersion": "batch/v1", "namespace": namespace}
    active["name"] = f"nightly-{int(next_run.timestamp()) // 60}"  # as the controller names it
    status |= {"lastScheduleTime": "2999-01-03T00:00:00Z", "active": [active]}
    ask(fleet, "PATCH", f"{path_of(nightly)}/nightly/status", {"status": status}, content_type=MERGE)
    told = "a run is under way; the run of 2999-01-02T00:00:00Z did not succeed"
    assert seen(fleet, nightly) == Health("Healthy", told)
    shown = run(fleet, "explain", "cronjob/nightly", "-n", namespace).stdout
    assert f"Health:    Healthy: {told}\n" in shown
    fleet.tick(app)
    assert fleet.state(app)["health"] == "Healthy"


# ── h4 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def balanced(namespace: str) -> list[dict[str, Any]]:
    service = {"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    return [
        manifest("v1", "Service", "web", namespace, spec=service),
        manifest("networking.k8s.io/v1", "Ingress", "web", namespace, spec={"defaultBackend": backend}),
    ]


def test_h4_no_load_balancer(fleet: Fleet, namespace: str) -> None:
    """Field case h4: Progressing with that reason, until the time-out; an entry without address is none."""
    bundle = balanced(namespace)
    entry = sync(fleet, fleet.name("balanced"), bundle, namespace, timeout="1s")
    assert entry["error"] == "HealthCheckTimeout"
    assert entry["message"].count("no load balancer has given it an address yet") == 2
    ingress = bundle[1]
    empty = {"status": {"loadBalancer": {"ingress": [{}]}}}
    ask(fleet, "PATCH", f"{path_of(ingress)}/web/status", empty, content_type=MERGE)
    assert seen(fleet, ingress) == Health("Progressing", "no load balancer has given it an address yet")
    given = {"status": {"loadBalancer": {"ingress": [{"hostname": "lb.example.com"}]}}}
    ask(fleet, "PATCH", f"{path_of(ingress)}/web/status", given, content_type=MERGE)
    assert seen(fleet, ingress) == Health("Healthy", "lb.example.com")


def test_h4_a_rule_per_kind(fleet: Fleet, namespace: str) -> None:
    """Field case h4: where nobody hands out addresses, a rule says what is enough."""
    rules = [
        {"apiVersion": "v1", "kind": "Service", "current": "has(spec.clusterIP)"},
        {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "current": "true"},
    ]
    app = fleet.name("unbalanced")
    entry = sync(fleet, app, balanced(namespace), namespace, spec={"healthCheckExprs": rules})
    assert entry["phase"] == "Succeeded", entry["message"]
    assert fleet.state(app)["health"] == "Healthy"


# ── h6, h7 ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_h6_daemon_sets(controlled: Fleet, space: str) -> None:
    """Field case h6: nothing wanted is Healthy once the controller says so; OnDelete and a change is no rollout."""
    app = controlled.name("daemons")
    daemons = [
        workload("DaemonSet", "nowhere", space, NOWHERE),
        workload("DaemonSet", "by-hand", space, updateStrategy={"type": "OnDelete"}),
    ]
    entry = sync(controlled, app, daemons, space)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert healths(entry) == {"DaemonSet/nowhere": "Healthy", "DaemonSet/by-hand": "Healthy"}
    daemons[1]["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example.com/c:2"
    revision = controlled.push(app, daemons)
    controlled.request(app)
    entry = controlled.wait_run(app, digest=revision.digest)
    assert entry["phase"] == "Succeeded", entry["message"]
    live = controlled.get(f"/apis/apps/v1/namespaces/{space}/daemonsets/by-hand")
    assert live is not None
    assert live["status"].get("updatedNumberScheduled", 0) < live["status"]["desiredNumberScheduled"]


def test_h6_a_daemon_set_nobody_has_looked_at(fleet: Fleet, namespace: str) -> None:
    """Field case h6: a new one wants nothing only because its controller has not acted."""
    daemon = workload("DaemonSet", "new", namespace)
    reported(fleet, daemon, None)
    assert seen(fleet, daemon) == Health("Progressing", "the controller has not looked at it yet")


def test_h7_a_claim_that_waits_for_its_pod_lets_the_wave_pass(controlled: Fleet, space: str) -> None:
    """Field case h7: its Pod is in the next wave, or that of a suspended CronJob. The classes cost one request.

    The scheduler binds the one claim to the volume when the Pod comes, not before; the other one is never bound.
    """
    late = f"late-{space}"
    local = manifest(
        "storage.k8s.io/v1",
        "StorageClass",
        late,
        provisioner="kubernetes.io/no-provisioner",
        volumeBindingMode="WaitForFirstConsumer",
    )
    disk = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    volume = manifest("v1", "PersistentVolume", late, spec={**disk, "storageClassName": late})
    claims = [
        manifest(
            "v1",
            "PersistentVolumeClaim",
            name,
            space,
            spec={
                "storageClassName": late,
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        )
        for name in ("data", "archive")
    ]
    nightly = cron_job("nightly", space, mounting("archive"), suspend=True)
    pod = manifest("v1", "Pod", "web", space, spec=pod_spec({"restartPolicy": "Always", **mounting("data")}))
    bundle = [local, volume, *claims, nightly, in_wave(1, pod)]
    app, position = controlled.name("claims"), the_cluster(controlled).audit_position()
    entry = sync(controlled, app, bundle, space)
    assert entry["phase"] == "Succeeded", entry["message"]
    found = healths(entry)
    assert {name: found[name] for name in found if name.startswith(("PersistentVolumeClaim", "Pod/"))} == {
        "PersistentVolumeClaim/data": "Healthy",
        "PersistentVolumeClaim/archive": "Healthy",
        "Pod/web": "Healthy",
    }
    phases = [ask(controlled, "GET", f"{path_of(claim)}/{claim['metadata']['name']}")["status"] for claim in claims]
    assert [status["phase"] for status in phases] == ["Bound", "Pending"]
    assert controlled.state(app)["health"] == "Healthy"
    asked = [
        event
        for event in the_cluster(controlled).audit(position)
        if f" app/{app} " in f"{event.get('userAgent', '')} "
        and event["verb"] == "list"
        and event["objectRef"]["resource"] == "storageclasses"
    ]
    # Each look of the wave is an execution with a fence of its own, and asks once for both claims.
    assert set(Counter(event["userAgent"] for event in asked).values()) == {1}


def mounting(claim: str) -> dict[str, Any]:
    return {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]}


# ── h8, h9, h10 ──────────────────────────────────────────────────────────────────────────────────────────────────


def scaler(name: str, namespace: str, low: int = 1, high: int = 3) -> dict[str, Any]:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    spec = {"scaleTargetRef": target, "minReplicas": low, "maxReplicas": high, "metrics": [metric]}
    return manifest("autoscaling/v2", "HorizontalPodAutoscaler", name, namespace, spec=spec)


def said(type: str, status: str, reason: str, since: str = "2026-01-01T12:00:00Z") -> dict[str, Any]:  # noqa: A002
    return {"type": type, "status": status, "reason": reason, "message": "so", "lastTransitionTime": since}


SCALERS: dict[str, tuple[list[dict[str, Any]] | None, str]] = {
    "no-conditions": (None, "Progressing"),
    "no-metrics-for-long": (
        [said("AbleToScale", "True", "SucceededGetScale"), said("ScalingActive", "False", "FailedGetResourceMetric")],
        "Degraded",
    ),
    "no-metrics-yet": (
        [
            said("AbleToScale", "True", "SucceededGetScale"),
            said("ScalingActive", "False", "FailedGetResourceMetric", "2999-01-01T00:00:00Z"),
        ],
        "Progressing",
    ),
    "at-its-limit": (
        [
            said("AbleToScale", "True", "ReadyForNewScale"),
            said("ScalingActive", "True", "ValidMetricFound"),
            said("ScalingLimited", "True", "TooFewReplicas"),
        ],
        "Healthy",
    ),
    "scaled-to-nothing": (
        [said("AbleToScale", "True", "SucceededGetScale"), said("ScalingActive", "False", "ScalingDisabled")],
        "Healthy",
    ),
}


@pytest.mark.parametrize("name", SCALERS)
def test_h8_autoscalers(fleet: Fleet, namespace: str, name: str) -> None:
    """Field case h8: broken only for real errors, after a grace time; limits are none; no conditions is not yet."""
    conditions, status = SCALERS[name]
    body = scaler(name, namespace, 1, 1 if name == "at-its-limit" else 3)
    report = {"currentReplicas": 1, "desiredReplicas": 1, "conditions": conditions}
    reported(fleet, body, report if conditions is not None else None)
    assert seen(fleet, body).status == status


def test_h8_without_a_metrics_server(scaled: list[str]) -> None:
    """Field case h8: the real controller's FailedGet… is waited for at first, with its words."""
    told = wait_for(lambda: [message for message in scaled if "FailedGet" in message], what="the metric's failure told")
    assert "HorizontalPodAutoscaler" in told[0]
    assert "is Progressing" in told[0]


def test_h9_one_missing_object_is_drift_and_not_the_health(fleet: Fleet, namespace: str) -> None:
    """Field case h9: OutOfSync, and the health of what is there; Missing when nothing is, and no wave waits for it."""
    app = fleet.name("three")
    fleet.push(app, [config_map(name, namespace) for name in ("a", "b", "c")])
    fleet.application(app, namespace=namespace, selfHeal=False)
    fleet.wait_run(app, phase="Succeeded")
    ask(fleet, "DELETE", f"/api/v1/namespaces/{namespace}/configmaps/b")
    runs = fleet.runs_ended(app)
    fleet.ring(app)
    fleet.wait_run(app, since=runs)
    assert fleet.state(app)["sync"] == "OutOfSync"
    assert fleet.state(app)["health"] == "Healthy"
    for name in ("a", "c"):
        ask(fleet, "DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{name}")
    fleet.tick(app)
    assert (fleet.state(app)["phase"], fleet.state(app)["health"]) == ("Succeeded", "Missing")
    position = the_cluster(fleet).audit_position()
    assert fleet.tick(app) == "nothing to do"
    asked = [event for event in the_cluster(fleet).audit(position) if f" app/{app}" in event.get("userAgent", "")]
    assert {event["verb"] for event in asked} <= {"list"}
    ask(fleet, "POST", f"/api/v1/namespaces/{namespace}/configmaps", config_map("new", namespace))
    fleet.push(app, [config_map(name, namespace) for name in ("a", "b", "c", "d")])
    fleet.tick(app)
    assert fleet.history(app)[0]["counts"] == {"created": 1, "skipped": 3}
    assert fleet.state(app)["health"] == "Healthy"


def test_h10_a_paused_deployment(controlled: Fleet, space: str) -> None:
    """Field case h10: Suspended, and no reason to wait."""
    app = controlled.name("paused")
    entry = sync(controlled, app, [workload("Deployment", "paused", space, paused=True)], space)
    assert entry["phase"] == "Succeeded", entry["message"]
    assert healths(entry) == {"Deployment/paused": "Suspended"}


def test_h10_a_rollout_that_misses_its_deadline(controlled: Fleet, space: str) -> None:
    """Field case h10: Degraded ends the wave before its time-out, in the controller's words."""
    stuck = workload("Deployment", "stuck", space, NOWHERE, progressDeadlineSeconds=2)
    entry = sync(controlled, controlled.name("stuck"), [stuck], space)
    assert entry["error"] == "HealthCheckFailed"
    assert f"Deployment {space}/stuck is Degraded: ProgressDeadlineExceeded" in entry["message"]


def test_h10_a_name_that_is_taken(fleet: Fleet, namespace: str) -> None:
    """Field case h10: the API server accepts no second definition for the same names."""
    define(fleet, "Cart")
    twin = manifest(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        f"wagons.{GROUP}",
        spec={
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Cart", "plural": "wagons"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    )
    ask(fleet, "POST", path_of(twin), twin)
    try:
        found = wait_for(lambda: degraded(fleet, twin), what="the conflict")
        assert found.message.startswith("KindConflict") or found.message.startswith("ListKindConflict")
    finally:
        ask(fleet, "DELETE", f"{path_of(twin)}/wagons.{GROUP}")


def degraded(fleet: Fleet, body: Mapping[str, Any]) -> Health | None:
    found = seen(fleet, body)
    return found if found.status == "Degraded" else None


def test_h10_an_api_nobody_serves(fleet: Fleet) -> None:
    """Field case h10: Progressing at first, with the aggregator's reason (Degraded after a minute: golden case)."""
    spec = {
        "group": "nobody.example.com",
        "version": "v1",
        "groupPriorityMinimum": 100,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
        "service": {"name": "nobody", "namespace": "default"},
    }
    api = manifest("apiregistration.k8s.io/v1", "APIService", "v1.nobody.example.com", spec=spec)
    for worker in fleet.workers:  # who asked now which kinds there are would not know them all for a while
        worker.pause()
    ask(fleet, "POST", path_of(api), api)
    try:
        found = wait_for(lambda: (h := seen(fleet, api)) and "ServiceNotFound" in h.message and h, what="the reason")
        assert found.status == "Progressing"
    finally:
        ask(fleet, "DELETE", f"{path_of(api)}/v1.nobody.example.com")
        wait_for(lambda: "nobody.example.com" not in str(ask(fleet, "GET", "/apis")), what="the group to be gone")
        for worker in fleet.workers:
            worker.resume()


def test_h10_an_image_that_cannot_be_pulled(fleet: Fleet, namespace: str) -> None:
    """Field case h10."""
    pod = manifest("v1", "Pod", "web", namespace, spec=pod_spec({"restartPolicy": "Always"}))
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    container = {"name": "c", "image": "c:1", "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
    reported(fleet, pod, {"phase": "Pending", "containerStatuses": [container]})
    assert seen(fleet, pod) == Health("Degraded", "container c: ImagePullBackOff: not found")


def test_h10_being_deleted(fleet: Fleet, namespace: str) -> None:
    """Field case h10: what a finalizer holds is Progressing."""
    held = config_map("held", namespace, finalizers=["example.com/hold"])
    ask(fleet, "POST", path_of(held), held)
    ask(fleet, "DELETE", f"{path_of(held)}/held")
    assert seen(fleet, held) == Health("Progressing", "being deleted")
    ask(fleet, "PATCH", f"{path_of(held)}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)
