"""Taking over from earlier tools: whose fields become ours, which marks go, and what the next apply removes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleetbeat.decisions.fieldsets import text
from fleetbeat.decisions.migration import LAST_APPLIED, Takeover, takeover, tool_of

Body = dict[str, Any]


def entry(manager: str, *fields: str, operation: str = "Update", **more: str) -> Body:
    tree: Body = {}
    for field in fields:
        inner = tree
        for part in field.split("."):
            inner = inner.setdefault(f"f:{part}", {})
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsV1": tree, **more}


def live(*entries: Body, data: Body | None = None, **metadata: Any) -> Body:
    meta = {"name": "web", "uid": "u", "resourceVersion": "7", **metadata, "managedFields": list(entries)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data or {"a": "1", "b": "1"}}


def wanted(*keys: str, **metadata: Any) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "web", **metadata},
        "data": dict.fromkeys(keys, "1"),
    }


def fields(found: Takeover | None) -> dict[str, Body]:
    """``{"fleetbeat Apply": {...}}`` as the patch leaves them."""
    assert found is not None
    (value,) = [op["value"] for op in found.patch if op["path"] == "/metadata/managedFields"]
    return {f"{e['manager']} {e['operation']}": e["fieldsV1"] for e in value}


OURS = entry("fleetbeat", "data.a", "data.b", operation="Apply")


@pytest.mark.parametrize(
    "manager",
    ["kubectl-client-side-apply", "kubectl", "kubectl-create", "kubectl-edit", "before-first-apply"],
)
def test_fields_of_the_bundle_become_ours(manager: str):
    """Field case b1. What the bundle does not have stays with whom it is."""
    found = takeover(live(entry(manager, "data.a", "data.b")), wanted("a"))
    assert fields(found) == {"fleetbeat Apply": {"f:data": {"f:a": {}}}, f"{manager} Update": {"f:data": {"f:b": {}}}}
    assert found is not None
    assert found.managers == (manager,)
    assert found.released == ()


@pytest.mark.parametrize(
    ("named", "manager", "taken"),
    [
        ("my-tool", "my-tool", True),
        ("my-tool", "kubectl", True),
        ("my-tool", "my-tool-2", False),
        ("my-*", "my-tool", False),
        ("", "my-tool", False),
    ],
)
def test_one_more_manager_may_be_named(named: str, manager: str, taken: bool):
    """Argo CD's client-side-apply-migration-manager, a name and no glob."""
    found = takeover(live(entry(manager, "data.a")), wanted("a"), manager=named)
    assert (found.managers if found else ()) == ((manager,) if taken else ())


def test_what_we_have_had_is_taken_so_that_it_goes():
    found = takeover(live(OURS, entry("kubectl", "data.a", "data.b", operation="Apply")), wanted("a"))
    assert fields(found) == {"fleetbeat Apply": {"f:data": {"f:a": {}, "f:b": {}}}}
    assert found is not None
    assert [text(steps) for steps in found.released] == ["data.b"]


def test_what_somebody_else_holds_too_does_not_go():
    others = [entry("kubectl", "data.b"), entry("operator", "data.b")]
    found = takeover(live(OURS, *others), wanted("a"))
    assert found is not None
    assert found.released == ()


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(entry("operator", "data.a"), id="an operator"),
        pytest.param(entry("argocd-controller", "data.a"), id="a tool nobody asked to adopt from"),
        pytest.param(entry("kubectl", "data.a", subresource="scale"), id="a subresource"),
        pytest.param(entry("kubectl", "data.a", apiVersion="v2"), id="another version: another shape"),
        pytest.param(entry("kubectl-edit", "data.c"), id="a field that is neither in the bundle nor ours"),
    ],
)
def test_nothing_to_do(other: Body):
    assert takeover(live(OURS, other), wanted("a", "b")) is None


def test_what_the_apply_takes_by_force_needs_no_write_before_it():
    """``kubectl edit`` of one field: healing it is read, dry-run, apply. Anything more it holds is still taken over."""
    edited, forced = entry("kubectl-edit", "data.a"), [("f:data", "f:a")]
    assert takeover(live(OURS, edited), wanted("a", "b"), forced=forced) is None
    copied = live(OURS, edited, annotations={LAST_APPLIED: "{}"})
    for more in (copied, live(OURS, entry("kubectl-edit", "data.a", "data.b"))):
        assert fields(takeover(more, wanted("a", "b"), forced=forced)).keys() == {"fleetbeat Apply"}
    replaced = live(OURS, entry("fleetbeat", "data.a"))
    assert takeover(replaced, wanted("a", "b"), forced=forced) is not None


