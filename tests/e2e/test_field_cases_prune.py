"""Field cases, group d: what is deleted, in which order, and what never is. On the real API server."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from departing import DELETE, objects, parent, removed
from fleet import PATIENT, Fleet, config_map, in_wave, outcomes, words
from hooking import hook
from people import Hands, quiet
from unhurried import UNHURRIED
from waiting import wait_for

from fleetbeat import model
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.decisions.inventory import PART_OF, applyset_id, parent_name
from fleetbeat.local.cluster import Cluster
from fleetbeat.model import Credential, SecretText

FINALIZER = "hold.example.com/on"
SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
DEPENDS_ON = "config.kubernetes.io/depends-on"


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(fleet.clusters["test"])


def config_maps(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}".rstrip("/")


def push_and_sync(fleet: Fleet, app: str, manifests: list[dict[str, Any]]) -> dict[str, Any]:
    fleet.push(app, manifests)
    return fleet.sync(app)


def reasons(entry: dict[str, Any]) -> dict[str, str]:
    return {result["id"].rpartition("/")[2]: result.get("reason", "") for result in entry["results"]}


def annotations_of_parent(fleet: Fleet, app: str) -> dict[str, str]:
    found = fleet.get(config_maps("fleetbeat", parent_name(app)))
    assert found is not None
    return found["metadata"]["annotations"]


def let_go(hands: Hands, path: str) -> None:
    hands.merge(path, {"metadata": {"finalizers": None}}, "operator")


# ── stages ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_way_back_is_walked_step_by_step(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """An operator of wave 0 is there until what it has to clean up in wave 1 has gone; dependants go first."""
    app = fleet.name("back")
    operator = config_map("operator", namespace)
    account = config_map("account", namespace)
    operator["metadata"]["annotations"] = {DEPENDS_ON: f"/namespaces/{namespace}/ConfigMap/account"}
    held = in_wave(1, config_map("held", namespace, finalizers=[FINALIZER]))
    rest = config_map("rest", namespace)
    fleet.application(app, namespace=namespace)
    push_and_sync(fleet, app, [operator, account, held, rest])
    start, runs = fleet.clusters["test"].audit_position(), fleet.runs_ended(app)
    fleet.push(app, [rest])
    fleet.request(app)

    def waits() -> bool:
        run = fleet.runs.look(app).run
        return run.get("state") == "waiting" and FINALIZER in run.get("message", "")

    wait_for(waits, what="the run to wait for the finalizer")
    assert words(fleet.writes(app, since=start)) == [f"delete configmaps {namespace}/held"]
    let_go(hands, config_maps(namespace, "held"))
    entry = fleet.wait_run(app, phase="Succeeded", since=runs)
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "pruned" for name in ("held", "operator", "account")}
    assert words(fleet.writes(app, since=start)) == [
        f"delete configmaps {namespace}/{name}" for name in ("held", "operator", "account")
    ]
    assert fleet.state(app)["sync"] == "Synced"


def test_what_does_not_go_is_told_and_holds_back_what_comes_after(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """A finalizer nobody runs: the first run gives up, later ones say so and act no more, until it has gone."""
    app = fleet.name("stuck")
    held = in_wave(1, config_map("held", namespace, finalizers=[FINALIZER]))
    rest = config_map("rest", namespace)
    fleet.application(app, namespace=namespace, timeout="1s", retry={"limit": 0})
    push_and_sync(fleet, app, [config_map("operator", namespace), held, rest])
    first = push_and_sync(fleet, app, [rest])
    assert first["phase"] == "Failed"
    assert FINALIZER in first["message"]
    start = fleet.clusters["test"].audit_position()
    later = fleet.sync(app)
    assert later["phase"] == "Succeeded"
    assert outcomes(later) == {f"ConfigMap {namespace}/{name}": "kept" for name in ("held", "operator")}
    told = reasons(later)
    assert told["held"].startswith("is being deleted since 20")
    assert told["held"].endswith(f"; finalizer {FINALIZER} holds it")
    assert told["operator"] == f"waits until ConfigMap {namespace}/held has gone"
    assert fleet.state(app)["sync"] == "OutOfSync"
    assert fleet.tick(app) == "nothing to do"
    assert words(fleet.writes(app, since=start)) == []

    runs = fleet.runs_ended(app)
    let_go(hands, config_maps(namespace, "held"))
    fleet.ring(app)
    last = fleet.wait_run(app, since=runs)
    assert outcomes(last) == {f"ConfigMap {namespace}/operator": "pruned"}
    assert fleet.state(app)["sync"] == "Synced"


# ── asking first ─────────────────────────────────────────────────────────────────────────────────────────────────


def asking(name: str, namespace: str) -> dict[str, Any]:
    return config_map(name, namespace, annotations={"argocd.argoproj.io/sync-options": "Prune=confirm"})


def test_what_asks_for_a_confirmation_waits_for_a_person(fleet: Fleet, namespace: str) -> None:
    app, rest = fleet.name("asks"), config_map("rest", namespace)
    fleet.application(app, namespace=namespace)
    push_and_sync(fleet, app, [rest, asking("precious", namespace)])
    entry = push_and_sync(fleet, app, [rest])
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "kept"}
    assert "fleetbeat sync APP --confirm-prune" in reasons(entry)["precious"]
    assert fleet.state(app)["sync"] == "OutOfSync"
    entry = fleet.sync(app, confirm_prune=True)
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "pruned"}
    assert reasons(entry)["precious"] == "not in the bundle any more; confirmed by tester"
    assert fleet.state(app)["sync"] == "Synced"


def test_an_approval_in_the_catalog_counts_for_the_bundle_that_was_known(fleet: Fleet, namespace: str) -> None:
    app, rest = fleet.name("approved"), config_map("rest", namespace)
    early = {"argocd.argoproj.io/deletion-approved": datetime.now(UTC).isoformat()}
    fleet.application(app, namespace=namespace, annotations=early)
    push_and_sync(fleet, app, [rest, asking("precious", namespace)])
    entry = push_and_sync(fleet, app, [rest])
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "kept"}
    now = datetime.now(UTC).isoformat()
    runs = fleet.runs_ended(app)
    fleet.application(app, namespace=namespace, annotations={"argocd.argoproj.io/deletion-approved": now})

    def approved() -> bool:
        found = fleet.catalogs.application(app)
        return found is not None and now in found[0].annotations.values()

    wait_for(approved, what="the approval in the catalog")
    fleet.ring(app)
    entry = fleet.wait_run(app, since=runs)
    assert entry["trigger"] == "Spec"
    assert outcomes(entry) == {f"ConfigMap {namespace}/precious": "pruned"}
    assert reasons(entry)["precious"] == f"not in the bundle any more; approved at {now}"


@pytest.mark.parametrize(("policy", "sent"), [(None, "Background"), ("foreground", "Foreground"), ("orphan", "Orphan")])
def test_the_propagation_policy_is_sent_with_every_delete(
    fleet: Fleet, namespace: str, policy: str | None, sent: str
) -> None:
    app, rest = fleet.name("spread"), config_map("rest", namespace)
    fleet.application(app, namespace=namespace, options=[f"PrunePropagationPolicy={policy}"] if policy else [])
    push_and_sync(fleet, app, [rest, config_map("gone", namespace, finalizers=[FINALIZER])])
    runs = fleet.runs_ended(app)
    fleet.push(app, [rest])
    fleet.request(app)

    def finalizers() -> list[str]:
        live = fleet.get(config_maps(namespace, "gone"))
        assert live is not None
        assert "deletionTimestamp" in live["metadata"]
        return live["metadata"]["finalizers"]

    # The API server notes the policy as a finalizer of its own; the garbage collector that takes it off is not here.
    marks = {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"], "Background": []}[sent]
    assert wait_for(finalizers, what="the deletion") == [FINALIZER, *marks]
    let_go(Hands(fleet.clusters["test"]), config_maps(namespace, "gone"))
    assert fleet.wait_run(app, phase="Succeeded", since=runs)["counts"]["pruned"] == 1


# ── what goes along ──────────────────────────────────────────────────────────────────────────────────────────────


def fresh_namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"own-{uuid.uuid4().hex[:8]}"}}


def test_a_namespace_with_something_of_others_stays(controlled: Fleet) -> None:
    """Only what others have put there counts, not what Kubernetes keeps in every namespace."""
    fleet, hands = controlled, Hands(next(iter(controlled.clusters.values())))
    own, rest = fresh_namespace(), fresh_namespace()
    space = own["metadata"]["name"]
    app = fleet.name("landlord")
    fleet.application(app)
    push_and_sync(fleet, app, [own, rest, config_map("ours", space)])
    hands.create(config_maps(space), config_map("theirs"))
    entry = push_and_sync(fleet, app, [rest])
    assert outcomes(entry) == {f"ConfigMap {space}/ours": "pruned", f"Namespace {space}": "kept"}
    why = f"would take along what is not this application's to delete: ConfigMap {space}/theirs. The next sync looks"
    assert reasons(entry)[space].startswith(why)
    assert fleet.state(app)["sync"] == "OutOfSync"
    assert fleet.tick(app) == "nothing to do", "a namespace that stays is no reason for run after run"

    hands.delete(config_maps(space, "theirs"))
    entry = fleet.sync(app)
    assert outcomes(entry) == {f"Namespace {space}": "pruned"}
    assert fleet.get(f"/api/v1/namespaces/{space}") is None
    assert fleet.state(app)["sync"] == "Synced"


def test_a_namespace_stays_with_what_is_wanted_in_it(controlled: Fleet) -> None:
    """It has left the bundle, its objects have not: deleting it would delete them."""
    own = fresh_namespace()
    space = own["metadata"]["name"]
    app = controlled.name("homeless")
    controlled.application(app)
    push_and_sync(controlled, app, [own, config_map("wanted", space)])
    entry = push_and_sync(controlled, app, [config_map("wanted", space)])
    assert outcomes(entry) == {f"Namespace {space}": "kept"}
    assert f"ConfigMap {space}/wanted" in reasons(entry)[space]
    assert controlled.get(config_maps(space, "wanted")) is not None


def definition(group: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"carts.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Cart", "plural": "carts", "singular": "cart"},
            "versions": [version],
        },
    }


def cart(group: str, name: str, namespace: str, **metadata: Any) -> dict[str, Any]:
    place = {"name": name, "namespace": namespace, **metadata}
    return {"apiVersion": f"{group}/v1", "kind": "Cart", "metadata": place, "spec": {"size": 1}}


def test_a_definition_goes_after_its_objects_and_the_inventory_ends_empty(fleet: Fleet, namespace: str) -> None:
    """Field case d9."""
    app, group = fleet.name("carts"), f"{uuid.uuid4().hex[:8]}.example.com"
    fleet.application(app, allowEmpty=True)
    push_and_sync(fleet, app, [definition(group), cart(group, "one", namespace), cart(group, "two", namespace)])
    start = fleet.clusters["test"].audit_position()
    entry = push_and_sync(fleet, app, [])
    assert entry["phase"] == "Succeeded"
    assert entry["counts"] == {"pruned": 3}
    deleted = words(fleet.writes(app, since=start))
    assert sorted(deleted[:2]) == [f"delete carts {namespace}/one", f"delete carts {namespace}/two"]
    assert deleted[2:] == [f"delete customresourcedefinitions carts.{group}"]
    assert annotations_of_parent(fleet, app)["applyset.kubernetes.io/contains-group-kinds"] == ""
    runs = fleet.runs_ended(app)
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert fleet.runs_ended(app) == runs + 1


def test_objects_whose_definition_somebody_deleted_are_gone(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """Field case d9: no such kind counts as gone."""
    app, group = fleet.name("carts"), f"{uuid.uuid4().hex[:8]}.example.com"
    fleet.application(app, selfHeal=False)
    rest = config_map("rest", namespace)
    push_and_sync(fleet, app, [definition(group), cart(group, "one", namespace), rest])
    crd = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/carts.{group}"
    hands.delete(crd)
    wait_for(lambda: hands.gone(crd), what="the definition to go")
    entry = push_and_sync(fleet, app, [rest])
    assert entry["phase"] == "Succeeded"
    assert entry["counts"] == {"unchanged": 1}
    assert fleet.state(app)["sync"] == "Synced"


def test_a_definition_with_objects_of_others_stays(fleet: Fleet, hands: Hands, namespace: str) -> None:
    app, group = fleet.name("carts"), f"{uuid.uuid4().hex[:8]}.example.com"
    fleet.application(app)
    rest = config_map("rest", namespace)
    push_and_sync(fleet, app, [definition(group), cart(group, "ours", namespace), rest])
    path = f"/apis/{group}/v1/namespaces/{namespace}/carts"
    hands.create(path, cart(group, "theirs", namespace))
    entry = push_and_sync(fleet, app, [rest])
    assert outcomes(entry) == {
        f"Cart.{group} {namespace}/ours": "pruned",
        f"CustomResourceDefinition carts.{group}": "kept",
    }
    assert f"Cart.{group} {namespace}/theirs" in reasons(entry)[f"carts.{group}"]
    hands.delete(f"{path}/theirs")
    entry = fleet.sync(app)
    assert outcomes(entry) == {f"CustomResourceDefinition carts.{group}": "pruned"}
    assert fleet.state(app)["sync"] == "Synced"


# ── two applications, one object ─────────────────────────────────────────────────────────────────────────────────


class Pair:
    """Applications A and B, both with Namespace ``team`` and a ConfigMap of their own."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.team = fresh_namespace()
        self.space = self.team["metadata"]["name"]
        self.path = f"/api/v1/namespaces/{self.space}"
        self.a, self.b = fleet.name("a"), fleet.name("b")
        for app in (self.a, self.b):
            fleet.application(app)
        push_and_sync(fleet, self.a, [self.team, config_map("of-a", self.space)])
        push_and_sync(fleet, self.b, [self.team, config_map("of-b", self.space)])

    def live(self) -> dict[str, Any]:
        found = self.fleet.get(self.path)
        assert found is not None
        assert "deletionTimestamp" not in found["metadata"]
        return found["metadata"]

    def owner(self) -> str:
        ids = {applyset_id(parent_name(app), "fleetbeat"): app for app in (self.a, self.b)}
        return ids[self.live()["labels"][PART_OF]]

    def rest(self) -> None:
        """Looks find nothing to do."""
        for _ in range(3):
            for app in (self.a, self.b):
                assert self.fleet.tick(app) == "nothing to do"

    def writes(self, since: int) -> list[str]:
        """Of both, to their parents too."""
        return [word for app in (self.a, self.b) for word in words(self.fleet.writes(app, since=since, parents=True))]


