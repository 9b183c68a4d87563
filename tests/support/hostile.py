"""Bundles as an attacker, a broken tool or a failing disk would make them, and registries that lie about them."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import lying_registry
from fleet import Fleet
from stories import Publish, Story, files
from unhurried import UNHURRIED

from fleetbeat.clients.oci_registry import Connection
from fleetbeat.decisions import artifact, bundles, references
from fleetbeat.model import RegistryAuth

MIB = 1024 * 1024

Entry = tuple[tarfile.TarInfo, bytes]


def entry(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> Entry:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content)
    return info, content


def layer(story: Story, stage: str) -> bytes:
    """The story's good bundle."""
    return bundles.pack({name: text.encode() for name, text in files(story, stage).items()})


def tar_gz(entries: Iterable[Entry]) -> bytes:
    """A gzip tar that Fleetbeat's own packing would refuse to make."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for info, content in entries:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def beside(*more: Entry) -> Callable[[Story], bytes]:
    """A layer of the story's wanted object and these entries behind it."""

    def made(story: Story) -> bytes:
        good = [entry(name, text.encode()) for name, text in files(story, "bad").items()]
        return tar_gz([*good, *more])

    return made


def gigabyte_of_zeros(as_files: int = 1) -> bytes:
    """A gzip tar of 1 GiB of zeros in so many files, a megabyte long, made without ever holding the gigabyte."""
    size = 1024 * MIB // as_files
    header = entry("zeros")[0]
    header.size = size
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(MIB)
    out = []
    for number in range(as_files):
        header.name = f"zeros-{number}.yaml"
        out.append(deflate.compress(header.tobuf()))
        out += [deflate.compress(zeros) for _ in range(size // MIB)]
    out += [deflate.compress(bytes(1024)), deflate.flush()]
    return b"".join(out)


def manifest_of(layers: Iterable[tuple[str, bytes]], **more: Any) -> bytes:
    """An image manifest of these (media type, content) layers."""
    config = artifact.Descriptor.of(artifact.EMPTY, artifact.EMPTY_TYPE).as_json()
    described = [artifact.Descriptor.of(content, kind).as_json() for kind, content in layers]
    manifest = {"schemaVersion": 2, "mediaType": artifact.OCI_MANIFEST, "config": config, "layers": described}
    return json.dumps(manifest | more).encode()


def store(fleet: Fleet, app: str, layers: Iterable[bytes], *manifests: bytes) -> None:
    """Push layers and manifests as they are; the last manifest gets the tag."""
    repository = references.parse(fleet.repository(app))
    assert isinstance(repository, references.Repository)
    with Connection(repository, UNHURRIED, RegistryAuth(), plain_http=True) as connection:
        for content in (artifact.EMPTY, *layers):
            connection.put_blob(content)
        for number, manifest in enumerate(manifests, start=1):
            kind = json.loads(manifest)["mediaType"]
            tag = "stable" if number == len(manifests) else f"part-{number}"
            done = connection._request("PUT", f"manifests/{tag}", data=manifest, content_type=kind)
            assert done.status_code == 201, done.text


def of_layer(make: Callable[[Story], bytes]) -> Publish:
    """The bad bundle is this one layer, under a manifest that is in order."""
    return of_manifest(lambda story: ([content := make(story)], [manifest_of([(artifact.LAYER, content)])]))


def of_manifest(make: Callable[[Story], tuple[list[bytes], list[bytes]]]) -> Publish:
    """The bad bundle is these blobs and manifests, the last of which is tagged."""

    def publish(fleet: Fleet, story: Story, stage: str) -> None:
        if stage != "bad":
            fleet.push(story.app, files(story, stage))
            return
        blobs, manifests = make(story)
        store(fleet, story.app, blobs, *manifests)

    return publish


class Liar:
    """A registry of one's own for one story. It serves what it should, until its lie is due."""

    def __init__(self, lie: Callable[[lying_registry.Server, bytes, bytes], None]) -> None:
        """``lie(server, layer, manifest)`` replaces routes of the server."""
        self._lie = lie
        self._running = contextlib.ExitStack()
        self._server: lying_registry.Server | None = None

    @property
    def server(self) -> lying_registry.Server:
        if self._server is None:
            self._server = self._running.enter_context(lying_registry.running())
        return self._server

    def source(self) -> Mapping[str, Any]:
        return {"oci": f"{self.server.host}/shop", "tag": "v1", "plainHTTP": True}

    def publish(self, _fleet: Fleet, story: Story, stage: str) -> None:
        content = layer(story, stage)
        manifest = manifest_of([(artifact.LAYER, content)])
        self.server.routes = honest(content, manifest)
        if stage == "bad":
            self._lie(self.server, content, manifest)

    def stop(self) -> None:
        self._running.close()


def honest(content: bytes, manifest: bytes) -> dict[str, lying_registry.Route]:
    digest = artifact.digest_of(manifest)
    fixed = lying_registry.fixed
    return {
        lying_registry.TAG: fixed(200, manifest, Docker_Content_Digest=digest),
        f"/manifests/{digest}": fixed(200, manifest),
        blob(content): fixed(200, content),
    }


def blob(content: bytes) -> str:
    """The route of a layer."""
    return f"/blobs/{artifact.digest_of(content)}"
