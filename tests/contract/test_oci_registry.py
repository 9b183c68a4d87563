"""The OCI source and push against a real registry (CNCF distribution) and an image layout on disk."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

import pytest
from unhurried import UNHURRIED

from fleetbeat.clients.oci import OciSource
from fleetbeat.clients.oci_push import push
from fleetbeat.clients.oci_registry import Connection
from fleetbeat.decisions import artifact, bundles, references
from fleetbeat.errors import (
    BundleError,
    BundleTooLarge,
    DigestMismatch,
    SourceNotFound,
    UnsafeBundle,
)
from fleetbeat.local.registry import Registry
from fleetbeat.model import RegistryAuth, Revision, Source
from fleetbeat.settings import Bundles

FILES = {"deploy/web.yaml": b"kind: Deployment\n", "cm.yaml": b"kind: ConfigMap\n"}
NOTES = {
    artifact.SOURCE: "https://ci:hunter2@git.example.com/shop.git",
    artifact.REVISION: "main@sha1:" + "a" * 40,
    artifact.CREATED: "2026-11-30T10:00:00Z",
}
source = OciSource(UNHURRIED, Bundles())


def unpacked(layer: bytes) -> dict[str, bytes]:
    return bundles.unpack(layer, max_unpacked=1_000_000, max_entries=1000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "bundle"


@pytest.fixture(params=["registry", "layout"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A reference without tag: a fresh repository, or a layout that does not exist yet."""
    if request.param == "layout":
        return f"oci-layout:{tmp_path}/layout"
    return f"{request.getfixturevalue('registry').host}/shop/{uuid.uuid4().hex}"


def push_manifest(place: str, layers: list[tuple[str, bytes]], tag: str, **more: object) -> str:
    """A manifest of another tool's making; returns its digest."""
    repository = references.parse(place)
    assert isinstance(repository, references.Repository)
    manifest = {
        "schemaVersion": 2,
        "mediaType": artifact.OCI_MANIFEST,
        "config": artifact.Descriptor.of(artifact.EMPTY, artifact.EMPTY_TYPE).as_json(),
        "layers": [artifact.Descriptor.of(content, kind).as_json() for kind, content in layers],
    } | more
    raw = json.dumps(manifest).encode()
    with Connection(repository, UNHURRIED, RegistryAuth(), plain_http=True) as connection:
        for content in (artifact.EMPTY, *(content for _, content in layers)):
            connection.put_blob(content)
        connection.put_manifest(raw, tag)
    return artifact.digest_of(raw)


def test_what_is_pushed_is_pulled(place: str, folder: Path) -> None:
    pushed = push(folder, f"{place}:v1", annotations=NOTES, plain_http=True)
    wanted = Source(place, tag="v1", plain_http=True)
    found = source.resolve(wanted)
    assert found == Revision(pushed.digest, "v1")
    pulled = source.pull(wanted, found)
    assert unpacked(pulled.layer) == {"cm.yaml": FILES["cm.yaml"], "deploy/web.yaml": FILES["deploy/web.yaml"]}
    assert pulled.layer_digest == artifact.digest_of(pulled.layer)
    assert pulled.revision == pushed
    assert pulled.revision.source == "https://git.example.com/shop.git", "the CI job's password must not be published"
    assert pulled.revision.commit == "a" * 40


def test_same_files_same_digest_whatever_their_times_and_modes(place: str, folder: Path) -> None:
    first = push(folder, f"{place}:a", plain_http=True)
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o640)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    assert push(folder, f"{place}:b", plain_http=True).digest == first.digest


def test_moved_tag_is_noticed_and_the_old_digest_stays_pinnable(place: str, folder: Path) -> None:
    """Field case g9."""
    wanted = Source(place, tag="v1", plain_http=True)
    push(folder, f"{place}:v1", plain_http=True)
    old = source.resolve(wanted)
    (folder / "cm.yaml").write_text("kind: Secret\n")
    push(folder, f"{place}:v1", plain_http=True)
    new = source.resolve(wanted)
    assert new.digest != old.digest
    assert unpacked(source.pull(wanted, old).layer)["cm.yaml"] == FILES["cm.yaml"]


