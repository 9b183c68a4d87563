"""Packing is deterministic, unpacking trusts nothing."""

from __future__ import annotations

import gzip
import io
import tarfile
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions import bundles
from fleetbeat.errors import BundleError, BundleTooLarge, UnsafeBundle

MIB = 1024 * 1024


def unpack(layer: bytes, max_unpacked: int = MIB, max_entries: int = 1000) -> dict[str, bytes]:
    return bundles.unpack(layer, max_unpacked=max_unpacked, max_entries=max_entries)


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, len(content)
    return info


def tar(*members: tuple[tarfile.TarInfo, bytes], form: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def archive(*names: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> bytes:
    return gzip.compress(tar(*((member(name, kind=kind, target=target), b"") for name in names)))


# ── pack ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_bytes_do_not_depend_on_order() -> None:
    files = {"b/c.yaml": b"1", "a.yaml": b"2", "b/a.yaml": b"3"}
    assert bundles.pack(files) == bundles.pack(dict(sorted(files.items())))


def test_digest_is_the_same_for_ever() -> None:
    """A change here makes every bundle of every user look new; it belongs into the release notes."""
    packed = bundles.pack({"cm.yaml": b"kind: ConfigMap\n", "bin/run": b"#!"}, executable={"bin/run"})
    assert hex(zlib.crc32(gzip.decompress(packed))) == "0x7b3cd80c"
    assert packed[:10].hex() == "1f8b08000000000000ff"


def test_other_tools_read_it() -> None:
    long = "d" * 90 + "/" + "f" * 120
    packed = bundles.pack({"a/b.yaml": b"x", "run.sh": b"#!", long: b"l", "ü.yaml": b"u"}, executable={"run.sh"})
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as read:
        members = {m.name: m for m in read.getmembers()}
        assert list(members) == sorted(members)
        assert {name: m.mode for name, m in members.items() if m.isfile()} == {
            "a/b.yaml": 0o644,
            "run.sh": 0o755,
            long: 0o644,
            "ü.yaml": 0o644,
        }
        assert {m.mode for m in members.values() if m.isdir()} == {0o755}
        assert {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in members.values()} == {(0, 0, 0, "", "")}
    assert unpack(packed) == {"a/b.yaml": b"x", "run.sh": b"#!", long: b"l", "ü.yaml": b"u"}


PATHS = st.lists(st.text(alphabet="abcÄ .-_", min_size=1, max_size=60).filter(lambda p: p.strip(".") != ""), min_size=1)


@given(st.dictionaries(PATHS.map("/".join), st.binary(max_size=2000), max_size=8))
def test_what_is_packed_is_unpacked(files: dict[str, bytes]) -> None:
    folders = {"/".join(path.split("/")[:n]) for path in files for n in range(1, path.count("/") + 1)}
    kept = {path: content for path, content in files.items() if path not in folders and len(path) <= 1024}
    assert unpack(bundles.pack(kept)) == dict(sorted(kept.items()))


@pytest.mark.parametrize("path", ["/etc/x", "../x", "a/./b", "a//b", "", "a\\b"])
def test_only_plain_paths_are_packed(path: str) -> None:
    with pytest.raises(UnsafeBundle):
        bundles.pack({path: b""})


# ── unpack: what is read ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("./cm.yaml", "cm.yaml"),
        ("a//b/./cm.yaml", "a/b/cm.yaml"),
        ("app\\cm.yaml", "app/cm.yaml"),
        ("...", "..."),
        ("ä/ü", "ä/ü"),
    ],
)
def test_names_are_normalised(name: str, path: str) -> None:
    """Field case g10."""
    assert unpack(archive(name)) == {path: b""}


@pytest.mark.parametrize(
    "form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"]
)
def test_tar_formats(form: int) -> None:
    long = "/".join(["d" * 50] * 3) + "/f.yaml"
    content = tar((member("./", kind=tarfile.DIRTYPE), b""), (member(long), b"x" * 700), (member("b"), b"y"), form=form)
    for layer in (content, gzip.compress(content)):
        assert unpack(layer) == {long: b"x" * 700, "b": b"y"}