def test_two_applications_with_one_object_have_one_owner(fleet: Fleet) -> None:
    """Field case d3: the other is told, goes on with the rest, and nothing alternates."""
    pair = Pair(fleet)
    entry = fleet.history(pair.b)[0]
    assert entry["phase"] == "Succeeded"
    assert outcomes(entry) | {f"ConfigMap {pair.space}/of-b": ""} == {
        f"ConfigMap {pair.space}/of-b": "",
        f"Namespace {pair.space}": "skipped",
    }
    assert f"belongs to application {pair.a}" in reasons(entry)[pair.space]
    assert fleet.state(pair.b)["sync"] == "OutOfSync"
    assert fleet.state(pair.a)["sync"] == "Synced"
    assert fleet.get(config_maps(pair.space, "of-b")) is not None
    assert annotations_of_parent(fleet, pair.b)["fleetbeat.dev/claims"] == f"/Namespace//{pair.space}"

    start = fleet.clusters["test"].audit_position()
    before = pair.live()
    runs = [fleet.runs_ended(app) for app in (pair.a, pair.b)]
    pair.rest()
    again = [fleet.sync(app) for app in (pair.b, pair.a)]
    assert [entry["phase"] for entry in again] == ["Succeeded"] * 2
    assert pair.live() == before
    assert [fleet.runs_ended(app) for app in (pair.a, pair.b)] == [count + 1 for count in runs], "no run but those"
    assert pair.writes(since=start) == []


