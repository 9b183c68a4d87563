"""Field cases b: several writers on one object, taking over from other tools, and fields that cannot be changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from fleet import Fleet, config_map, outcomes, words
from people import LAST_APPLIED, Hands, differences, managers, quiet
from waiting import wait_for

Body = dict[str, Any]


@pytest.fixture
def hands(fleet: Fleet) -> Hands:
    return Hands(next(iter(fleet.clusters.values())))


@pytest.fixture
def synced(fleet: Fleet, namespace: str) -> Callable[..., str]:
    """``synced(manifest, …, spec={…})``: an application with these objects in place; its name."""

    def sync(*manifests: Body, word: str = "own", spec: Body | None = None, **options: Any) -> str:
        app = fleet.name(word)
        fleet.push(app, manifests)
        fleet.application(app, namespace=namespace, spec=spec, **options)
        fleet.wait_run(app, phase="Succeeded")
        return app

    return sync


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def again(fleet: Fleet, app: str, *manifests: Body, phase: str = "Succeeded") -> Body:
    """Push the next revision and wait for its run."""
    since = fleet.runs_ended(app)
    revision = fleet.push(app, manifests)
    fleet.ring(app)
    return fleet.wait_run(app, digest=revision.digest, phase=phase, since=since)


def look(fleet: Fleet, app: str) -> Body:
    """Let a look see what has been done by hand; the run it begins."""
    since = fleet.runs_ended(app)
    fleet.ring(app)
    return fleet.wait_run(app, since=since)


def no_op(fleet: Fleet, app: str, path: str) -> None:
    """The API server sees no difference, and a second sync writes nothing."""
    assert [(found.id, found.reason, found.text) for found in differences(fleet, app)] == []
    start = next(iter(fleet.clusters.values())).audit_position()
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert fleet.writes(app, since=start) == []
    assert fleet.get(path) is not None


def deployment(replicas: int | None = 3, image: str = "web:1") -> Body:
    spec: Body = {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": image}]},
        },
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return quiet({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})


def job(image: str, **annotations: str) -> Body:
    pod = {"restartPolicy": "Never", "containers": [{"name": "once", "image": image}]}
    body: Body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}}
    body["spec"] = {"template": {"spec": pod}}
    body["metadata"]["annotations"] = {key.replace("__", "/"): value for key, value in annotations.items()}
    return quiet(body)


SYNC_OPTIONS = "argocd.argoproj.io/sync-options"


# ── taking over ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_leaves_the_bundle_goes_after_kubectl_apply(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """Field case b1."""
    old = {"labels": {"keep": "a", "drop": "b"}, "annotations": {"keep": "a", "drop": "b"}}
    hands.client_side_apply(maps, config_map("web", namespace, {"key": "1", "legacy": "2"}, **old))
    app = synced(config_map("web", data={"key": "1", "legacy": "2"}, **old))
    first = fleet.history(app)[0]["results"][0]
    assert "takes over from kubectl-client-side-apply" in first["reason"]
    live = hands.get(f"{maps}/web")
    assert managers(live) == {"fleetbeat Apply"}
    assert LAST_APPLIED not in live["metadata"]["annotations"]
    no_op(fleet, app, f"{maps}/web")
    again(fleet, app, config_map("web", data={"key": "1"}, labels={"keep": "a"}, annotations={"keep": "a"}))
    live = hands.get(f"{maps}/web")
    assert live["data"] == {"key": "1"}
    assert live["metadata"]["annotations"] == {"keep": "a"}
    assert "drop" not in live["metadata"]["labels"]


def test_a_field_that_kubectl_has_taken_hold_of_goes_with_the_bundle(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """Field case b1: somebody applied the same by hand later; the revision that drops the key still drops it."""
    app = synced(config_map("web", data={"key": "1", "legacy": "2"}))
    hands.apply(f"{maps}/web", config_map("web", namespace, {"key": "1", "legacy": "2"}), "kubectl")
    entry = again(fleet, app, config_map("web", data={"key": "1"}))
    assert "takes over from kubectl" in entry["results"][0]["reason"]
    assert "data.legacy" in entry["results"][0]["reason"]
    assert hands.get(f"{maps}/web")["data"] == {"key": "1"}
    no_op(fleet, app, f"{maps}/web")


def test_taking_over_costs_one_request_once(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """Field case b1: a patch of the bookkeeping before the first apply, never again."""
    cluster = next(iter(fleet.clusters.values()))
    hands.client_side_apply(maps, config_map("web", namespace, {"key": "1"}))
    start = cluster.audit_position()
    app = synced(config_map("web", data={"key": "1"}))
    assert words(fleet.writes(app, since=start)) == [f"patch configmaps {namespace}/web"] * 2
    start = cluster.audit_position()
    again(fleet, app, config_map("web", data={"key": "2"}))
    assert words(fleet.writes(app, since=start)) == [f"patch configmaps {namespace}/web"]


def test_an_object_asks_others_to_keep_their_fields(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """``ssa: Merge``: kubectl's hold stays, so what it applied too stays when it leaves the bundle."""
    merge = {"kustomize.toolkit.fluxcd.io/ssa": "Merge"}
    hands.client_side_apply(maps, config_map("web", namespace, {"key": "1", "legacy": "2"}))
    app = synced(config_map("web", data={"key": "1", "legacy": "2"}, annotations=merge))
    again(fleet, app, config_map("web", data={"key": "1"}, annotations=merge))
    assert hands.get(f"{maps}/web")["data"] == {"key": "1", "legacy": "2"}


