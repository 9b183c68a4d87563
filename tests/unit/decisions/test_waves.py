"""The order of writes and deletions. Plans are compared as text."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.waves import SYNC_WAVE, live_wave, plan, render, wave_of
from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId, Origin


def manifest(text: str, wave: object = None, body: dict | None = None) -> Manifest:
    """``Kind[.group] [namespace/]name``."""
    kind, where = text.split()
    kind, _, group = kind.partition(".")
    namespace, _, name = where.rpartition("/")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    if wave is not None:
        metadata["annotations"] = {SYNC_WAVE: wave}
    return Manifest(
        ObjectId(group, kind, namespace, name), "v1", {"metadata": metadata, **(body or {})}, Origin("a.yaml", 1, 1)
    )


def definition(kind: str, group: str, wave: str | None = None) -> Manifest:
    plural = f"{kind.lower()}s"
    spec = {"group": group, "names": {"kind": kind, "plural": plural}}
    return manifest(f"CustomResourceDefinition.apiextensions.k8s.io {plural}.{group}", wave, {"spec": spec})


def lines(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.strip("\n").splitlines()).rstrip()


def test_a_bundle_without_waves_is_put_in_order():
    """Field case c2: hostile file order, no annotations, one sync."""
    stages = plan(
        [
            manifest("ValidatingWebhookConfiguration.admissionregistration.k8s.io guard"),
            manifest("Cart.shop.example.com shop/main"),
            manifest("Deployment.apps shop/web"),
            manifest("Pod shop/once"),
            manifest("Service.serving.knative.dev shop/serverless"),
            manifest("Service shop/web"),
            manifest("ConfigMap shop/web"),
            manifest("RoleBinding.rbac.authorization.k8s.io shop/web"),
            manifest("Role.rbac.authorization.k8s.io shop/web"),
            manifest("ServiceAccount shop/web"),
            definition("Cart", "shop.example.com"),
            manifest("Namespace shop"),
        ]
    )
    assert render(stages) == lines("""
    Sync, wave 0, prerequisites
      1  CustomResourceDefinition carts.shop.example.com
      1  Namespace shop
    Sync, wave 0, objects
      1  ServiceAccount shop/web
      1  Role shop/web
      2  RoleBinding shop/web
      2  ConfigMap shop/web
      3  Service shop/web
      3  Pod shop/once
      3  Deployment shop/web
      3  Service.serving.knative.dev shop/serverless
      3  Cart.shop.example.com shop/main
      4  ValidatingWebhookConfiguration guard
    """)


def test_prerequisites_are_pulled_into_the_earliest_wave_that_needs_them():
    stages = plan(
        [
            manifest("Namespace shop", "5"),
            manifest("Namespace unused", "3"),
            definition("Cart", "shop.example.com", "7"),
            manifest("Cart.shop.example.com shop/main", "2"),
            manifest("ConfigMap shop/early", "-1"),
            manifest("ConfigMap elsewhere/late"),
        ]
    )
    assert render(stages) == lines("""
    Sync, wave -1, prerequisites
      1  Namespace shop
    Sync, wave -1, objects
      1  ConfigMap shop/early
    Sync, wave 0, objects
      1  ConfigMap elsewhere/late
    Sync, wave 2, prerequisites
      1  CustomResourceDefinition carts.shop.example.com
    Sync, wave 2, objects
      1  Cart.shop.example.com shop/main
    Sync, wave 3, prerequisites
      1  Namespace unused
    """)


def test_a_prerequisite_asked_for_earlier_stays_there():
    stages = plan([manifest("Namespace shop", "-2"), manifest("ConfigMap shop/a", "1")])
    assert [(stage.wave, stage.part) for stage in stages] == [(-2, "prerequisites"), (1, "objects")]


def test_nothing_gives_an_empty_plan():
    assert plan([]) == ()
    assert render(()) == ""


@pytest.mark.parametrize(("text", "wave"), [(None, 0), ("0", 0), ("-5", -5), ("+3", 3), ("007", 7)])
def test_the_wave_is_read_as_argo_cd_reads_it(text, wave):
    assert wave_of(manifest("ConfigMap a/b", text)) == wave


@pytest.mark.parametrize("text", ["", "one", "1.5", " 1", "1_000", "0x1", "٣", "9" * 30, 5, True])
def test_an_unreadable_wave_is_reported(text):
    with pytest.raises(ManifestError) as error:
        wave_of(manifest("ConfigMap shop/web", text))
    assert str(error.value).startswith(
        f"a.yaml, document 1 (line 1): ConfigMap shop/web: annotation {SYNC_WAVE} must be"
    )
    assert repr(text) in str(error.value)


def test_the_wave_of_a_live_object_never_fails():
    assert [live_wave({SYNC_WAVE: text}) for text in ("-5", "edited", "")] == [-5, 0, 0]
    assert live_wave({}) == 0


def test_every_unreadable_wave_is_reported_at_once():
    with pytest.raises(ManifestError) as error:
        plan([manifest("ConfigMap a/b", "x"), manifest("Secret a/c", "y"), manifest("Secret a/d", "1")])
    assert len(error.value.problems) == 2


# ── properties ───────────────────────────────────────────────────────────────────────────────────────────────────

KINDS = [
    "ConfigMap",
    "Deployment.apps",
    "Service",
    "Cart.shop.example.com",
    "Role.rbac.authorization.k8s.io",
    "Thing.x.io",
]
NAMESPACES = ["a", "b", "c"]
WAVES = st.none() | st.integers(-3, 3).map(str)


@st.composite
def bundles(draw) -> list[Manifest]:
    objects = draw(st.sets(st.tuples(st.sampled_from(KINDS), st.sampled_from(NAMESPACES), st.sampled_from("xyz"))))
    manifests = [manifest(f"{kind} {ns}/{name}", draw(WAVES)) for kind, ns, name in sorted(objects)]
    manifests += [manifest(f"Namespace {ns}", draw(WAVES)) for ns in sorted(draw(st.sets(st.sampled_from(NAMESPACES))))]
    if draw(st.booleans()):
        manifests.append(definition("Cart", "shop.example.com", draw(WAVES)))
    return manifests


def places(stages) -> dict[ObjectId, tuple[int, int]]:
    return {item: (s, t) for s, stage in enumerate(stages) for t, tier in enumerate(stage.tiers) for item in tier}


@given(bundles(), st.randoms(use_true_random=False))
def test_the_plan_is_one_total_order_of_every_object(manifests: list[Manifest], rng: random.Random):
    stages = plan(manifests)
    shuffled = list(manifests)
    rng.shuffle(shuffled)
    assert plan(shuffled) == stages
    listed = [item for stage in stages for item in stage.ids]
    assert len(listed) == len(set(listed))
    assert set(listed) == {m.id for m in manifests}
    assert all(tier for stage in stages for tier in stage.tiers)
    order = [(stage.wave, stage.part == "objects") for stage in stages]
    assert order == sorted(set(order))


@given(bundles())
def test_the_plan_respects_waves_and_needs(manifests: list[Manifest]):
    stages = plan(manifests)
    at = places(stages)
    for m in manifests:
        stage = stages[at[m.id][0]]
        assert stage.wave == wave_of(m) if stage.part == "objects" else stage.wave <= wave_of(m)
        home = ObjectId("", "Namespace", "", m.id.namespace)
        if home in at:
            assert at[home][0] < at[m.id][0]
        crd = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "carts.shop.example.com")
        if m.id.kind == "Cart" and crd in at:
            assert at[crd][0] < at[m.id][0]
