"""What people keep Fleetbeat from writing for a time: holds, the self-heal annotations, suspend. Field case f6."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from click.testing import Result
from fleet import PATIENT, Fleet, config_map, outcomes
from nodes import add_node, cordon, evict, is_ready, nothing_fits, of_daemon, pods_on
from people import Hands
from traces import Monitor
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.clients.holds import Holds
from fleetbeat.decisions.holds import Hold, moment
from fleetbeat.decisions.inventory import parent_name
from fleetbeat.decisions.self_heal import SELF_HEAL, SELF_HEAL_UNTIL
from fleetbeat.local.cluster import Cluster

MERGE = "application/merge-patch+json"


def maps(namespace: str, name: str = "web") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


def edit(fleet: Fleet, path: str, body: dict[str, Any]) -> None:
    """As ``kubectl edit`` does, by a manager of that name."""
    status, answer = fleet._cluster("").request("PATCH", f"{path}?fieldManager=kubectl-edit", body, content_type=MERGE)
    assert status == 200, answer


def annotate(fleet: Fleet, path: str, **annotations: str | None) -> None:
    """``self_heal="disabled"``, ``self_heal_until="…"``; None takes it away."""
    named = {f"fleetbeat.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    edit(fleet, path, {"metadata": {"annotations": named}})


def value(fleet: Fleet, namespace: str, name: str = "web") -> str:
    live = fleet.get(maps(namespace, name))
    return live["data"]["v"] if live else ""


def put(fleet: Fleet, word: str, namespace: str, *more: dict[str, Any], v: str = "1", **options: Any) -> str:
    """An application of ConfigMap ``web``, synced."""
    app = fleet.name(word)
    fleet.push(app, [config_map("web", data={"v": v}), *more])
    fleet.application(app, namespace=namespace, **options)
    fleet.wait_run(app, phase="Succeeded")
    return app


def held(fleet: Fleet, app: str) -> dict[str, Any]:
    """Its first condition, once something is left as it is."""

    def found() -> dict[str, Any] | None:
        told = json.loads(fleet.state(app).get("held") or "[]")
        return told[0] if told and not fleet.runs.look(app).run else None

    try:
        return wait_for(found, what=f"{app} to leave something as it is")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{fleet.runs.look(app)}\n{fleet.logs()[-5000:]}") from None


def waits(fleet: Fleet, app: str) -> dict[str, str]:
    """The record of its run, once it waits for a hold."""

    def waiting() -> dict[str, str] | None:
        run = fleet.runs.look(app).run
        return run if run.get("state") == "waiting" and "waits: hold" in run.get("message", "") else None

    try:
        return wait_for(waiting, what=f"{app} to wait for a hold")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{fleet.runs.look(app)}\n{fleet.logs()[-5000:]}") from None


def hold(fleet: Fleet, kind: Any, target: str, seconds: float, scope: Any = "sync", **more: str) -> Hold:
    return Holds(fleet.store).add(kind, target, seconds=seconds, scope=scope, by="ada@ops", reason="a test", **more)


def goes_on_at(fleet: Fleet, app: str, end: int) -> None:
    """Wait until it is due at that very moment, ms since epoch: the end of what holds it."""
    wait_for(lambda: fleet.store.redis.zscore(keys.DUE, app) == end, what=f"{app} to be due at {end}")


def ends_soon(fleet: Fleet, app: str, made: Hold, seconds: float = 2) -> Hold:
    """Another hold of the same that ends in a moment, and that one lifted: so the end waits for who looks before it."""
    last = hold(fleet, made.kind, made.target, seconds, made.scope)
    Holds(fleet.store).lift(made.id)
    fleet.ring(app)
    return last


def written(fleet: Fleet, app: str) -> int:
    """When the newest write to an object of it was asked for, in ms since epoch by this machine's clock."""
    times = (datetime.fromisoformat(event["requestReceivedTimestamp"]) for event in fleet.writes(app))
    return int(max(times).timestamp() * 1000)


