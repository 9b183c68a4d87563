"""Pushes a folder as a bundle: one gzip tar layer that Fleetbeat, Argo CD and Flux read alike.

The same files and annotations give the same digest on every machine, so pushing again what is there already changes
nothing and starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from fleetbeat.clients.oci_layout import LayoutWriter
from fleetbeat.clients.oci_registry import Connection
from fleetbeat.decisions import artifact, bundles, references
from fleetbeat.errors import BundleError, BundleTooLarge, ConfigurationError, UnsafeBundle
from fleetbeat.model import Credential, RegistryAuth, Revision
from fleetbeat.settings import Bundles, Http

_SKIPPED = ".git"


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

    Raises the errors of ``ports.SourcePort``; ConfigurationError for the reference or the folder; UnsafeBundle for a
    link that leads out of the folder or to another folder, or a special file; BundleTooLarge for what pulling would
    refuse; BundleError for a folder without files unless ``allow_empty``.
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
    files, executable = _files(directory, limits)
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


def _files(directory: Path, limits: Bundles) -> tuple[dict[str, bytes], set[str]]:
    """Path → content of every file below, and which of them are executable."""
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is not a folder")
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    total = 0
    try:
        for folder, folders, names in os.walk(directory, onerror=_raise):
            folders[:] = sorted(name for name in folders if name != _SKIPPED)
            for name in [*(n for n in folders if (Path(folder) / n).is_symlink()), *sorted(names)]:
                path = Path(folder) / name
                if name == _SKIPPED:  # a worktree's or submodule's .git is a file
                    continue
                relative = path.relative_to(directory).as_posix()
                _expect_own_file(path, relative, directory)
                total += path.stat().st_size
                if total > limits.max_unpacked or len(files) >= limits.max_entries:
                    raise BundleTooLarge(
                        f"{directory}: more than {limits.max_unpacked} bytes or {limits.max_entries} files "
                        "(FLEETBEAT_BUNDLES_MAX_UNPACKED, FLEETBEAT_BUNDLES_MAX_ENTRIES)"
                    )
                files[relative] = path.read_bytes()
                if path.stat().st_mode & 0o100:
                    executable.add(relative)
    except OSError as error:
        raise ConfigurationError(f"{error.filename or directory} cannot be read: {error.strerror}") from None
    return files, executable


def _expect_own_file(path: Path, relative: str, directory: Path) -> None:
    """A regular file, or a link to one inside the folder: its content is stored, since bundles have no links."""
    if path.is_symlink() and not path.resolve().is_relative_to(directory.resolve()):
        raise UnsafeBundle(f"{relative}: this link leads out of {directory}. Put the file there itself")
    if not path.is_file():
        kind = "a link to a folder or to nothing" if path.is_symlink() else "not a regular file"
        raise UnsafeBundle(f"{relative}: {kind}; a bundle holds only files and folders")
    if "\\" in relative:
        raise UnsafeBundle(f"{relative}: a backslash in a file's name would be read as a folder")


def _raise(error: OSError) -> None:
    raise error


def without_credentials(url: str) -> str:
    """A URL without user and password, as git remotes of CI jobs have them; anything else as it is."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
