"""The ApplySet parent against a real API server: who may write, what is remembered, whose object it is."""

from __future__ import annotations

import threading
import uuid
from typing import Any

import pytest
from unhurried import UNHURRIED

from fleetbeat import __version__
from fleetbeat.clients import applyset
from fleetbeat.clients.applyset import HigherFence, Parent
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.decisions.inventory import Claimant, applyset_id, parent_name
from fleetbeat.errors import Conflict, LostLock, NotYet, Refused
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import Body, Cluster, Credential, ObjectId, SecretText
from fleetbeat.ports import Written

APP = "shop"
DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def kube(cluster: LocalCluster) -> KubernetesCluster:
    ca, token = Credential(inline=SecretText(cluster.ca_pem)), Credential(inline=SecretText(cluster.token))
    return KubernetesCluster.connect(Cluster(name="test", server=cluster.server, ca=ca, token=token), http=UNHURRIED)


def take(kube: KubernetesCluster, namespace: str, fence: int = 5, run: str = "r1", **fields: Any) -> Parent:
    defaults: dict[str, Any] = {
        "group_kinds": frozenset({"Deployment.apps", "Secret"}),
        "namespaces": frozenset({"shop", "shop-jobs"}),
        "digest": DIGEST,
    }
    return applyset.take(kube, namespace, APP, run=run, fence=fence, **{**defaults, **fields})


def live(cluster: LocalCluster, namespace: str) -> Body:
    status, body = cluster.request("GET", f"/api/v1/namespaces/{namespace}/configmaps/{parent_name(APP)}")
    assert status == 200
    return dict(body["metadata"])


def annotate(cluster: LocalCluster, namespace: str, annotations: dict[str, str | None]) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/{parent_name(APP)}"
    body = {"metadata": {"annotations": annotations}}
    status, answer = cluster.request("PATCH", path, body, content_type="application/merge-patch+json")
    assert status == 200, answer


def requests(cluster: LocalCluster, namespace: str, position: int) -> list[str]:
    """Verbs of Fleetbeat's requests about this namespace."""
    return [
        event["verb"]
        for event in cluster.audit(position)
        if event.get("userAgent", "").startswith("fleetbeat/0")
        and event.get("objectRef", {}).get("namespace") == namespace
    ]


def writes(cluster: LocalCluster, namespace: str, position: int) -> list[str]:
    return [verb for verb in requests(cluster, namespace, position) if verb not in ("get", "list")]


def test_nothing_there(kube: KubernetesCluster, namespace: str) -> None:
    assert applyset.read(kube, namespace, APP) is None
    assert applyset.read(kube, "no-such-namespace", APP) is None


