"""One YAML document → the objects in it: lists taken apart, the shape checked, what is the server's own taken out.

Checked is only what Fleetbeat itself relies on; whether an object is valid is for the API server to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleetbeat.decisions import hooks
from fleetbeat.decisions.manifest_files import RENDERED_GROUPS
from fleetbeat.model import Body

#: Set by the API server. They come along in manifests that were exported from a cluster (field case b4).
_SERVER_METADATA = (
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_INTERNAL = "internal.config.kubernetes.io/"
_LOCAL_CONFIG = "config.kubernetes.io/local-config"
_MEMBERSHIP = "applyset.kubernetes.io/part-of"


class BodyProblem(Exception):
    """What is wrong with one object, without the place it stands."""


def objects(value: Any) -> Iterator[tuple[Any, str]]:
    """The objects of a document and where in it they stand: ("", or ", item 2", ", item 2, item 1" in a list).

    A list is ``kind: List``, or any other ``…List`` with a list of ``items``. Items without a kind get it from the
    list, as in ``k8s.io/apimachinery`` (unstructured.decodeToList); lists in lists are taken apart too (field case i6).
    """
    if not _is_list(value):
        yield value, ""
        return
    item_kind = value["kind"].removesuffix("List")
    for number, item in enumerate(value.get("items") or (), start=1):
        if item_kind and isinstance(item, dict) and not item.get("kind"):
            item = {**item, "apiVersion": value.get("apiVersion"), "kind": item_kind}
        for body, where in objects(item):
            yield body, f", item {number}{where}"


def _is_list(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    kind, items = value.get("kind"), value.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not (items is None or isinstance(items, list)):
        return False
    return kind == "List" or "items" in value


def is_local(body: Any) -> bool:
    """Whether the object is a note for other tools (field ``config.kubernetes.io/local-config``), not for a cluster."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return isinstance(annotations, dict) and annotations.get(_LOCAL_CONFIG) == "true"


def label_of(body: Any) -> str:
    """``Deployment shop/web`` for messages, as far as the body says; "" when it says nothing."""
    if not isinstance(body, dict) or not isinstance(body.get("kind"), str):
        return ""
    metadata = body["metadata"] if isinstance(body.get("metadata"), dict) else {}
    place = "/".join(str(part) for part in (metadata.get("namespace"), name_of(metadata)) if part)
    return f"{body['kind']} {place}".rstrip()


def name_of(metadata: Body) -> Any:
    """The name, or ``prefix*`` where one is to be generated: no object can have that one."""
    return metadata.get("name") or (f"{metadata['generateName']}*" if metadata.get("generateName") else None)


def cleaned(body: Any) -> Body:
    """The object as it may be sent: a new dict down to metadata, without what the server owns.

    Raises BodyProblem.
    """
    if not isinstance(body, dict):
        raise BodyProblem(f"is {_kind_of(body)}, not an object with apiVersion and kind")
    for field in ("apiVersion", "kind"):
        if not body.get(field):
            raise BodyProblem(
                f"has no {field}; every document of a manifest needs one, and files that are no manifests "
                "must not end in .yaml, .yml or .json"
            )
        if not isinstance(body[field], str):
            raise BodyProblem(f"{field} is {_kind_of(body[field])}, not text; quote it")
    if body["kind"] == "List":
        raise BodyProblem("items is not a list")
    group, slash, version = body["apiVersion"].rpartition("/")
    if "/" in group or not version or (slash and not group):
        raise BodyProblem(f"apiVersion {body['apiVersion']!r} is not of the form v1 or group/v1")
    if group in RENDERED_GROUPS:
        raise BodyProblem(RENDERED_GROUPS[group])

    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise BodyProblem("metadata.name is missing" if metadata is None else f"metadata is {_kind_of(metadata)}")
    # The API server takes a null as "absent" here; every reader of the body is spared the question (field case a2).
    metadata = {k: v for k, v in metadata.items() if v is not None and k not in _SERVER_METADATA}
    for field in ("labels", "annotations"):
        if field in metadata:
            metadata[field] = _texts(metadata[field], field)
    _check_names(metadata)
    if _MEMBERSHIP in metadata.get("labels", ()):
        raise BodyProblem(f"label {_MEMBERSHIP} says whose object this is; Fleetbeat sets it, a manifest must not")
    if annotations := metadata.get("annotations"):
        kept = {k: v for k, v in annotations.items() if k != _LAST_APPLIED and not k.startswith(_INTERNAL)}
        metadata["annotations"] = kept
        if not kept:
            del metadata["annotations"]
    sent = {key: value for key, value in body.items() if key != "status"}
    sent["metadata"] = metadata
    return sent


def _check_names(metadata: Body) -> None:
    generated = "name" not in metadata and "generateName" in metadata
    if generated and not hooks.is_hook(metadata.get("annotations") or {}):
        raise BodyProblem(
            "metadata.generateName is for hooks only: of an ordinary object every sync would make another one; use name"
        )
    if not generated and metadata.get("name") in (None, ""):
        raise BodyProblem("metadata.name is missing")
    if generated and not metadata["generateName"]:
        raise BodyProblem("metadata.name is missing, and metadata.generateName is empty")
    for field in ("name", "generateName", "namespace"):
        name = metadata.get(field, "")
        if not isinstance(name, str):
            raise BodyProblem(f"metadata.{field} is {_kind_of(name)}, not text; quote it")
        # They become parts of a URL path. The API server forbids these as well, but it must be asked the right thing.
        if name in (".", "..") or "/" in name or "%" in name:
            raise BodyProblem(f"metadata.{field} {name!r} must not be '.' or '..' or contain '/' or '%'")


def _texts(values: Any, field: str) -> dict[str, str]:
    """Labels or annotations. A null value is the empty text, as the API server stores it (tried on 1.36)."""
    if not isinstance(values, dict):
        raise BodyProblem(f"metadata.{field} is {_kind_of(values)}, not a mapping")
    for key, value in values.items():
        if value is not None and not isinstance(value, str):
            raise BodyProblem(f"metadata.{field}: {key!r} is {_kind_of(value)}, not text; quote it")
    return {key: value or "" for key, value in values.items()}


def _kind_of(value: Any) -> str:
    """In YAML's words; scalars with their value, so that ``yes`` → true is understood."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "null"
    if isinstance(value, str):
        return "text"
    return f"the {'boolean' if isinstance(value, bool) else 'number'} {str(value).lower()}"