def test_the_owner_hands_over_what_another_bundle_has(fleet: Fleet) -> None:
    """Field case d3: never absent, the same object, and then B's to prune."""
    pair = Pair(fleet)
    uid = pair.live()["uid"]
    entry = push_and_sync(fleet, pair.a, [config_map("of-a", pair.space)])
    assert outcomes(entry) == {f"Namespace {pair.space}": "handed-over"}
    assert reasons(entry)[pair.space] == f"to application {pair.b}"
    assert fleet.state(pair.a)["sync"] == "Synced"
    assert (pair.owner(), pair.live()["uid"]) == (pair.b, uid)
    runs = fleet.runs_ended(pair.b)
    fleet.ring(pair.b)
    taken = fleet.wait_run(pair.b, since=runs)
    assert (taken["phase"], taken["trigger"]) == ("Succeeded", "Drift")
    assert fleet.state(pair.b)["sync"] == "Synced"
    assert "fleetbeat.dev/claims" not in annotations_of_parent(fleet, pair.b)
    assert "Namespace" in annotations_of_parent(fleet, pair.b)["applyset.kubernetes.io/contains-group-kinds"]
    assert "Namespace" not in annotations_of_parent(fleet, pair.a)["applyset.kubernetes.io/contains-group-kinds"]
    start, before = fleet.clusters["test"].audit_position(), pair.live()
    pair.rest()
    for app in (pair.a, pair.b):
        fleet.sync(app)
    assert pair.live() == before
    assert pair.writes(since=start) == []


