"""Temporary folders go, whether their owner ended in order or not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fleetbeat.local.folders import Folder


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def age(path: Path) -> None:
    """Make it old enough to be looked at."""
    then = time.time() - 3600
    os.utime(path, (then, then))


def test_a_temporary_one_is_private_and_goes() -> None:
    folder = Folder("redis")
    assert folder.path.stat().st_mode & 0o077 == 0
    folder.remove()
    assert not folder.path.exists()
    folder.remove()


def test_a_given_one_stays(tmp_path: Path) -> None:
    folder = Folder("redis", tmp_path / "a" / "b")
    folder.remove()
    assert (tmp_path / "a" / "b").is_dir()


def test_the_folder_of_a_killed_owner_is_removed_by_the_next(tmp_path: Path) -> None:
    code = (
        "import os, tempfile; from fleetbeat.local.folders import Folder; "
        f"tempfile.tempdir = {str(tmp_path)!r}; print(Folder('redis').path, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    left = Path(done.stdout.strip())
    assert left.is_dir()
    age(left)
    Folder("redis").remove()
    assert not left.exists()


def test_folders_in_use_or_new_or_strange_are_left_alone(tmp_path: Path) -> None:
    used = Folder("redis")
    age(used.path)
    new = tmp_path / "fleetbeat-redis-new"
    new.mkdir()
    strange = tmp_path / "fleetbeat-redis-strange"
    strange.mkdir()
    age(strange)
    Folder("redis").remove()
    assert used.path.exists()
    assert new.exists()
    assert strange.exists()
    used.remove()
