"""What of an application may be deleted, and what stays."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.inventory import PART_OF, ObjectMeta, applyset_id
from fleetbeat.decisions.pruning import PruneDecision, going_reason, keep_reason, to_prune
from fleetbeat.model import ObjectId

OURS = applyset_id("app-shop", "fleetbeat")


def live(name: str, *, kind: str = "ConfigMap", group: str = "", written: bool = True, **metadata) -> ObjectMeta:
    labels = {PART_OF: OURS, **metadata.pop("labels", {})}
    fields = {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}}
    managed = [{"manager": "fleetbeat" if written else "operator", "operation": "Apply", "fieldsV1": fields}]
    body = {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": labels,
            "managedFields": managed,
            **metadata,
        }
    }
    return ObjectMeta.of(group, kind, body)


def decide(labelled, wanted=("keep-me",), **options):
    ids = {ObjectId("", "ConfigMap", "shop", name) for name in wanted}
    return to_prune(labelled, ids, **{"applyset": OURS, "allow_empty": False, "complete": True, **options})


def names(decision):
    return [meta.id.name for meta in decision.prune]


def test_what_left_the_bundle_is_pruned_with_its_preconditions():
    decision = decide([live("b"), live("keep-me"), live("a")])
    assert names(decision) == ["a", "b"]
    assert (decision.prune[0].uid, decision.prune[0].resource_version) == ("uid-a", "7")
    assert (decision.kept, decision.ignored, decision.refusal) == ((), (), None)


def test_an_incomplete_view_prunes_nothing():
    decision = decide([live("a")], complete=False, incomplete_because="the API group metrics.k8s.io does not answer")
    assert decision.prune == ()
    assert decision.refusal == "Nothing is pruned: the API group metrics.k8s.io does not answer."


def test_an_empty_bundle_prunes_nothing_and_says_why():
    """Field case d4."""
    decision = decide([live("a"), live("b")], wanted=())
    assert decision.prune == ()
    assert "all 2 of the application" in (decision.refusal or "")
    assert "allowEmpty" in (decision.refusal or "")


def test_only_emptiness_is_what_a_person_can_agree_to():
    """Field case d4: an incomplete view is refused for another reason, and no word of a person makes it whole."""
    assert decide([live("a")], wanted=()).empties
    assert not decide([live("a")], wanted=(), complete=False).empties
    assert not decide([live("a")]).empties
    assert not decide([live("a")], wanted=(), allow_empty=True).empties
    assert not decide([], wanted=()).empties


def test_an_empty_bundle_prunes_when_that_is_allowed():
    """Field case d4: with allow-empty it must not be stuck."""
    decision = decide([live("a")], wanted=(), allow_empty=True)
    assert names(decision) == ["a"]
    assert decision.refusal is None


def test_an_incomplete_view_beats_allow_empty():
    assert decide([live("a")], wanted=(), allow_empty=True, complete=False).prune == ()


def test_nothing_to_prune_is_no_refusal():
    assert decide([], wanted=(), complete=False).refusal is None


def test_another_applications_objects_are_not_even_mentioned():
    theirs = live("a", labels={PART_OF: "applyset-other-v1"})
    assert decide([theirs]) == PruneDecision()


@pytest.mark.parametrize(
    "owners",
    [[], [{"kind": "Cart", "name": "main", "controller": True}]],
    ids=["without-owner-reference", "with-owner-reference"],
)
def test_a_copied_label_makes_nothing_ours(owners):
    """Field case d8: an operator copied labels and annotations to what it made."""
    decision = decide([live("copy", written=False, ownerReferences=owners)])
    assert (decision.prune, decision.kept) == ((), ())
    [(copy, why)] = decision.ignored
    assert copy.name == "copy"
    assert "did not apply it" in why
    assert ("Cart main" in why) == bool(owners)


def test_our_object_that_a_controller_took_over_stays():
    decision = decide([live("adopted", ownerReferences=[{"kind": "Set", "name": "s", "controller": True}])])
    assert decision.kept == ((ObjectId("", "ConfigMap", "shop", "adopted"), "Set s controls it"),)


def test_one_object_under_two_groups_is_one_object():
    """Field case d1: same uid, so the wanted object itself would be deleted."""
    decision = decide([live("x", kind="Event")], wanted_uids={"uid-x"})
    assert (decision.prune, decision.kept, len(decision.ignored)) == ((), (), 1)


def test_an_object_on_its_way_out_is_left_to_go_and_told():
    going = live("a", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x.io/a", "x.io/b"])
    decision = decide([going, live("b", deletionTimestamp="2026-01-01T00:00:00Z")], complete=False)
    assert (decision.prune, decision.kept, decision.ignored, decision.refusal) == ((), (), (), None)
    assert [going_reason(meta) for meta in decision.going] == [
        "is being deleted since 2026-01-01T00:00:00Z; finalizers x.io/a, x.io/b hold it",
        "is being deleted since 2026-01-01T00:00:00Z",
    ]


KEEP = [
    ({"annotations": {"argocd.argoproj.io/sync-options": "Validate=false, Prune=false"}}, "Prune=false"),
    ({"annotations": {"argocd.argoproj.io/sync-options": "Prune=confirm"}}, "Prune=confirm"),
    ({"annotations": {"kustomize.toolkit.fluxcd.io/prune": "Disabled"}}, "kustomize.toolkit.fluxcd.io/prune: disabled"),
    ({"labels": {"kustomize.toolkit.fluxcd.io/prune": "disabled"}}, "kustomize.toolkit.fluxcd.io/prune: disabled"),
    ({"annotations": {"helm.sh/resource-policy": " Keep"}}, "helm.sh/resource-policy: keep"),
    ({"annotations": {"client.lifecycle.config.k8s.io/deletion": "detach"}}, "deletion: detach"),
    ({"annotations": {"cli-utils.sigs.k8s.io/on-remove": "keep"}}, "on-remove: keep"),
]


@pytest.mark.parametrize(("metadata", "why"), KEEP, ids=[why.replace(" ", "") for _, why in KEEP])
def test_objects_that_ask_to_stay_are_kept(metadata, why):
    decision = decide([live("a", **metadata)])
    assert decision.prune == ()
    assert why in decision.kept[0][1]


OWN = "argocd.argoproj.io/sync-options"


@pytest.mark.parametrize(
    ("own", "usual", "confirmed", "why"),
    [
        pytest.param("", "true", False, "", id="nobody says anything"),
        pytest.param("", "false", True, "spec.sync.options: Prune=false", id="the application says no"),
        pytest.param("", "confirm", False, "(spec.sync.options: Prune=confirm)", id="the application asks first"),
        pytest.param("", "confirm", True, "", id="the application asks first, and somebody has agreed"),
        pytest.param("Prune=true", "false", False, "", id="the object's yes counts before the application's no"),
        pytest.param("Prune=true", "confirm", False, "", id="or before its question"),
        pytest.param("Prune=false", "true", True, f"{OWN}: Prune=false", id="so does its no"),
        pytest.param("Prune=false", "confirm", True, f"{OWN}: Prune=false", id="which no agreement to others ends"),
        pytest.param("Prune=confirm", "false", False, f"({OWN}: Prune=confirm)", id="so does its question"),
        pytest.param("Prune=confirm", "false", True, "", id="agreed to"),
        pytest.param("Delete=false,Replace=true", "true", False, "", id="other options say nothing of it"),
    ],
)
def test_the_objects_word_counts_before_the_applications(own, usual, confirmed, why):
    meta = live("a", annotations={OWN: own})
    assert keep_reason(meta, confirmed=confirmed, usual=usual).endswith(why)
    assert bool(keep_reason(meta, confirmed=confirmed, usual=usual)) is bool(why)
    decision = decide([meta], confirmed=confirmed, usual=usual)
    assert (names(decision), [key.name for key, _ in decision.kept]) == (([], ["a"]) if why else (["a"], []))


def test_a_mark_to_keep_holds_whatever_the_application_allows():
    meta = live("a", annotations={OWN: "Prune=true", "helm.sh/resource-policy": "keep"})
    assert keep_reason(meta, confirmed=True, usual="confirm") == "helm.sh/resource-policy: keep"


def test_a_confirmation_frees_what_waits_for_one_and_nothing_else():
    confirm = {"argocd.argoproj.io/sync-options": "Prune=confirm"}
    waiting = live("a", annotations=confirm)
    both = live("b", annotations={"argocd.argoproj.io/sync-options": "Prune=confirm,Prune=false"})
    helm = live("c", annotations={**confirm, "helm.sh/resource-policy": "keep"})
    assert names(decide([waiting, both, helm])) == []
    assert "fleetbeat sync APP --confirm-prune" in decide([waiting]).kept[0][1]
    assert names(decide([waiting, both, helm], confirmed=True)) == ["a"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"annotations": {"argocd.argoproj.io/sync-options": "prune=false"}},
        {"annotations": {"argocd.argoproj.io/sync-options": "Prune=false=x"}},
        {"annotations": {"kustomize.toolkit.fluxcd.io/prune": "enabled"}},
        {"annotations": {"cli-utils.sigs.k8s.io/on-remove": "Keep"}},
        {"labels": {"helm.sh/resource-policy": "keep"}},
    ],
    ids=str,
)
def test_what_the_tools_themselves_would_not_honour_is_not_honoured(metadata):
    assert keep_reason(live("a", **metadata)) == ""