def test_global_header_of_git_archive() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", pax_headers={"comment": "a" * 40}) as made:
        made.addfile(member("a.yaml"))
    assert unpack(buffer.getvalue()) == {"a.yaml": b""}


def test_gzip_in_several_members() -> None:
    content = tar((member("a"), b"x" * 5000))
    assert unpack(gzip.compress(content[:700]) + gzip.compress(content[700:])) == {"a": b"x" * 5000}


def test_no_files() -> None:
    """Field case g10: that nothing is wanted is for the prune rules to judge."""
    assert unpack(bundles.pack({})) == {}
    assert unpack(archive("d", kind=tarfile.DIRTYPE)) == {}


# ── unpack: what is refused ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../evil", "'..' in its path"),
        ("a/../../evil", "'..' in its path"),
        ("a\\..\\..\\evil", "'..' in its path"),
        ("/etc/passwd", "an absolute path"),
        ("\\\\server\\share", "an absolute path"),
        ("C:\\evil", "an absolute path"),
        ("a\nb", "a control character"),
        ("x" * 1025, "a path of 1025 characters"),
        (".", "no file name"),
    ],
)
def test_names_that_leave_the_bundle(name: str, problem: str) -> None:
    with pytest.raises(UnsafeBundle, match=r"^entry ") as caught:
        unpack(archive("fine", name))
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        (tarfile.SYMTYPE, "a symbolic link to '../../etc'"),
        (tarfile.LNKTYPE, "a hard link to '../../etc'"),
        (tarfile.CHRTYPE, "a character device"),
        (tarfile.BLKTYPE, "a block device"),
        (tarfile.FIFOTYPE, "a named pipe"),
        (tarfile.GNUTYPE_SPARSE, "a sparse file"),
        (b"Z", "of the unknown type b'Z'"),
    ],
)
def test_what_is_no_file(kind: bytes, word: str) -> None:
    with pytest.raises(UnsafeBundle) as caught:
        unpack(archive("link", kind=kind, target="../../etc" if kind in b"12" else ""))
    assert f"entry 'link' is {word};" in str(caught.value)


def test_link_inside_the_bundle_is_not_dropped_silently() -> None:
    """Field case g10: a link left out would be objects left out."""
    with pytest.raises(UnsafeBundle, match=r"'kustomization\.yaml' is a symbolic link to 'base\.yaml'"):
        unpack(archive("kustomization.yaml", kind=tarfile.SYMTYPE, target="base.yaml"))


@pytest.mark.parametrize("names", [("a", "a"), ("a", "./a"), ("a/b", "a\\b"), ("a", "a/b"), ("a/b", "a")])
def test_one_name_twice(names: tuple[str, str]) -> None:
    with pytest.raises(UnsafeBundle, match=r"twice|as a file and as a folder"):
        unpack(archive(*names))


def test_damage_is_never_a_shorter_bundle() -> None:
    """Field case g4: cut or altered anywhere, it is an error or (in padding and unused fields) the same files."""
    whole = tar((member("a.yaml"), b"A" * 600), (member("b.yaml"), b"B"))
    wanted = unpack(whole)
    for size in range(0, len(whole) - 8192, 64):  # the end marker and its padding are the last 9 KiB
        with pytest.raises(BundleError):
            unpack(whole[:size])
    for at in [*range(0, 512, 7), *range(512 + 1024, 512 + 1024 + 512, 7)]:  # both headers
        damaged = whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]
        with pytest.raises(BundleError):
            unpack(damaged)
    assert unpack(whole) == wanted


