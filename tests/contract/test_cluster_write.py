"""The Kubernetes client's writes against a real API server: what each expects to find, and the guard before it."""

from __future__ import annotations

import copy
import uuid
from typing import Any

import pytest
from unhurried import UNHURRIED

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.errors import Conflict, LostLock, NotYet, Rejected
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import ApiResource, Body, Cluster, Credential, SecretText
from fleetbeat.ports import Absent, Seen, Written

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments", True)
UNKNOWN = ApiResource("nowhere.example.com", "v1", "Thing", "things", True)


def connect(cluster: LocalCluster, token: str | None = None) -> KubernetesCluster:
    return KubernetesCluster.connect(
        Cluster(
            name="test",
            server=cluster.server,
            ca=Credential(inline=SecretText(cluster.ca_pem)),
            token=Credential(inline=SecretText(token or cluster.token)),
        ),
        http=UNHURRIED,
    )


@pytest.fixture
def kube(cluster: LocalCluster) -> KubernetesCluster:
    return connect(cluster)


def config_map(namespace: str, name: str = "settings", **data: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"color": "green"},
    }


def deployment(namespace: str, app: str = "web") -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }


def seen(written: Written | Body) -> Seen:
    metadata = (written.body if isinstance(written, Written) else written)["metadata"]
    return Seen(metadata["uid"], metadata["resourceVersion"])


def by_hand(cluster: LocalCluster, namespace: str, name: str, data: dict[str, str]) -> None:
    """A person's `kubectl edit`."""
    status, answer = cluster.request(
        "PATCH",
        f"/api/v1/namespaces/{namespace}/configmaps/{name}?fieldManager=kubectl-edit",
        {"data": data},
        content_type="application/merge-patch+json",
    )
    assert status == 200, answer


# ── apply ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_apply_creates_what_is_absent(kube: KubernetesCluster, namespace: str) -> None:
    body = config_map(namespace)
    before = copy.deepcopy(body)
    written = kube.apply(CONFIG_MAP, body, expect=Absent())
    assert written.created
    assert written.audit_id
    assert written.body["data"] == {"color": "green"}
    assert body == before
    assert kube.get(CONFIG_MAP, namespace, "settings") == written.body


@pytest.mark.parametrize("force", [False, True], ids=["plain", "forced"])
@pytest.mark.parametrize("dry_run", [False, True], ids=["kept", "dry-run"])
def test_apply_expecting_absence_never_touches_what_exists(
    kube: KubernetesCluster, namespace: str, force: bool, dry_run: bool
) -> None:
    first = kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    with pytest.raises(Conflict, match=f"ConfigMap {namespace}/settings"):
        kube.apply(CONFIG_MAP, config_map(namespace, color="red"), expect=Absent(), force=force, dry_run=dry_run)
    assert kube.get(CONFIG_MAP, namespace, "settings") == first.body


def test_apply_to_the_state_that_was_seen(kube: KubernetesCluster, namespace: str) -> None:
    first = kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    second = kube.apply(CONFIG_MAP, config_map(namespace, color="red"), expect=seen(first))
    assert not second.created
    assert second.body["data"] == {"color": "red"}


def test_apply_of_the_same_content_writes_nothing(kube: KubernetesCluster, namespace: str) -> None:
    first = kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    again = kube.apply(CONFIG_MAP, config_map(namespace), expect=seen(first))
    assert seen(again) == seen(first)


def changed(kube: KubernetesCluster, namespace: str, was: Seen) -> None:
    kube.apply(CONFIG_MAP, config_map(namespace, color="blue"), expect=was)


def vanished(kube: KubernetesCluster, namespace: str, was: Seen) -> None:
    assert kube.delete(CONFIG_MAP, namespace, "settings", seen=was)


def recreated(kube: KubernetesCluster, namespace: str, was: Seen) -> None:
    vanished(kube, namespace, was)
    kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())


@pytest.mark.parametrize("meanwhile", [changed, vanished, recreated])
def test_apply_to_another_state_is_a_conflict_even_with_force(
    kube: KubernetesCluster, namespace: str, meanwhile: Any
) -> None:
    was = seen(kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent()))
    meanwhile(kube, namespace, was)
    before = kube.get(CONFIG_MAP, namespace, "settings")
    with pytest.raises(Conflict):
        kube.apply(CONFIG_MAP, config_map(namespace, color="red"), expect=was, force=True)
    assert kube.get(CONFIG_MAP, namespace, "settings") == before


def test_apply_over_another_uid_is_a_conflict(kube: KubernetesCluster, namespace: str) -> None:
    """The server calls a changed uid an invalid field (422) when the resourceVersion happens to fit."""
    first = kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    version = first.body["metadata"]["resourceVersion"]
    with pytest.raises(Conflict, match="created again"):
        kube.apply(CONFIG_MAP, config_map(namespace, color="red"), expect=Seen(str(uuid.uuid4()), version))


def test_apply_without_expectation_is_for_dry_runs_only(kube: KubernetesCluster, namespace: str) -> None:
    with pytest.raises(ValueError, match="expects"):
        kube.apply(CONFIG_MAP, config_map(namespace))
    kube.apply(CONFIG_MAP, config_map(namespace), dry_run=True)
    assert kube.get(CONFIG_MAP, namespace, "settings") is None


def test_dry_run_tells_absence_and_the_live_version(kube: KubernetesCluster, namespace: str) -> None:
    assert kube.apply(CONFIG_MAP, config_map(namespace), dry_run=True).created
    live = kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    dry = kube.apply(CONFIG_MAP, config_map(namespace, color="red"), dry_run=True)
    assert not dry.created
    assert seen(dry) == seen(live)


