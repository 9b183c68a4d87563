"""What an application owns in a cluster (ApplySet, KEP-3659 as kubectl ships it), and what of it may be deleted.

Members carry the label ``PART_OF`` with the id of their parent, a ConfigMap per application. The parent's annotations
list the kinds and namespaces where members may be, so that finding them needs no list of objects.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetbeat.model import Body, ObjectId

PART_OF = "applyset.kubernetes.io/part-of"  #: label of a member
ID = "applyset.kubernetes.io/id"  #: label of the parent
TOOLING = "applyset.kubernetes.io/tooling"  #: annotation of the parent: "<tool>/<version>"
CONTAINS_GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"  #: annotation of the parent: CSV of Kind.group
ADDITIONAL_NAMESPACES = "applyset.kubernetes.io/additional-namespaces"  #: annotation of the parent: CSV
FIELD_MANAGER = "fleetbeat"

_MAX_NAME = 253
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────


def applyset_id(name: str, namespace: str, kind: str = "ConfigMap", group: str = "") -> str:
    """The id of the ApplySet with this parent object, always a valid label value of 55 characters."""
    digest = hashlib.sha256(f"{name}.{namespace}.{kind}.{group}".encode()).digest()
    return f"applyset-{base64.urlsafe_b64encode(digest).decode().rstrip('=')}-v1"


def parent_name(app: str) -> str:
    """Name of the application's parent ConfigMap: valid, at most 253 characters, different for different applications.

    ``app-<name>``; a name too long or not allowed in Kubernetes becomes ``hashed-<beginning>-<hash>``. The two
    prefixes keep apart what is written from what is hashed, and both from ConfigMaps that Kubernetes itself puts into
    every namespace (field case d12).
    """
    plain = f"app-{app}"
    if len(plain) <= _MAX_NAME and _SUBDOMAIN.fullmatch(app):
        return plain
    digest = hashlib.sha256(app.encode()).hexdigest()[:32]
    beginning = re.sub(r"[^a-z0-9]+", "-", app.lower())[:80].strip("-") or "x"
    return f"hashed-{beginning}-{digest}"


def group_kinds(ids: Iterable[ObjectId]) -> frozenset[str]:
    """``Kind.group`` of each, ``Kind`` alone for the core group."""
    return frozenset(obj.group_kind for obj in ids)


def namespaces(ids: Iterable[ObjectId]) -> frozenset[str]:
    """Namespaces the objects live in; cluster-scoped ones have none."""
    return frozenset(obj.namespace for obj in ids if obj.namespace)


def parse_group_kinds(csv: str) -> frozenset[str]:
    """The value of ``CONTAINS_GROUP_KINDS`` (or of ``ADDITIONAL_NAMESPACES``): blanks and empty items are dropped."""
    return frozenset(item for item in (part.strip() for part in csv.split(",")) if item)


def format_group_kinds(items: Iterable[str]) -> str:
    """The annotation's value: sorted, so that it changes only when the set does."""
    return ",".join(sorted(items))


def split_group_kind(text: str) -> tuple[str, str]:
    """``Deployment.apps`` → ``("apps", "Deployment")``, ``Secret`` → ``("", "Secret")``."""
    kind, _, group = text.partition(".")
    return group, kind


# ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ObjectMeta:
    """What a metadata-only list says of one object."""

    id: ObjectId
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    controller: str  #: "Kind name" of the owner reference marked as controller, "" without one
    deleting: bool
    written: bool  #: the API server recorded that our field manager applied the membership label itself

    @classmethod
    def of(cls, group: str, kind: str, body: Body) -> ObjectMeta:
        """From a list item. Group and kind are the list's, because items of a metadata-only list do not have them."""
        meta: dict[str, Any] = body.get("metadata") or {}
        owners = meta.get("ownerReferences") or []
        return cls(
            id=ObjectId(group, kind, meta.get("namespace", ""), meta.get("name", "")),
            uid=meta.get("uid", ""),
            resource_version=meta.get("resourceVersion", ""),
            labels=meta.get("labels") or {},
            annotations=meta.get("annotations") or {},
            controller=next((f"{o.get('kind')} {o.get('name')}" for o in owners if o.get("controller")), ""),
            deleting=bool(meta.get("deletionTimestamp")),
            written=any(_applies_membership(entry) for entry in meta.get("managedFields") or []),
        )