def test_first_take_makes_the_parent_as_other_tools_read_it(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    parent = take(kube, namespace)
    metadata = live(cluster, namespace)
    name = parent_name(APP)
    assert metadata["labels"] == {"applyset.kubernetes.io/id": applyset_id(name, namespace, "ConfigMap", "")}
    assert metadata["annotations"] == {
        "applyset.kubernetes.io/tooling": f"fleetbeat/{__version__}",
        "applyset.kubernetes.io/contains-group-kinds": "Deployment.apps,Secret",
        "applyset.kubernetes.io/additional-namespaces": "shop,shop-jobs",
        "fleetbeat.dev/application": APP,
        "fleetbeat.dev/fence": "5",
        "fleetbeat.dev/run": "r1",
        "fleetbeat.dev/digest": DIGEST,
    }
    assert (parent.fence, parent.run, parent.digest) == (5, "r1", DIGEST)
    assert (parent.name, parent.namespace, parent.uid) == (name, namespace, metadata["uid"])
    assert applyset.read(kube, namespace, APP) == parent


def test_missing_namespace_is_made(cluster: LocalCluster, kube: KubernetesCluster) -> None:
    namespace = f"fb-{uuid.uuid4().hex[:8]}"
    take(kube, namespace, namespaces=frozenset({namespace, "shop"}))
    annotations = live(cluster, namespace)["annotations"]
    assert annotations["applyset.kubernetes.io/additional-namespaces"] == "shop"  # the parent's own is implied


def test_namespace_that_is_being_deleted(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")
    with pytest.raises(NotYet, match="being deleted"):
        take(kube, namespace)


def test_take_again_writes_nothing(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    first = take(kube, namespace)
    position = cluster.audit_position()
    assert take(kube, namespace) == first
    assert writes(cluster, namespace, position) == []


def test_one_that_was_absent_is_made_with_one_request(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    position = cluster.audit_position()
    parent = take(kube, namespace, absent=True)
    assert requests(cluster, namespace, position) == ["create"]
    assert applyset.read(kube, namespace, APP) == parent


def test_one_that_has_come_meanwhile_is_read_and_its_fence_respected(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    first = take(kube, namespace, 6, "r2")
    with pytest.raises(HigherFence):
        take(kube, namespace, absent=True)
    second = take(kube, namespace, 7, "r3", absent=True, group_kinds=frozenset({"Service"}))
    assert second.group_kinds == first.group_kinds | {"Service"}


def test_listing_is_the_same_when_the_parent_would_be(kube: KubernetesCluster, namespace: str) -> None:
    kinds, spaces = frozenset({"Secret", "Role.rbac.authorization.k8s.io"}), frozenset({namespace, "b", "a"})
    parent = take(kube, namespace, group_kinds=kinds, namespaces=spaces)
    assert (
        parent.listing
        == applyset.listing(kinds, spaces, namespace)
        == applyset.listing(kinds, spaces - {namespace}, namespace)
    )
    for other in (
        applyset.listing(kinds - {"Secret"}, spaces, namespace),
        applyset.listing(kinds, spaces - {"a"}, namespace),
    ):
        assert other != parent.listing


def test_next_run_adds_and_never_removes(kube: KubernetesCluster, namespace: str) -> None:
    first = take(kube, namespace)
    second = take(
        kube, namespace, 6, "r2", group_kinds=frozenset({"Service"}), namespaces=frozenset({"new"}), digest="d"
    )
    assert (second.fence, second.run, second.digest, second.uid) == (6, "r2", "d", first.uid)
    assert second.group_kinds == {"Deployment.apps", "Secret", "Service"}
    assert second.namespaces == {"shop", "shop-jobs", "new"}


@pytest.mark.parametrize(("fence", "run"), [(4, "r0"), (4, "r1"), (5, "r2")], ids=["lower", "own but older", "equal"])
def test_higher_fence_turns_away(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str, fence: int, run: str
) -> None:
    """Redis was flushed and counts from the beginning: the caller learns from which fence to go on."""
    take(kube, namespace)
    before = live(cluster, namespace)
    with pytest.raises(HigherFence, match="run r1 with fence 5 has taken over") as caught:
        take(kube, namespace, fence, run)
    assert caught.value.fence == 5
    assert isinstance(caught.value, LostLock)
    assert live(cluster, namespace) == before


def test_of_many_at_once_the_highest_fence_is_left(kube: KubernetesCluster, namespace: str) -> None:
    outcomes: dict[int, object] = {}

    def run(fence: int) -> None:
        try:
            outcomes[fence] = take(kube, namespace, fence, f"r{fence}")
        except LostLock as error:
            outcomes[fence] = error

    threads = [threading.Thread(target=run, args=(fence,)) for fence in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = applyset.read(kube, namespace, APP)
    assert left
    winners = [fence for fence, outcome in outcomes.items() if isinstance(outcome, Parent)]
    assert left.fence == max(winners)
    assert all(isinstance(outcome, (Parent, LostLock)) for outcome in outcomes.values())


def test_keys_of_others_stay(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    take(kube, namespace)
    annotate(cluster, namespace, {"team": "web"})
    take(kube, namespace, 6, "r2")
    assert live(cluster, namespace)["annotations"]["team"] == "web"


# ── shrink ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_shrink(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    parent = take(kube, namespace)
    small = applyset.shrink(kube, parent, frozenset({"Secret"}), frozenset({"shop"}), "sha256:b")
    assert (small.group_kinds, small.namespaces, small.digest) == ({"Secret"}, {"shop"}, "sha256:b")
    assert (small.fence, small.run) == (5, "r1")
    position = cluster.audit_position()
    assert applyset.shrink(kube, small, frozenset({"Secret"}), frozenset({"shop"}), "sha256:b") == small
    assert writes(cluster, namespace, position) == []


def test_shrink_after_somebody_touched_it(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    parent = take(kube, namespace)
    annotate(cluster, namespace, {"team": "web"})
    small = applyset.shrink(kube, parent, frozenset({"Secret"}), frozenset(), DIGEST)
    assert small.group_kinds == {"Secret"}
    assert live(cluster, namespace)["annotations"]["team"] == "web"


def test_shrink_after_a_takeover(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    parent = take(kube, namespace)
    take(kube, namespace, 6, "r2")
    before = live(cluster, namespace)
    with pytest.raises(HigherFence):
        applyset.shrink(kube, parent, frozenset(), frozenset(), DIGEST)
    assert live(cluster, namespace) == before


def test_shrink_after_deletion(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    parent = take(kube, namespace)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{parent.name}")
    with pytest.raises(LostLock, match="was deleted"):
        applyset.shrink(kube, parent, frozenset(), frozenset(), DIGEST)


# ── claims ───────────────────────────────────────────────────────────────────────────────────────────────────────

TEAM, ROLE = ObjectId("", "Namespace", "", "team"), ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "a,b:c")


def test_claims_grow_and_shrink_with_the_listing(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    parent = take(kube, namespace, claims=[TEAM])
    assert parent.claims == {TEAM}
    more = take(kube, namespace, 6, "r2", claims=[ROLE])
    assert more.claims == {TEAM, ROLE}
    assert live(cluster, namespace)["annotations"]["fleetbeat.dev/claims"] == (
        "/Namespace//team,rbac.authorization.k8s.io/ClusterRole//a%2Cb:c"
    )
    kinds, spaces = frozenset({"Secret"}), frozenset({"shop"})
    fewer = applyset.shrink(kube, more, kinds, spaces, DIGEST, claims=[ROLE])
    assert fewer.claims == {ROLE}
    assert (
        fewer.listing
        == applyset.listing(kinds, spaces, namespace, [ROLE])
        != applyset.listing(kinds, spaces, namespace)
    )
    assert applyset.shrink(kube, fewer, kinds, spaces, DIGEST).claims == frozenset()
    assert "fleetbeat.dev/claims" not in live(cluster, namespace)["annotations"]


def test_who_claims_what(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    def claim(app: str, *objects: ObjectId) -> Claimant:
        empty = frozenset[str]()
        applyset.take(
            kube, namespace, app, run="r1", fence=1, group_kinds=empty, namespaces=empty, digest=DIGEST, claims=objects
        )
        return Claimant(app, applyset_id(parent_name(app), namespace))

    claim(APP, TEAM)
    blog, news = claim("blog", TEAM), claim("news", TEAM, ROLE)
    position = cluster.audit_position()
    assert applyset.claims(kube, namespace, APP) == {TEAM: blog, ROLE: news}
    assert requests(cluster, namespace, position) == ["list"]
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/{parent_name('blog')}")
    assert applyset.claims(kube, namespace, APP) == {TEAM: news, ROLE: news}, "who is no more claims nothing"
    assert applyset.claims(kube, "no-such-namespace", APP) == {}


# ── whose object it is ───────────────────────────────────────────────────────────────────────────────────────────

OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "kubectl's": ({"annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1.36.1"}}, "kubectl/v1.36.1"),
    "another application's": ({"annotations": {"fleetbeat.dev/application": "blog"}}, "application blog, not of shop"),
    "a person's": ({}, "is not an ApplySet parent"),
    "broken": ({"annotations": {"fleetbeat.dev/application": APP, "fleetbeat.dev/fence": "x"}}, "not a number"),
    "beyond all numbers": (
        {"annotations": {"fleetbeat.dev/application": APP, "fleetbeat.dev/fence": "9" * 5000}},
        "not a number",
    ),
}


@pytest.mark.parametrize(("metadata", "text"), OTHERS.values(), ids=OTHERS)
def test_refused(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str, metadata: dict[str, Any], text: str
) -> None:
    body = {"metadata": {"name": parent_name(APP), **metadata}}
    assert cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)[0] == 201
    before = live(cluster, namespace)
    for call in (lambda: applyset.read(kube, namespace, APP), lambda: take(kube, namespace)):
        with pytest.raises(Refused, match=text):
            call()
    assert live(cluster, namespace) == before


def test_a_fence_that_was_never_counted_is_not_believed(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    """Adopted into Redis, the largest integer would leave no fence for any application of the fleet."""
    take(kube, namespace)
    annotate(cluster, namespace, {"fleetbeat.dev/fence": str(2**63 - 1)})
    before = live(cluster, namespace)
    with pytest.raises(Refused, match="never counted to"):
        take(kube, namespace, fence=6, run="r2")
    assert live(cluster, namespace) == before


def test_stripped_parent_is_completed(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    """Somebody removed our annotations; the label still says whose it is."""
    take(kube, namespace)
    annotate(cluster, namespace, dict.fromkeys(live(cluster, namespace)["annotations"]))
    parent = take(kube, namespace, 1, "r9")
    assert (parent.fence, parent.run) == (1, "r9")


# ── conflicts ────────────────────────────────────────────────────────────────────────────────────────────────────


class Crowded(KubernetesCluster):
    """Somebody else always writes first."""

    def create(self, *_: Any, **__: Any) -> Written:
        raise Conflict("ConfigMap: already exists")

    def replace(self, *_: Any, **__: Any) -> Written:
        raise Conflict("ConfigMap: the object has been modified")


def test_endless_conflicts_end_as_a_lost_lock(kube: KubernetesCluster, namespace: str) -> None:
    crowded = Crowded(kube._transport)
    with pytest.raises(LostLock, match="3 times over"):
        take(crowded, namespace)
    parent = take(kube, namespace)
    with pytest.raises(LostLock, match="3 times over"):
        take(crowded, namespace, 6, "r2")
    with pytest.raises(LostLock, match="3 times over"):
        applyset.shrink(crowded, parent, frozenset(), frozenset(), DIGEST)


def test_members_beside_the_parent_and_namespaces_of_hooks_are_remembered(
    cluster: LocalCluster, kube: KubernetesCluster, namespace: str
) -> None:
    """What the additional namespaces do not say, for whoever may look into some namespaces only."""
    first = take(kube, namespace, hook_namespaces=frozenset({"jobs"}))
    assert (first.members_here, first.spaces, first.hook_namespaces) == (False, {"shop", "shop-jobs"}, {"jobs"})
    second = take(kube, namespace, 6, "r2", namespaces=frozenset({namespace}))
    assert second.members_here
    assert second.spaces == {"shop", "shop-jobs", namespace}
    third = take(kube, namespace, 7, "r3", hook_namespaces=frozenset({"more"}))
    assert (third.members_here, third.hook_namespaces) == (True, {"jobs", "more"})
    assert applyset.read(kube, namespace, APP) == third
    small = applyset.shrink(kube, third, frozenset({"Secret"}), frozenset({"shop"}), DIGEST)
    assert (small.members_here, small.spaces, small.hook_namespaces) == (False, {"shop"}, {"jobs", "more"})
    assert "fleetbeat.dev/members-here" not in live(cluster, namespace)["annotations"]
