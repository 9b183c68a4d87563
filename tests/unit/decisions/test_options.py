"""Labels and annotations as options. What is printed of mistakes: ``tests/golden/plan``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.inventory import ObjectMeta
from fleetbeat.decisions.option_keys import KNOWN, is_stranger, misspelt
from fleetbeat.decisions.options import COMPARE_OPTIONS, SYNC_OPTIONS, Options, read
from fleetbeat.decisions.pruning import keep_reason
from fleetbeat.model import Manifest, ObjectId, Origin

ARGO, FLUX = "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/"


def options(
    annotations: dict[str, Any] | None = None, labels: dict[str, Any] | None = None, group: str = ""
) -> Options:
    body = {"metadata": {"name": "x", "annotations": annotations or {}, "labels": labels or {}}}
    return read(Manifest(ObjectId(group, "ConfigMap", "shop", "x"), "v1", body, Origin("a.yaml", 2, 9)))


def test_nothing_asked_is_the_default():
    assert options({"example.com/note": "hello"}, {"app": "web"}) == Options()


@pytest.mark.parametrize(
    ("annotations", "field", "value"),
    [
        ({SYNC_OPTIONS: "Prune=false"}, "prune", "false"),
        ({SYNC_OPTIONS: "Prune=confirm"}, "prune", "confirm"),
        ({SYNC_OPTIONS: "Prune=true"}, "prune", "true"),
        ({SYNC_OPTIONS: "Delete=confirm"}, "delete", "confirm"),
        ({SYNC_OPTIONS: " , PruneLast=true, PruneLast=true,"}, "prune_last", True),
        ({SYNC_OPTIONS: "Validate=false"}, "validate", False),
        ({SYNC_OPTIONS: "SkipDryRunOnMissingResource=true"}, "skip_dry_run_on_missing_resource", True),
        ({SYNC_OPTIONS: "ApplyOutOfSyncOnly=true"}, "apply_out_of_sync_only", True),
        ({SYNC_OPTIONS: "Prune=false,Replace=true"}, "replace", True),
        ({SYNC_OPTIONS: "Force=true"}, "force", True),
        ({SYNC_OPTIONS: "ServerSideApply=false"}, "server_side_apply", False),
        ({SYNC_OPTIONS: "ClientSideApplyMigration=false"}, "client_side_apply_migration", False),
        ({COMPARE_OPTIONS: "IgnoreExtraneous"}, "ignore_extraneous", True),
        ({ARGO + "ignore-healthcheck": "true"}, "ignore_healthcheck", True),
        ({ARGO + "ignore-healthcheck": "false"}, "ignore_healthcheck", False),
        ({ARGO + "ignore-restart-policy": "true"}, "ignore_restart_policy", True),
        ({ARGO + "ignore-resource-updates": "false"}, "ignore_resource_updates", False),
        ({ARGO + "ignore-differences-json-pointers": "/spec/replicas, /a~1b"}, "ignore_json_pointers",
         ("/spec/replicas", "/a~1b")),
        ({FLUX + "reconcile": "Disabled"}, "reconcile", False),
        ({FLUX + "reconcile": "enabled"}, "reconcile", True),
        ({FLUX + "force": "enabled"}, "force", True),
        ({FLUX + "ssa": "ifnotpresent"}, "ssa", "IfNotPresent"),
        ({FLUX + "prune": "DISABLED"}, "keep", (FLUX + "prune: disabled",)),
        ({"helm.sh/resource-policy": " Keep "}, "keep", ("helm.sh/resource-policy: keep",)),
        ({"client.lifecycle.config.k8s.io/deletion": "detach"}, "keep",
         ("client.lifecycle.config.k8s.io/deletion: detach",)),
        ({"cli-utils.sigs.k8s.io/on-remove": "keep"}, "keep", ("cli-utils.sigs.k8s.io/on-remove: keep",)),
        ({"client.lifecycle.config.k8s.io/mutation": "ignore"}, "create_only", True),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_asked(annotations, field, value):
    found = options(annotations)
    assert getattr(found, field) == value
    assert found.problems == found.remarks == ()


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({SYNC_OPTIONS: "Validate=false"}, "annotation argocd.argoproj.io/sync-options: 'Validate=false'"),
        ({"config.kubernetes.io/apply-time-mutation": "x"}, "annotation config.kubernetes.io/apply-time-mutation:"),
        ({SYNC_OPTIONS: "Replace=true,Force=true"}, ""),
        ({COMPARE_OPTIONS: "IgnoreExtraneous"}, ""),
        ({FLUX + "ssa": "ignore"}, ""),
        ({"client.lifecycle.config.k8s.io/mutation": "ignore"}, ""),
        ({SYNC_OPTIONS: "ServerSideApply=true,PruneLast=true,ApplyOutOfSyncOnly=true"}, ""),
        ({FLUX + "ssa": "override", FLUX + "reconcile": "enabled"}, ""),
    ],
    ids=str,
)
def test_what_is_not_built_yet_is_said(annotations, said):
    idle = options(annotations).idle
    assert len(idle) == bool(said)
    assert all(said in text and text.endswith("has no effect in this version") for text in idle)


@pytest.mark.parametrize("where", ["annotations", "labels"])
@pytest.mark.parametrize("name", ["reconcile", "prune", "substitute", "decrypt"])
def test_flux_reads_labels_and_annotations(where, name):
    found = options(**{where: {FLUX + name: "Disabled"}})
    assert found.problems == ()
    assert found.reconcile == (name != "reconcile")
    assert bool(found.keep) == (name == "prune")


def test_of_label_and_annotation_the_one_that_asks_for_something_counts():
    assert options({FLUX + "ssa": "Override"}, {FLUX + "ssa": "Ignore"}).ssa == "Ignore"
    assert options({FLUX + "prune": "disabled"}, {FLUX + "prune": "enabled"}).keep != ()


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({SYNC_OPTIONS: "prune=false"}, "unknown option 'prune=false'. Did you mean Prune=false?"),
        ({SYNC_OPTIONS: "Prune"}, "'Prune' is not one of Prune=true, Prune=false, Prune=confirm"),
        ({SYNC_OPTIONS: "Prune=never"}, "'Prune=never' is not one of"),
        ({SYNC_OPTIONS: "Replace=confirm"}, "'Replace=confirm' is not one of Replace=false, Replace=true"),
        ({SYNC_OPTIONS: "Prune=false,Prune=confirm"}, "has both Prune=false and Prune=confirm"),
        ({COMPARE_OPTIONS: "ignoreExtraneous"}, "Did you mean IgnoreExtraneous?"),
        ({ARGO + "ignore-healthcheck": "yes"}, "must be true or false, not 'yes'"),
        ({ARGO + "ignore-healthcheck": "True"}, "must be true or false, not 'True'"),
        ({ARGO + "ignore-differences-json-pointers": "spec.replicas"}, "is no JSON pointer such as /spec/replicas"),
        ({ARGO + "ignore-differences-json-pointers": "/a~b"}, "is no JSON pointer"),
        ({FLUX + "prune": "false"}, "must be enabled or disabled, not 'false'"),
        ({FLUX + "prune": " disabled"}, "must be enabled or disabled, not ' disabled'"),
        ({FLUX + "ssa": "Never"}, "must be Override or Merge or IfNotPresent or Ignore, not 'Never'"),
        ({"helm.sh/resource-policy": "delete"}, "must be keep, not 'delete'"),
        ({"client.lifecycle.config.k8s.io/deletion": "Detach"}, "must be detach, not 'Detach'"),
        ({"config.kubernetes.io/local-config": "yes"}, "must be true or false, not 'yes'"),
        ({ARGO + "sync-wave": "one"}, "must be a whole number"),
        ({ARGO + "hook": "Presync"}, "Did you mean PreSync?"),
        ({"config.kubernetes.io/depends-on": "web"}, "neither group/Kind/name"),
        ({ARGO + "sync-wav": "1"}, "means nothing. Did you mean argocd.argoproj.io/sync-wave?"),
        ({"fleetbeat.dev/fence": "1"}, "annotation fleetbeat.dev/fence: Fleetbeat knows no such key on a manifest"),
    ],
    ids=str,
)
def test_what_cannot_be_read_is_a_problem_and_changes_nothing(annotations, words):
    found = options(annotations)
    [problem] = found.problems
    assert words in problem
    [key] = annotations
    assert problem.startswith(f"a.yaml, document 2 (line 9): ConfigMap shop/x: annotation {key}")
    assert (problem.file, problem.document, problem.object) == ("a.yaml", 2, "ConfigMap shop/x")
    assert found.keep == ()
    assert found.ignore_healthcheck is False


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        ({SYNC_OPTIONS: "Shiny=true"}, "unknown option 'Shiny=true'. Known: Prune, Delete,"),
        ({SYNC_OPTIONS: "CreateNamespace=true"}, "is an option of the application (spec.sync.options)"),
        ({COMPARE_OPTIONS: "ServerSideDiff=true"}, "belongs on an Argo CD Application"),
        ({ARGO + "brand-new": "x"}, "is not known to this version and does nothing"),
    ],
    ids=str,
)
def test_what_does_nothing_is_remarked(annotations, words):
    found = options(annotations)
    [remark] = found.remarks
    assert words in remark
    assert found.problems == ()


ANNOTATIONS_THAT_KEEP = [
    {SYNC_OPTIONS: "Validate=false, Prune=false"},
    {SYNC_OPTIONS: "Prune=confirm"},
    {FLUX + "prune": "Disabled"},
    {"helm.sh/resource-policy": " KEEP "},
    {"client.lifecycle.config.k8s.io/deletion": "detach"},
    {"cli-utils.sigs.k8s.io/on-remove": "keep"},
    {SYNC_OPTIONS: "Prune=true"},
    {FLUX + "prune": "enabled"},
    {},
]


@pytest.mark.parametrize("annotations", ANNOTATIONS_THAT_KEEP, ids=str)
def test_pruning_reads_the_marks_of_live_objects_alike(annotations):
    meta = ObjectMeta.of("", "ConfigMap", {"metadata": {"name": "x", "annotations": annotations}})
    found = options(annotations)
    assert found.problems == ()
    assert bool(keep_reason(meta)) == bool(found.keep or found.prune != "true")


def test_an_argo_cd_application_in_a_bundle_has_marks_of_its_own():
    marks = {COMPARE_OPTIONS: "ServerSideDiff=true", ARGO + "refresh": "hard", ARGO + "skip-reconcile": "true"}
    assert options(marks, group="argoproj.io") == Options()


def test_an_annotation_among_the_labels_is_a_problem():
    [problem] = options(labels={ARGO + "sync-wave": "1"}).problems
    assert problem.endswith("label argocd.argoproj.io/sync-wave does nothing as a label; make it an annotation")


# ── spelling ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("argocd.argoproj.io/syncwave", ARGO + "sync-wave"),
        ("argocd.argoproj.io/Sync-Wave", ARGO + "sync-wave"),
        ("argocd.argoproj.io/hook-deletion-policy", ARGO + "hook-delete-policy"),
        ("argocd.argoproj.com/hook", ARGO + "hook"),
        ("argoproj.io/sync-wave", ARGO + "sync-wave"),
        ("kustomize.toolkit.fluxcd.io/prun", FLUX + "prune"),
        ("config.kubernetes.io/depend-on", "config.kubernetes.io/depends-on"),
        ("helm.sh/hook-weigh", "helm.sh/hook-weight"),
        ("applyset.k8s.io/part-of", "applyset.kubernetes.io/part-of"),
    ],
)
def test_misspelt(key, meant):
    assert misspelt(key) == meant


@pytest.mark.parametrize(
    "key",
    [*KNOWN, "app", "app.kubernetes.io/name", "helm.sh/chart", "meta.helm.sh/release-name", "kluctl.io/hook",
     "werf.io/weight", "config.kubernetes.io/index", "kustomize.toolkit.fluxcd.io/checksum",
     "argocd-image-updater.argoproj.io/image-list", "link.argocd.argoproj.io/hook", "event.toolkit.fluxcd.io/name",
     "example.com/sync-wave", "argocd.argoproj.io/brand-new"],
)  # fmt: skip
def test_well_spelt(key):
    assert misspelt(key) == ""
    assert is_stranger(key) == (key == "argocd.argoproj.io/brand-new")


def test_the_page_tells_of_every_key():
    page = (Path(__file__).parents[3] / "docs" / "conventions.md").read_text()
    assert [key for key in KNOWN if key not in page] == []


ANY = st.one_of(st.text(max_size=8), st.none(), st.integers(), st.booleans())


@given(st.dictionaries(st.sampled_from([*KNOWN, "argocd.argoproj.io/x", "fleetbeat.dev/y"]), ANY))
def test_nothing_that_people_write_breaks_it(marks):
    """The shape of labels and annotations has been checked before, but live objects are read as well."""
    options(marks, marks)
