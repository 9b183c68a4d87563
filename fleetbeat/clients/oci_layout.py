"""An OCI image layout on disk, read with the same checks as a registry, and written by ``push``.

Source: image-spec 1.1, "OCI Image Layout": ``oci-layout``, ``index.json`` whose descriptors carry the tag in the
annotation ``org.opencontainers.image.ref.name``, ``blobs/sha256/<hex>``.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fleetbeat.decisions import artifact
from fleetbeat.decisions.references import Layout
from fleetbeat.errors import BundleError, DigestMismatch, SourceNotFound, SourceUnavailable

_MARKER = b'{"imageLayoutVersion":"1.0.0"}'


class LayoutReader:
    """The same questions a registry connection answers. Errors: SourceNotFound, SourceUnavailable, BundleError."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._root = layout, Path(layout.path)

    def digest_of(self, tag: str) -> str:
        for descriptor in self._index():
            if descriptor.annotations.get(artifact.REF_NAME) == tag:
                return descriptor.digest
        raise SourceNotFound(f"{self._layout}: it has no tag {tag!r}")

    def tags(self) -> Iterator[str]:
        for descriptor in self._index():
            if name := descriptor.annotations.get(artifact.REF_NAME):
                yield name

    def manifest(self, digest: str) -> bytes:
        what = f"{self._layout}@{digest}"
        content = _read(self._blob(digest), artifact.MAX_MANIFEST, what)
        artifact.check_digest(content, digest, what)
        return content

    def blob(self, descriptor: artifact.Descriptor) -> bytes:
        what = f"{self._layout}: layer {descriptor.digest}"
        path = self._blob(descriptor.digest)
        try:
            content = _read(path, descriptor.size, what)
        except _TooLong:
            raise DigestMismatch(f"{what}: longer than the announced {descriptor.size} bytes") from None
        descriptor.check(content, what)
        return content

    def _blob(self, digest: str) -> Path:
        return self._root / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def _index(self) -> list[artifact.Descriptor]:
        what = f"{self._layout}: index.json"
        index = artifact.parse_json(_read(self._root / "index.json", artifact.MAX_MANIFEST, what), what)
        return artifact.descriptors(index, "manifests", what)


class LayoutWriter:
    """Adds to a layout, making it first where there is none. Every file appears whole or not at all."""

    def __init__(self, layout: Layout) -> None:
        self._layout, self._root = layout, Path(layout.path)

    def put_blob(self, content: bytes) -> None:
        self._write(f"blobs/sha256/{artifact.digest_of(content).removeprefix('sha256:')}", content)

    def put_manifest(self, content: bytes, tag: str) -> None:
        """Stores the manifest and moves ``tag`` to it; what the tag meant before stays pinnable by digest."""
        what = f"{self._layout}: index.json"
        path = self._root / "index.json"
        index = artifact.parse_json(_read(path, artifact.MAX_MANIFEST, what), what) if path.exists() else {}
        entry = artifact.Descriptor.of(content, artifact.OCI_MANIFEST).as_json()
        others = [
            known
            for known in index.get("manifests", [])
            if (known.get("annotations") or {}).get(artifact.REF_NAME) != tag
        ]
        entry |= {"artifactType": artifact.ARTIFACT_TYPE, "annotations": {artifact.REF_NAME: tag}}
        index |= {"schemaVersion": 2, "mediaType": artifact.OCI_INDEX, "manifests": [*others, entry]}
        self.put_blob(content)
        self._write("oci-layout", _MARKER)
        self._write("index.json", json.dumps(index, sort_keys=True).encode())

    def _write(self, name: str, content: bytes) -> None:
        path = self._root / name
        temporary = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), 0o644)
            Path(temporary).replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                Path(temporary).unlink()
            raise SourceUnavailable(f"{self._layout}: {name} cannot be written: {error.strerror}") from None


class _TooLong(BundleError):
    """A file longer than it may be."""


def _read(path: Path, limit: int, what: str) -> bytes:
    """A regular file of at most ``limit`` bytes. The size counts while reading: the file may still grow."""
    try:
        # Not blocking: a named pipe put in a blob's place must not hold the worker.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise BundleError(f"{what}: {path} is not a regular file")
            content = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise SourceNotFound(f"{what}: there is no file {path}") from None
    except OSError as error:
        raise SourceUnavailable(f"{what}: {path} cannot be read: {error.strerror}") from None
    if len(content) > limit:
        raise _TooLong(f"{what}: {path} is longer than {limit} bytes")
    return content
