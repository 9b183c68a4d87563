"""How one object is written, as marks on the wanted and the live object say."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.treatment import ignores_extraneous, is_immutable, replacement, treatment
from fleetbeat.model import ObjectId, SyncPolicy

FLUX = "kustomize.toolkit.fluxcd.io/"
OPTIONS = "argocd.argoproj.io/sync-options"
WEB = ObjectId("", "ConfigMap", "shop", "web")


def body(annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": "web", "annotations": annotations or {}, "labels": labels or {}}}


MODES = [
    ({}, "apply"),
    ({FLUX + "ssa": "Override"}, "apply"),
    ({FLUX + "ssa": "merge"}, "merge"),
    ({FLUX + "ssa": "ifnotpresent"}, "create"),
    ({FLUX + "ssa": "IGNORE"}, "leave"),
    ({FLUX + "reconcile": "Disabled"}, "leave"),
    ({FLUX + "reconcile": "enabled"}, "apply"),
    ({"client.lifecycle.config.k8s.io/mutation": "ignore"}, "create"),
    ({"client.lifecycle.config.k8s.io/mutation": "Ignore"}, "apply"),
]


@pytest.mark.parametrize(("marks", "mode"), MODES, ids=str)
def test_modes(marks: dict[str, str], mode: str):
    """Flux's words in any case, as label or annotation; cli-utils' exactly. Either side is enough."""
    sync = SyncPolicy()
    assert treatment(body(marks), None, WEB, sync).mode == mode
    assert treatment(body(), body(marks), WEB, sync).mode == mode
    flux = {key: value for key, value in marks.items() if key.startswith(FLUX)}
    if flux:
        assert treatment(body(labels=flux), body(), WEB, sync).mode == mode


@pytest.mark.parametrize(
    ("wanted", "live", "app_wide", "expected"),
    [
        pytest.param({}, {}, False, False, id="nobody asks"),
        pytest.param({OPTIONS: "Prune=false, Replace=true"}, {}, False, True, id="the bundle asks"),
        pytest.param({}, {OPTIONS: "Replace=true"}, False, True, id="the live object asks"),
        pytest.param({}, {}, True, True, id="the application asks"),
        pytest.param({OPTIONS: "Replace=false"}, {}, True, False, id="the object says no"),
        pytest.param({OPTIONS: "replace=true"}, {}, False, False, id="case counts"),
    ],
)
def test_replace(wanted: dict[str, str], live: dict[str, str], app_wide: bool, expected: bool):
    assert treatment(body(wanted), body(live), WEB, SyncPolicy(replace=app_wide)).replace is expected


@pytest.mark.parametrize(
    ("group", "kind", "reached"),
    [
        ("", "Namespace", False),
        ("apiextensions.k8s.io", "CustomResourceDefinition", False),
        ("", "PersistentVolumeClaim", False),
        ("batch", "Job", True),
    ],
)
def test_what_an_option_of_the_application_does_not_reach(group: str, kind: str, reached: bool):
    """Field case b7."""
    key = ObjectId(group, kind, "", "web")
    found = treatment(body(), None, key, SyncPolicy(replace=True, force=True))
    assert (found.replace, found.force) == (reached, reached)
    asked = treatment(body({OPTIONS: "Force=true"}), None, key, SyncPolicy())
    assert asked.force


@pytest.mark.parametrize(
    ("wanted", "live", "app_wide", "expected"),
    [
        pytest.param({}, {}, True, True, id="nobody says anything"),
        pytest.param({}, {}, False, False, id="the application says no"),
        pytest.param({OPTIONS: "ClientSideApplyMigration=true"}, {}, False, True, id="the object's word counts first"),
        pytest.param({OPTIONS: "ClientSideApplyMigration=false"}, {}, True, False, id="and the other way round"),
        pytest.param({}, {OPTIONS: "ClientSideApplyMigration=false"}, True, False, id="the live object's too"),
    ],
)
def test_whether_client_side_applies_are_taken_over(
    wanted: dict[str, str], live: dict[str, str], app_wide: bool, expected: bool
):
    found = treatment(body(wanted), body(live), WEB, SyncPolicy(migrate=app_wide))
    assert found.migrate is expected


def test_force_in_fluxs_words():
    assert treatment(body(labels={FLUX + "force": "Enabled"}), None, WEB, SyncPolicy()).force


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ('Job.batch "x" is invalid: spec.template: Invalid value: {…}: field is immutable', True),
        ("data: Forbidden: field is immutable when `immutable` is set", True),
        ("spec: Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden", True),
        ('spec.clusterIPs[0]: Invalid value: ["10.0.0.9"]: may not change once set', True),
        ("spec: Forbidden: spec is immutable after creation except resources.requests", True),
        ("roleRef: Invalid value: cannot change roleRef", True),
        ("spec.resources.requests.storage: Forbidden: field can not be less than status.capacity", True),
        ("spec.replicas: Invalid value: -1: must be greater than or equal to 0", False),
        ("admission webhook denied the request: team label is missing", False),
    ],
)
def test_refusals_for_immutable_fields(message: str, expected: bool):
    assert is_immutable(message) is expected


def test_a_replacement_keeps_what_is_not_ours():
    live = {
        "metadata": {"name": "web", "uid": "u", "resourceVersion": "7", "finalizers": ["a"], "annotations": {"x": "y"}},
        "spec": {"a": 1},
        "status": {"phase": "Ready"},
    }
    wanted = {"metadata": {"name": "web", "labels": {"l": "m"}}, "spec": {"a": 2}}
    assert replacement(wanted, live) == {
        "metadata": {
            "name": "web",
            "labels": {"l": "m"},
            "uid": "u",
            "resourceVersion": "7",
            "finalizers": ["a"],
        },
        "spec": {"a": 2},
        "status": {"phase": "Ready"},
    }


@pytest.mark.parametrize(
    ("value", "expected"), [("IgnoreExtraneous", True), ("a, IgnoreExtraneous", True), ("x", False)]
)
def test_extraneous(value: str, expected: bool):
    assert ignores_extraneous(body({"argocd.argoproj.io/compare-options": value})) is expected
