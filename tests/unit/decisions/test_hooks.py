"""Hooks: which objects are one, when they run, when they are deleted. Plans with hooks: ``tests/golden/plan``."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.hooks import (
    DELETE_POLICY,
    HELM_DELETE_POLICY,
    HELM_HOOK,
    HELM_WEIGHT,
    HOOK,
    Hook,
    read,
)
from fleetbeat.decisions.order import SYNC_WAVE, order_of, wave_of
from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId, Origin


def job(annotations: dict[str, str]) -> Manifest:
    body = {"metadata": {"name": "x", "namespace": "shop", "annotations": annotations}}
    return Manifest(ObjectId("batch", "Job", "shop", "x"), "v1", body, Origin("a.yaml", 1, 1))


def of(annotations: dict[str, str]) -> Hook:
    hook, problems = read(annotations)
    assert hook is not None
    assert problems == []
    return hook


@pytest.mark.parametrize("annotations", [{}, {DELETE_POLICY: "HookSucceeded"}, {HELM_HOOK: "crd-install"}])
def test_no_hook(annotations):
    assert read(annotations) == (None, [])
    assert order_of(job(annotations)).phases == ("Sync",)


@pytest.mark.parametrize(
    ("annotations", "phases"),
    [
        ({HOOK: "PreSync"}, ("PreSync",)),
        ({HOOK: "PostDelete"}, ("PostDelete",)),
        ({HOOK: " PostSync ,,PreSync,PostSync"}, ("PreSync", "PostSync")),
        ({HOOK: "Skip,SyncFail"}, ("SyncFail",)),
        ({HELM_HOOK: "pre-install"}, ("PreSync",)),
        ({HELM_HOOK: "pre-install,pre-upgrade"}, ("PreSync",)),
        ({HELM_HOOK: "Post-Upgrade"}, ("PostSync",)),
        ({HELM_HOOK: "post-install, pre-upgrade"}, ("PreSync", "PostSync")),
        ({HELM_HOOK: "pre-install,test"}, ("PreSync",)),
        ({HELM_HOOK: "pre-delete"}, ("PreDelete",)),
        ({HELM_HOOK: "post-delete, pre-delete"}, ("PreDelete", "PostDelete")),
        ({HELM_HOOK: "post-install", HOOK: "PreSync"}, ("PreSync",)),
        ({HELM_HOOK: "not-of-helm", HOOK: "PreSync"}, ("PreSync",)),
    ],
    ids=str,
)
def test_phases(annotations, phases):
    assert of(annotations).phases == phases
    assert of(annotations).left_out == ""


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({HOOK: "Skip"}, "annotation argocd.argoproj.io/hook: Skip"),
        ({HOOK: "Skip, Skip,"}, "annotation argocd.argoproj.io/hook: Skip, Skip,"),
        ({HELM_HOOK: "test"}, "annotation helm.sh/hook: test, which is for `helm test`"),
        ({HELM_HOOK: "post-rollback"}, "which is for `helm rollback`"),
        ({HELM_HOOK: "pre-install", HOOK: "Skip"}, "annotation argocd.argoproj.io/hook: Skip"),
    ],
    ids=str,
)
def test_left_out(annotations, why):
    """Field case d13: what is skipped is left out by a rule, and told."""
    hook = of(annotations)
    assert hook.phases == ()
    assert why in hook.left_out


@pytest.mark.parametrize(
    ("annotations", "policies"),
    [
        ({HOOK: "PreSync"}, ("BeforeHookCreation",)),
        ({HOOK: "PreSync", DELETE_POLICY: "HookFailed, HookSucceeded"}, ("HookSucceeded", "HookFailed")),
        ({HOOK: "PreSync", DELETE_POLICY: ""}, ("BeforeHookCreation",)),
        ({HELM_HOOK: "pre-install", HELM_DELETE_POLICY: "hook-succeeded,Hook-Failed"}, ("HookSucceeded", "HookFailed")),
        ({HELM_HOOK: "pre-install", HELM_DELETE_POLICY: "hook-failed", DELETE_POLICY: "HookSucceeded"},
         ("HookSucceeded",)),
        ({HELM_HOOK: "post-install", HELM_DELETE_POLICY: "hook-succeeded", HOOK: "PreSync"}, ("BeforeHookCreation",)),
    ],
    ids=str,
)  # fmt: skip
def test_delete_policies(annotations, policies):
    assert of(annotations).delete_policies == policies


def test_argo_cd_wins_as_a_set():
    """Field case c8."""
    hook = of(
        {
            HELM_HOOK: "post-install",
            HELM_DELETE_POLICY: "hook-succeeded",
            HOOK: "PreSync",
            DELETE_POLICY: "BeforeHookCreation",
        }
    )
    assert hook == Hook("argocd.argoproj.io/hook: PreSync", ("PreSync",), ("BeforeHookCreation",))


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({HOOK: "presync"}, "unknown phase 'presync'. Did you mean PreSync? Known: PreSync, Sync,"),
        ({HOOK: "PreSync,Later"}, "unknown phase 'Later'. Known: PreSync"),
        ({HOOK: ""}, "annotation argocd.argoproj.io/hook names no phase"),
        ({HOOK: "Skip,Skipp"}, "unknown phase 'Skipp'. Did you mean Skip?"),
        ({HOOK: "PreSync", DELETE_POLICY: "hook-succeeded"}, "unknown policy 'hook-succeeded'. Did you mean Hook"),
        ({HELM_HOOK: "pre-instal"}, "annotation helm.sh/hook: unknown event 'pre-instal'. Did you mean pre-install?"),
        ({HELM_HOOK: " ,"}, "annotation helm.sh/hook names no event"),
        (
            {HELM_HOOK: "test", HELM_DELETE_POLICY: "HookFailed"},
            "unknown policy 'hookfailed'. Did you mean hook-failed",
        ),
    ],
    ids=str,
)
def test_unknown_words_are_mistakes(annotations, words):
    """Field case c8: never an ordinary object."""
    hook, problems = read(annotations)
    assert hook is not None
    [problem] = problems
    assert words in problem
    order = order_of(job(annotations))
    assert order.problems == (f"a.yaml, document 1 (line 1): Job shop/x: {problem}",)


@pytest.mark.parametrize(
    ("annotations", "wave"),
    [
        ({HELM_HOOK: "pre-install", HELM_WEIGHT: "-5"}, -5),
        ({HOOK: "PreSync", HELM_WEIGHT: "-5"}, -5),
        ({HOOK: "PreSync", HELM_WEIGHT: "-5", SYNC_WAVE: "2"}, 2),
        ({HOOK: "PreSync"}, 0),
        ({HELM_WEIGHT: "-5"}, 0),
        ({HELM_WEIGHT: "no hook, no matter"}, 0),
    ],
    ids=str,
)
def test_the_weight_of_a_hook_is_its_wave(annotations, wave):
    assert wave_of(job(annotations)) == order_of(job(annotations)).wave == wave


@pytest.mark.parametrize("annotations", [{HELM_WEIGHT: "heavy"}, {HELM_WEIGHT: "1", SYNC_WAVE: "x"}], ids=str)
def test_an_unreadable_wave_is_not_replaced_by_the_weight(annotations):
    with pytest.raises(ManifestError, match="must be a whole number"):
        wave_of(job({HOOK: "PreSync", **annotations}))
