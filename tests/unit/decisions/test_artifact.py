"""What a manifest says, by allow list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleetbeat.decisions import artifact
from fleetbeat.errors import BundleError, DigestMismatch

A, B = "sha256:" + "a" * 64, "sha256:" + "b" * 64


def blob(kind: str = artifact.LAYER, digest: Any = A, size: Any = 3, **more: Any) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest, "size": size} | more


def image(*layers: Any, **more: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": artifact.OCI_MANIFEST, "layers": list(layers)} | more).encode()


def index(*manifests: Any, **more: Any) -> bytes:
    return json.dumps(
        {"schemaVersion": 2, "mediaType": artifact.OCI_INDEX, "manifests": list(manifests)} | more
    ).encode()


@pytest.mark.parametrize("kind", sorted(artifact.LAYERS))
@pytest.mark.parametrize("media_type", [artifact.OCI_MANIFEST, artifact.DOCKER_MANIFEST, None])
def test_layer_of_every_producer(kind: str, media_type: str | None) -> None:
    found = artifact.read(image(blob(kind), mediaType=media_type, annotations={"k": "v", "n": 1}), "it")
    assert found == artifact.Image(artifact.Descriptor(kind, A, 3), {"k": "v"})


def test_subject_and_unknown_fields_change_nothing() -> None:
    """Field case g11."""
    assert isinstance(artifact.read(image(blob(), subject=blob(), artifactType="x/y", extra=[1]), "it"), artifact.Image)


@pytest.mark.parametrize(
    "others",
    [
        ["application/vnd.in-toto+json"],
        ["application/vnd.cncf.helm.chart.provenance.v1.prov", "text/markdown"],
        [artifact.HELM_LAYER],
    ],
)
def test_other_layers_are_left_alone(others: list[str]) -> None:
    """Field case g1."""
    found = artifact.read(image(*(blob(kind, B) for kind in others), blob()), "it")
    assert isinstance(found, artifact.Image)
    assert found.layer.digest == A


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([], "no layer holds manifests .* Layers: none"),
        ([blob("application/wasm")], r"no layer holds manifests .* Layers: application/wasm \(sha256:a+, 3 bytes\)"),
        ([blob(), blob(digest=B)], "exactly one content layer, this has 2. Layers: .*, .*sha256:b+"),
        ([blob(artifact.HELM_LAYER)], "Helm charts are not rendered by this version"),
        ([blob("application/vnd.oci.image.layer.v1.tar+zstd")], "no layer holds manifests"),
        ([blob()] * 300, "and 280 more$"),
        ("x", "layers is not a list"),
        (None, "layers is not a list"),
        ([7], r"layers\[0\] is not a descriptor"),
        ([blob(size=-1)], r"layers\[0\] is not a descriptor"),
        ([blob(size=True)], r"layers\[0\] is not a descriptor"),
        ([blob(size="3")], r"layers\[0\] is not a descriptor"),
        ([blob(kind=None)], r"layers\[0\] is not a descriptor"),  # type: ignore[arg-type]
        ([blob(digest="sha512:" + "a" * 128)], r"layers\[0\]\.digest .* is not sha256"),
        ([blob(digest="sha256:../../etc")], r"layers\[0\]\.digest .* is not sha256"),
    ],
)
def test_layers_that_are_no_bundle(layers: Any, words: str) -> None:
    """Field case g1."""
    with pytest.raises(BundleError, match=f"^it: .*{words}"):
        artifact.read(json.dumps({"mediaType": artifact.OCI_MANIFEST, "layers": layers}).encode(), "it")


PLATFORM = {"platform": {"os": "linux", "architecture": "amd64"}}
ATTESTATION = {"annotations": {"vnd.docker.reference.type": "attestation-manifest"}}


@pytest.mark.parametrize(
    "children",
    [
        [blob(artifact.OCI_MANIFEST)],
        [blob(artifact.DOCKER_MANIFEST, **PLATFORM)],
        [blob(artifact.OCI_INDEX)],
        [blob(artifact.OCI_MANIFEST), blob(artifact.OCI_MANIFEST, B, **ATTESTATION)],
        [blob("application/unknown", B), blob(artifact.OCI_MANIFEST)],
    ],
    ids=["one", "one platform", "nested index", "with buildx provenance", "beside an unknown type"],
)
@pytest.mark.parametrize("kind", sorted(artifact.INDEXES))
def test_index_with_one_candidate(children: list[Any], kind: str) -> None:
    """Field case g11."""
    found = artifact.read(index(*children, mediaType=kind), "it")
    assert isinstance(found, artifact.Index)
    assert found.child.digest == A


@pytest.mark.parametrize(
    "children",
    [[], [blob("application/unknown")], [blob(artifact.OCI_MANIFEST, **PLATFORM), blob(artifact.OCI_MANIFEST, B)]],
    ids=["none", "unknown type", "two platforms"],
)
def test_index_without_a_clear_candidate(children: list[Any]) -> None:
    """Field case g11."""
    with pytest.raises(BundleError, match=r"exactly one manifest, this has [02]") as caught:
        artifact.read(index(*children), "it")
    assert all(child["digest"] in str(caught.value) for child in children)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"{}", "layers is not a list"),
        (image(blob(), mediaType="application/vnd.oci.artifact.manifest.v1+json"), "is not a manifest that can hold"),
        (image(blob(), mediaType=["x"]), "its media type is not a text"),
        (image(blob(), manifests=[blob(artifact.OCI_MANIFEST)]), "both layers and manifests"),
    ],
)
def test_not_a_manifest(content: bytes, words: str) -> None:
    """Field case g11."""
    with pytest.raises(BundleError, match=words):
        artifact.read(content, "it")


def test_our_own_manifest() -> None:
    layer = artifact.Descriptor.of(b"layer", artifact.LAYER)
    notes = {artifact.REVISION: "main@sha1:" + "c" * 40, artifact.SOURCE: "https://git.example.com/shop"}
    built = artifact.build(layer, notes)
    assert built == artifact.build(layer, dict(reversed(notes.items())))
    assert artifact.read(built, "it") == artifact.Image(layer, notes)
    parsed = json.loads(built)
    assert parsed["config"]["mediaType"] == "application/vnd.oci.empty.v1+json"
    assert parsed["config"]["digest"] == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert parsed["artifactType"] == "application/vnd.fleetbeat.bundle.v1"
    assert [entry["mediaType"] for entry in parsed["layers"]] == ["application/vnd.oci.image.layer.v1.tar+gzip"]


def test_descriptor_checks_size_and_digest() -> None:
    layer = artifact.Descriptor.of(b"abc", artifact.LAYER)
    layer.check(b"abc", "it")
    with pytest.raises(DigestMismatch, match="2 bytes instead of the announced 3"):
        layer.check(b"ab", "it")
    with pytest.raises(DigestMismatch, match="has digest sha256:"):
        layer.check(b"abd", "it")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("https://git.example.com/shop", "https://git.example.com/shop"),
        ("\x1b]0;owned\x07https://git.example.com/shop", ""),
        ("two\nlines", ""),
        ("x" * 1000, "x" * 1000),
        ("x" * 1001, ""),
    ],
    ids=["a URL", "an escape", "two lines", "long", "too long"],
)
def test_what_a_bundle_says_of_itself_is_unknown_where_no_terminal_should_show_it(said: str, told: str) -> None:
    """Whoever may push writes it; it is kept in history and shown by `status` and `explain`."""
    assert artifact.told({artifact.SOURCE: said}, artifact.SOURCE) == told
    assert artifact.told({}, artifact.SOURCE) == ""