def test_field_conflict_names_field_and_manager(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    kube.apply(CONFIG_MAP, config_map(namespace, color="green", size="big"), expect=Absent())
    by_hand(cluster, namespace, "settings", {"color": "red", "size": "small"})
    now = seen(kube.get(CONFIG_MAP, namespace, "settings") or {})
    wanted = config_map(namespace, color="green", size="big")
    with pytest.raises(Conflict) as caught:
        kube.apply(CONFIG_MAP, wanted, expect=now)
    assert set(caught.value.causes) == {(".data.color", "kubectl-edit"), (".data.size", "kubectl-edit")}
    assert kube.apply(CONFIG_MAP, wanted, expect=now, force=True).body["data"] == wanted["data"]


# ── create, replace, delete ──────────────────────────────────────────────────────────────────────────────────────


def test_create(kube: KubernetesCluster, namespace: str) -> None:
    assert kube.create(CONFIG_MAP, config_map(namespace)).created
    with pytest.raises(Conflict, match="already exists"):
        kube.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(NotYet, match="namespace not-there does not exist"):
        kube.create(CONFIG_MAP, config_map("not-there"))
    with pytest.raises(Rejected, match='unknown field "foo"'):
        kube.create(CONFIG_MAP, {**config_map(namespace, name="other"), "foo": 1})


def test_replace(kube: KubernetesCluster, namespace: str) -> None:
    live = kube.create(CONFIG_MAP, config_map(namespace)).body
    moved = kube.replace(CONFIG_MAP, {**live, "data": {"color": "red"}})
    assert moved.body["data"] == {"color": "red"}
    with pytest.raises(Conflict):
        kube.replace(CONFIG_MAP, {**live, "data": {"color": "blue"}})
    assert kube.delete(CONFIG_MAP, namespace, "settings", seen=seen(moved))
    with pytest.raises(Conflict, match="vanished"):
        kube.replace(CONFIG_MAP, {**moved.body, "data": {"color": "blue"}})
    kube.create(CONFIG_MAP, config_map(namespace))
    with pytest.raises(Conflict):
        kube.replace(CONFIG_MAP, {**moved.body, "data": {"color": "blue"}})
    with pytest.raises(ValueError, match="resourceVersion"):
        kube.replace(CONFIG_MAP, config_map(namespace))


def test_delete_only_what_was_seen(kube: KubernetesCluster, namespace: str) -> None:
    was = seen(kube.create(CONFIG_MAP, config_map(namespace)))
    with pytest.raises(Conflict, match="UID in the precondition"):
        kube.delete(CONFIG_MAP, namespace, "settings", seen=Seen("other", was.resource_version))
    with pytest.raises(Conflict, match="ResourceVersion in the precondition"):
        kube.delete(CONFIG_MAP, namespace, "settings", seen=Seen(was.uid, "1"))
    written = kube.delete(CONFIG_MAP, namespace, "settings", seen=was)
    assert written
    assert written.audit_id
    assert kube.delete(CONFIG_MAP, namespace, "settings", seen=was) is None
    assert kube.delete(UNKNOWN, namespace, "settings", seen=was) is None


def test_foreground_deletion_is_passed_on(kube: KubernetesCluster, namespace: str) -> None:
    was = seen(kube.create(DEPLOYMENT, deployment(namespace)))
    kube.delete(DEPLOYMENT, namespace, "web", seen=was, propagation="Foreground")
    live = kube.get(DEPLOYMENT, namespace, "web") or {}
    assert live["metadata"]["finalizers"] == ["foregroundDeletion"]


# ── guard and User-Agent ─────────────────────────────────────────────────────────────────────────────────────────


def test_guard_stops_every_write_and_no_dry_run(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    was = seen(kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent()))
    asked = []

    def guard() -> None:
        asked.append(1)
        raise LostLock("taken over")

    lost = kube.acting("fleetbeat/0 app/shop run/r1 rev/abc", guard)
    position = cluster.audit_position()
    live = lost.get(CONFIG_MAP, namespace, "settings") or {}
    lost.apply(CONFIG_MAP, config_map(namespace, color="red"), dry_run=True)
    assert not asked
    writes = [
        lambda: lost.apply(CONFIG_MAP, config_map(namespace, color="red"), expect=was),
        lambda: lost.create(CONFIG_MAP, config_map(namespace, name="more")),
        lambda: lost.replace(CONFIG_MAP, live),
        lambda: lost.delete(CONFIG_MAP, namespace, "settings", seen=was),
    ]
    for write in writes:
        with pytest.raises(LostLock, match="taken over"):
            write()
    assert len(asked) == len(writes)
    events = [e for e in cluster.audit(position) if e.get("userAgent") == "fleetbeat/0 app/shop run/r1 rev/abc"]
    assert [(e["verb"], "dryRun=All" in e["requestURI"]) for e in events] == [("get", False), ("patch", True)]


def test_audit_id_is_the_one_in_the_servers_log(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    position = cluster.audit_position()
    view = kube.acting("fleetbeat/0 app/shop\r\nX: y run/é", None)
    written = view.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    event = next(e for e in cluster.audit(position) if e["auditID"] == written.audit_id)
    assert event["userAgent"] == "fleetbeat/0 app/shop??X: y run/?"
    assert event["objectRef"]["name"] == "settings"
