"""One total order of every bundle: phases, waves, prerequisites, dependencies, tiers, all at once.

Mixed bundles, refused ones included: what is refused has a reason, what is not has an order that keeps every promise.
"""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from fleetbeat.decisions.depends import DEPENDS_ON, written
from fleetbeat.decisions.hooks import HOOK, PHASES
from fleetbeat.decisions.order import SYNC_WAVE, order_of
from fleetbeat.decisions.tiers import PREREQUISITES, rank_of, tier_of
from fleetbeat.decisions.waves import Stage, arrange, plan, render
from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId, Origin

CRD = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "carts.shop.example.com")
IDS = [
    ObjectId("", "Namespace", "", "a"),
    ObjectId("", "Namespace", "", "b"),
    CRD,
    *(
        ObjectId(group, kind, namespace, name)
        for group, kind in (
            ("", "ConfigMap"),
            ("", "ServiceAccount"),
            ("apps", "Deployment"),
            ("batch", "Job"),
            ("shop.example.com", "Cart"),
        )
        for namespace in "ab"
        for name in "xy"
    ),
    ObjectId("admissionregistration.k8s.io", "ValidatingWebhookConfiguration", "", "guard"),
]
WAVES = st.none() | st.integers(-2, 2)
HOOKS = st.sampled_from([""] * 6 + ["PreSync", "Sync", "PostSync", "PreSync,PostSync", "SyncFail", "Skip"])


def manifest(key: ObjectId, wave: int | None, hook: str, needs: list[ObjectId]) -> Manifest:
    annotations = {}
    if wave is not None:
        annotations[SYNC_WAVE] = str(wave)
    if hook:
        annotations[HOOK] = hook
    if needs:
        annotations[DEPENDS_ON] = ",".join(map(written, needs))
    metadata = {"name": key.name, "annotations": annotations}
    if key.namespace:
        metadata["namespace"] = key.namespace
    spec = {"group": "shop.example.com", "names": {"kind": "Cart", "plural": "carts"}} if key == CRD else {}
    return Manifest(key, "v1", {"metadata": metadata, "spec": spec}, Origin("a.yaml", 1, 1))


@st.composite
def bundles(draw: st.DrawFn) -> list[Manifest]:
    keys = sorted(draw(st.sets(st.sampled_from(IDS), min_size=1, max_size=12)))
    found = []
    for key in keys:
        # Mostly what stands before it in the list, so that rings are the exception, and now and then anything.
        near = [other for other in keys if other < key] if draw(st.integers(0, 5)) else keys
        needs = draw(st.lists(st.sampled_from(near), max_size=2)) if near and draw(st.booleans()) else []
        found.append(manifest(key, draw(WAVES), draw(HOOKS), needs))
    return found


def places(stages: tuple[Stage, ...]) -> dict[ObjectId, list[int]]:
    """Object → positions of its stages."""
    found: dict[ObjectId, list[int]] = defaultdict(list)
    for number, stage in enumerate(stages):
        for key in stage.ids:
            found[key].append(number)
    return dict(found)


@given(bundles(), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_a_bundle_has_one_order_or_a_reason_for_none(manifests: list[Manifest], rng: random.Random):
    arranged = arrange(manifests)
    shuffled = list(manifests)
    rng.shuffle(shuffled)
    assert arrange(shuffled) == arranged
    event("refused" if arranged.problems else "planned")
    if arranged.problems:
        with pytest.raises(ManifestError):
            plan(manifests)
        return
    stages = plan(manifests)
    assert stages == arranged.stages
    at, orders = places(stages), {m.id: order_of(m) for m in manifests}

    # Each object once in every phase it asks for, and nowhere else; a line of the text for each.
    for key, order in orders.items():
        phases = [stages[number].phase for number in at.get(key, [])]
        if key.group_kind in PREREQUISITES and order.hook is None:
            assert phases in (["PreSync"], ["Sync"])  # moved forward to a hook that needs it
        else:
            assert phases == sorted(order.phases, key=PHASES.index)
    assert at.keys() == {key for key, order in orders.items() if order.phases}
    assert len([line for line in render(stages).splitlines() if line.startswith("  ")]) == sum(map(len, at.values()))

    # Stages: by phase, then wave, then prerequisites before objects, then level. No two are the same place.
    heads = [(PHASES.index(s.phase), s.wave, s.part == "objects", s.level) for s in stages]
    assert heads == sorted(set(heads))
    for stage in stages:
        assert all(tier for tier in stage.tiers)
        assert list(stage.ids) == sorted(stage.ids, key=lambda key: (tier_of(key), rank_of(key)))
        for key in stage.ids:
            assert (key.group_kind in PREREQUISITES) == (stage.part == "prerequisites")
            wave = orders[key].wave
            # Only a prerequisite is ever moved, and only forward.
            assert stage.wave == wave or (key.group_kind in PREREQUISITES and orders[key].hook is None)


@given(bundles())
@settings(max_examples=300)
def test_nothing_begins_before_what_it_needs(manifests: list[Manifest]):
    arranged = arrange(manifests)
    if arranged.problems:
        return
    at, by_id = places(arranged.stages), {m.id: m for m in manifests}
    for key, numbers in at.items():
        for need in order_of(by_id[key]).depends_on:
            assert at[need][0] < numbers[0], f"{key} stands before {need}, which it depends on"
        for need in (ObjectId("", "Namespace", "", key.namespace), CRD if key.kind == "Cart" else None):
            # A hook is where it says it is, a Namespace too; what only runs after a failure is no reason to move.
            if need in at and need is not None and order_of(by_id[need]).hook is None:
                stage = arranged.stages[numbers[0]]
                if stage.phase in ("PreSync", "Sync", "PostSync"):
                    assert at[need][0] < numbers[0], f"{key} stands before {need}"