def test_everybody_keeps_what_he_has_when_asked_to():
    body = live(OURS, entry("kubectl", "data.a"), annotations={LAST_APPLIED: "{}"})
    assert takeover(body, wanted("a", "b"), keep=True) is None


def test_a_second_time_there_is_nothing_left():
    body = live(entry("kubectl-client-side-apply", "data.a"), annotations={LAST_APPLIED: "{}"})
    found = takeover(body, wanted("a"))
    assert found is not None
    after = copy.deepcopy(body)
    after["metadata"] |= {"managedFields": next(op["value"] for op in found.patch if "managed" in op["path"])}
    del after["metadata"]["annotations"]
    assert takeover(after, wanted("a")) is None


def test_the_patch_names_the_object_it_was_decided_on():
    found = takeover(live(entry("kubectl", "data.a")), wanted("a"))
    assert found is not None
    assert found.patch[:2] == (
        {"op": "replace", "path": "/metadata/uid", "value": "u"},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
    )


def test_kubectls_copy_goes_and_leaves_no_empty_entry():
    body = live(
        entry("kubectl-client-side-apply", "data.a", f"metadata.annotations.{LAST_APPLIED}".replace(LAST_APPLIED, "x")),
        annotations={LAST_APPLIED: "{}"},
    )
    body["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"] = {
        "f:annotations": {".": {}, f"f:{LAST_APPLIED}": {}}
    }
    found = takeover(body, wanted("a"))
    assert found is not None
    removed = {"op": "remove", "path": "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"}
    assert removed in found.patch
    assert fields(found) == {"fleetbeat Apply": {"f:data": {"f:a": {}}}}
    assert found.reason == "takes over from kubectl-client-side-apply"


def test_what_is_given_up_is_neither_taken_nor_removed():
    """An ignored field that kubectl holds as well."""
    body = live(OURS, entry("kubectl", "data.a", "data.b"))
    found = takeover(body, wanted("a"), given_up=[("f:data", "f:b")])
    assert found is not None
    assert found.released == ()
    assert fields(found)["kubectl Update"] == {"f:data": {"f:b": {}}}


def test_what_a_replace_wrote_is_ours_as_a_whole():
    found = takeover(live(OURS, entry("fleetbeat", "data.b", "data.c")), wanted("a"))
    assert found is not None
    assert found.managers == ()
    assert [text(steps) for steps in found.released] == ["data.b"]
    assert set(fields(found)) == {"fleetbeat Apply"}


def test_marks_of_an_adopted_tool_go():
    labels = {"kustomize.toolkit.fluxcd.io/name": "shop", "kustomize.toolkit.fluxcd.io/namespace": "flux", "team": "a"}
    body = live(entry("kustomize-controller", "data.a", operation="Apply"), labels=labels)
    found = takeover(body, wanted("a", labels={"team": "a"}), adopt=["flux"])
    assert found is not None
    assert [op["path"] for op in found.patch if op["op"] == "remove"] == [
        "/metadata/labels/kustomize.toolkit.fluxcd.io~1name",
        "/metadata/labels/kustomize.toolkit.fluxcd.io~1namespace",
    ]
    assert found.reason.startswith("takes over from kustomize-controller, removes kustomize.toolkit.fluxcd.io/name")


def test_a_mark_that_the_bundle_has_stays():
    helm = {"app.kubernetes.io/managed-by": "Helm"}
    body = live(entry("helm", "data.a"), labels=helm, annotations={"meta.helm.sh/release-name": "shop"})
    found = takeover(body, wanted("a", labels=helm), adopt=["helm"])
    assert found is not None
    assert found.marks == ("meta.helm.sh/release-name",)


@pytest.mark.parametrize(
    ("owner", "word"),
    [
        ("Argo CD application", "argocd"),
        ("Flux Kustomization", "flux"),
        ("Flux HelmRelease", "flux"),
        ("Helm release", "helm"),
        ("kapp application", "kapp"),
        ("cli-utils inventory", "cli-utils"),
        ("ApplySet", ""),
        ("Fleetbeat application", ""),
    ],
)
def test_who_can_be_adopted(owner: str, word: str):
    """Another application of ours never: two catalogs would take it from each other for ever."""
    assert tool_of(owner) == word