# ── drift ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("interval", ["", "3s"], ids=["far", "3s"])
def test_drift_under_a_self_heal_hold_is_shown_and_healed_once_at_its_end(
    fleet: Fleet, namespace: str, command: Callable[..., Result], interval: str
) -> None:
    """Field case f6. An application that is looked at seldom does not wait for that, and earlier ticks heal nothing."""
    app = put(fleet, "held", namespace, **({"interval": interval} if interval else {}))
    made = hold(fleet, "app", app, 300, "self-heal")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    told = held(fleet, app)
    assert "data.v changed by kubectl-edit" in told["message"]
    assert f"self-heal hold {made.id} of app {app} by ada@ops until {moment(made.until)}: a test" in told["message"]
    assert fleet.state(app)["sync"] == "OutOfSync"
    shown = command("status", app)
    assert shown.exit_code == 0, shown.output + shown.stderr + repr(shown.exception)
    shown = shown.output
    assert f"hold {made.id}" in shown
    assert re.search(r"ends in \d min", command("status", app).stderr)
    fleet.tick(app)
    assert value(fleet, namespace) == "by hand"
    if not interval:
        goes_on_at(fleet, app, made.until)
    before = len(fleet.writes(app))

    last = ends_soon(fleet, app, made)
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal at the end")
    assert written(fleet, app) >= last.until
    wait_for(lambda: outcomes(fleet.history(app)[0]) == {f"ConfigMap {namespace}/web": "configured"}, what="its run")
    assert len(fleet.writes(app)) == before + 1
    wait_for(lambda: fleet.state(app).get("held") == "", what="nothing held any more")
    assert fleet.state(app)["sync"] == "Synced"
    assert fleet.tick(app) == "nothing to do"
    fleet.leave(app)


def test_a_new_digest_goes_on_under_a_self_heal_hold(fleet: Fleet, namespace: str) -> None:
    """Decision 0025: what was changed by hand stays where the new bundle has the same manifest."""
    other = config_map("other", data={"v": "1"})
    app = put(fleet, "digest", namespace, other)
    hold(fleet, "app", app, 600, "self-heal")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    digest = fleet.push(app, [config_map("web", data={"v": "1"}), config_map("other", data={"v": "2"})]).digest
    fleet.ring(app)
    entry = fleet.wait_run(app, digest=digest, phase="Succeeded")
    assert value(fleet, namespace, "other") == "2"
    assert value(fleet, namespace) == "by hand"
    assert outcomes(entry)[f"ConfigMap {namespace}/web"] == "skipped"


def test_lifting_ends_it_at_once(fleet: Fleet, namespace: str, command: Callable[..., Result]) -> None:
    app = put(fleet, "lifted", namespace)
    said = command(
        "hold",
        "object",
        "configmap/web",
        "-n",
        namespace,
        "--for",
        "1h",
        "--scope",
        "self-heal",
        "--reason",
        "why",
        "-o",
        "json",
    )
    made = json.loads(said.output)
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    assert f"object ConfigMap {namespace}/web" in held(fleet, app)["message"]
    assert made["id"] in command("hold").output
    assert command("hold", "--lift", made["id"]).exit_code == 0
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal after lifting")
    assert command("hold", "--lift", made["id"]).exit_code == 3


def test_what_has_left_the_bundle_stays_under_a_prune_hold(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "prune", namespace, config_map("old"), labels={"team": "prune-test"})
    made = hold(fleet, "label", "team=prune-test", 600, "prune")
    fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "2", what="the new bundle")
    told = held(fleet, app)
    assert told["object"] == f"ConfigMap {namespace}/old"
    assert f"prune hold {made.id} of label team=prune-test" in told["message"]
    assert fleet.get(maps(namespace, "old")) is not None
    Holds(fleet.store).lift(made.id)
    fleet.ring(app)
    wait_for(lambda: fleet.get(maps(namespace, "old")) is None, what="the prune after the hold")


