"""The labels and annotations of a catalog document: what counts, what is let pass, and what somebody meant in vain.

The same keys as on objects of a bundle (``decisions/option_keys.py``), in the meaning that docs/conventions.md gives
them on an Argo CD Application. A catalog has nobody to tell a remark to, so whatever would do nothing is a problem,
with what to write instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fleetbeat.catalog_fields import Fields, shown, shown_key
from fleetbeat.decisions import confirmation, migration, self_heal
from fleetbeat.decisions.hooks import items
from fleetbeat.decisions.option_keys import KNOWN, OURS, is_stranger, misspelt
from fleetbeat.decisions.options import COMPARE_OPTIONS, SYNC_OPTIONS
from fleetbeat.decisions.problems import did_you_mean

_ARGO = "argocd.argoproj.io/"
_FLUX = "kustomize.toolkit.fluxcd.io/"
SKIP_RECONCILE = f"{_ARGO}skip-reconcile"  #: "true" suspends

_ORDER = "spec.dependsOn says which applications come first"
_KEEP = "spec.sync.options: [Prune=false, Delete=false] keeps what an application has"
#: Keys that are about one object, and what says it of a whole application.
_INSTEAD = {
    SYNC_OPTIONS: "options of an application stand in spec.sync.options",
    f"{_ARGO}sync-wave": _ORDER,
    "config.kubernetes.io/depends-on": _ORDER,
    f"{_ARGO}ignore-differences-json-pointers": "spec.ignoreDifferences says it for an application",
    f"{_FLUX}reconcile": "spec.suspend: true leaves an application alone",
    f"{_FLUX}prune": _KEEP,
    f"{_FLUX}force": "spec.sync.options: [Force=true] says it for an application",
    "helm.sh/resource-policy": _KEEP,
    "client.lifecycle.config.k8s.io/deletion": _KEEP,
    "cli-utils.sigs.k8s.io/on-remove": _KEEP,
}
#: Known, and nothing that an application would be synced otherwise for: user interfaces, Git, other controllers, what
#: tools write down about the file.
_LET_PASS = {
    *(f"{_ARGO}{name}" for name in ("manifest-generate-paths", "managed-by-url", "ignore-default-links")),
    *(f"{_ARGO}{name}" for name in ("hydrate", "hydrate-timestamp", "application-set-refresh")),
    *(key for key in KNOWN if key.startswith(("applyset.kubernetes.io/", "sharding.fluxcd.io/"))),
    *("config.kubernetes.io/origin", "config.kubernetes.io/local-config", "config.k8s.io/owning-inventory"),
    *("reconcile.fluxcd.io/requestedAt", "reconcile.fluxcd.io/watch"),
}
_COMPARING = ("ServerSideDiff=true", "IncludeMutationWebhook=true")  #: always so


def check(top: Fields, kind: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> None:
    """Every problem of a document's ``metadata.labels`` and ``metadata.annotations``. ``kind``: of the document."""
    of_ours = self_heal.KEYS if kind == "Application" else ()
    counts = {key: rule for key, rule in _COUNTS.items() if kind == "Application" or key in _ALSO_ON.get(kind, ())}
    for where, marks in (("labels", labels), ("annotations", annotations)):
        for key, value in marks.items():
            at = f"metadata.{where}.{shown_key(key)}"
            if key.startswith(OURS) and key not in of_ours:
                top.problem(at, f"unknown {where[:-1]}.{did_you_mean(key, of_ours)}")
            elif meant := misspelt(key):
                top.problem(at, f"means nothing. Did you mean {meant}?")
            elif is_stranger(key):
                top.problem(at, "is not known to this version and would do nothing. Remove it")
            elif where == "labels" and (key in of_ours or KNOWN.get(key) == "annotation"):
                top.problem(at, "does nothing as a label; make it an annotation")
            elif where == "annotations" and key in counts:
                if wrong := counts[key](value, annotations):
                    top.problem(at, wrong)
            elif KNOWN.get(key) in _OF_OBJECTS[where] and key not in _LET_PASS:
                top.problem(at, f"is for {_whom(key)} and does nothing on {_A[kind]}. {_instead(key, kind)}")
    if kind == "Application":
        for key, wrong in self_heal.read(annotations).problems:
            top.problem(f"metadata.annotations.{key}", wrong)


#: Where a key has to stand in ``KNOWN`` for somebody to mean something by it as a label, or as an annotation.
_OF_OBJECTS = {"labels": ("either",), "annotations": ("annotation", "either")}
_A = {"Application": "an Application of the catalog", "Cluster": "a Cluster", "Project": "a Project"}


def _whom(key: str) -> str:
    return "an Application" if key in _COUNTS else "single objects of a bundle"


def _instead(key: str, kind: str) -> str:
    return _INSTEAD.get(key, "Remove it") if kind == "Application" else "Remove it"


def _comparing(value: str, _annotations: Mapping[str, str]) -> str:
    for item in items(value):
        if item == "ServerSideDiff=false":
            return "ServerSideDiff=false cannot be: everything is compared by server-side dry-run. Remove it"
        if item == "IgnoreExtraneous":
            return "IgnoreExtraneous is for single objects of a bundle and does nothing on an Application. Remove it"
        if item not in _COMPARING:
            near = did_you_mean(item, _COMPARING) or f" Known: {', '.join(_COMPARING)}"
            return f"unknown option {shown(item)}.{near}"
    return ""


def _one_of(*words: str) -> Callable[[str, Mapping[str, str]], str]:
    form = " or ".join(f'"{word}"' for word in words)
    return lambda value, _annotations: "" if value in words else f"must be {form}, not {shown(value)}"


def _time(value: str, _annotations: Mapping[str, str]) -> str:
    good = confirmation.approval(value) is not None
    return "" if good else f"must be {confirmation.TIME_FORM}, not {shown(value)}"


def _manager(value: str, _annotations: Mapping[str, str]) -> str:
    good = value.isprintable() and 0 < len(value) <= migration.LONGEST_MANAGER
    form = f"the name of a field manager, at most {migration.LONGEST_MANAGER} characters"
    return "" if good else f"must be {form}, not {shown(value)}"


def _as_requested(value: str, annotations: Mapping[str, str]) -> str:
    """Flux takes these two only together with the request they are about."""
    key = "reconcile.fluxcd.io/requestedAt"
    return "" if annotations.get(key) == value else f"does nothing without {key} of the same value"


#: Annotations that count on an application → what is wrong with the value, given all annotations; "" = nothing.
_COUNTS: Mapping[str, Callable[[str, Mapping[str, str]], str]] = {
    SKIP_RECONCILE: _one_of("true", "false"),
    COMPARE_OPTIONS: _comparing,
    confirmation.DELETION_APPROVED: _time,
    migration.MANAGER: _manager,
    # An edit of the document is what begins a run; left standing they mean nothing more.
    f"{_ARGO}refresh": _one_of("normal", "hard"),
    f"{_ARGO}refresh-timestamp": _time,
    "reconcile.fluxcd.io/forceAt": _as_requested,
    "reconcile.fluxcd.io/resetAt": _as_requested,
}
#: Those of them that another kind may have too.
_ALSO_ON = {"Cluster": (SKIP_RECONCILE,)}