def test_who_drops_what_it_does_not_own_changes_nothing(fleet: Fleet) -> None:
    """Field case d3."""
    pair = Pair(fleet)
    before = pair.live()
    entry = push_and_sync(fleet, pair.b, [config_map("of-b", pair.space)])
    assert (entry["phase"], outcomes(entry)) == ("Succeeded", {})
    assert fleet.state(pair.b)["sync"] == "Synced"
    assert "fleetbeat.dev/claims" not in annotations_of_parent(fleet, pair.b)
    assert pair.live() == before
    # Nobody claims it any more, so it is A's to delete, but for what B has in it.
    entry = push_and_sync(fleet, pair.a, [config_map("of-a", pair.space)])
    assert outcomes(entry) == {f"Namespace {pair.space}": "kept"}


def test_a_handed_over_object_that_the_heir_drops_goes(fleet: Fleet, namespace: str) -> None:
    a, b = fleet.name("a"), fleet.name("b")
    for app in (a, b):
        fleet.application(app)
        push_and_sync(fleet, app, [config_map("shared", namespace), config_map(f"of-{app}", namespace)])
    push_and_sync(fleet, a, [config_map(f"of-{a}", namespace)])
    entry = push_and_sync(fleet, b, [config_map(f"of-{b}", namespace)])
    assert outcomes(entry) == {f"ConfigMap {namespace}/shared": "pruned"}
    assert fleet.get(config_maps(namespace, "shared")) is None