# ── nothing is written ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_waits_for_a_hold_and_goes_on_when_it_ends(
    fleet: Fleet, namespace: str, command: Callable[..., Result]
) -> None:
    app = put(fleet, "waits", namespace)
    made = hold(fleet, "namespace", namespace, 300)
    fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    waits(fleet, app)
    goes_on_at(fleet, app, made.until)
    assert f"wave 0 waits: hold {made.id} of namespace {namespace} by ada@ops" in command("status", app).output
    assert f"note: nothing is written: hold {made.id}" in command("diff", app).stderr
    assert value(fleet, namespace) == "1"
    last = ends_soon(fleet, app, made)
    entry = fleet.wait_run(app, phase="Succeeded", since=1)
    assert written(fleet, app) >= last.until
    assert f"of namespace {namespace} by ada@ops until" in entry["waited"]
    assert len(fleet.history(app)) == 2


def test_a_node_is_drained_under_a_hold_and_nothing_is_touched(controlled: Fleet) -> None:
    """Seed scenario: node drain under hold, as ``kubectl drain`` does it, of a node that the bundle has a label on.

    Two nodes of a pool. The other one is in maintenance first, so that the budget is against the second eviction for
    as long as that lasts.
    """
    fleet, cluster, hands = controlled, controlled._cluster(""), Hands(controlled._cluster(""))
    app = namespace = fleet.name("drained")
    old, other = f"old-{app}", f"other-{app}"
    add_node(hands, old, pool=app)
    add_node(hands, other, pool=app, cordoned=True)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": old, "labels": {"tier": "web"}}}
    fleet.push(app, [node, *workloads(app)])
    fleet.application(app, namespace=namespace, options=["CreateNamespace=true"])
    fleet.wait_run(app, phase="Succeeded", timeout=200)
    root = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    wait_for(lambda: hands.get(root)["status"].get("disruptionsAllowed") == 1, what="the budget to count the pods")
    first, second = (pod for pod in pods_on(hands, namespace, old) if not of_daemon(pod))
    daemons = [pod["metadata"]["uid"] for pod in pods_on(hands, namespace, old) if of_daemon(pod)]
    assert len(daemons) == 1
    made = hold(fleet, "cluster", next(iter(fleet.clusters)), 600)
    try:
        position, writes = cluster.audit_position(), len(fleet.writes(app))
        cordon(hands, old)
        nothing_fits(hands, namespace, app)
        assert evict(cluster, first)
        assert not evict(cluster, second), "the budget allows one at a time"
        fleet.tick(app)  # in the middle of it
        cordon(hands, other, on=False)
        wait_for(lambda: evict(cluster, second), timeout=120, what="the budget to allow the other one", every=0.2)
        wait_for(lambda: running(hands, namespace, other) == 2, timeout=120, what="both pods on the other node")
        assert [pod["metadata"]["uid"] for pod in pods_on(hands, namespace, old)] == daemons, (
            "only its daemon's is left"
        )
        fleet.tick(app)
        cordon(hands, old, on=False)
        fleet.tick(app)
        assert fleet.writes(app, since=position, parents=True) == [], "nothing is touched"

        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
        edit(fleet, path, {"spec": {"paused": True}})
        fleet.ring(app)
        assert f"hold {made.id} of cluster" in waits(fleet, app)["message"]
        assert fleet.writes(app, since=position, parents=True) == [], "nothing is touched"
    finally:
        Holds(fleet.store).lift(made.id)
    fleet.ring(app)
    wait_for(lambda: not hands.get(path)["spec"].get("paused"), what="one heal")
    wait_for(lambda: len(fleet.writes(app)) == writes + 1, what="one write")


def running(hands: Hands, namespace: str, node: str) -> int:
    """How many of the Deployment's pods are ready there."""
    return sum(is_ready(pod) for pod in pods_on(hands, namespace, node) if not of_daemon(pod))


def workloads(pool: str) -> list[dict[str, Any]]:
    """A Deployment of two on the nodes of this pool, its budget, and a DaemonSet on each of them."""

    def pods(name: str) -> dict[str, Any]:
        pod = {
            "containers": [{"name": name, "image": "registry.k8s.io/pause:3.9"}],
            "nodeSelector": {"pool": pool},
            "terminationGracePeriodSeconds": 0,
        }
        labels = {"app": name}
        return {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}

    def body(api: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec}

    selector = {"matchLabels": {"app": "web"}}
    return [
        body("apps/v1", "Deployment", "web", replicas=2, paused=False, **pods("web")),
        body("policy/v1", "PodDisruptionBudget", "web", maxUnavailable=1, selector=selector),
        body("apps/v1", "DaemonSet", "agent", **pods("agent")),
    ]


