"""Pushes a folder as a bundle: one gzip tar layer that Fleetbeat, Argo CD and Flux read alike.

The same files and annotations give the same digest on every machine, so pushing again what is there already changes
nothing and starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from fleetbeat.clients import bundle_folder
from fleetbeat.clients.oci_layout import LayoutWriter
from fleetbeat.clients.oci_registry import Connection
from fleetbeat.decisions import artifact, bundles, references
from fleetbeat.errors import BundleError, BundleTooLarge, ConfigurationError
from fleetbeat.model import Credential, RegistryAuth, Revision
from fleetbeat.settings import Bundles, Http


def push(
    directory: Path,
    reference: str,
    *,
    annotations: Mapping[str, str] | None = None,
    allow_empty: bool = False,
    auth: RegistryAuth = RegistryAuth(),  # noqa: B008 - frozen
    plain_http: bool = False,
    ca: Credential | None = None,
    insecure_skip_tls_verify: bool = False,
    http: Http = Http(),  # noqa: B008 - frozen
    limits: Bundles = Bundles(),  # noqa: B008 - frozen
) -> Revision:
    """Stores ``directory`` (without ``.git``) under ``reference`` (``host/name:tag`` or a layout path, tag "latest").

    ``annotations`` go on the manifest; the caller takes ``org.opencontainers.image.{source,revision,created}`` from
    git, ``created`` being the commit's time. A password in the source's URL is left out.

    Raises the errors of ``ports.SourcePort``; ConfigurationError for the reference or the folder; UnsafeBundle for what
    a bundle cannot hold (``bundle_folder.read``); BundleTooLarge for what pulling would refuse; BundleError for a
    folder without files unless ``allow_empty``.
    """
    place = references.parse(reference)
    if place.digest:
        raise ConfigurationError(f"{place}: a push goes to a tag; the digest follows from the content")
    tag = place.tag or "latest"
    layer = bundle(directory, limits, allow_empty=allow_empty)
    notes = {key: value for key, value in (annotations or {}).items() if value}
    if artifact.SOURCE in notes:
        notes[artifact.SOURCE] = without_credentials(notes[artifact.SOURCE])
    manifest = artifact.build(artifact.Descriptor.of(layer, artifact.LAYER), notes)
    if isinstance(place, references.Layout):
        _store(LayoutWriter(place), layer, manifest, tag)
    else:
        with Connection(
            place, http, auth, plain_http=plain_http, ca=ca, insecure_skip_tls_verify=insecure_skip_tls_verify
        ) as connection:
            _store(connection, layer, manifest, tag)
    return Revision(
        artifact.digest_of(manifest),
        tag,
        source=notes.get(artifact.SOURCE, ""),
        revision=notes.get(artifact.REVISION, ""),
        created=notes.get(artifact.CREATED, ""),
    )


def _store(place: Connection | LayoutWriter, layer: bytes, manifest: bytes, tag: str) -> None:
    place.put_blob(artifact.EMPTY)
    place.put_blob(layer)
    place.put_manifest(manifest, tag)  # last: a tag never leads to something that is not there yet


def bundle(directory: Path, limits: Bundles, *, allow_empty: bool = False) -> bytes:
    """The layer ``push`` would store for a folder: gzip tar, bytes decided by the files alone."""
    files, executable = bundle_folder.read(directory, limits)
    if not files and not allow_empty:
        raise BundleError(f"{directory} holds no files. A bundle without any would mean: remove everything")
    layer = bundles.pack(files, executable)
    bundles.unpack(layer, max_unpacked=limits.max_unpacked, max_entries=limits.max_entries)
    if len(layer) > limits.max_layer:
        raise BundleTooLarge(
            f"{directory}: the bundle has {len(layer)} bytes, more than {limits.max_layer} "
            "(FLEETBEAT_BUNDLES_MAX_LAYER)"
        )
    return layer


def without_credentials(url: str) -> str:
    """A URL without user and password, as git remotes of CI jobs have them; anything else as it is."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