def test_a_shared_object_fails_where_that_is_asked_for(fleet: Fleet, namespace: str) -> None:
    a, b = fleet.name("a"), fleet.name("b")
    fleet.application(a)
    push_and_sync(fleet, a, [config_map("shared", namespace)])
    fleet.application(b, options=["FailOnSharedResource=true"])
    entry = push_and_sync(fleet, b, [config_map("shared", namespace), config_map("free", namespace)])
    assert entry["phase"] == "Failed"
    assert f"of application {a}" in entry["message"]
    assert fleet.get(config_maps(namespace, "free")) is None


# ── what is the same, what has moved ─────────────────────────────────────────────────────────────────────────────


def autoscaler(version: str, namespace: str) -> dict[str, Any]:
    cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
    target: dict[str, Any] = {"metrics": [cpu]} if version == "v2" else {"targetCPUUtilizationPercentage": 80}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"scaleTargetRef": deployment, "minReplicas": 1, "maxReplicas": 3, **target},
    }


def event(group: str, namespace: str) -> dict[str, Any]:
    about = {"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "rest"}
    said = {"type": "Normal", "reason": "Told", "action": "Telling", "reportingInstance": "here"}
    same = {**said, "eventTime": "2026-11-30T12:00:00.000000Z", "metadata": {"name": "told", "namespace": namespace}}
    if group:
        return {
            "apiVersion": f"{group}/v1",
            "kind": "Event",
            **same,
            "regarding": about,
            "reportingController": "x.io/y",
        }
    return {"apiVersion": "v1", "kind": "Event", **same, "involvedObject": about, "reportingComponent": "x.io/y"}


@pytest.mark.parametrize(
    ("make", "before", "after", "path"),
    [
        pytest.param(
            autoscaler, "v1", "v2", "/apis/autoscaling/v2/namespaces/{}/horizontalpodautoscalers/web", id="version"
        ),
        pytest.param(event, "", "events.k8s.io", "/api/v1/namespaces/{}/events/told", id="group"),
    ],
)
def test_one_object_under_another_api_version_is_never_deleted(
    fleet: Fleet, namespace: str, make: Callable[[str, str], dict[str, Any]], before: str, after: str, path: str
) -> None:
    """Field case d1: the new one applied, the "old" one collected would delete what both of them are."""
    app = fleet.name("renamed")
    fleet.application(app, namespace=namespace)
    bundles = [[quiet(make(version, namespace)), config_map("rest", namespace)] for version in (before, after)]
    first = push_and_sync(fleet, app, bundles[0])
    assert first["phase"] == "Succeeded", first["message"]
    uid = (fleet.get(path.format(namespace)) or {})["metadata"]["uid"]
    entry = push_and_sync(fleet, app, bundles[1])
    assert entry["phase"] == "Succeeded"
    fleet.sync(app)
    live = fleet.get(path.format(namespace))
    assert live is not None
    assert live["metadata"]["uid"] == uid
    assert not [word for word in words(fleet.writes(app)) if word.startswith("delete")]


def test_an_object_that_moves_is_there_before_it_has_gone(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """To another namespace: the old one stays until everything else is healthy."""
    app, other = fleet.name("moves"), fresh_namespace()
    space = other["metadata"]["name"]
    fleet.application(app)
    push_and_sync(fleet, app, [other, config_map("web", namespace)])
    start = fleet.clusters["test"].audit_position()
    entry = push_and_sync(fleet, app, [other, config_map("web", space), in_wave(1, config_map("late", space))])
    assert outcomes(entry) == {
        f"ConfigMap {space}/web": "created",
        f"ConfigMap {space}/late": "created",
        f"ConfigMap {namespace}/web": "pruned",
    }
    assert words(fleet.writes(app, since=start)) == [
        f"patch configmaps {space}/web",
        f"patch configmaps {space}/late",
        f"delete configmaps {namespace}/web",
    ]


def test_an_object_that_moves_to_another_group_is_two_objects(fleet: Fleet, namespace: str) -> None:
    """Unlike two names of one stored object they have uids of their own."""
    app = fleet.name("regroups")
    old, new = (f"{uuid.uuid4().hex[:8]}.example.com" for _ in range(2))
    definitions = [definition(old), definition(new)]
    fleet.application(app)
    push_and_sync(fleet, app, [*definitions, cart(old, "one", namespace)])
    entry = push_and_sync(fleet, app, [*definitions, cart(new, "one", namespace)])
    assert outcomes(entry) == {f"Cart.{new} {namespace}/one": "created", f"Cart.{old} {namespace}/one": "pruned"}


# ── what is never pruned, what is never forgotten ────────────────────────────────────────────────────────────────


def test_a_broken_file_prunes_nothing(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """Field case d5: it fails as a whole, names file and line, and the last good bundle is still healed."""
    app = fleet.name("tabbed")
    fleet.application(app, namespace=namespace)
    files = {f"{name}.yaml": yaml.safe_dump(config_map(name, namespace)) for name in "abc"}
    fleet.push(app, files)
    fleet.sync(app)
    start = fleet.clusters["test"].audit_position()
    fleet.push(app, {**files, "b.yaml": files["b.yaml"].replace("  name:", "\tname:")})
    entry = fleet.sync(app)
    assert (entry["phase"], entry["error"]) == ("Failed", "ManifestError")
    assert "b.yaml" in entry["message"]
    assert "line" in entry["message"]
    assert words(fleet.writes(app, since=start)) == []

    hands.merge(config_maps(namespace, "a"), {"data": {"key": "mine"}}, "kubectl-edit")
    fleet.ring(app)
    wait_for(lambda: hands.get(config_maps(namespace, "a"))["data"] == {"key": "value"}, what="the heal")
    heal = wait_for(lambda: next((e for e in fleet.history(app) if e["trigger"] == "Drift"), None), what="its end")
    assert outcomes(heal) == {f"ConfigMap {namespace}/a": "configured"}
    assert heal["revision"]["digest"] == fleet.state(app)["digest"]
    again = wait_for(lambda: fleet.history(app)[0]["trigger"] == "Retry" and fleet.history(app)[0], what="another try")
    assert again["error"] == "ManifestError"
    state = fleet.state(app)
    assert (state["phase"], state["reason"], state["health"]) == ("Failed", "ManifestError", "Healthy")
    assert set(words(fleet.writes(app, since=start))) == {f"patch configmaps {namespace}/a"}


def test_a_copied_label_makes_nothing_ours(fleet: Fleet, hands: Hands, namespace: str) -> None:
    """Field case d8: an operator copies labels and annotations to what it makes."""
    app = fleet.name("copied")
    fleet.application(app, namespace=namespace)
    push_and_sync(fleet, app, [config_map("original", namespace), config_map("rest", namespace)])
    original = hands.get(config_maps(namespace, "original"))["metadata"]
    marks = {"labels": original["labels"], "annotations": original.get("annotations") or {}}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "rest", "uid": original["uid"], "controller": True}
    hands.create(config_maps(namespace), config_map("copy", **marks), "operator")
    hands.create(config_maps(namespace), config_map("owned-copy", **marks, ownerReferences=[owner]), "operator")
    entry = push_and_sync(fleet, app, [config_map("rest", namespace)])
    assert outcomes(entry) == {f"ConfigMap {namespace}/original": "pruned"}
    assert fleet.state(app)["sync"] == "Synced"
    for name in ("copy", "owned-copy"):
        assert not hands.gone(config_maps(namespace, name))


def test_what_a_failed_sync_had_applied_is_pruned_later(fleet: Fleet, namespace: str) -> None:
    """Field case d10. What the server refuses is found beforehand; a bundle can still fail half-way."""
    app = fleet.name("partial")
    fleet.application(app, namespace=namespace, timeout="1s", retry={"limit": 0})
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "never", "namespace": namespace},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "none-such",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    late = in_wave(1, config_map("b", namespace))
    first = push_and_sync(fleet, app, [config_map("a", namespace), claim, late])
    assert first["phase"] == "Failed"
    assert fleet.get(config_maps(namespace, "a")) is not None
    assert fleet.get(config_maps(namespace, "b")) is None
    entry = push_and_sync(fleet, app, [config_map("b", namespace)])
    assert outcomes(entry)[f"ConfigMap {namespace}/a"] == "pruned"
    assert outcomes(entry)[f"ConfigMap {namespace}/b"] == "created"
    assert fleet.get(config_maps(namespace, "a")) is None


def test_long_names_never_mix(fleet: Fleet, namespace: str) -> None:
    """Field case d12: two names of 70 characters, the first 63 the same, the last of them a dash."""
    start = f"{uuid.uuid4().hex}{'a' * 30}-"
    one, two = f"{start}eu-west", f"{start}us-east"
    assert (len(start), len(one), len(two)) == (63, 70, 70)
    for app in (one, two):
        fleet.application(app, namespace=namespace, spec=DELETE)
        push_and_sync(fleet, app, [config_map(app, namespace), config_map(f"old-{app}", namespace)])
    entry = push_and_sync(fleet, one, [config_map(one, namespace)])
    assert outcomes(entry) == {f"ConfigMap {namespace}/old-{one}": "pruned"}
    assert objects(fleet, namespace) == sorted([one, two, f"old-{two}"])
    assert fleet.state(two)["sync"] == "Synced"
    fleet.leave(one)
    assert outcomes(removed(fleet, one)) == {f"ConfigMap {namespace}/{one}": "pruned"}
    assert objects(fleet, namespace) == sorted([two, f"old-{two}"])
    assert (parent(fleet, one), parent(fleet, two) is None) == (None, False)


@pytest.fixture
def apart(local_binary: object) -> Iterator[Cluster]:
    """A cluster of its own: what is out of order here, all others would remember for a while."""
    with Cluster(name="apart") as running:
        yield running


def test_one_api_group_that_does_not_answer_prunes_nothing(make_fleet: Callable[..., Fleet], apart: Cluster) -> None:
    """What cannot be listed must not look empty. When the group is back the rest is pruned."""
    cluster, namespace = apart, "default"
    fleet = make_fleet(workers=1, clusters=[cluster], **PATIENT)
    path, group = "/apis/apiregistration.k8s.io/v1/apiservices", f"{uuid.uuid4().hex[:8]}.example.com"
    spec = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10}
    service = {"namespace": namespace, "name": "nobody", "port": 443}
    broken = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {**spec, "service": service, "insecureSkipTLSVerify": True},
    }
    app, rest = fleet.name("partial"), config_map("rest", namespace)
    fleet.application(app, namespace=namespace)
    assert cluster.request("POST", path, broken)[0] == 201
    wait_for(lambda: not _complete(cluster), every=0.2, what="the group to be reported as stale")
    push_and_sync(fleet, app, [rest, config_map("old", namespace)])
    entry = push_and_sync(fleet, app, [rest])
    assert (entry["phase"], entry["error"]) == ("Succeeded", "PruneRefused")
    assert "Nothing is pruned: the cluster could not be asked about every kind" in entry["message"]
    assert fleet.get(config_maps(namespace, "old")) is not None
    assert cluster.request("DELETE", f"{path}/v1.{group}")[0] == 200
    wait_for(lambda: _complete(cluster), every=0.2, what="the group to be forgotten")
    entry = wait_for(lambda: _pruned(fleet.sync(app)), timeout=120, what="the prune")
    assert entry == {f"ConfigMap {namespace}/old": "pruned"}


