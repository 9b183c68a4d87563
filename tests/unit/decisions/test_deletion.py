"""What of an application goes with it, and when most of a catalog has gone by mistake."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.deletion import held, is_hooks_object, stays_because, to_delete, wants_deletion
from fleetbeat.decisions.hook_runs import RUN
from fleetbeat.decisions.inventory import HOOK_OF, PART_OF, ObjectMeta, applyset_id
from fleetbeat.model import ObjectId

OURS = applyset_id("app-shop", "fleetbeat")
OPTIONS = "argocd.argoproj.io/sync-options"
WRITTEN = [
    {"manager": "fleetbeat", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}}}
]


def meta(
    name: str, kind: str = "ConfigMap", *, applyset: str = OURS, written: bool = True, **metadata: Any
) -> ObjectMeta:
    labels = {PART_OF: applyset, **metadata.pop("labels", {})}
    managed = WRITTEN if written else []
    space = {} if kind == "Namespace" else {"namespace": "shop"}
    return ObjectMeta.of(
        "", kind, {"metadata": {"name": name, **space, "labels": labels, "managedFields": managed, **metadata}}
    )


@pytest.mark.parametrize(
    ("document", "asked"),
    [
        ({"spec": {"deletionPolicy": "Delete"}}, True),
        ({"spec": {"deletionPolicy": "Orphan"}}, False),
        ({"spec": {}}, False),
        ({"spec": None}, False),
        ({}, False),
    ],
)
def test_only_a_document_that_says_so_asks_for_it(document: dict[str, Any], asked: bool) -> None:
    assert wants_deletion(document) is asked


@pytest.mark.parametrize(
    ("leaving", "staying", "documents", "word"),
    [
        pytest.param(0, 0, 0, "", id="an empty catalog nobody leaves"),
        pytest.param(1, 0, 0, "empty", id="the only one, and the folder is empty"),
        pytest.param(1, 0, 1, "", id="the only one, its cluster stays"),
        pytest.param(3, 0, 1, "", id="a few may all go"),
        pytest.param(4, 4, 9, "", id="half of eight"),
        pytest.param(4, 3, 8, "4 applications have left the catalog and 3 stay", id="more than half of seven"),
        pytest.param(500, 9_500, 9_600, "", id="a part of a large fleet"),
        pytest.param(6_000, 4_000, 4_100, "6000 applications", id="most of a large fleet"),
    ],
)
def test_what_looks_like_an_accident_is_held(leaving: int, staying: int, documents: int, word: str) -> None:
    said = held(leaving, staying, documents)
    assert word in said if word else said == ""
    assert not said or "fleetbeat delete" in said


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({}, ""),
        ({"annotations": {OPTIONS: "Delete=false"}}, f"{OPTIONS}: Delete=false"),
        ({"annotations": {OPTIONS: "Replace=true, Delete=false"}}, f"{OPTIONS}: Delete=false"),
        ({"annotations": {OPTIONS: "delete=false"}}, ""),
        ({"annotations": {OPTIONS: "Prune=false"}}, ""),
        ({"annotations": {OPTIONS: "Prune=confirm"}}, ""),
        ({"annotations": {OPTIONS: "Delete=confirm"}}, ""),
        ({"annotations": {"helm.sh/resource-policy": "Keep"}}, "helm.sh/resource-policy: keep"),
        (
            {"labels": {"kustomize.toolkit.fluxcd.io/prune": "Disabled"}},
            "kustomize.toolkit.fluxcd.io/prune: disabled",
        ),
        (
            {"annotations": {"kustomize.toolkit.fluxcd.io/reconcile": "Disabled"}},
            "kustomize.toolkit.fluxcd.io/reconcile: disabled",
        ),
        ({"annotations": {"kustomize.toolkit.fluxcd.io/ssa": "Ignore"}}, ""),
        (
            {"annotations": {"client.lifecycle.config.k8s.io/deletion": "detach"}},
            "client.lifecycle.config.k8s.io/deletion: detach",
        ),
        ({"annotations": {"cli-utils.sigs.k8s.io/on-remove": "keep"}}, "cli-utils.sigs.k8s.io/on-remove: keep"),
        ({"ownerReferences": [{"kind": "Set", "name": "s", "controller": True}]}, "Set s controls it"),
    ],
    ids=str,
)
def test_which_marks_outlive_the_application(metadata: dict[str, Any], why: str) -> None:
    assert stays_because(meta("a", **metadata)) == why


def test_ours_goes_and_what_is_not_ours_is_left_alone() -> None:
    found = to_delete(
        [
            meta("a"),
            meta("theirs", applyset=applyset_id("app-blog", "fleetbeat")),
            meta("copy", written=False),
            meta("keep", annotations={OPTIONS: "Delete=false"}),
            meta("fleetbeat", "Namespace"),
            meta("going", deletionTimestamp="2026-01-01T00:00:00Z", annotations={OPTIONS: "Delete=false"}),
        ],
        applyset=OURS,
        home="fleetbeat",
    )
    assert [one.id.name for one in found.delete] == ["a", "going"]
    assert dict(found.kept) == {
        ObjectId("", "ConfigMap", "shop", "keep"): f"{OPTIONS}: Delete=false",
        ObjectId("", "Namespace", "", "fleetbeat"): "holds the record of what each application owns in this cluster",
    }
    assert found.unconfirmed == ()


@pytest.mark.parametrize(
    ("own", "usual", "confirmed", "goes"),
    [
        pytest.param("", "true", False, "delete", id="nobody says anything"),
        pytest.param("", "false", True, "kept", id="the application says no"),
        pytest.param("", "confirm", False, "unconfirmed", id="the application asks first"),
        pytest.param("", "confirm", True, "delete", id="and somebody has agreed"),
        pytest.param("Delete=true", "false", False, "delete", id="the object's yes counts first"),
        pytest.param("Delete=false", "true", True, "kept", id="so does its no"),
        pytest.param("Delete=confirm", "false", False, "unconfirmed", id="so does its question"),
        pytest.param("Prune=false", "true", False, "delete", id="pruning is another matter"),
    ],
)
def test_the_objects_word_counts_before_the_applications(own: str, usual: Any, confirmed: bool, goes: str) -> None:
    one = meta("a", annotations={OPTIONS: own})
    found = to_delete([one], applyset=OURS, home="fleetbeat", confirmed=confirmed, usual=usual)
    sorted_into = {"delete": len(found.delete), "kept": len(found.kept), "unconfirmed": len(found.unconfirmed)}
    assert sorted_into == {"delete": 0, "kept": 0, "unconfirmed": 0, goes: 1}
    if found.kept:
        place = OPTIONS if own else "spec.sync.options"
        assert found.kept[0][1] == f"{place}: Delete=false"


def test_objects_of_hooks_stay_when_the_application_says_so() -> None:
    one = ObjectMeta.of(
        "", "ConfigMap", {"metadata": {"name": "a", "labels": {HOOK_OF: OURS}, "annotations": {RUN: "r"}}}
    )
    assert is_hooks_object(one, OURS)
    assert not is_hooks_object(one, OURS, "false")


def test_a_confirmation_is_waited_for_and_counts() -> None:
    asks = meta("data", annotations={OPTIONS: "Delete=confirm"})
    before = to_delete([asks, meta("a")], applyset=OURS, home="fleetbeat")
    assert [key.name for key in before.unconfirmed] == ["data"]
    after = to_delete([asks, meta("a")], applyset=OURS, home="fleetbeat", confirmed=True)
    assert [one.id.name for one in after.delete] == ["a", "data"]
    assert after.unconfirmed == ()


@pytest.mark.parametrize(
    ("metadata", "ours"),
    [
        ({}, True),
        ({"annotations": {}}, False),
        ({"labels": {HOOK_OF: "applyset-other"}}, False),
        ({"ownerReferences": [{"kind": "CronJob", "name": "c", "controller": True}]}, False),
        ({"annotations": {RUN: "r", OPTIONS: "Delete=false"}}, False),
    ],
    ids=["made by a hook", "no run is named", "of another application", "a controller's copy", "asks to stay"],
)
def test_which_objects_hooks_have_left(metadata: dict[str, Any], ours: bool) -> None:
    body = {"labels": {HOOK_OF: OURS}, "annotations": {RUN: "r"}, "name": "migrate", "namespace": "shop", **metadata}
    assert is_hooks_object(ObjectMeta.of("batch", "Job", {"metadata": body}), OURS) is ours
