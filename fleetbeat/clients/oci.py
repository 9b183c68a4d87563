"""OCI bundles as a source: what a tag or range means now, and the verified layer behind a digest.

A revision is always a digest. Nothing is unpacked here and nothing is kept: the layer's bytes go to the blob store,
which checks them again on every read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from fleetbeat.clients.oci_layout import LayoutReader
from fleetbeat.clients.oci_registry import Connection
from fleetbeat.decisions import artifact, references, semver
from fleetbeat.errors import BundleError, BundleTooLarge, ConfigurationError, SourceNotFound
from fleetbeat.model import Revision, Source
from fleetbeat.ports import Pulled
from fleetbeat.settings import Bundles, Http

#: an index may lead to an index; more steps than this are a loop in all but name
_MAX_INDEXES = 3


class Place(Protocol):
    """What a registry connection and a layout on disk have in common."""

    def digest_of(self, tag: str) -> str: ...

    def tags(self) -> Iterable[str]: ...

    def manifest(self, digest: str) -> bytes: ...

    def blob(self, descriptor: artifact.Descriptor) -> bytes: ...


class OciSource:
    """Fulfils ``ports.SourcePort``. Thread-safe: it holds limits, each call has a connection of its own."""

    def __init__(self, http: Http, limits: Bundles) -> None:
        self._http, self._limits = http, limits

    def resolve(self, source: Source) -> Revision:
        """One HEAD for a tag, the list of tags and one HEAD for a range, no request for a digest.

        Raises the errors of ``ports.SourcePort``, and ConfigurationError for a malformed reference, digest, tag or
        range, or a credential that cannot be read.
        """
        wanted = _wanted(source)
        if wanted.digest:
            return Revision(wanted.digest)
        with self._open(source, wanted) as place:
            tag = _in_range(place, wanted) if wanted.range else wanted.tag
            return Revision(place.digest_of(tag), tag)

    def pull(self, source: Source, revision: Revision) -> Pulled:
        """Follows an index with a single manifest; ``revision.digest`` stays the digest that was asked for."""
        wanted = _wanted(source)
        what = f"{wanted.place}@{revision.digest}"
        if not references.is_digest(revision.digest):
            raise ConfigurationError(f"{wanted.place}: {revision.digest!r} is not sha256: and 64 lower-case hex digits")
        with self._open(source, wanted) as place:
            found = artifact.read(place.manifest(revision.digest), what)
            annotations = dict(found.annotations)
            for _ in range(_MAX_INDEXES):
                if isinstance(found, artifact.Image):
                    break
                content = place.manifest(found.child.digest)
                found.child.check(content, f"{what}: manifest {found.child.digest}")
                found = artifact.read(content, f"{what}: manifest {found.child.digest}")
                annotations |= found.annotations
            if not isinstance(found, artifact.Image):
                raise BundleError(f"{what}: more than {_MAX_INDEXES} indexes lead to each other")
            if found.layer.size > self._limits.max_layer:
                raise BundleTooLarge(
                    f"{what}: its layer has {found.layer.size} bytes, more than {self._limits.max_layer} "
                    "(FLEETBEAT_BUNDLES_MAX_LAYER)"
                )
            layer = place.blob(found.layer)
        described = Revision(
            revision.digest,
            revision.tag,
            source=artifact.told(annotations, artifact.SOURCE),
            revision=artifact.told(annotations, artifact.REVISION),
            created=artifact.told(annotations, artifact.CREATED),
        )
        return Pulled(described, layer, found.layer.digest)

    @contextlib.contextmanager
    def _open(self, source: Source, wanted: _Wanted) -> Iterator[Place]:
        if isinstance(wanted.place, references.Layout):
            yield LayoutReader(wanted.place)
            return
        with Connection(
            wanted.place,
            self._http,
            source.auth,
            plain_http=source.plain_http,
            ca=source.ca,
            insecure_skip_tls_verify=source.insecure_skip_tls_verify,
        ) as connection:
            yield connection


@dataclass(frozen=True)
class _Wanted:
    """What a source asks for: a digest, else a range, else a tag."""

    place: references.Repository | references.Layout
    digest: str = ""
    range: semver.Range | None = None
    tag: str = ""


def _wanted(source: Source) -> _Wanted:
    place = references.parse(source.oci)
    if digest := source.digest or place.digest:
        if not references.is_digest(digest):
            raise ConfigurationError(f"{place}: digest {digest!r} is not sha256: and 64 lower-case hex digits")
        return _Wanted(place, digest=digest)
    if source.semver:
        return _Wanted(place, range=semver.parse_range(source.semver))
    tag = references.tag_of(source.tag or place.tag or "latest")
    if not references.is_tag(tag):
        raise ConfigurationError(f"{place}: {tag!r} is not a tag (letters, digits, '.', '_', '-', at most 128)")
    return _Wanted(place, tag=tag)


def _in_range(place: Place, wanted: _Wanted) -> str:
    assert wanted.range is not None  # noqa: S101 - asked by the caller
    tags = list(place.tags())
    if (tag := semver.best(tags, wanted.range)) is not None:
        return tag
    versions = {tag: version for tag in tags if (version := semver.version_of(tag)) is not None}
    newest = sorted(versions, key=lambda tag: versions[tag], reverse=True)
    known = f"its newest versions: {', '.join(islice(newest, 5))}" if newest else "none of them a version"
    raise SourceNotFound(f"{wanted.place}: no tag is in the range {wanted.range.text!r}; {len(tags)} tags, {known}")