def test_one_held_object_is_left_out_and_the_rest_goes_on(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "one", namespace)
    made = hold(fleet, "object", f"/ConfigMap/{namespace}/web", 600)
    objects = [config_map("web", data={"v": "2"}), config_map("new", data={"v": "2"})]
    fleet.push(app, objects)
    fleet.ring(app)
    told = held(fleet, app)
    assert f"hold {made.id} of object ConfigMap {namespace}/web" in told["message"]
    assert (value(fleet, namespace), value(fleet, namespace, "new")) == ("1", "2")
    Holds(fleet.store).lift(made.id)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "2", what="the manifest that was held")


# ── annotations ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_debugging_out_of_band_with_the_temporary_annotation(fleet: Fleet, namespace: str) -> None:
    """Seed scenario: what is changed by hand is kept until the annotation expires, a new digest included; one heal."""
    app = put(fleet, "debug", namespace)
    end = fleet.runs.now() // 1000 + 300
    annotate(fleet, maps(namespace), self_heal="disabled", self_heal_until=moment(end * 1000))
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    told = held(fleet, app)
    assert (
        f"self-heal is disabled until {moment(end * 1000)} by annotation {SELF_HEAL} on the live object"
        in told["message"]
    )
    assert "set by kubectl-edit (Update" in told["message"]
    digest = fleet.push(app, [config_map("web", data={"v": "2"})]).digest
    fleet.ring(app)
    fleet.wait_run(app, digest=digest, phase="Succeeded")
    assert value(fleet, namespace) == "by hand"
    goes_on_at(fleet, app, end * 1000)
    writes = len(fleet.writes(app))

    end = fleet.runs.now() // 1000 + 3
    annotate(fleet, maps(namespace), self_heal_until=moment(end * 1000))
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "2", what="the heal at the end")
    assert written(fleet, app) >= end * 1000
    wait_for(lambda: fleet.state(app).get("held") == "", what="the end of its run")
    assert len(fleet.writes(app)) == writes + 1
    assert SELF_HEAL_UNTIL in fleet.get(maps(namespace))["metadata"]["annotations"]  # type: ignore[index]
    assert fleet.tick(app) == "nothing to do"


def test_an_annotation_taken_away_ends_it(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "taken", namespace)
    annotate(fleet, maps(namespace), self_heal="disabled")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    held(fleet, app)
    annotate(fleet, maps(namespace), self_heal=None)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal")


@pytest.mark.parametrize(
    ("self_heal", "until", "why"),
    [
        ("off", None, f"annotation {SELF_HEAL} on the live object"),
        ("disabled", "2026-13-45T99:00:00Z", "must be an RFC 3339 time"),
        ("disabled", "2099-01-01T00:00:00", "must be an RFC 3339 time"),
        (None, "2099-01-01T00:00:00Z", f"does nothing without {SELF_HEAL}: disabled"),
    ],
)
def test_what_cannot_be_read_on_a_live_object_counts_as_disabled(
    fleet: Fleet, namespace: str, self_heal: str | None, until: str | None, why: str
) -> None:
    app = put(fleet, "malformed", namespace)
    annotate(fleet, maps(namespace), self_heal=self_heal, self_heal_until=until)
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    told = held(fleet, app)["message"]
    assert why in told
    assert "Until that is mended it counts as disabled" in told
    assert value(fleet, namespace) == "by hand"


def test_the_annotation_on_the_parent_is_for_the_whole_application(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "parent", namespace)
    parent = f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}"
    annotate(fleet, parent, self_heal="disabled")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    told = held(fleet, app)["message"]
    assert "on the application's ApplySet parent (set by kubectl-edit" in told
    assert fleet.tick(app) == "nothing to do"
    annotate(fleet, parent, self_heal=None)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal")