def test_a_large_crd_is_adopted(fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str) -> None:
    """Field case b2: no annotation with a copy, whose size would be refused."""
    group = f"{namespace}.example.com"
    properties = {f"f{n}": {"type": "string", "description": "long " * 240} for n in range(500)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    definition: Body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    hands.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    app = synced(definition)
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}"
    del properties["f0"]
    properties["added"] = {"type": "string"}
    entry = again(fleet, app, definition)
    assert outcomes(entry) == {f"CustomResourceDefinition things.{group}": "configured"}
    live = hands.get(path)
    there = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert "added" in there
    assert "f0" not in there
    assert not live["metadata"].get("annotations")
    no_op(fleet, app, path)


ADOPTED = [
    pytest.param(
        "argocd",
        {"annotations": {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:{ns}/web"}},
        "argocd-controller",
        id="Argo CD",
    ),
    pytest.param(
        "flux",
        {
            "labels": {
                "kustomize.toolkit.fluxcd.io/name": "shop",
                "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            }
        },
        "kustomize-controller",
        id="Flux",
    ),
    pytest.param(
        "helm",
        {
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "shop", "meta.helm.sh/release-namespace": "{ns}"},
        },
        "helm",
        id="Helm",
    ),
    pytest.param("kapp", {"labels": {"kapp.k14s.io/app": "1", "kapp.k14s.io/association": "2"}}, "kapp", id="kapp"),
]


@pytest.mark.parametrize(("word", "marks", "manager"), ADOPTED)
def test_adoption_on_request(
    fleet: Fleet, hands: Hands, maps: str, namespace: str, word: str, marks: Body, manager: str
) -> None:
    """The old tool's marks go, so that removing its application later deletes nothing; refused without the request."""
    marks = {part: {k: v.replace("{ns}", namespace) for k, v in pairs.items()} for part, pairs in marks.items()}
    theirs = config_map("web", namespace, {"key": "1", "legacy": "2"}, **marks)
    hands.apply(f"{maps}/web", theirs, manager)
    app = fleet.name("adopts")
    fleet.push(app, [config_map("web", data={"key": "1", "legacy": "2"})])
    fleet.application(app, namespace=namespace)
    refused = fleet.wait_run(app, phase="Failed")
    assert f"spec.adopt: [{word}]" in refused["message"]
    fleet.application(app, namespace=namespace, spec={"adopt": [word]})
    entry = fleet.wait_run(app, phase="Succeeded")
    assert f"takes over from {manager}" in entry["results"][0]["reason"]
    live = hands.get(f"{maps}/web")
    assert managers(live) == {"fleetbeat Apply"}
    left = {**live["metadata"].get("labels", {}), **live["metadata"].get("annotations", {})}
    assert not set(left) & {key for pairs in marks.values() for key in pairs}
    again(fleet, app, config_map("web", data={"key": "1"}))
    assert hands.get(f"{maps}/web")["data"] == {"key": "1"}


def test_an_exported_manifest(fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str) -> None:
    """Field case b4: what the server owns is taken out before it can conflict."""
    path = f"/api/v1/namespaces/{namespace}/services"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    service["spec"] = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    exported = hands.create(path, service, "kubectl-client-side-apply")
    exported["metadata"]["selfLink"] = f"{path}/web"
    hands.merge(f"{path}/web", {"metadata": {"annotations": {"moved": "on"}}})
    app = synced(exported)
    no_op(fleet, app, f"{path}/web")
    assert hands.get(f"{path}/web")["spec"]["clusterIP"] == exported["spec"]["clusterIP"]


# ── fields that cannot be changed ────────────────────────────────────────────────────────────────────────────────


def test_an_immutable_field_without_force(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """Field case b5: object and field are named, nothing is deleted, the others are reported."""
    app = synced(job("once:1"), config_map("other", data={"a": "1"}))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/once"
    uid = hands.get(path)["metadata"]["uid"]
    entry = again(fleet, app, job("once:2"), config_map("other", data={"a": "2"}), phase="Failed")
    assert "once" in entry["message"]
    assert "spec.template" in entry["message"]
    assert "immutable" in entry["message"]
    assert outcomes(entry) == {f"Job {namespace}/once": "failed", f"ConfigMap {namespace}/other": "skipped"}
    assert hands.get(path)["metadata"]["uid"] == uid


@pytest.mark.parametrize(
    "mark",
    [{SYNC_OPTIONS: "Force=true"}, {"kustomize.toolkit.fluxcd.io/force": "Enabled"}],
    ids=["Argo CD's Force", "Flux's force"],
)
def test_an_immutable_field_with_force(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str, mark: dict[str, str]
) -> None:
    """Field case b5: deleted, awaited until it is really gone, created; once. A preview says "replace"."""
    app = synced(job("once:1", **mark))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/once"
    first = hands.merge(path, {"metadata": {"finalizers": ["example.com/slow"]}}, "controller")["metadata"]["uid"]
    look(fleet, app)
    start = next(iter(fleet.clusters.values())).audit_position()
    revision = fleet.push(app, [job("once:2", **mark)])
    (preview,) = differences(fleet, app)
    assert preview.action == "replace"
    assert "once:2" in preview.text
    fleet.ring(app)
    wait_for(lambda: "deletionTimestamp" in hands.get(path)["metadata"], what="the deletion")
    wait_for(lambda: "being deleted" in fleet.runs.look(app).run.get("message", ""), what="a wait that says why")
    hands.merge(path, {"metadata": {"finalizers": None}}, "controller")
    entry = fleet.wait_run(app, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry) == {f"Job {namespace}/once": "created"}
    live = hands.get(path)
    assert live["metadata"]["uid"] != first
    assert live["spec"]["template"]["spec"]["containers"][0]["image"] == "once:2"
    writes = words(fleet.writes(app, since=start))
    assert writes.count(f"delete jobs {namespace}/once") == 1
    no_op(fleet, app, path)
    assert hands.get(path)["metadata"]["uid"] == live["metadata"]["uid"]


def stateful_set(**spec: Any) -> Body:
    body = deployment()
    body |= {"kind": "StatefulSet", "spec": {**body["spec"], "serviceName": "web", **spec}}
    return body


def claim(storage_class: str, size: str = "1Gi") -> Body:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return quiet({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "web"}, "spec": spec})


def selecting(label: str) -> Body:
    body = deployment()
    body["spec"] |= {"selector": {"matchLabels": {"app": label}}}
    body["spec"]["template"]["metadata"]["labels"]["app"] = label
    return body


def service(**more: Any) -> Body:
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}], **more}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