def test_digest_beats_semver_beats_tag(place: str, folder: Path) -> None:
    """Field case g9."""
    digests = {}
    for tag in ("1.0.0", "1.1.0", "latest"):
        (folder / "cm.yaml").write_text(tag)
        digests[tag] = push(folder, f"{place}:{tag}", plain_http=True).digest
    everything = Source(place, tag="latest", semver=">=1", digest=digests["1.0.0"], plain_http=True)
    assert source.resolve(everything) == Revision(digests["1.0.0"])
    by_range = Source(place, tag="latest", semver=">=1", plain_http=True)
    assert source.resolve(by_range) == Revision(digests["1.1.0"], "1.1.0")
    assert source.resolve(Source(place, plain_http=True)) == Revision(digests["latest"], "latest")


@pytest.mark.parametrize(
    ("wanted", "tag"),
    [(">0.0.1", "v1.1.0"), (">=1.0.0-0", "v1.1.0"), ("~1.0", "1.0.0"), ("<1", "0.20250616.1_ref.abc")],
)
def test_range_over_real_tags(place: str, folder: Path, wanted: str, tag: str) -> None:
    """Field case g2."""
    for name in ("0.20250616.1_ref.abc", "1.0.0-rc.1", "1.0.0", "latest", "v1.1.0"):
        push(folder, f"{place}:{name}", plain_http=True)
    assert source.resolve(Source(place, semver=wanted, plain_http=True)).tag == tag


def test_version_with_build_data_is_found_under_its_tag(place: str, folder: Path) -> None:
    """Field case g2."""
    push(folder, f"{place}:1.0.0_build.5", plain_http=True)
    assert source.resolve(Source(place, tag="1.0.0+build.5", plain_http=True)).tag == "1.0.0_build.5"


def test_no_version_in_range_says_what_there_is(place: str, folder: Path) -> None:
    push(folder, f"{place}:1.4.0", plain_http=True)
    with pytest.raises(SourceNotFound, match=r"no tag is in the range '>=2'; 1 tags, its newest versions: 1\.4\.0"):
        source.resolve(Source(place, semver=">=2", plain_http=True))


def test_missing_tag_digest_and_repository(place: str, folder: Path) -> None:
    with pytest.raises(SourceNotFound):
        source.resolve(Source(place, tag="v1", plain_http=True))
    with pytest.raises(SourceNotFound):
        source.resolve(Source(place, semver="*", plain_http=True))
    push(folder, f"{place}:v1", plain_http=True)
    with pytest.raises(SourceNotFound):
        source.resolve(Source(place, tag="v2", plain_http=True))
    with pytest.raises(SourceNotFound):
        source.pull(Source(place, plain_http=True), Revision("sha256:" + "0" * 64))


def test_limits_hold_before_the_layer_is_fetched(place: str, folder: Path) -> None:
    pushed = push(folder, f"{place}:v1", plain_http=True)
    small = OciSource(UNHURRIED, Bundles(max_layer=10))
    with pytest.raises(BundleTooLarge, match="FLEETBEAT_BUNDLES_MAX_LAYER"):
        small.pull(Source(place, plain_http=True), pushed)
    with pytest.raises(BundleTooLarge, match="FLEETBEAT_BUNDLES_MAX_LAYER"):
        push(folder, f"{place}:v2", plain_http=True, limits=Bundles(max_layer=10))


@pytest.mark.parametrize("damage", ["altered", "shortened", "lengthened"])
@pytest.mark.parametrize("which", ["manifest", "layer"])
def test_damaged_layout_is_refused(tmp_path: Path, folder: Path, damage: str, which: str) -> None:
    """Field case g9."""
    place = str(tmp_path / "layout")
    pushed = push(folder, place)
    layer = source.pull(Source(place), pushed).layer_digest
    digest = pushed.digest if which == "manifest" else layer
    blob = tmp_path / "layout" / "blobs" / "sha256" / digest.removeprefix("sha256:")
    content = blob.read_bytes()
    changed = {"altered": content[:-1] + b"X", "shortened": content[:-1], "lengthened": content + b"X"}[damage]
    blob.write_bytes(changed)
    with pytest.raises(DigestMismatch, match=r"instead of|longer than"):
        source.pull(Source(place), pushed)


