"""What of a folder becomes a bundle, and what is named as no part of one."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from fleetbeat.clients import bundle_folder
from fleetbeat.errors import BundleTooLarge, ConfigurationError, UnsafeBundle
from fleetbeat.settings import Bundles


def read(folder: Path, limits: Bundles = Bundles()) -> dict[str, bytes]:  # noqa: B008 - frozen
    return bundle_folder.read(folder, limits)[0]


def test_files_and_links_to_files_inside(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.yaml").write_text("a")
    (tmp_path / "b.yaml").symlink_to("sub/a.yaml")
    (tmp_path / "c.yaml").symlink_to("b.yaml")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    (tmp_path / "run.sh").write_text("x")
    (tmp_path / "run.sh").chmod(0o755)
    files, executable = bundle_folder.read(tmp_path, Bundles())
    assert files == {"b.yaml": b"a", "c.yaml": b"a", "run.sh": b"x", "sub/a.yaml": b"a"}
    assert executable == {"run.sh"}


def circle(folder: Path) -> None:
    (folder / "a.yaml").symlink_to("b.yaml")
    (folder / "b.yaml").symlink_to("a.yaml")


def bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)  # the path of a socket has at most 108 characters
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("a.yaml")


def link(name: str, target: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).symlink_to(target)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        pytest.param(circle, "a.yaml: this link to b.yaml leads round in a circle. Remove it", id="circle of two"),
        pytest.param(link("a", "a"), "a: this link to a leads round in a circle. Remove it", id="circle of one"),
        pytest.param(link("a", "a/b"), "a: this link to a/b leads round in a circle. Remove it", id="circle below"),
        pytest.param(link("a", "gone"), "a: this link leads to gone, which is not there", id="to nothing"),
        pytest.param(link("a", "real/b"), "a: this link leads to real/b, which is not there", id="below a file"),
        pytest.param(link("a", "."), "a: a link to a folder, not a regular file; a bundle", id="to a folder"),
        pytest.param(link("a", "/etc/passwd"), "a: this link leads out of ", id="out of the folder"),
        pytest.param(link("a", "../gone"), "a: this link leads out of ", id="to nothing outside"),
        pytest.param(lambda folder: os.mkfifo(folder / "a"), "a: a pipe, not a regular file; a bundle", id="pipe"),
        pytest.param(link("a", "/dev/null"), "a: this link leads out of ", id="device outside"),
        pytest.param(
            lambda folder: (folder / "a\\b").write_text(""), "a\\b: a backslash in a file's name", id="backslash"
        ),
    ],
)
def test_what_no_bundle_can_hold_is_named(tmp_path: Path, make: Callable[[Path], object], told: str) -> None:
    (tmp_path / "real").write_text("x")
    make(tmp_path)
    with pytest.raises(UnsafeBundle) as refused:
        read(tmp_path)
    assert str(refused.value).startswith(told)


def test_a_socket_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bound(tmp_path, monkeypatch)
    with pytest.raises(UnsafeBundle, match=r"^a\.yaml: a socket, not a regular file"):
        read(tmp_path)


@pytest.mark.parametrize("place", [b"\xff.yaml", b"\xfe/a.yaml"])
def test_a_name_that_is_not_utf_8_is_named(tmp_path: Path, place: bytes) -> None:
    path = tmp_path / os.fsdecode(place)
    try:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    except OSError:
        pytest.skip("this file system has no such names")
    with pytest.raises(UnsafeBundle, match=r"^\\xf[ef][^ ]*\.yaml: this name is not UTF-8") as refused:
        read(tmp_path)
    assert str(refused.value).isprintable()


def failing(error: int, name: str, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """``method`` of paths fails for this name, as when it vanishes or may not be read."""
    real = getattr(Path, method)

    def fail(self: Path, *arguments: object, **more: object) -> object:
        if self.name == name:
            raise OSError(error, os.strerror(error), str(self))
        return real(self, *arguments, **more)

    monkeypatch.setattr(Path, method, fail)


@pytest.mark.parametrize(
    ("error", "method", "told"),
    [
        (errno.ENOENT, "stat", "a.yaml cannot be read: No such file or directory"),
        (errno.ENOENT, "read_bytes", "a.yaml cannot be read: No such file or directory"),
        (errno.EACCES, "read_bytes", "a.yaml cannot be read: Permission denied"),
        (errno.EIO, "read_bytes", "a.yaml cannot be read: Input/output error"),
    ],
    ids=["gone before it is looked at", "gone before it is read", "not to be read", "damaged"],
)
def test_a_file_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, method: str, told: str
) -> None:
    (tmp_path / "a.yaml").write_text("x")
    failing(error, "a.yaml", monkeypatch, method)
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path)
    assert str(refused.value) == f"{tmp_path}/{told}"


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shut").mkdir()
    real = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("shut"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(ConfigurationError, match=r"/shut cannot be read: Permission denied$"):
        read(tmp_path)


def test_what_is_no_folder_or_too_much_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("xx")
    with pytest.raises(ConfigurationError, match=r"is not a folder$"):
        read(tmp_path / "a")
    with pytest.raises(ConfigurationError, match=r"is not a folder$"):
        read(tmp_path / "gone")
    with pytest.raises(BundleTooLarge, match="more than 1 bytes"):
        read(tmp_path, Bundles(max_unpacked=1))
