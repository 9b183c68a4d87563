"""Field cases, group d: what is deleted, in which order, and what never is. On the real API server."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from fleet import Fleet, config_map, in_wave, outcomes, words
from people import Hands
from waiting import wait_for

from fleetbeat.decisions.inventory import PART_OF, applyset_id, parent_name

FINALIZER = "hold.example.com/on"
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
    start, runs = fleet.clusters["test"].audit_position(), len(fleet.history(app))
    fleet.push(app, [rest])
    fleet.request(app)

    def waits() -> bool:
        run = fleet.runs.look(app).run
        return run.get("state") == "waiting" and FINALIZER in run.get("message", "")

    wait_for(waits, timeout=30, what="the run to wait for the finalizer")
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
    fleet.application(app, namespace=namespace, timeout="1s")
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
    runs = len(fleet.history(app))
    fleet.ring(app)
    assert words(fleet.writes(app, since=start)) == []

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
    runs = len(fleet.history(app))
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
    runs = len(fleet.history(app))
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
    runs = len(fleet.history(app))
    fleet.ring(app)

    hands.delete(config_maps(space, "theirs"))
    entry = fleet.sync(app)
    assert len(fleet.history(app)) == runs + 1, "a namespace that stays is no reason for run after run"
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
    runs = len(fleet.history(app))
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert len(fleet.history(app)) == runs + 1


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

    def tick(self, *apps: str, times: int = 5) -> None:
        for _ in range(times):
            for app in apps:
                self.fleet.ring(app)


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
    runs = [len(fleet.history(app)) for app in (pair.a, pair.b)]
    pair.tick(pair.a, pair.b)
    again = [fleet.sync(app) for app in (pair.b, pair.a)]
    assert [entry["phase"] for entry in again] == ["Succeeded"] * 2
    assert pair.live() == before
    assert [len(fleet.history(app)) for app in (pair.a, pair.b)] == [count + 1 for count in runs], "no run but those"
    assert words(fleet.writes(since=start, parents=True)) == []


def test_the_owner_hands_over_what_another_bundle_has(fleet: Fleet) -> None:
    """Field case d3: never absent, the same object, and then B's to prune."""
    pair = Pair(fleet)
    uid = pair.live()["uid"]
    entry = push_and_sync(fleet, pair.a, [config_map("of-a", pair.space)])
    assert outcomes(entry) == {f"Namespace {pair.space}": "handed-over"}
    assert reasons(entry)[pair.space] == f"to application {pair.b}"
    assert fleet.state(pair.a)["sync"] == "Synced"
    assert (pair.owner(), pair.live()["uid"]) == (pair.b, uid)
    runs = len(fleet.history(pair.b))
    fleet.ring(pair.b)
    taken = fleet.wait_run(pair.b, since=runs)
    assert (taken["phase"], taken["trigger"]) == ("Succeeded", "Drift")
    assert fleet.state(pair.b)["sync"] == "Synced"
    assert "fleetbeat.dev/claims" not in annotations_of_parent(fleet, pair.b)
    assert "Namespace" in annotations_of_parent(fleet, pair.b)["applyset.kubernetes.io/contains-group-kinds"]
    assert "Namespace" not in annotations_of_parent(fleet, pair.a)["applyset.kubernetes.io/contains-group-kinds"]
    start, before = fleet.clusters["test"].audit_position(), pair.live()
    pair.tick(pair.a, pair.b)
    for app in (pair.a, pair.b):
        fleet.sync(app)
    assert pair.live() == before
    assert words(fleet.writes(since=start, parents=True)) == []


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
