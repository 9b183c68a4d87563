"""The files of a folder that becomes a bundle, read once: files and folders alone, and nothing from outside of it."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import NoReturn

from fleetbeat.errors import BundleTooLarge, ConfigurationError, UnsafeBundle
from fleetbeat.settings import Bundles

_SKIPPED = ".git"
_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read(directory: Path, limits: Bundles) -> tuple[dict[str, bytes], set[str]]:
    """Path → content of every file below, without ``.git``, and which of them are executable.

    A link to a file inside the folder counts as that file. Raises ConfigurationError for a folder that cannot be read;
    UnsafeBundle for a link that leads out, to a folder, to nothing or round in a circle, for a pipe, socket or device,
    and for a name that no other machine could write; BundleTooLarge.
    """
    files: dict[str, bytes] = {}
    executable: set[str] = set()
    total = 0
    try:
        if not directory.is_dir():
            raise ConfigurationError(f"{_shown(directory)} is not a folder")
        for folder, folders, names in os.walk(directory, onerror=_raise):
            folders[:] = sorted(name for name in folders if name != _SKIPPED)
            for name in [*(n for n in folders if (Path(folder) / n).is_symlink()), *sorted(names)]:
                path = Path(folder) / name
                if name == _SKIPPED:  # a worktree's or submodule's .git is a file
                    continue
                relative = path.relative_to(directory).as_posix()
                status = _own_file(path, relative, directory)
                total += status.st_size
                if total > limits.max_unpacked or len(files) >= limits.max_entries:
                    raise BundleTooLarge(
                        f"{_shown(directory)}: more than {limits.max_unpacked} bytes or {limits.max_entries} files "
                        "(FLEETBEAT_BUNDLES_MAX_UNPACKED, FLEETBEAT_BUNDLES_MAX_ENTRIES)"
                    )
                files[relative] = path.read_bytes()
                if status.st_mode & 0o100:
                    executable.add(relative)
    except OSError as error:
        raise unreadable(error, directory) from None
    return files, executable


def unreadable(error: OSError, path: Path) -> ConfigurationError:
    """What a file or folder that cannot be read is told as; also one that vanishes meanwhile."""
    return ConfigurationError(f"{_shown(error.filename or path)} cannot be read: {error.strerror}")


def why_no_file(mode: int) -> str:
    """What it is instead of a regular file, "" for one. ``mode``: of ``os.stat``."""
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        return "a folder"
    return next((word for matches, word in _KINDS if matches(mode)), "a special file")


def _own_file(path: Path, relative: str, directory: Path) -> os.stat_result:
    """Of a regular file, or a link to one inside the folder: its content is stored, since bundles have no links."""
    name = _shown(relative)
    if name != relative:
        raise UnsafeBundle(f"{name}: this name is not UTF-8, so other machines cannot write it. Rename it")
    link = path.is_symlink()
    if link and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory)):
        raise UnsafeBundle(f"{relative}: this link leads out of {_shown(directory)}. Put the file there itself")
    try:
        status = path.stat()
    except OSError as error:
        if link and error.errno == errno.ELOOP:
            raise UnsafeBundle(f"{relative}: this link to {_target(path)} leads round in a circle. Remove it") from None
        if link and error.errno in (errno.ENOENT, errno.ENOTDIR):
            raise UnsafeBundle(f"{relative}: this link leads to {_target(path)}, which is not there") from None
        raise
    if kind := why_no_file(status.st_mode):
        found = f"a link to {kind}" if link else kind
        raise UnsafeBundle(f"{relative}: {found}, not a regular file; a bundle holds only files and folders")
    if "\\" in relative:
        raise UnsafeBundle(f"{relative}: a backslash in a file's name would be read as a folder")
    return status


def _target(path: Path) -> str:
    return _shown(path.readlink())


def _shown(path: Path | str) -> str:
    """A path as text that every terminal and file can hold: bytes that are not UTF-8 as ``\\xff``."""
    return os.fsencode(path).decode(errors="backslashreplace")


def _raise(error: OSError) -> NoReturn:
    raise error
