"""Temporary folders that are removed even when their owner was killed: by the next one that makes such a folder.

A killed demo would otherwise leave 130 MB of etcd's log behind each time. Whether an owner still lives is told by a
lock the kernel drops with it; process ids come back, locks do not.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from pathlib import Path
from typing import TextIO

_LOCK = ".in-use"
_YOUNG = 60.0  # seconds; a folder this young may not have got its lock yet


class Folder:
    """A part's folder: a given one, which stays, or a temporary one that only its owner may read, which goes."""

    def __init__(self, part: str, given: Path | None = None) -> None:
        """Create it. ``part`` becomes part of a temporary one's name."""
        self._lock: TextIO | None = None
        if given is not None:
            self.path = given.absolute()
            self.path.mkdir(parents=True, exist_ok=True)
            return
        prefix = f"fleetbeat-{part}-"
        _sweep(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = (self.path / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove a temporary one; harmless when repeated."""
        if self._lock is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()
            self._lock = None


def _sweep(prefix: str) -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        # OSError: gone in the meantime, or of another user
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime < _YOUNG:
                continue
            with (folder / _LOCK).open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