def _complete(cluster: Cluster) -> bool:
    ca, token = Credential(inline=SecretText(cluster.ca_pem)), Credential(inline=SecretText(cluster.token))
    described = model.Cluster(name=cluster.name, server=cluster.server, ca=ca, token=token)
    return KubernetesCluster.connect(described, http=UNHURRIED).api_set(refresh=True).complete


def _pruned(entry: dict[str, Any]) -> dict[str, str]:
    return {key: word for key, word in outcomes(entry).items() if word == "pruned"}


# ── empty bundles, skipped objects ──────────────────────────────────────────────────────────────────────────────


def test_an_empty_bundle_prunes_nothing_and_says_why(fleet: Fleet, namespace: str) -> None:
    """Field case d4."""
    name = fleet.name("empty")
    fleet.push(name, [config_map("a", namespace)])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")
    revision = fleet.push(name, {"README.md": "nothing here\n", "only-comments.yaml": "# nothing\n"})
    fleet.ring(name)
    entry = fleet.wait_run(name, digest=revision.digest)
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/a") is not None
    assert "allowEmpty" in entry["message"]
    assert "pruned" not in entry["counts"]


def test_allow_empty_prunes_everything(fleet: Fleet, namespace: str) -> None:
    """Field case d4: and is not stuck on having no objects."""
    name = fleet.name("gone")
    fleet.push(name, [config_map("a", namespace)])
    fleet.application(name, namespace=namespace, allowEmpty=True)
    fleet.wait_run(name, phase="Succeeded")
    revision = fleet.push(name, {"README.md": "nothing here\n"})
    fleet.ring(name)
    entry = fleet.wait_run(name, digest=revision.digest)
    assert entry["phase"] == "Succeeded"
    assert outcomes(entry) == {f"ConfigMap {namespace}/a": "pruned"}