def _applies_membership(entry: Mapping[str, Any]) -> bool:
    labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and f"f:{PART_OF}" in labels


# ── pruning ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PruneDecision:
    prune: tuple[ObjectMeta, ...] = ()  #: delete, each with its uid and resourceVersion as preconditions
    kept: tuple[tuple[ObjectId, str], ...] = ()  #: ours and not wanted any more, but it asks to stay: id, reason
    ignored: tuple[tuple[ObjectId, str], ...] = ()  #: has the label and is none of our business: id, reason
    refusal: str | None = None  #: why nothing at all is pruned, a sentence


def to_prune(
    labelled: Iterable[ObjectMeta],
    wanted: Collection[ObjectId],
    *,
    applyset: str,
    allow_empty: bool,
    complete: bool,
    wanted_uids: Collection[str] = frozenset(),
    incomplete_because: str = "the cluster could not be asked about every kind",
) -> PruneDecision:
    """What of the application is in the cluster, no longer in the bundle, and may be deleted.

    Args:
        labelled: every object found by the membership label.
        wanted: the objects of the bundle, without hooks and without a Namespace added by an option: an application
            that has only those is an empty one (field case d4).
        applyset: the application's own id; objects with another one are left out without a word.
        allow_empty: the catalog allows an application without objects.
        complete: render, discovery and every list succeeded as a whole; else an object may merely be out of sight.
        wanted_uids: uids of the live copies of ``wanted``. An object stored once may be served in two API groups and
            then appears under two identities (field case d1).
        incomplete_because: continues the refusal when not ``complete``.
    """
    candidates: list[ObjectMeta] = []
    kept: list[tuple[ObjectId, str]] = []
    ignored: list[tuple[ObjectId, str]] = []
    for meta in sorted(labelled, key=lambda m: m.id):
        if meta.labels.get(PART_OF) != applyset or meta.id in wanted:
            continue
        if why := _none_of_ours(meta, wanted_uids):
            ignored.append((meta.id, why))
        elif why := keep_reason(meta):
            kept.append((meta.id, why))
        else:
            candidates.append(meta)
    refusal = None
    if candidates and not complete:
        refusal = f"Nothing is pruned: {incomplete_because}."
    elif candidates and not wanted and not allow_empty:
        refusal = (
            f"Nothing is pruned: the bundle has no objects, so pruning would delete all {len(candidates)} of the "
            "application. If that is meant, set spec.sync.allowEmpty: true."
        )
    return PruneDecision(() if refusal else tuple(candidates), tuple(kept), tuple(ignored), refusal)


def _none_of_ours(meta: ObjectMeta, wanted_uids: Collection[str]) -> str:
    if meta.uid and meta.uid in wanted_uids:
        return "is a wanted object under another API group"
    if meta.deleting:
        return "is being deleted already"
    if not meta.written:
        # Operators copy labels of an object to what they make for it. Only the API server's own record tells the
        # copy from the original (field case d8).
        return "has a copy of the label: Fleetbeat did not apply it" + (
            f", {meta.controller} controls it" if meta.controller else ""
        )
    return ""


def keep_reason(meta: ObjectMeta) -> str:
    """The mark by which an object asks not to be pruned, as ``key: value``; "" without one.

    Argo CD's options compare exactly; Flux's key may be label or annotation, in any case; Helm's ignores case and
    blanks around the value. ``Prune=confirm`` keeps too, as long as there is no way to confirm.
    """
    labels, annotations = meta.labels, meta.annotations
    for option in str(annotations.get("argocd.argoproj.io/sync-options", "")).split(","):
        if option.strip() in ("Prune=false", "Prune=confirm"):
            return f"argocd.argoproj.io/sync-options: {option.strip()}"
    flux = "kustomize.toolkit.fluxcd.io/prune"
    if "disabled" in (str(labels.get(flux, "")).lower(), str(annotations.get(flux, "")).lower()):
        return f"{flux}: disabled"
    if str(annotations.get("helm.sh/resource-policy", "")).strip().lower() == "keep":
        return "helm.sh/resource-policy: keep"
    for key, value in (
        ("client.lifecycle.config.k8s.io/deletion", "detach"),
        ("cli-utils.sigs.k8s.io/on-remove", "keep"),
    ):
        if annotations.get(key) == value:
            return f"{key}: {value}"
    return f"{meta.controller} controls it" if meta.controller else ""
