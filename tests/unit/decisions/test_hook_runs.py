"""What becomes of a hook in one run: when it is due, its name, what is sent, whose an object is, when it goes."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.hook_runs import (
    PHASE,
    RUN,
    due,
    generated,
    goes_because,
    is_earlier_copy,
    is_short_lived,
    replaces,
    sent,
    standing,
)
from fleetbeat.decisions.hooks import Hook
from fleetbeat.decisions.inventory import HOOK_OF, PART_OF
from fleetbeat.decisions.ownership import Foreign, Unowned, owner_of
from fleetbeat.model import Manifest, ObjectId, Origin

OURS, OTHER = "applyset-ours-v1", "applyset-other-v1"
ARGO = "argocd.argoproj.io/instance"


def job(**spec: Any) -> Manifest:
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x", "namespace": "shop"}, "spec": spec}
    return Manifest(ObjectId("batch", "Job", "shop", "x"), "v1", body, Origin("a.yaml", 1, 1))


@pytest.mark.parametrize(
    ("trigger", "completed", "owed", "expected"),
    [
        ("First", set(), "", True),
        ("First", {"d1"}, "", False),  # Redis was lost, the parent was not
        ("Revision", {"d0"}, "", True),
        ("Revision", {"d0", "d1"}, "", False),  # the parent could not be told, Redis knows
        ("Drift", {"d1"}, "", False),
        ("Drift", {"d0"}, "", True),  # they have never gone through
        ("Spec", {"d1"}, "", False),
        ("Request", {"d1"}, "", True),
        ("Retry", {"d1"}, "", False),
        ("Retry", {"d1"}, "d1", True),  # of a requested run that failed
        ("Retry", {"d1"}, "d0", False),
        ("Retry", {""}, "", True),
    ],
)
def test_due(trigger: str, completed: set[str], owed: str, expected: bool) -> None:
    assert due(trigger=trigger, digest="d1", completed=completed, owed=owed) is expected


def test_a_generated_name_is_the_same_for_the_same_place_of_one_run_and_fits() -> None:
    """Field case c5."""
    name = generated("mig-", "run-1", "PreSync", 3)
    assert name.startswith("mig-")
    assert name == generated("mig-", "run-1", "PreSync", 3)
    others = {generated("mig-", run, phase, index) for run in ("run-1", "run-2") for phase in ("PreSync", "PostSync")
              for index in (3, 4)}  # fmt: skip
    assert len(others) == 8
    assert len(generated("x" * 200, "run-1", "PreSync", 0)) == 63


def test_what_is_sent_says_whose_it_is_and_leaves_the_manifest_alone() -> None:
    manifest = job(template={})
    body = sent(manifest, applyset=OURS, run="run-1", phase="PostSync", name="x")
    assert body["metadata"]["labels"] == {HOOK_OF: OURS}
    assert body["metadata"]["annotations"] == {RUN: "run-1", PHASE: "PostSync"}
    assert PART_OF not in body["metadata"]["labels"]
    assert "labels" not in manifest.body["metadata"]


@pytest.mark.parametrize(
    ("asked", "short", "becomes"),
    [(0, True, 3600), (3599, True, 3600), (3600, False, 3600), (9000, False, 9000), (None, False, None),
     ("0", False, "0"), (True, False, True)],
)  # fmt: skip
def test_a_job_stays_long_enough_to_be_seen_finished(asked: Any, short: bool, becomes: Any) -> None:
    """Field case c1. What is no number is for the API server to refuse."""
    manifest = job(**({} if asked is None else {"ttlSecondsAfterFinished": asked}))
    assert is_short_lived(manifest) is short
    body = sent(manifest, applyset=OURS, run="r", phase="PreSync", name="x")
    assert body["spec"].get("ttlSecondsAfterFinished") == becomes


def live(labels: dict[str, str], run: str = "", phase: str = "", **metadata: Any) -> dict[str, Any]:
    marks = {key: value for key, value in ((RUN, run), (PHASE, phase)) if value}
    return {"metadata": {"name": "x", "labels": labels, "annotations": marks, **metadata}}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (live({HOOK_OF: OURS}, "run-1", "PreSync"), "started"),
        (live({HOOK_OF: OURS}, "run-1", "PostSync"), "ours"),
        (live({HOOK_OF: OURS}, "run-0", "PreSync"), "ours"),
        (live({HOOK_OF: OURS}), "ours"),
        (live({PART_OF: OURS}), "ours"),
        (live({PART_OF: OURS, HOOK_OF: OURS}, "run-1", "PreSync"), "started"),
        (live({}), "free"),
        (live({"app": "x"}, "run-1", "PreSync"), "free"),  # annotations are copied around
    ],
)
def test_standing(there: dict[str, Any], expected: str) -> None:
    assert standing(there, applyset=OURS, run="run-1", phase="PreSync") == expected


@pytest.mark.parametrize(
    ("labels", "tool"),
    [({HOOK_OF: OTHER}, "ApplySet"), ({PART_OF: OTHER}, "ApplySet"), ({ARGO: "shop"}, "Argo CD application")],
)
def test_an_object_of_somebody_else(labels: dict[str, str], tool: str) -> None:
    found = standing(live(labels, "run-1", "PreSync"), applyset=OURS, run="run-1", phase="PreSync")
    assert isinstance(found, Foreign)
    assert found.tool == tool


def test_a_hook_of_ours_may_become_a_member_and_one_of_others_not() -> None:
    assert isinstance(owner_of(live({HOOK_OF: OURS}), OURS), Unowned)
    assert isinstance(owner_of(live({HOOK_OF: OTHER}), OURS), Foreign)


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (live({HOOK_OF: OURS}, "run-0", "PreSync", generateName="mig-"), True),
        (live({HOOK_OF: OURS}, "run-1", "PostSync", generateName="mig-"), False),  # of this run, another phase
        (live({HOOK_OF: OURS}, "run-0", "PreSync", generateName="seed-"), False),
        (live({HOOK_OF: OURS}, "run-0", "PreSync"), False),
        (live({HOOK_OF: OURS}, generateName="mig-"), False),
        (live({HOOK_OF: OTHER}, "run-0", "PreSync", generateName="mig-"), False),
        (live({HOOK_OF: OURS}, "run-0", generateName="mig-", ownerReferences=[{"controller": True}]), False),
    ],
)
def test_earlier_copies_of_a_generated_name(there: dict[str, Any], expected: bool) -> None:
    assert is_earlier_copy(there, "mig-", applyset=OURS, run="run-1") is expected


@pytest.mark.parametrize(
    ("policies", "succeeded", "short", "why"),
    [
        (("BeforeHookCreation",), True, False, ""),
        (("BeforeHookCreation",), False, False, ""),
        (("HookSucceeded",), True, False, "HookSucceeded"),
        (("HookSucceeded",), False, False, ""),
        (("HookFailed",), True, False, ""),
        (("HookFailed",), False, False, "HookFailed"),
        (("HookSucceeded", "HookFailed"), False, False, "HookFailed"),
        (("BeforeHookCreation",), True, True, "ttlSecondsAfterFinished"),
        (("BeforeHookCreation",), False, True, "ttlSecondsAfterFinished"),
    ],
)
def test_when_a_phase_is_over(policies: Any, succeeded: bool, short: bool, why: str) -> None:
    assert goes_because(Hook("x", ("PreSync",), policies), succeeded=succeeded, short_lived=short) == why


@pytest.mark.parametrize(
    ("group", "kind", "deleted"),
    [
        ("batch", "Job", True),
        ("", "ConfigMap", True),
        ("", "Namespace", False),
        ("", "PersistentVolumeClaim", False),
        ("", "PersistentVolume", False),
        ("apiextensions.k8s.io", "CustomResourceDefinition", False),
    ],
)
def test_what_takes_others_along_is_never_deleted_to_be_made_anew(group: str, kind: str, deleted: bool):
    """Charts install definitions and namespaces as hooks of pre-install."""
    hook = Hook("helm.sh/hook: pre-install", ("PreSync",))
    assert replaces(hook, ObjectId(group, kind, "", "x")) is deleted
    assert not replaces(Hook("m", ("PreSync",), ("HookSucceeded",)), ObjectId(group, kind, "", "x"))
