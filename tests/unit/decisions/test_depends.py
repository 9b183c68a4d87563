"""Dependencies between objects: the annotation, levels, rings. Plans with dependencies: ``tests/golden/plan``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.depends import DEPENDS_ON, absent, cycles, find, knotted, levels, read, told, written
from fleetbeat.decisions.waves import arrange, plan
from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId, Origin

WEB = ObjectId("apps", "Deployment", "shop", "web")
SETTINGS = ObjectId("", "ConfigMap", "shop", "settings")
SHOP = ObjectId("", "Namespace", "", "shop")
READER = ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", "system:reader")


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("apps/namespaces/shop/Deployment/web", [WEB]),
        ("/namespaces/shop/ConfigMap/settings", [SETTINGS]),
        ("/Namespace/shop", [SHOP]),
        ("rbac.authorization.k8s.io/ClusterRole/system:reader", [READER]),
        (" /Namespace/shop , apps/namespaces/shop/Deployment/web ,/Namespace/shop", [SHOP, WEB]),
    ],
)
def test_read(text, objects):
    assert read(text) == (tuple(objects), [])
    assert read(",".join(written(obj) for obj in objects)) == (tuple(objects), [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ConfigMap/settings",
        "v1/ConfigMap/shop/settings",
        "apps/namespace/shop/Deployment/web",
        "//web",
        "/ConfigMap/",
        "/namespaces//ConfigMap/x",
        "/Namespace/shop,",
    ],
)
def test_what_cannot_be_read_is_told(text):
    _, [problem] = read(text)
    assert problem.startswith(f"annotation {DEPENDS_ON}: ")
    assert "neither group/Kind/name nor" in problem


def test_a_namespace_that_a_kind_does_not_have_is_no_matter():
    assert find(SHOP._replace(namespace="shop"), {SHOP}) == SHOP
    assert find(WEB._replace(namespace=""), {WEB}) is None


def test_the_nearest_object_is_named():
    said = absent(SETTINGS._replace(name="setings"), [WEB, SETTINGS])
    assert said.endswith("is not in the bundle. Did you mean /namespaces/shop/ConfigMap/settings?")


def graph(**needs: str) -> dict[ObjectId, list[ObjectId]]:
    """``a="b c"``: a needs b and c."""
    return {named(name): [named(need) for need in text.split()] for name, text in needs.items()}


def named(name: str) -> ObjectId:
    return ObjectId("", "ConfigMap", "n", name)


@pytest.mark.parametrize(
    ("edges", "rings"),
    [
        (graph(a="b", b="c", c=""), []),
        (graph(a="a"), ["a"]),
        (graph(a="b", b="a"), ["a b"]),
        (graph(c="a", a="b", b="c", d="a"), ["a b c"]),
        (graph(a="b", b="a", x="y", y="x a"), ["a b", "x y"]),
        (graph(d="x", x="y", y="z", z="x"), ["x y z"]),
    ],
    ids=["none", "itself", "two", "three with a follower", "two rings", "not where the walk begins"],
)
def test_rings(edges, rings):
    assert [" ".join(obj.name for obj in ring) for ring in cycles(edges)] == rings


def test_a_ring_is_printed_as_one():
    assert told(cycles(graph(b="a", a="b"))[0]) == "ConfigMap n/a → ConfigMap n/b → ConfigMap n/a"


def test_levels_count_only_what_is_inside():
    edges = graph(a="b elsewhere", b="c", c="", d="c", elsewhere="far", far="")
    inside = [named(name) for name in "abcd"]
    assert {obj.name: level for obj, level in levels(inside, edges).items()} == {"a": 2, "b": 1, "c": 0, "d": 1}


def test_a_long_chain_takes_no_time():
    """A bundle is somebody else's input: ten thousand objects in a row, then in a ring."""
    chain = {named(str(n)): [named(str(n + 1))] for n in range(9_999)} | {named("9999"): []}
    assert max(levels(chain, chain).values()) == 9_999
    chain[named("9999")] = [named("0")]
    [ring] = cycles(chain)
    assert len(ring) == 10_000
    assert told(ring).endswith(" → … → ConfigMap n/0 (10000 objects)")
    assert len(told(ring)) < 300


NAMES = st.sampled_from("abcdefgh")
GRAPHS = st.dictionaries(NAMES, st.frozensets(NAMES))


@given(GRAPHS)
def test_either_there_are_levels_or_a_ring(needs):
    edges = {named(n): {named(x) for x in wants if x in needs} for n, wants in needs.items()}
    stuck, rings = knotted(edges), cycles(edges)
    assert bool(stuck) == bool(rings)
    for ring in rings:
        assert all(following in edges[obj] for obj, following in zip(ring, (*ring[1:], ring[0]), strict=True))
    free = [obj for obj in edges if obj not in stuck]
    found = levels(free, edges)
    assert set(found) == set(free)
    assert all(found[obj] > found[need] for obj in free for need in edges[obj])


def manifest(name: str, needs: str, wave: int) -> Manifest:
    annotations = {"argocd.argoproj.io/sync-wave": str(wave)}
    if needs:
        annotations[DEPENDS_ON] = ",".join(written(named(need)) for need in needs)
    body = {"metadata": {"name": name, "namespace": "n", "annotations": annotations}}
    return Manifest(named(name), "v1", body, Origin("a.yaml", 1, 1))


@given(st.dictionaries(NAMES, st.tuples(st.frozensets(NAMES), st.integers(-1, 1)), min_size=1))
def test_a_plan_has_every_need_in_an_earlier_stage(objects):
    """Or it is no plan: whatever cannot be met is an error."""
    manifests = [manifest(name, "".join(sorted(needs)), wave) for name, (needs, wave) in objects.items()]
    try:
        stages = plan(manifests)
    except ManifestError:
        assert arrange(manifests).problems
        return
    at = {obj: number for number, stage in enumerate(stages) for obj in stage.ids}
    assert len(at) == len(manifests)
    for name, (needs, wave) in objects.items():
        assert stages[at[named(name)]].wave == wave
        assert all(at[named(need)] < at[named(name)] for need in needs)
