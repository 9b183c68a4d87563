"""Hostile and damaged bundles: refused by name of the entry or digest, never half applied, at no cost in memory."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import hostile
import pytest
from fleet import Fleet
from hostile import MIB, Liar, beside, blob, entry, layer, manifest_of, of_layer, of_manifest
from lying_registry import Handler, Server, fixed
from stories import Mistake, Story, check, live_through

from fleetbeat.decisions import artifact

CHART_PROVENANCE = "application/vnd.cncf.helm.chart.provenance.v1.prov"


def two_layers(story: Story) -> tuple[list[bytes], list[bytes]]:
    layers = [layer(story, "bad"), hostile.tar_gz([entry("other.yaml", b"a: b\n")])]
    return layers, [manifest_of((artifact.LAYER, content) for content in layers)]


def no_content_layer(story: Story) -> tuple[list[bytes], list[bytes]]:
    return [b"signed"], [manifest_of([(CHART_PROVENANCE, b"signed")])]


def helm_chart(story: Story) -> tuple[list[bytes], list[bytes]]:
    content = layer(story, "bad")
    return [content], [manifest_of([(artifact.HELM_LAYER, content)])]


def two_platforms(story: Story) -> tuple[list[bytes], list[bytes]]:
    content = layer(story, "bad")
    images = [manifest_of([(artifact.LAYER, content)], annotations={"platform": name}) for name in ("amd64", "arm64")]
    children = [artifact.Descriptor.of(image, artifact.OCI_MANIFEST).as_json() for image in images]
    index = json.dumps({"schemaVersion": 2, "mediaType": artifact.OCI_INDEX, "manifests": children}).encode()
    return [content], [*images, index]


def altered(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def lie_layer_altered(server: Server, content: bytes, manifest: bytes) -> None:
    server.routes[blob(content)] = fixed(200, altered(content))


def lie_layer_truncated(server: Server, content: bytes, manifest: bytes) -> None:
    server.routes[blob(content)] = fixed(200, content[: len(content) // 2])


def lie_layer_longer(server: Server, content: bytes, manifest: bytes) -> None:
    server.routes[blob(content)] = fixed(200, content + bytes(100))


def lie_manifest_altered(server: Server, content: bytes, manifest: bytes) -> None:
    server.routes[f"/manifests/{artifact.digest_of(manifest)}"] = fixed(200, manifest + b" ")


def lie_layer_broken_off(server: Server, content: bytes, manifest: bytes) -> None:
    def broken_off(handler: Handler) -> None:
        handler.answer(200, content[:-9], Content_Length=str(len(content)))
        handler.close_connection = True

    server.routes[blob(content)] = broken_off


def lie_refused(server: Server, content: bytes, manifest: bytes) -> None:
    server.routes[blob(content)] = fixed(403, b"denied")


ARCHIVES = [
    Mistake(name, of_layer(make), says, error)
    for name, make, says, error in [
        ("dot-dot", beside(entry("../etc/cron.d/x", b"x")), ("'../etc/cron.d/x'", "'..'"), "UnsafeBundle"),
        ("absolute-path", beside(entry("/etc/passwd", b"x")), ("'/etc/passwd'", "absolute"), "UnsafeBundle"),
        (
            "symlink-out",
            beside(entry("conf", kind=tarfile.SYMTYPE, target="/etc"), entry("conf/passwd", b"x")),
            ("'conf'", "symbolic link", "'/etc'", "fleetbeat push"),
            "UnsafeBundle",
        ),
        (
            "hard-link",
            beside(entry("conf", kind=tarfile.LNKTYPE, target="../secret")),
            ("'conf'", "hard link"),
            "UnsafeBundle",
        ),
        ("device", beside(entry("null", kind=tarfile.CHRTYPE)), ("'null'", "character device"), "UnsafeBundle"),
        ("entry-twice", beside(entry("00-kept.yaml", b"x")), ("'00-kept.yaml'", "twice"), "UnsafeBundle"),
        (
            "hundred-thousand-entries",
            beside(*(entry(f"d{number % 50}/{number}.yaml") for number in range(100_000))),
            ("more than 20000 files", "FLEETBEAT_BUNDLES_MAX_ENTRIES"),
            "BundleTooLarge",
        ),
        ("gzip-cut-off", lambda story: beside()(story)[:-4], ("cut off",), "BundleError"),
        ("no-archive", lambda _: b"kind: ConfigMap\n" * 100, ("archive",), "BundleError"),
    ]
]

MANIFESTS = [
    Mistake("two-content-layers", of_manifest(two_layers), ("exactly one content layer, this has 2",), "BundleError"),
    Mistake("no-content-layer", of_manifest(no_content_layer), ("no layer holds manifests", "prov"), "BundleError"),
    Mistake("helm-chart", of_manifest(helm_chart), ("Helm chart",), "BundleError"),
    Mistake("two-platforms", of_manifest(two_platforms), ("exactly one manifest, this has 2",), "BundleError"),
]

LIARS = {
    name: Liar(lie)
    for name, lie in {
        "layer-altered": lie_layer_altered,
        "layer-truncated": lie_layer_truncated,
        "layer-longer": lie_layer_longer,
        "manifest-altered": lie_manifest_altered,
        "layer-broken-off": lie_layer_broken_off,
        "layer-refused": lie_refused,
    }.items()
}
LIES = [
    Mistake(name, LIARS[name].publish, says, error, source=LIARS[name].source)
    for name, says, error in [
        ("layer-altered", ("layer sha256:", "has digest", "instead of"), "DigestMismatch"),
        ("layer-truncated", ("layer sha256:", "bytes instead of the announced"), "DigestMismatch"),
        ("layer-longer", ("layer sha256:", "longer than the announced"), "DigestMismatch"),
        ("manifest-altered", ("/shop@sha256:", "has digest", "instead of"), "DigestMismatch"),
        ("layer-broken-off", ("layer sha256:", "the connection broke off in the middle"), "SourceUnavailable"),
        ("layer-refused", ("/shop", "an anonymous request has no right to it (403)"), "Unauthorized"),
    ]
]


@pytest.fixture(scope="module")
def stories(fleet: Fleet) -> Iterator[dict[str, Story]]:
    try:
        yield live_through(fleet, [*ARCHIVES, *MANIFESTS, *LIES])
    finally:
        for liar in LIARS.values():
            liar.stop()


@pytest.mark.parametrize("mistake", ARCHIVES, ids=str)
def test_archives_that_must_not_be_unpacked(mistake: Mistake, stories: dict[str, Story]) -> None:
    """Field cases g4, g10."""
    check(stories[mistake.name], mistake)


@pytest.mark.parametrize("mistake", MANIFESTS, ids=str)
def test_manifests_that_hold_no_single_bundle(mistake: Mistake, stories: dict[str, Story]) -> None:
    """Field cases g1, g11."""
    check(stories[mistake.name], mistake)


@pytest.mark.parametrize("mistake", LIES, ids=str)
def test_content_that_is_not_what_was_announced(mistake: Mistake, stories: dict[str, Story]) -> None:
    """Field case g4."""
    check(stories[mistake.name], mistake)


@pytest.mark.parametrize("as_files", [1, 1024], ids=["one file", "1024 files"])
def test_a_gigabyte_of_zeros_costs_no_memory(fleet: Fleet, as_files: int, namespace: str) -> None:
    """Field case g4: a layer of one megabyte that unfolds to a thousand."""
    app = fleet.name("zeros")
    zeros = hostile.gigabyte_of_zeros(as_files)
    assert len(zeros) < 3 * MIB
    hostile.store(fleet, app, [zeros], manifest_of([(artifact.LAYER, zeros)]))
    for worker in fleet.workers:
        forget_peak(worker.pid)
    before = [peak(worker.pid) for worker in fleet.workers]
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, phase="Failed")
    assert entry["error"] == "BundleTooLarge"
    assert "unpacks to more than 134217728 bytes (FLEETBEAT_BUNDLES_MAX_UNPACKED)" in entry["message"]
    grown = [peak(worker.pid) - old for worker, old in zip(fleet.workers, before, strict=True)]
    # One file is refused at its header. Many are held until the limit, and not a byte beyond.
    assert max(grown) < (40 if as_files == 1 else 128 + 60) * MIB


def peak(pid: int | None) -> int:
    """Most resident memory of a process since ``forget_peak``, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))


def forget_peak(pid: int | None) -> None:
    """proc(5): writing 5 to clear_refs sets the peak to what is resident now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