def test_cut_or_altered_gzip() -> None:
    """Field case g4."""
    layer = bundles.pack({"a.yaml": b"kind: ConfigMap\n" * 50})
    for size in range(1, len(layer)):
        with pytest.raises(BundleError):
            unpack(layer[:size])
    for at in range(len(layer) - 8, len(layer)):
        with pytest.raises(BundleError, match="gzip data is damaged"):
            unpack(layer[:at] + bytes([layer[at] ^ 1]) + layer[at + 1 :])


@pytest.mark.parametrize("tail", [b"junk", gzip.compress(b"junk"), gzip.compress(tar((member("second"), b"")))])
def test_more_behind_the_end(tail: bytes) -> None:
    with pytest.raises(BundleError, match=r"damaged|goes on behind"):
        unpack(archive("a") + tail)


@pytest.mark.parametrize(
    "layer", [b"", b"\x1f\x8b", b"PK\x03\x04" + bytes(600), b"not a tar" * 100, gzip.compress(b"")]
)
def test_no_archive_at_all(layer: bytes) -> None:
    with pytest.raises(BundleError):
        unpack(layer)


# ── limits ───────────────────────────────────────────────────────────────────────────────────────────────────────


def zeros(size: int, before: bytes = b"") -> bytes:
    """A gzip of ``before`` and then zeros, put together from one compressed MiB: making it takes no time."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, 31)
    start = deflate.compress(before) + deflate.flush(zlib.Z_FULL_FLUSH)
    return start + (deflate.compress(bytes(MIB)) + deflate.flush(zlib.Z_FULL_FLUSH)) * (size // MIB) + deflate.flush()


@pytest.mark.parametrize("as_file", [True, False], ids=["one file", "behind the end"])
def test_gigabyte_of_zeros(as_file: bool) -> None:
    """Field case g4: stops at the limit while streaming, and memory stays flat."""
    info = member("zeros")
    info.size = 1024 * MIB
    layer = zeros(1024 * MIB, info.tobuf() if as_file else b"")
    assert len(layer) < 2 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(BundleTooLarge, match=r"more than 8388608 bytes \(FLEETBEAT_BUNDLES_MAX_UNPACKED\)"):
            unpack(layer, max_unpacked=8 * MIB)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_hundred_thousand_entries() -> None:
    """Field case g4."""
    layer = gzip.compress(b"".join(member(f"f{n:06}").tobuf() for n in range(25_000)) * 4, 1)
    with pytest.raises(BundleTooLarge, match=r"more than 20000 files and folders \(FLEETBEAT_BUNDLES_MAX_ENTRIES\)"):
        unpack(layer, max_unpacked=128 * MIB, max_entries=20_000)


def test_folders_that_are_only_implied_count() -> None:
    with pytest.raises(BundleTooLarge, match="MAX_ENTRIES"):
        unpack(archive("/".join("abcdefghijkl")), max_entries=11)
    assert unpack(archive("/".join("abcdefghijkl")), max_entries=12)


def test_attributes_cannot_be_used_to_hold_memory() -> None:
    huge = member("././@PaxHeader", kind=tarfile.XHDTYPE)
    huge.size = 64 * MIB
    with pytest.raises(UnsafeBundle, match="67108864 bytes of attributes"):
        unpack(huge.tobuf() + bytes(10_000))


def test_many_gzip_members() -> None:
    with pytest.raises(BundleError, match="more than 1000 members"):
        unpack(gzip.compress(b"") * 100_000)


def test_limits_are_inclusive() -> None:
    layer = bundles.pack({"d/a": b"x" * 1000})
    assert unpack(layer, max_unpacked=1000, max_entries=2)
    with pytest.raises(BundleTooLarge):
        unpack(layer, max_unpacked=999, max_entries=2)
    with pytest.raises(BundleTooLarge):
        unpack(layer, max_unpacked=1000, max_entries=1)


@given(st.binary(max_size=3000))
def test_any_bytes_are_an_archive_or_a_clear_error(layer: bytes) -> None:
    for candidate in (layer, gzip.compress(layer)):
        try:
            unpack(candidate)
        except BundleError:
            continue
