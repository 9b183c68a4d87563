"""What an application owns in a cluster (ApplySet, KEP-3659 as kubectl ships it).

Members carry the label ``PART_OF`` with the id of their parent, a ConfigMap per application. The parent's annotations
list the kinds and namespaces where members may be, so that finding them needs no list of objects.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fleetbeat.decisions import names
from fleetbeat.model import Body, ObjectId

PART_OF = "applyset.kubernetes.io/part-of"  #: label of a member
HOOK_OF = "fleetbeat.dev/hook-of"  #: label of a hook's object, which is no member: the id of the ApplySet it runs for
ID = "applyset.kubernetes.io/id"  #: label of the parent
TOOLING = "applyset.kubernetes.io/tooling"  #: annotation of the parent: "<tool>/<version>"
CONTAINS_GROUP_KINDS = "applyset.kubernetes.io/contains-group-kinds"  #: annotation of the parent: CSV of Kind.group
ADDITIONAL_NAMESPACES = "applyset.kubernetes.io/additional-namespaces"  #: annotation of the parent: CSV
#: annotation of the parent: CSV of objects (``ObjectId.key``) that the application's bundle has and another owns
CLAIMS = "fleetbeat.dev/claims"
FIELD_MANAGER = "fleetbeat"
_TOOL = "fleetbeat"

#: the longest name that takes a dot and a time in ms, as up to 12 hex digits, behind it
_MAX_EVENT_PARENT = names.MOST - 13


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
    return plain if names.is_subdomain(app) and names.is_subdomain(plain) else _hashed(app)


def event_prefix(parent: str) -> str:
    """What the names of Kubernetes Events about this parent begin with; the time of one stands behind it.

    The parent's name and a dot; a parent whose name leaves no room for a time is hashed, as applications are.
    """
    return f"{parent if len(parent) <= _MAX_EVENT_PARENT else _hashed(parent)}."


def _hashed(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    beginning = re.sub(r"[^a-z0-9]+", "-", name.lower())[:80].strip("-") or "x"
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


class Claimant(NamedTuple):
    """Another application whose bundle has an object too."""

    application: str
    applyset: str  #: its id


def format_claims(objects: Iterable[ObjectId]) -> str:
    """The value of ``CLAIMS``: sorted. A comma may be in the name of a role; a percent sign is in no name."""
    return ",".join(sorted(key.key.replace(",", "%2C") for key in objects))


def parse_claims(csv: str) -> frozenset[ObjectId]:
    """What cannot be read is nobody's claim."""
    items = [item.strip().replace("%2C", ",") for item in csv.split(",")]
    return frozenset(ObjectId.from_key(item) for item in items if item.count("/") == 3)


def is_ours(tooling: str) -> bool:
    """Does the annotation ``TOOLING`` name Fleetbeat?"""
    return tooling.partition("/")[0] == _TOOL


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
    deleting: str  #: since when it is being deleted, RFC 3339; "" = it is not
    finalizers: tuple[str, ...]  #: what has to happen before it is gone
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
            deleting=meta.get("deletionTimestamp") or "",
            finalizers=tuple(meta.get("finalizers") or ()),
            written=any(_applies_membership(entry) for entry in meta.get("managedFields") or []),
        )


def _applies_membership(entry: Mapping[str, Any]) -> bool:
    labels = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
    # "Update" is how an object is handed over: the next apply makes it "Apply" again.
    return entry.get("manager") == FIELD_MANAGER and f"f:{PART_OF}" in labels
