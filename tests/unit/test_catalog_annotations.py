"""Labels and annotations of catalog documents: nothing that somebody meant something by is passed over."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.catalog import parse_application, parse_cluster, parse_project
from fleetbeat.decisions.option_keys import KNOWN
from fleetbeat.errors import CatalogError

A = "argocd.argoproj.io/"
FLUX = "kustomize.toolkit.fluxcd.io/"
Document = dict[str, Any]
SPECS = {
    "Application": {"source": {"oci": "registry.example.com/shop"}, "destination": {"cluster": "prod"}},
    "Cluster": {"inCluster": True},
    "Project": {},
}
PARSE = {"Application": parse_application, "Cluster": parse_cluster, "Project": parse_project}


def problems(kind: str, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> list[str]:
    """Each without the beginning that says where the document stands."""
    document = {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": "shop", "annotations": annotations or {}, "labels": labels or {}},
        "spec": SPECS[kind],
    }
    try:
        PARSE[kind](document, "shop.yaml")
    except CatalogError as error:
        told = error.problems
    else:
        return []
    start = f"shop.yaml, {kind} shop: "
    assert all(problem.startswith(start) for problem in told)
    return [problem.removeprefix(start) for problem in told]


@pytest.mark.parametrize(
    ("annotations", "labels"),
    [
        ({"note": "x", "example.com/owner": "web"}, {"team": "web", "app.kubernetes.io/name": "shop"}),
        ({f"{A}skip-reconcile": "true"}, {}),
        ({f"{A}deletion-approved": "2026-11-30T12:00:00Z"}, {}),
        ({f"{A}refresh": "normal"}, {}),
        ({f"{A}refresh": "hard", f"{A}refresh-timestamp": "2026-11-30T12:00:00.123456789Z"}, {}),
        ({f"{A}compare-options": "ServerSideDiff=true, IncludeMutationWebhook=true"}, {}),
        ({f"{A}client-side-apply-migration-manager": "my-tool"}, {}),
        ({"reconcile.fluxcd.io/requestedAt": "1", "reconcile.fluxcd.io/forceAt": "1"}, {}),
        ({f"{A}manifest-generate-paths": ".", "link.argocd.argoproj.io/x": "https://x", f"{A}hydrate": "normal"}, {}),
        ({"notice.argocd.argoproj.io/content": "x", "pref.argocd.argoproj.io/default-view": "tree"}, {}),
        ({"config.kubernetes.io/origin": "path: x", "config.kubernetes.io/local-config": "true"}, {}),
        ({"meta.helm.sh/release-name": "x"}, {"helm.sh/chart": "apps-1"}),
        ({"fleetbeat.dev/self-heal": "disabled", "fleetbeat.dev/self-heal-until": "2026-11-30T12:00:00Z"}, {}),
    ],
    ids=str,
)
def test_what_counts_or_is_for_others_is_accepted(annotations: dict[str, str], labels: dict[str, str]) -> None:
    assert problems("Application", annotations, labels) == []


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        (
            "compare-options",
            "ServerSideDif=true",
            'unknown option "ServerSideDif=true". Did you mean ServerSideDiff=true?',
        ),
        ("compare-options", "ServerSideDiff=false", "ServerSideDiff=false cannot be: everything is compared by"),
        ("compare-options", "IgnoreExtraneous", "IgnoreExtraneous is for single objects of a bundle"),
        ("compare-options", "x", 'unknown option "x". Known: ServerSideDiff=true, IncludeMutationWebhook=true'),
        ("sync-options", "Prune=maybe", "is for single objects of a bundle and does nothing on an Application of the"),
        ("sync-options", "Prune=false", "catalog. options of an application stand in spec.sync.options"),
        ("deletion-approvd", "2026-11-30T12:00:00Z", f"means nothing. Did you mean {A}deletion-approved?"),
        ("deletion-approved", "yesterday", "must be an RFC 3339 time such as 2026-11-30T12:00:00Z, not"),
        ("refresh", "soft", 'must be "normal" or "hard", not "soft"'),
        ("refresh", "", 'must be "normal" or "hard", not ""'),
        ("refresh-timestamp", "now", "must be an RFC 3339 time such as"),
        ("client-side-apply-migration-manager", "", "must be the name of a field manager, at most 128 characters"),
        ("client-side-apply-migration-manager", "x" * 129, "must be the name of a field manager"),
        ("client-side-apply-migration-manager", "a\nb", "must be the name of a field manager"),
        ("skip-reconcile", "yes", 'must be "true" or "false", not "yes"'),
        (
            "sync-wave",
            "1",
            "does nothing on an Application of the catalog. spec.dependsOn says which applications come",
        ),
        ("tracking-id", "a:b/C:d/e", "is for single objects of a bundle and does nothing on an Application of the"),
        ("installation-id", "east", "is for single objects of a bundle"),
        (
            "ignore-healthcheck",
            "true",
            "is for single objects of a bundle and does nothing on an Application of the catalog.",
        ),
        ("something-of-later", "x", "is not known to this version and would do nothing. Remove it"),
    ],
)
def test_argo_cds_annotations_that_say_nothing_are_problems(key: str, value: str, expected: str) -> None:
    (told,) = problems("Application", {f"{A}{key}": value})
    assert told.startswith(f"metadata.annotations.{A}{key}: ")
    assert expected in told


@pytest.mark.parametrize(
    ("annotations", "labels", "expected"),
    [
        ({f"{FLUX}reconcile": "disabled"}, {}, "spec.suspend: true leaves an application alone"),
        ({}, {f"{FLUX}prune": "disabled"}, "spec.sync.options: [Prune=false, Delete=false] keeps what"),
        ({"helm.sh/resource-policy": "keep"}, {}, "spec.sync.options: [Prune=false, Delete=false] keeps what"),
        ({"config.kubernetes.io/depends-on": "x"}, {}, "spec.dependsOn says which applications come first"),
        ({"reconcile.fluxcd.io/forceAt": "1"}, {}, "does nothing without reconcile.fluxcd.io/requestedAt of the same"),
        ({"argocd.argproj.io/refresh": "hard"}, {}, f"means nothing. Did you mean {A}refresh?"),
        ({}, {f"{A}refresh": "hard"}, "does nothing as a label; make it an annotation"),
        ({}, {"fleetbeat.dev/self-heal": "disabled"}, "does nothing as a label; make it an annotation"),
        ({"fleetbeat.dev/self-heel": "disabled"}, {}, "unknown annotation. Did you mean fleetbeat.dev/self-heal?"),
        ({"fleetbeat.dev/self-heal": "off"}, {}, "must be disabled or enabled"),
        ({"\x1b[2Jfleetbeat.dev/x": "1", "fleetbeat.dev/\x1b[2J": "1"}, {}, "unknown annotation."),
    ],
)
def test_other_keys_that_say_nothing_are_problems(
    annotations: dict[str, str], labels: dict[str, str], expected: str
) -> None:
    (told,) = problems("Application", annotations, labels)
    assert expected in told
    assert told.isprintable()


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *(("Cluster", key) for key in (f"{A}refresh", "fleetbeat.dev/self-heal", f"{A}sync-wave")),
        *(
            ("Project", key)
            for key in (f"{A}skip-reconcile", f"{A}refresh", "fleetbeat.dev/self-heal", f"{A}sync-wave")
        ),
    ],
)
def test_on_other_kinds_none_counts(kind: str, key: str) -> None:
    (told,) = problems(kind, {key: "true"})
    assert told.startswith(f"metadata.annotations.{key}: ")
    assert problems(kind, {"note": "x"}, {"team": "web"}) == []


def test_a_cluster_may_be_suspended() -> None:
    assert problems("Cluster", {f"{A}skip-reconcile": "true"}) == []
    (told,) = problems("Cluster", {f"{A}skip-reconcil": "true"})
    assert told.endswith(f"means nothing. Did you mean {A}skip-reconcile?")


@pytest.mark.parametrize("key", [key for key, place in KNOWN.items() if key.startswith(A) and place == "annotation"])
def test_no_key_of_argo_cd_is_passed_over_in_silence(key: str) -> None:
    """A value that nobody can mean: what counts is checked, what does not is told; the rest is for Argo CD alone."""
    let_pass = {"manifest-generate-paths", "managed-by-url", "ignore-default-links", "hydrate", "hydrate-timestamp"}
    let_pass.add("application-set-refresh")
    assert bool(problems("Application", {key: "\x00"})) is (key.removeprefix(A) not in let_pass)
