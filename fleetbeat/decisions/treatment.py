"""How one object is written: applied, replaced, only created, or left alone, as its marks and the application say.

The bundle's object and the live one are both asked (as Flux does, and Argo CD for Replace and Force): a person can put
a mark on the live object to stop a sync from touching it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fleetbeat.model import Body, ObjectId, SyncPolicy

_FLUX = "kustomize.toolkit.fluxcd.io/"
_SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
_MUTATION = "client.lifecycle.config.k8s.io/mutation"

#: Recreating one of these deletes what is in it or behind it: an option of the whole application does not reach them.
PRECIOUS = frozenset(
    {"Namespace", "CustomResourceDefinition.apiextensions.k8s.io", "PersistentVolumeClaim", "PersistentVolume"}
)

#: "merge" = apply, and leave to other managers what they hold; "create" = only when it is not there
Mode = Literal["apply", "merge", "create", "leave"]


@dataclass(frozen=True)
class Treatment:
    mode: Mode = "apply"
    why: str = ""  #: the mark that asks for another mode than "apply", ``key: value``
    replace: bool = False  #: an existing object is written by PUT
    force: bool = False  #: deleted and created where a field cannot be changed
    migrate: bool = True  #: fields of client-side applies become ours


def treatment(wanted: Body, live: Body | None, key: ObjectId, sync: SyncPolicy) -> Treatment:
    """``live``: the object or its metadata alone; None when it is not there or not known yet."""
    sides = [body for body in (wanted, live) if body is not None]
    mode, why = _mode(sides)
    app_wide = key.group_kind not in PRECIOUS
    forced = any(_mark(body, f"{_FLUX}force") == "enabled" for body in sides)
    return Treatment(
        mode,
        why,
        replace=_option("Replace", sides, app_wide and sync.replace),
        force=forced or _option("Force", sides, app_wide and sync.force),
        migrate=_option("ClientSideApplyMigration", sides, sync.migrate),
    )


def _mode(sides: list[Body]) -> tuple[Mode, str]:
    for body in sides:
        if _mark(body, f"{_FLUX}reconcile") == "disabled":
            return "leave", f"{_FLUX}reconcile: disabled"
    words = [_mark(body, f"{_FLUX}ssa") for body in sides]
    if "ignore" in words:
        return "leave", f"{_FLUX}ssa: Ignore"
    if "ifnotpresent" in words:
        return "create", f"{_FLUX}ssa: IfNotPresent"
    if any(_annotations(body).get(_MUTATION) == "ignore" for body in sides):
        return "create", f"{_MUTATION}: ignore"
    if "merge" in words:
        return "merge", f"{_FLUX}ssa: Merge"
    return "apply", ""


def _mark(body: Body, key: str) -> str:
    """Label or annotation, in any case."""
    labels = (body.get("metadata") or {}).get("labels") or {}
    return str(_annotations(body).get(key) or labels.get(key) or "").casefold()


def _option(name: str, sides: list[Body], default: bool) -> bool:
    """The object's word counts before the application's; true on either side is enough."""
    options = {
        item.strip() for body in sides for item in str(_annotations(body).get(_SYNC_OPTIONS) or "").split(",") if item
    }
    if f"{name}=true" in options:
        return True
    return default and f"{name}=false" not in options


def ignores_extraneous(live: Body) -> bool:
    """``compare-options: IgnoreExtraneous``: an object that is no longer in the bundle and stays is no difference."""
    options = str(_annotations(live).get("argocd.argoproj.io/compare-options") or "")
    return "IgnoreExtraneous" in [item.strip() for item in options.split(",")]


def _annotations(body: Body) -> Mapping[str, Any]:
    return (body.get("metadata") or {}).get("annotations") or {}


#: How API servers, admission and CRDs' own rules (CEL) say that a field cannot be changed. Tried on 1.36.
_IMMUTABLE = re.compile(
    r"\bimmutable\b|may not (be )?changed?\b|cannot be changed|can ?not change|"
    r"updates to \w+ spec for fields other than|may not change once set|"
    r"can ?not be less than (status\.capacity|previous value)",  # a claim's volume does not shrink
    re.IGNORECASE,
)


def is_immutable(message: str) -> bool:
    """Does a refusal mean that a field of an existing object cannot be changed?"""
    return _IMMUTABLE.search(message) is not None


def replacement(wanted: Body, live: Body) -> Body:
    """What a replace (PUT) sends: the manifest in the place of the live object, by its uid and resourceVersion.

    Finalizers, owners and status are others' and stay: a PUT without finalizers would end a deletion half-way, one
    without status would empty it where it is no subresource (field case b9).
    """
    there: Body = live.get("metadata") or {}
    metadata = dict(wanted["metadata"])
    for name in ("uid", "resourceVersion"):
        metadata[name] = there.get(name)
    for name in ("finalizers", "ownerReferences"):
        if name not in metadata and there.get(name):
            metadata[name] = there[name]
    body = {**wanted, "metadata": metadata}
    if "status" in live:
        body["status"] = live["status"]
    return body
