"""The order of deletions: the way back."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.inventory import ObjectMeta
from fleetbeat.decisions.leaving import Leaver, RemovalStage, blocked, removal_stages
from fleetbeat.model import ObjectId


def obj(text: str) -> ObjectId:
    """``Kind[.group] [namespace/]name``."""
    kind, where = text.split()
    kind, _, group = kind.partition(".")
    namespace, _, name = where.rpartition("/")
    return ObjectId(group, kind, namespace, name)


def leaver(text: str, wave: int = 0, *needs: str) -> Leaver:
    return Leaver(obj(text), wave, tuple(map(obj, needs)))


def told(stages: tuple[RemovalStage, ...]) -> list[tuple[int, list[list[str]]]]:
    return [(stage.wave, [[str(item) for item in tier] for tier in stage.tiers]) for stage in stages]


def test_deletion_goes_the_way_back():
    """Field case d9: custom resources before their definition; a Namespace after all it holds, whatever its wave."""
    stages = removal_stages(
        [
            leaver("Namespace shop", 5),
            leaver("CustomResourceDefinition.apiextensions.k8s.io carts.shop.example.com", 9),
            leaver("Cart.shop.example.com shop/main"),
            leaver("ConfigMap shop/web"),
            leaver("Deployment.apps shop/web"),
            leaver("Service shop/web"),
            leaver("ValidatingWebhookConfiguration.admissionregistration.k8s.io guard"),
            leaver("Job.batch shop/late", 5),
        ]
    )
    assert told(stages) == [
        (5, [["Job shop/late"]]),
        (
            0,
            [
                ["ValidatingWebhookConfiguration guard"],
                ["Cart.shop.example.com shop/main", "Deployment shop/web", "Service shop/web"],
                ["ConfigMap shop/web"],
            ],
        ),
        (0, [["CustomResourceDefinition carts.shop.example.com"]]),
        (0, [["Namespace shop"]]),
    ]


def test_dependants_go_before_what_they_depend_on():
    stages = removal_stages(
        [
            leaver("ConfigMap shop/base"),
            leaver("ConfigMap shop/middle", 0, "ConfigMap shop/base", "ConfigMap shop/not-there"),
            leaver("ConfigMap shop/top", 0, "ConfigMap shop/middle"),
            leaver("ConfigMap shop/alone"),
        ]
    )
    assert told(stages) == [
        (0, [["ConfigMap shop/top"]]),
        (0, [["ConfigMap shop/middle"]]),
        (0, [["ConfigMap shop/base", "ConfigMap shop/alone"]]),
    ]


def test_a_ring_goes_together_and_what_depends_on_it_before():
    ring = [leaver("ConfigMap shop/a", 0, "ConfigMap shop/b"), leaver("ConfigMap shop/b", 0, "ConfigMap shop/a")]
    stages = removal_stages([*ring, leaver("ConfigMap shop/c", 0, "ConfigMap shop/a")])
    assert told(stages) == [(0, [["ConfigMap shop/c"]]), (0, [["ConfigMap shop/b", "ConfigMap shop/a"]])]


def test_a_ring_through_what_goes_at_another_time_is_none():
    role, deployment = "Role.rbac.authorization.k8s.io shop/r", "Deployment.apps shop/d"
    stages = removal_stages([leaver(role, 0, deployment), leaver(deployment, 0, CRD), leaver(CRD, 0, role)])
    assert told(stages) == [
        (0, [["Role shop/r"]]),
        (0, [["Deployment shop/d"]]),
        (0, [["CustomResourceDefinition carts.shop.example.com"]]),
    ]


def test_what_somebody_made_unreadable_counts_for_nothing():
    annotations = {
        "argocd.argoproj.io/sync-wave": "soon",
        "config.kubernetes.io/depends-on": "nonsense, /namespaces/shop/ConfigMap/b",
    }
    meta = ObjectMeta.of("", "ConfigMap", {"metadata": {"name": "a", "namespace": "shop", "annotations": annotations}})
    assert Leaver.of(meta) == leaver("ConfigMap shop/a", 0, "ConfigMap shop/b")


def test_what_is_going_holds_back_all_later_stages():
    stages = removal_stages(
        [leaver("Cart.shop.example.com shop/main", 1), leaver("Job.batch shop/x", 1), leaver("Deployment.apps shop/op")]
    )
    main, op = obj("Cart.shop.example.com shop/main"), obj("Deployment.apps shop/op")
    assert blocked(stages, [main]) == {op: (main,)}
    assert blocked(stages, [op]) == {}
    assert blocked(stages, []) == {}


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = ["ConfigMap", "Deployment.apps", "Cart.shop.example.com", "Role.rbac.authorization.k8s.io"]
CRD = "CustomResourceDefinition.apiextensions.k8s.io carts.shop.example.com"


@st.composite
def leavers(draw) -> list[Leaver]:
    texts = [f"{kind} {ns}/{name}" for kind in KINDS for ns in "ab" for name in "xyz"]
    texts += ["Namespace a", "Namespace b", CRD]
    chosen = sorted(draw(st.sets(st.sampled_from(texts), max_size=12)))
    needs = st.lists(st.sampled_from(texts), max_size=3)
    return [leaver(text, draw(st.integers(-2, 2)), *draw(needs)) for text in chosen]


@given(leavers(), st.randoms(use_true_random=False))
def test_everything_goes_once_and_its_containers_last(found: list[Leaver], rng: random.Random):
    stages = removal_stages(found)
    shuffled = list(found)
    rng.shuffle(shuffled)
    assert removal_stages(shuffled) == stages
    assert sorted(item for stage in stages for item in stage.ids) == sorted(one.id for one in found)
    assert all(tier for stage in stages for tier in stage.tiers)
    at = {item: number for number, stage in enumerate(stages) for item in stage.ids}
    for item, place in at.items():
        if item.kind == "Namespace":
            assert all(at[other] < place for other in at if other.namespace == item.name)
        elif item.kind == "CustomResourceDefinition":
            assert all(at[other] < place for other in at if other.kind == "Cart")


@given(leavers())
def test_later_waves_and_dependants_go_first(found: list[Leaver]):
    at = {item: number for number, stage in enumerate(removal_stages(found)) for item in stage.ids}
    plain = {one.id: one for one in found if one.id.kind not in ("Namespace", "CustomResourceDefinition")}
    reached = {key: _reachable(key, plain) for key in plain}
    for key, one in plain.items():
        for other in plain.values():
            if other.wave > one.wave:
                assert at[other.id] < at[key]
        for need in one.needs:
            if need in plain and plain[need].wave == one.wave and key not in reached[need] and need != key:
                assert at[key] < at[need]


def _reachable(start: ObjectId, found: dict[ObjectId, Leaver]) -> set[ObjectId]:
    """Everything it depends on, directly or not."""
    seen: set[ObjectId] = set()
    rest = list(found[start].needs)
    while rest:
        if (item := rest.pop()) in found and item not in seen:
            seen.add(item)
            rest += found[item].needs
    return seen