def test_an_explicit_sync_may_empty_the_application_for_the_bundle_it_was_told_of(fleet: Fleet, namespace: str) -> None:
    """Field case d4. Nothing else may: no agreement given before it was told, none for another empty bundle."""
    app, empty = fleet.name("agreed"), {"README.md": "nothing here\n"}
    fleet.application(app, namespace=namespace)
    push_and_sync(fleet, app, [config_map("a"), config_map("stays", annotations={SYNC_OPTIONS: "Prune=false"})])
    fleet.push(app, empty)
    entry = fleet.sync(app, confirm_prune=True)
    assert (entry["error"], "fleetbeat sync APP --confirm-prune" in entry["message"]) == ("PruneRefused", True)
    assert fleet.sync(app)["error"] == "PruneRefused"
    fleet.push(app, {"README.md": "nothing here either\n"})
    assert fleet.sync(app, confirm_prune=True)["error"] == "PruneRefused"
    assert objects(fleet, namespace) == ["a", "stays"]

    entry = fleet.sync(app, confirm_prune=True)
    assert outcomes(entry) == {f"ConfigMap {namespace}/a": "pruned", f"ConfigMap {namespace}/stays": "kept"}
    assert reasons(entry)["a"] == "not in the bundle any more; confirmed by tester"
    assert objects(fleet, namespace) == ["stays"]