IMMUTABLE = [
    pytest.param("apps/v1", "statefulsets", stateful_set(), stateful_set(serviceName="b"), "spec", id="StatefulSet"),
    pytest.param("apps/v1", "deployments", selecting("a"), selecting("b"), "spec.selector", id="Deployment selector"),
    pytest.param("v1", "persistentvolumeclaims", claim("a"), claim("b"), "spec", id="PVC class"),
    pytest.param("v1", "persistentvolumeclaims", claim("a", "2Gi"), claim("a"), "spec.resources", id="PVC smaller"),
    pytest.param("v1", "services", service(), service(clusterIP="None"), "spec.clusterIP", id="Service address"),
]


@pytest.mark.parametrize(("version", "plural", "old", "new", "told"), IMMUTABLE)
def test_immutable_fields_of_other_kinds(
    fleet: Fleet,
    synced: Callable[..., str],
    hands: Hands,
    namespace: str,
    version: str,
    plural: str,
    old: Body,
    new: Body,
    told: str,
) -> None:
    """Field case b5: refused by name of object and field; replaced where that object asks for it, once."""
    old, new = copy.deepcopy(old), copy.deepcopy(new)
    app = synced(old, config_map("other", data={"a": "1"}))
    path = f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{namespace}/{plural}/web"
    if plural == "persistentvolumeclaims":  # as the volume controller does; an unbound one may not change at all
        capacity = old["spec"]["resources"]["requests"]
        hands.merge(f"{path}/status", {"status": {"phase": "Bound", "capacity": capacity}}, "controller")
    uid = hands.get(path)["metadata"]["uid"]
    entry = again(fleet, app, new, config_map("other", data={"a": "2"}), phase="Failed")
    assert f"{new['kind']} {namespace}/web" in entry["message"]
    assert told in entry["message"]
    assert "Force=true" in entry["message"]
    assert outcomes(entry)[f"ConfigMap {namespace}/other"] == "skipped"
    assert hands.get(path)["metadata"]["uid"] == uid

    new["metadata"].setdefault("annotations", {})[SYNC_OPTIONS] = "Force=true"
    revision = fleet.push(app, [new, config_map("other", data={"a": "2"})])
    (preview, _) = sorted(differences(fleet, app), key=lambda one: one.id.kind == "ConfigMap")
    assert preview.action == "replace"
    fleet.ring(app)
    if plural == "persistentvolumeclaims":  # a finalizer holds it, and nothing here takes that away
        wait_for(lambda: "deletionTimestamp" in hands.get(path)["metadata"], what="the deletion")
        hands.merge(path, {"metadata": {"finalizers": None}}, "controller")
    entry = fleet.wait_run(app, digest=revision.digest, phase="Succeeded")
    assert outcomes(entry)[f"{new['kind']} {namespace}/web"] == "created"
    assert hands.get(path)["metadata"]["uid"] != uid
    no_op(fleet, app, path)