def test_the_annotation_in_a_manifest_is_about_drift_alone(fleet: Fleet, namespace: str) -> None:
    """Decision 0025: a new manifest goes on, or nobody could ever take the annotation away by a push."""
    app = fleet.name("manifest")
    marked = {SELF_HEAL: "disabled"}
    fleet.push(app, [config_map("web", data={"v": "1"}, annotations=marked)])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    assert "on the manifest" in held(fleet, app)["message"]
    assert value(fleet, namespace) == "by hand"
    fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "2", what="the new manifest")
    assert SELF_HEAL not in (fleet.get(maps(namespace))["metadata"].get("annotations") or {})  # type: ignore[index]


def test_the_annotation_in_the_catalog(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "catalog", namespace, annotations={SELF_HEAL: "disabled"})
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    assert "on the application in the catalog" in held(fleet, app)["message"]
    fleet.application(app, namespace=namespace)
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal when the catalog says so no more")


# ── suspend ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"spec": {"suspend": True}}, "spec.suspend: true"),
        ({"annotations": {"argocd.argoproj.io/skip-reconcile": "true"}}, "argocd.argoproj.io/skip-reconcile"),
    ],
)
def test_a_suspended_application_is_shown_and_not_synced(
    fleet: Fleet, namespace: str, command: Callable[..., Result], options: dict[str, Any], why: str
) -> None:
    app = put(fleet, "suspended", namespace)
    fleet.application(app, namespace=namespace, **options)
    wait_for(lambda: why in fleet.state(app).get("held_back", ""), what="the suspension in force")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.push(app, [config_map("web", data={"v": "2"})])
    assert fleet.tick(app).startswith("suspended by")
    assert f"suspended by {why}" in command("status", app).output or why in command("status", app).output
    refused = command("sync", app, "--wait")
    assert refused.exit_code != 0
    assert why in refused.stderr
    assert value(fleet, namespace) == "by hand"
    fleet.application(app, namespace=namespace)
    wait_for(lambda: value(fleet, namespace) == "2", what="the sync when it is resumed")
    assert fleet.state(app)["held_back"] == ""


def test_a_suspended_cluster_suspends_its_applications_and_deletions(
    fleet: Fleet, cluster: Cluster, namespace: str, command: Callable[..., Result]
) -> None:
    """Argo CD's annotation on a cluster, conventions §2.1: pauses all of it, and nothing of another."""
    place, app, leaving = fleet.name("paused"), fleet.name("paused-app"), fleet.name("paused-gone")
    fleet.describe_cluster(cluster, place)
    for name in (app, leaving):
        fleet.push(name, [config_map(name, data={"v": "1"})])
        policy = {"spec": {"deletionPolicy": "Delete"}} if name == leaving else {}
        fleet.application(name, namespace=namespace, cluster=place, **policy)
        fleet.wait_run(name, phase="Succeeded")
    fleet.describe_cluster(cluster, place, annotations={"argocd.argoproj.io/skip-reconcile": "true"})
    why = f'suspended by annotation argocd.argoproj.io/skip-reconcile: "true" on Cluster {place}'
    wait_for(lambda: why in fleet.state(app).get("held_back", ""), timeout=30, what="the suspension in force")
    fleet.push(app, [config_map(app, data={"v": "2"})])
    assert fleet.tick(app).startswith("suspended by")
    refused = command("sync", app, "--wait")
    assert refused.exit_code != 0
    assert why in refused.stderr
    fleet.leave(leaving)
    wait_for(lambda: why in fleet.state(leaving).get("held_back", ""), timeout=30, what="the deletion to be put off")
    assert why in command("status", leaving).output
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert (fleet.get(f"{path}/{app}") or {})["data"] == {"v": "1"}
    assert fleet.get(f"{path}/{leaving}") is not None
    fleet.describe_cluster(cluster, place)
    wait_for(lambda: (fleet.get(f"{path}/{app}") or {})["data"] == {"v": "2"}, timeout=60, what="the sync afterwards")
    fleet.ring(leaving)
    wait_for(lambda: fleet.get(f"{path}/{leaving}") is None, timeout=60, what="the deletion afterwards")
    fleet.leave(app)
    fleet.forget_cluster(place)