def test_a_path_with_a_typing_error_prunes_nothing(fleet: Fleet, namespace: str) -> None:
    """Field case d4: a folder that is not in the bundle is a mistake, not an empty selection, agreed to or not."""
    app, files = fleet.name("path"), {"prod/a.yaml": yaml.safe_dump(config_map("a")), "dev/b.yaml": ""}
    fleet.push(app, files)
    fleet.application(app, namespace=namespace, source={"path": "prod"})
    fleet.wait_run(app, phase="Succeeded")
    fleet.application(app, namespace=namespace, source={"path": "prdo"})
    entry = fleet.wait_run(app, phase="Failed")
    assert entry["error"] == "ManifestError"
    assert "path 'prdo' is not in the bundle, which has the folders" in entry["message"]
    entry = fleet.sync(app, confirm_prune=True)
    assert (entry["phase"], entry["error"]) == ("Failed", "ManifestError")
    assert objects(fleet, namespace) == ["a"]


def test_a_bundle_of_hooks_alone_prunes_nothing(fleet: Fleet, namespace: str) -> None:
    """Field case d4: such a bundle counts as empty."""
    app = fleet.name("d4")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    alone = fleet.push(app, [hook("PreSync", config_map("migrate"))])
    fleet.ring(app)
    entry = fleet.wait_run(app, digest=alone.digest)
    assert "Nothing is pruned" in entry["message"]
    assert all(fleet.get(config_maps(namespace, name)) for name in ("web", "migrate"))


def test_an_applied_object_that_asks_to_be_skipped_stays_as_it_is(fleet: Fleet, namespace: str) -> None:
    """Field case d13: neither written nor pruned, and told in the history."""
    name = fleet.name("skip")
    fleet.push(name, [config_map("a", namespace), config_map("b", namespace, data={"v": "1"})])
    fleet.application(name, namespace=namespace)
    fleet.wait_run(name, phase="Succeeded")

    changed = config_map("b", namespace, {"v": "2"}, annotations={"argocd.argoproj.io/hook": "Skip"})
    revision = fleet.push(name, [config_map("a", namespace, data={"v": "2"}), changed])
    fleet.ring(name)
    entry = fleet.wait_run(name, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/a": "configured"}
    [told] = entry["warnings"]
    assert told.endswith(f"ConfigMap {namespace}/b is not applied: annotation argocd.argoproj.io/hook: Skip")
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/b")
    assert live is not None
    assert live["data"] == {"v": "1"}
