"""What an OCI manifest says: which single layer holds the bundle, or which single manifest an index leads to.

Media types go by allow list. Nothing is ever picked by platform or by position, because two readers would then see
two bundles: one candidate is followed, several are an error that lists them (field cases g1, g11).
Sources: OCI image-spec 1.1 (manifest, index, descriptor), distribution-spec 1.1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetbeat.decisions import references
from fleetbeat.errors import BundleError, DigestMismatch

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFESTS = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
INDEXES = frozenset({OCI_INDEX, DOCKER_LIST})
#: what a registry is told we can read
ACCEPT = ", ".join((OCI_MANIFEST, OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST))

ARTIFACT_TYPE = "application/vnd.fleetbeat.bundle.v1"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
#: layers that hold manifests; anything else (provenance, signatures, documentation) is left alone
LAYERS = frozenset(
    {
        LAYER,
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.cncf.flux.content.v1.tar+gzip",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
    }
)
HELM_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
EMPTY = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"

_LONGEST_TOLD = 1000  # characters
SOURCE = "org.opencontainers.image.source"
REVISION = "org.opencontainers.image.revision"
CREATED = "org.opencontainers.image.created"
REF_NAME = "org.opencontainers.image.ref.name"

#: bytes of a manifest or index; the distribution spec asks registries to take 4 MiB
MAX_MANIFEST = 4 * 1024 * 1024


@dataclass(frozen=True)
class Descriptor:
    """Content by type, digest ("sha256:<hex>") and size in bytes."""

    media_type: str
    digest: str
    size: int
    annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, content: bytes, media_type: str) -> Descriptor:
        return cls(media_type, digest_of(content), len(content))

    def check(self, content: bytes, what: str) -> None:
        """Raises DigestMismatch when ``content`` is not what this announces."""
        if len(content) != self.size:
            raise DigestMismatch(f"{what}: {len(content)} bytes instead of the announced {self.size}")
        check_digest(content, self.digest, what)

    def as_json(self) -> dict[str, Any]:
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


@dataclass(frozen=True)
class Image:
    """A manifest that holds a bundle."""

    layer: Descriptor
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class Index:
    """An index that leads to exactly one manifest (or further index)."""

    child: Descriptor
    annotations: Mapping[str, str]


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def check_digest(content: bytes, digest: str, what: str) -> None:
    if (found := digest_of(content)) != digest:
        raise DigestMismatch(f"{what}: content has digest {found} instead of {digest}. It was altered or damaged")


def build(layer: Descriptor, annotations: Mapping[str, str]) -> bytes:
    """The manifest of a bundle of ours: one layer, empty config; the same bytes for the same arguments."""
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": ARTIFACT_TYPE,
        "config": Descriptor.of(EMPTY, EMPTY_TYPE).as_json(),
        "layers": [layer.as_json()],
    }
    if annotations:
        manifest["annotations"] = dict(annotations)
    return json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()


def read(content: bytes, what: str) -> Image | Index:
    """Parses a manifest or index whose digest has been checked. ``what`` names it in errors.

    Raises BundleError: not JSON, unknown media type, no or several content layers or children, a Helm chart.
    """
    manifest = parse_json(content, what)
    media_type = manifest.get("mediaType")
    if "manifests" in manifest and "layers" in manifest:
        raise BundleError(f"{what}: it has both layers and manifests, so readers would disagree on what it is")
    if media_type is None:  # optional in image-spec
        media_type = OCI_INDEX if "manifests" in manifest else OCI_MANIFEST
    if not isinstance(media_type, str):
        raise BundleError(f"{what}: its media type is not a text")
    if media_type in INDEXES:
        return Index(_only_child(descriptors(manifest, "manifests", what), what), _annotations(manifest))
    if media_type in MANIFESTS:
        return Image(_only_layer(descriptors(manifest, "layers", what), what), _annotations(manifest))
    raise BundleError(f"{what}: media type {media_type!r} is not a manifest that can hold a bundle")


def _only_layer(layers: list[Descriptor], what: str) -> Descriptor:
    content = [layer for layer in layers if layer.media_type in LAYERS]
    if len(content) == 1:
        return content[0]
    if any(layer.media_type == HELM_LAYER for layer in layers):
        raise BundleError(f"{what}: this is a Helm chart. Helm charts are not rendered by this version")
    found = _listed(layers) or "none"
    if content:
        raise BundleError(f"{what}: a bundle has exactly one content layer, this has {len(content)}. Layers: {found}")
    raise BundleError(f"{what}: no layer holds manifests (known types: {', '.join(sorted(LAYERS))}). Layers: {found}")


def _only_child(children: list[Descriptor], what: str) -> Descriptor:
    # buildx adds a provenance manifest beside the image; it says of itself that it describes another one.
    own = [child for child in children if "vnd.docker.reference.type" not in child.annotations]
    fitting = [child for child in own if child.media_type in MANIFESTS | INDEXES]
    if len(fitting) == 1:
        return fitting[0]
    raise BundleError(
        f"{what}: an index leads to a bundle only if it has exactly one manifest, this has {len(fitting)}. "
        f"Pin one by digest. Manifests: {_listed(children) or 'none'}"
    )


def _listed(found: list[Descriptor]) -> str:
    more = f" and {len(found) - 20} more" if len(found) > 20 else ""
    return ", ".join(f"{d.media_type} ({d.digest}, {d.size} bytes)" for d in found[:20]) + more


def parse_json(content: bytes, what: str) -> dict[str, Any]:
    """A JSON object, else BundleError."""
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise BundleError(f"{what}: it is not a JSON object")
    return parsed


def descriptors(manifest: Mapping[str, Any], key: str, what: str) -> list[Descriptor]:
    """The list of descriptors under ``key``. Raises BundleError for one of another shape or digest algorithm."""
    listed = manifest.get(key)
    if not isinstance(listed, list):
        raise BundleError(f"{what}: {key} is not a list")
    found = []
    for number, item in enumerate(listed):
        media_type, digest, size = (
            (item.get("mediaType"), item.get("digest"), item.get("size")) if isinstance(item, dict) else ("", "", "")
        )
        if not isinstance(media_type, str) or type(size) is not int or size < 0:
            raise BundleError(f"{what}: {key}[{number}] is not a descriptor with mediaType, digest and size")
        if not isinstance(digest, str) or not references.is_digest(digest):
            raise BundleError(f"{what}: {key}[{number}].digest {digest!r} is not sha256: and 64 hex digits")
        found.append(Descriptor(media_type, digest, size, _annotations(item)))
    return found


def told(annotations: Mapping[str, str], key: str) -> str:
    """What an annotation says of the bundle; "", unknown, for what would fill history or move a terminal's cursor."""
    text = annotations.get(key, "")
    return text if len(text) <= _LONGEST_TOLD and text.isprintable() else ""


def _annotations(holder: Mapping[str, Any]) -> dict[str, str]:
    annotations = holder.get("annotations")
    if not isinstance(annotations, dict):
        return {}
    return {str(key): value for key, value in annotations.items() if isinstance(value, str)}