# ── surviving ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_processes_are_killed_while_held_and_each_application_wakes_once_on_time(
    make_fleet: Callable[..., Fleet], namespace: str
) -> None:
    fleet = make_fleet()
    left, waiting = put(fleet, "drifted", namespace), fleet.name("waiting")
    fleet.push(waiting, [config_map("second", data={"v": "1"})])
    fleet.application(waiting, namespace=namespace)
    fleet.wait_run(waiting, phase="Succeeded")
    one = hold(fleet, "app", left, 30, "self-heal")
    two = hold(fleet, "app", waiting, 30)
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.push(waiting, [config_map("second", data={"v": "2"})])
    fleet.ring(left)
    fleet.ring(waiting)
    held(fleet, left)
    waits(fleet, waiting)
    goes_on_at(fleet, left, one.until)
    goes_on_at(fleet, waiting, two.until)
    ended = {app: fleet.runs_ended(app) for app in (left, waiting)}
    for process in (*fleet.beats, *fleet.workers):
        process.kill()
    for process in (*fleet.beats, *fleet.workers):
        process.start()
    wait_for(lambda: value(fleet, namespace) == "1", timeout=120, what="the heal at the end")
    wait_for(lambda: value(fleet, namespace, "second") == "2", timeout=120, what="the run that waited")
    assert written(fleet, left) >= one.until
    assert written(fleet, waiting) >= two.until
    for app in (left, waiting):
        wait_for(lambda app=app: not fleet.runs.look(app).run, what="the end of its run")  # type: ignore[misc]
        assert fleet.runs_ended(app) == ended[app] + 1


def test_a_hold_that_somebody_with_only_kubectl_sets(
    fleet: Fleet, namespace: str, command: Callable[..., Result]
) -> None:
    """It is one like any other: shown, lifted by its id, and over when the annotation is taken away."""
    app = put(fleet, "byhand", namespace)
    parent = f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}"
    until = moment(fleet.runs.now() + 600_000)

    def pushed(v: str) -> None:
        wait_for(lambda: not fleet.runs.look(app).run, what="the run before to end")
        fleet.push(app, [config_map("web", data={"v": v})])
        fleet.ring(app)

    annotate(fleet, parent, hold_until=until, hold_reason="moving the database")
    pushed("2")
    assert waits(fleet, app)["message"].endswith(f"by kubectl-edit until {until}: moving the database.")
    assert "moving the database" in command("hold").output
    annotate(fleet, parent, hold_until=None, hold_reason=None)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "2", what="the write")
    assert "moving" not in command("hold").output

    annotate(fleet, parent, hold_until=until, hold_reason="once more")
    pushed("3")
    waits(fleet, app)
    (one,) = (one for one in Holds(fleet.store).read().holds if one.target == app)
    assert command("hold", "--lift", one.id).exit_code == 0
    wait_for(lambda: value(fleet, namespace) == "3", what="the write")
    pushed("4")
    wait_for(lambda: value(fleet, namespace) == "4", what="what the annotation does not hold again")

    annotate(fleet, parent, hold_until="tomorrow")
    pushed("5")
    entry = wait_for(lambda: (e := fleet.history(app)[0])["phase"] == "Failed" and e, what="the refusal")
    assert "annotation fleetbeat.dev/hold-until" in entry["message"]
    assert value(fleet, namespace) == "4"