def test_named_pipe_in_a_layout_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "index.json")
    with pytest.raises(BundleError, match="not a regular file"):
        source.resolve(Source(str(tmp_path), tag="v1"))


def test_layers_beside_the_content_are_left_alone(registry: Registry) -> None:
    """Field case g1."""
    place = f"{registry.host}/g1/extra"
    layer = bundles.pack(FILES)
    digest = push_manifest(place, [("application/vnd.in-toto+json", b"{}"), (artifact.LAYER, layer)], "v1")
    assert source.pull(Source(place, plain_http=True), Revision(digest)).layer == layer


def test_two_content_layers_are_listed(registry: Registry) -> None:
    """Field case g1."""
    place = f"{registry.host}/g1/two"
    flux = "application/vnd.cncf.flux.content.v1.tar+gzip"
    digest = push_manifest(place, [(flux, b"1"), (artifact.LAYER, b"22")], "v1")
    with pytest.raises(BundleError, match=rf"has 2\. Layers: {flux.replace('+', '.')} .*1 bytes\), .*2 bytes\)"):
        source.pull(Source(place, plain_http=True), Revision(digest))


def test_helm_chart_is_named_as_such(registry: Registry) -> None:
    """Field case g1."""
    place = f"{registry.host}/g1/chart"
    provenance = "application/vnd.cncf.helm.chart.provenance.v1.prov"
    digest = push_manifest(place, [(artifact.HELM_LAYER, b"1"), (provenance, b"2")], "v1")
    with pytest.raises(BundleError, match="Helm charts are not rendered by this version"):
        source.pull(Source(place, plain_http=True), Revision(digest))


def test_index_with_one_manifest_is_followed(registry: Registry, folder: Path) -> None:
    """Field case g11."""
    place = f"{registry.host}/g11/one"
    pushed = push(folder, f"{place}:v1", annotations=NOTES, plain_http=True)
    repository = references.parse(place)
    assert isinstance(repository, references.Repository)
    with Connection(repository, UNHURRIED, RegistryAuth(), plain_http=True) as connection:
        size = len(connection.manifest(pushed.digest))
        entry = artifact.Descriptor(artifact.OCI_MANIFEST, pushed.digest, size).as_json()
        index = {"schemaVersion": 2, "mediaType": artifact.OCI_INDEX, "manifests": [entry]}
        raw = json.dumps(index).encode()
        response = connection._request("PUT", "manifests/index", data=raw, content_type=artifact.OCI_INDEX)
        assert response.status_code == 201
    wanted = Source(place, tag="index", plain_http=True)
    found = source.resolve(wanted)
    pulled = source.pull(wanted, found)
    assert unpacked(pulled.layer) == dict(sorted(FILES.items()))
    assert pulled.revision.digest == artifact.digest_of(raw), "the revision stays what was asked for"
    assert pulled.revision.commit == "a" * 40


def test_link_inside_the_folder_is_pushed_as_its_content(tmp_path: Path, folder: Path) -> None:
    (folder / "again.yaml").symlink_to("cm.yaml")
    pushed = push(folder, str(tmp_path / "layout"))
    assert unpacked(source.pull(Source(str(tmp_path / "layout")), pushed).layer)["again.yaml"] == FILES["cm.yaml"]


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "deploy", "missing"])
def test_other_links_are_not_pushed(tmp_path: Path, folder: Path, target: str) -> None:
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(target)
    with pytest.raises(UnsafeBundle, match=r"^link: "):
        push(folder, str(tmp_path / "layout"))


def test_empty_folder_is_pushed_only_when_meant(tmp_path: Path) -> None:
    """Field case g10."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match="holds no files"):
        push(tmp_path / "empty", str(tmp_path / "layout"))
    pushed = push(tmp_path / "empty", str(tmp_path / "layout"), allow_empty=True)
    assert unpacked(source.pull(Source(str(tmp_path / "layout")), pushed).layer) == {}