def test_nothing_is_deleted_that_could_not_be_created(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """Field case b5: the new Job is invalid as well as different."""
    mark = {SYNC_OPTIONS: "Force=true"}
    app = synced(job("once:1", **mark))
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs/once"
    uid = hands.get(path)["metadata"]["uid"]
    broken = job("once:2", **mark)
    broken["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    entry = again(fleet, app, broken, phase="Failed")
    assert "creating it is refused as well" in entry["message"]
    assert hands.get(path)["metadata"]["uid"] == uid


def test_what_holds_other_things_is_never_recreated_by_a_switch_of_the_application(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """Field case b7: Namespace, CRD and PVC; a Job beside them is."""
    claim: Body = quiet(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "a",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    )
    room: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{namespace}-b", "labels": {"a": "1"}}}
    app = synced(claim, room, job("once:1"), options=["Replace=true", "Force=true"])
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"
    uids = [hands.get(p)["metadata"]["uid"] for p in (path, f"/api/v1/namespaces/{namespace}-b")]
    claim["spec"]["storageClassName"] = "b"
    entry = again(fleet, app, claim, room, job("once:1"), phase="Failed")
    assert "immutable" in entry["message"]
    claim["spec"]["storageClassName"] = "a"
    room["metadata"]["labels"]["a"] = "2"
    entry = again(fleet, app, claim, room, job("once:2"))
    assert outcomes(entry) == {f"Namespace {namespace}-b": "configured", f"Job {namespace}/once": "created"}
    assert [hands.get(p)["metadata"]["uid"] for p in (path, f"/api/v1/namespaces/{namespace}-b")] == uids


def test_a_definition_is_never_recreated_by_a_switch_of_the_application(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """Field case b7: every object of its kind would go with it."""
    group = f"{namespace}.example.com"
    definition: Body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    app = synced(definition, options=["Replace=true", "Force=true"])
    things = f"/apis/{group}/v1/namespaces/{namespace}/things"
    one = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    uid = wait_for(lambda: hands.create(things, one)["metadata"]["uid"], what="the kind")
    definition["spec"]["scope"] = "Cluster"
    entry = again(fleet, app, definition, phase="Failed")
    assert "spec.scope" in entry["message"]
    assert "immutable" in entry["message"]
    assert hands.get(f"{things}/one")["metadata"]["uid"] == uid


def test_ignored_fields_survive_a_replace(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """Field case b7: a PDB with an ignored field. What others added goes with a replace, and is no reason for one."""
    budget: Body = quiet(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
    )
    budget["metadata"]["annotations"][SYNC_OPTIONS] = "Replace=true"
    rule = {"group": "policy", "kind": "PodDisruptionBudget", "jsonPointers": ["/spec/minAvailable"]}
    app = synced(budget, spec={"ignoreDifferences": [rule]})
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web"
    added = {"metadata": {"annotations": {"theirs": "x"}, "finalizers": ["example.com/keep"]}}
    hands.merge(path, {"spec": {"minAvailable": 2}, **added}, "tuner")
    no_op(fleet, app, path)
    budget["spec"]["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
    start = next(iter(fleet.clusters.values())).audit_position()
    again(fleet, app, budget)
    assert words(fleet.writes(app, since=start)) == [f"update poddisruptionbudgets {namespace}/web"]
    live = hands.get(path)
    assert live["spec"]["minAvailable"] == 2
    assert live["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert "theirs" not in live["metadata"]["annotations"]
    assert live["metadata"]["finalizers"] == ["example.com/keep"]
    del budget["spec"]["unhealthyPodEvictionPolicy"]
    again(fleet, app, budget)
    assert "unhealthyPodEvictionPolicy" not in hands.get(path)["spec"]
    no_op(fleet, app, path)


@pytest.mark.parametrize("made_by", ["us", "kubectl apply"])
def test_one_port_number_twice(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str, made_by: str
) -> None:
    """Field case b8, also where two styles of applying have met on the object."""
    ports = [{"name": "u", "port": 31337, "protocol": "UDP"}]
    service: Body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}
    service["spec"] = {"type": "NodePort", "selector": {"app": "web"}, "ports": ports}
    if made_by == "kubectl apply":
        hands.client_side_apply(f"/api/v1/namespaces/{namespace}/services", service)
    app = synced(service)
    path = f"/api/v1/namespaces/{namespace}/services/web"
    before = hands.get(path)["spec"]["ports"][0]["nodePort"]
    ports.append({"name": "t", "port": 31337, "protocol": "TCP"})
    again(fleet, app, service)
    live = {port["protocol"]: port["nodePort"] for port in hands.get(path)["spec"]["ports"]}
    assert set(live) == {"UDP", "TCP"}
    assert live["UDP"] == before
    no_op(fleet, app, path)


@pytest.mark.parametrize("subresource", [True, False], ids=["status is a subresource", "status is a field"])
def test_status_in_the_bundle_is_left_out(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str, subresource: bool
) -> None:
    """Field case b9."""
    group = f"{namespace}.example.com"
    text = {"type": "string"}
    part = {"type": "object", "properties": {"phase": text, "size": text}}
    version: Body = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": part, "status": part}}},
    }
    if subresource:
        version["subresources"] = {"status": {}}
    definition: Body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [version],
        },
    }
    one = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "one"}}
    one = quiet(one | {"spec": {"size": "1"}, "status": {"phase": "Old"}})
    app = synced(definition, one)
    path = f"/apis/{group}/v1/namespaces/{namespace}/things/one"
    assert "status" not in hands.get(path)
    hands.merge(f"{path}/status" if subresource else path, {"status": {"phase": "Ready"}}, "operator")
    no_op(fleet, app, path)
    one["spec"]["size"] = "2"
    again(fleet, app, definition, one)
    assert hands.get(path)["status"] == {"phase": "Ready"}


# ── who wins ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_foreign_values_are_restored_and_foreign_keys_stay(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """Field case b11: edited, taken by another server-side apply, deleted; a new foreign key stays."""
    app = synced(config_map("web", data={"k": "v"}))
    hands.merge(f"{maps}/web", {"data": {"k": "x"}}, "kubectl-edit")
    entry = look(fleet, app)
    assert "data.k changed by kubectl-edit" in entry["results"][0]["reason"]
    assert hands.get(f"{maps}/web")["data"] == {"k": "v"}
    hands.apply(f"{maps}/web", config_map("web", namespace, {"k": "y"}), "other")
    entry = look(fleet, app)
    assert "data.k changed by other" in entry["results"][0]["reason"]
    assert hands.get(f"{maps}/web")["data"] == {"k": "v"}
    hands.merge(f"{maps}/web", {"data": {"k": None}}, "kubectl-edit")
    look(fleet, app)
    assert hands.get(f"{maps}/web")["data"] == {"k": "v"}
    hands.merge(f"{maps}/web", {"data": {"new": "theirs"}}, "kubectl-edit")
    entry = look(fleet, app)
    assert entry["counts"] == {"unchanged": 1}
    assert hands.get(f"{maps}/web")["data"] == {"k": "v", "new": "theirs"}


def test_an_autoscaler_wins_and_the_status_says_it(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """An HPA scales; nothing is written back, a new image leaves its number alone, generations stop growing."""
    app = synced(deployment(3))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    hands.scale(path, 7, "kube-controller-manager")
    entry = look(fleet, app)
    assert outcomes(entry) == {f"Deployment {namespace}/web": "unchanged"}
    assert "spec.replicas is left to kube-controller-manager (Update of scale" in entry["results"][0]["reason"]
    generation = hands.get(path)["metadata"]["generation"]
    assert hands.get(path)["spec"]["replicas"] == 7
    assert fleet.state(app)["sync"] == "Synced"
    entry = again(fleet, app, deployment(3, "web:2"))
    assert "spec.replicas is left to" in entry["results"][0]["reason"]
    live = hands.get(path)
    assert (live["spec"]["replicas"], live["metadata"]["generation"]) == (7, generation + 1)
    no_op(fleet, app, path)
    assert hands.get(path)["metadata"]["generation"] == generation + 1


def test_a_person_who_scales_is_overruled(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """``kubectl scale`` is drift, ``kubectl rollout restart`` is not."""
    app = synced(deployment(3))
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    hands.scale(path, 9, "kubectl")
    entry = look(fleet, app)
    # The API server notes no time for a write through scale.
    assert "spec.replicas changed by kubectl (Update of scale)" in entry["results"][0]["reason"]
    assert entry["results"][0]["editors"] == [{"manager": "kubectl", "operation": "Update", "subresource": "scale"}]
    assert hands.get(path)["spec"]["replicas"] == 3
    restarted = {"kubectl.kubernetes.io/restartedAt": "2026-11-30T12:00:00Z"}
    hands.merge(path, {"spec": {"template": {"metadata": {"annotations": restarted}}}}, "kubectl-rollout")
    entry = look(fleet, app)
    assert entry["counts"] == {"unchanged": 1}
    assert hands.get(path)["spec"]["template"]["metadata"]["annotations"] == restarted


def test_dropping_replicas_for_an_autoscaler_does_not_scale_to_one(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, namespace: str
) -> None:
    """A field only we own would be deleted when it leaves the bundle; under an ignore rule it stays."""
    rule = {"kind": "Deployment", "jsonPointers": ["/spec/replicas"]}
    app = synced(deployment(3), spec={"ignoreDifferences": [rule]})
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    again(fleet, app, deployment(None, "web:2"))
    assert hands.get(path)["spec"]["replicas"] == 3
    hands.scale(path, 5, "kube-controller-manager")
    again(fleet, app, deployment(None, "web:3"))
    assert hands.get(path)["spec"]["replicas"] == 5
    no_op(fleet, app, path)


def test_a_listed_manager_keeps_its_key(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """An operator that owns one key of a ConfigMap; the rest of its changes is overruled."""
    rule = {"manager": "elector-*", "policy": "yield", "kind": "ConfigMap", "fields": ["/data/leader"]}
    app = synced(config_map("web", data={"leader": "nobody", "size": "1"}), spec={"conflicts": [rule]})
    hands.merge(f"{maps}/web", {"data": {"leader": "pod-1", "size": "9"}}, "elector-7")
    entry = look(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "configured"}
    assert "data.leader is left to elector-7" in entry["results"][0]["reason"]
    assert hands.get(f"{maps}/web")["data"] == {"leader": "pod-1", "size": "1"}
    no_op(fleet, app, f"{maps}/web")


def test_a_conflict_to_report_writes_nothing(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """Manager, operation and field are named; once the policy changes, the object is written."""
    spec = {"conflicts": [{"manager": "*", "policy": "report"}]}
    app = synced(config_map("web", data={"k": "1"}), spec=spec)
    hands.merge(f"{maps}/web", {"data": {"k": "9"}}, "operator")
    entry = look(fleet, app)
    assert entry["phase"] == "Failed"
    assert "data.k: operator (Update, " in entry["message"]
    assert hands.get(f"{maps}/web")["data"] == {"k": "9"}
    since = fleet.runs_ended(app)
    fleet.application(app, namespace=namespace, spec={"conflicts": [{"manager": "operator", "policy": "takeOver"}]})
    fleet.wait_run(app, since=since, phase="Succeeded")
    assert hands.get(f"{maps}/web")["data"] == {"k": "1"}


def test_a_new_rule_is_honoured_at_once(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """Nothing moved but the catalog: objects under the rule are compared anew."""
    spec = {"ignoreDifferences": [{"kind": "ConfigMap", "jsonPointers": ["/data/k"]}]}
    app = synced(config_map("web", data={"k": "1"}), spec=spec)
    hands.merge(f"{maps}/web", {"data": {"k": "9"}}, "operator")
    assert look(fleet, app)["counts"] == {"unchanged": 1}
    since = fleet.runs_ended(app)
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, since=since, phase="Succeeded")
    assert hands.get(f"{maps}/web")["data"] == {"k": "1"}


def test_two_applications_over_one_object(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """One owner, the other is told who it is, and neither alternates."""
    owner = synced(config_map("web", data={"k": "first"}), word="owner")
    rival = fleet.name("rival")
    fleet.push(rival, [config_map("web", data={"k": "second"})])
    fleet.application(rival, namespace=namespace, spec={"adopt": ["argocd", "flux"]})
    entry = fleet.wait_run(rival, phase="Succeeded")
    assert [result["outcome"] for result in entry["results"]] == ["skipped"]
    assert owner in entry["results"][0]["reason"]
    assert fleet.state(rival)["sync"] == "OutOfSync"
    before = hands.get(f"{maps}/web")["metadata"]["resourceVersion"]
    for app in (owner, rival, owner):
        fleet.sync(app)
    assert hands.get(f"{maps}/web")["metadata"]["resourceVersion"] == before


# ── left alone ───────────────────────────────────────────────────────────────────────────────────────────────────

LEFT_ALONE = [
    pytest.param({"kustomize.toolkit.fluxcd.io/ssa": "IfNotPresent"}, id="IfNotPresent"),
    pytest.param({"client.lifecycle.config.k8s.io/mutation": "ignore"}, id="mutation ignore"),
]


@pytest.mark.parametrize("mark", LEFT_ALONE)
def test_created_and_never_changed(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str, mark: dict[str, str]
) -> None:
    """Also an object that is there already, whoever owns it."""
    theirs = {"argocd.argoproj.io/tracking-id": f"shop:/ConfigMap:{namespace}/theirs"}
    hands.create(maps, config_map("theirs", namespace, {"k": "0"}, annotations=theirs))
    app = synced(
        config_map("ours", data={"k": "1"}, annotations=mark), config_map("theirs", data={"k": "1"}, annotations=mark)
    )
    again(
        fleet,
        app,
        config_map("ours", data={"k": "2"}, annotations=mark),
        config_map("theirs", data={"k": "2"}, annotations=mark),
    )
    assert hands.get(f"{maps}/ours")["data"] == {"k": "1"}
    assert hands.get(f"{maps}/theirs")["data"] == {"k": "0"}


@pytest.mark.parametrize("key", ["ssa", "reconcile"])
def test_a_person_stops_the_sync_of_one_object(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str, key: str
) -> None:
    """The mark on the live object is enough, as in Flux; without it the edit is put back."""
    mark = {f"kustomize.toolkit.fluxcd.io/{key}": "Ignore" if key == "ssa" else "disabled"}
    app = synced(config_map("web", data={"k": "1"}))
    hands.merge(f"{maps}/web", {"data": {"k": "9"}, "metadata": {"annotations": mark}})
    entry = look(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "unchanged"}
    assert "left alone" in entry["results"][0]["reason"]
    hands.merge(f"{maps}/web", {"metadata": {"annotations": dict.fromkeys(mark)}})
    look(fleet, app)
    assert hands.get(f"{maps}/web")["data"] == {"k": "1"}


def test_an_object_ignores_its_own_pointers(
    fleet: Fleet, synced: Callable[..., str], hands: Hands, maps: str, namespace: str
) -> None:
    """``argocd.argoproj.io/ignore-differences-json-pointers``."""
    mark = {"argocd.argoproj.io/ignore-differences-json-pointers": "/data/a, /data/b, /metadata/labels/c~1d"}
    app = synced(config_map("web", data={"a": "1", "b": "1", "d": "1"}, annotations=mark, labels={"c/d": "1"}))
    hands.merge(f"{maps}/web", {"data": {"a": "9", "b": None, "d": "9"}, "metadata": {"labels": {"c/d": "9"}}}, "tuner")
    entry = look(fleet, app)
    assert entry["results"][0]["reason"].startswith("data.d changed by tuner (Update, ")
    live = hands.get(f"{maps}/web")
    assert live["data"] == {"a": "9", "d": "1"}
    assert live["metadata"]["labels"]["c/d"] == "9"