def test_a_hold_of_an_application_outlives_a_flush_of_redis(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet()
    app = put(fleet, "flushed", namespace)
    made = hold(fleet, "app", app, 600, "self-heal")
    fleet.ring(app)
    parent = f"/api/v1/namespaces/fleetbeat/configmaps/{parent_name(app)}"

    def noted() -> list[dict[str, Any]]:
        annotations = fleet.get(parent)["metadata"]["annotations"]  # type: ignore[index]
        return list(json.loads(annotations.get("fleetbeat.dev/holds", "[]")))

    assert [one["id"] for one in wait_for(noted, what="the hold in the cluster")] == [made.id]
    wait_for(lambda: fleet.history(app)[0]["trigger"] == "Hold", what="the end of the run that has noted it")
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.store.redis.flushall()
    wait_for(lambda: fleet.store.redis.hexists(keys.HOLDS, made.id), timeout=60, what="the hold in Redis again")
    assert "self-heal hold" in held(fleet, app)["message"]
    assert value(fleet, namespace) == "by hand"
    Holds(fleet.store).lift(made.id)
    fleet.ring(app)
    wait_for(lambda: value(fleet, namespace) == "1", what="the heal after lifting")
    wait_for(lambda: noted() == [], what="nothing noted in the cluster any more")


def test_what_was_changed_by_hand_stays_after_a_flush_where_self_heal_is_off(
    make_fleet: Callable[..., Fleet], namespace: str
) -> None:
    fleet = make_fleet()
    app = put(fleet, "off", namespace, selfHeal=False)
    edit(fleet, maps(namespace), {"data": {"v": "by hand"}})
    fleet.ring(app)
    wait_for(lambda: fleet.state(app)["sync"] == "OutOfSync", what="the drift to be seen")
    fleet.store.redis.flushall()
    entry = wait_for(lambda: next(iter(fleet.history(app)), None), timeout=60, what="the first run after the flush")
    assert "self-heal is off" in entry["results"][0]["reason"]
    assert value(fleet, namespace) == "by hand"


def test_the_deletion_of_an_application_waits_for_a_hold(fleet: Fleet, namespace: str) -> None:
    app = put(fleet, "leaving", namespace, spec={"deletionPolicy": "Delete"})
    made = hold(fleet, "app", app, 300, "prune")
    fleet.leave(app)
    waits_text = f"hold {made.id} of app {app}"
    wait_for(lambda: waits_text in fleet.runs.look(app).run.get("message", ""), what="the deletion to wait")
    assert value(fleet, namespace) == "1"
    last = ends_soon(fleet, app, made)
    wait_for(lambda: value(fleet, namespace) == "", what="the deletion after the hold")
    assert written(fleet, app) >= last.until


# ── cost, and what is refused ────────────────────────────────────────────────────────────────────────────────────


def test_an_unchanged_look_reads_nothing_of_holds(make_fleet: Callable[..., Fleet], namespace: str) -> None:
    fleet = make_fleet(workers=1, **PATIENT)
    app = put(fleet, "cheap", namespace)
    hold(fleet, "cluster", "elsewhere", 600)
    hold(fleet, "app", "another", 600)
    assert fleet.tick(app) == "nothing to do"  # the orders have changed since the last one, but for other clusters
    with Monitor(fleet.redis.url) as monitor:
        wait_for(lambda: monitor.heard, what="the first word of the monitor")
        assert fleet.tick(app) == "nothing to do"
        fleet.store.redis.echo("over")
        wait_for(lambda: b'"over"' in monitor.heard, what="all that was asked")
        assert keys.state(app).encode() in monitor.heard
        assert keys.HOLDS.encode() not in monitor.heard


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("cluster", "local", "--for", "876000h", "--reason", "x"), "at most"),
        (("app", "nobody", "--for", "1h", "--reason", "x"), "no application is called 'nobody'"),
        (("app", "shop", "--for", "1h"), "--reason"),
        (("cluster", "mars", "--for", "1h", "--reason", "x"), "no cluster is called 'mars'"),
        (("label", "team", "--for", "1h", "--reason", "x"), "is no label of applications"),
        (("object", "cart/main", "--for", "1h", "--reason", "x"), "none of Kubernetes' own kinds"),
        (("namespace", "Shop", "--for", "1h", "--reason", "x"), "is no name of a namespace"),
    ],
)
def test_what_is_no_hold_is_refused(
    fleet: Fleet, command: Callable[..., Result], words: tuple[str, ...], why: str
) -> None:
    before = {one.id for one in Holds(fleet.store).read().holds}
    name = next(iter(fleet.clusters))
    said = command("hold", *(name if word == "local" else word for word in words))
    assert said.exit_code != 0
    assert why in said.stderr or (why == "at most" and "30 days" in said.stderr)
    assert {one.id for one in Holds(fleet.store).read().holds} <= before
