"""`fleetbeat push`: the facts it takes from git."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fleetbeat.cli import git
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.model import Revision

DIGEST = "sha256:" + "a" * 64


class Recording(Session):
    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def push(self, directory: Path, reference: str, *, annotations: Mapping[str, str], plain_http: bool) -> Revision:
        self.pushed = {"to": (directory, reference), "annotations": dict(annotations), "plain_http": plain_http}
        return Revision(DIGEST)


def run_git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "a.yaml").write_text("a: 1\n")
    run_git(tmp_path, "add", ".")
    run_git(tmp_path, "commit", "-q", "-m", "first")
    run_git(tmp_path, "remote", "add", "origin", "https://robot:s3cret@git.example.com/shop.git")
    return tmp_path


def test_commit_branch_time_and_remote_without_password(repository: Path) -> None:
    session = Recording()
    shown = CliRunner().invoke(cli, ["push", str(repository / "deploy"), "r.example.com/shop:v1"], obj=session)
    assert shown.exit_code == 0
    assert shown.stdout == f"r.example.com/shop:v1@{DIGEST}\n"
    sha = run_git(repository, "rev-parse", "HEAD")
    assert session.pushed["annotations"] == {
        "org.opencontainers.image.source": "https://git.example.com/shop.git",
        "org.opencontainers.image.revision": f"main@sha1:{sha}",
        "org.opencontainers.image.created": run_git(repository, "show", "-s", "--format=%cI", "HEAD"),
    }
    assert Revision(DIGEST, revision=f"main@sha1:{sha}").commit == sha


def test_a_dirty_folder_is_said_and_marked(repository: Path) -> None:
    (repository / "deploy" / "b.yaml").write_text("b: 1\n")
    session = Recording()
    shown = CliRunner().invoke(cli, ["push", str(repository / "deploy"), "r.example.com/shop:v1"], obj=session)
    assert "not committed" in shown.stderr
    assert session.pushed["annotations"]["org.opencontainers.image.revision"].endswith("-dirty")


def test_changes_outside_the_folder_do_not_matter(repository: Path) -> None:
    (repository / "notes.txt").write_text("x")
    found = git.look(repository / "deploy")
    assert found is not None
    assert not found.dirty


def test_a_tag_names_a_detached_head(repository: Path) -> None:
    run_git(repository, "tag", "v1.2")
    run_git(repository, "checkout", "-q", "--detach")
    found = git.look(repository)
    assert found is not None
    assert found.revision.startswith("v1.2@sha1:")


def test_inside_a_hook_of_another_repository(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    run_git(other, "init", "-q")
    run_git(other, "commit", "-q", "--allow-empty", "-m", "other")
    sha = run_git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    found = git.look(repository / "deploy")
    assert found is not None
    assert (found.revision, found.dirty) == (f"main@sha1:{sha}", False)


def test_outside_git_nothing_is_guessed(tmp_path: Path) -> None:
    session = Recording()
    shown = CliRunner().invoke(cli, ["push", str(tmp_path), "r.example.com/shop:v1"], obj=session)
    assert session.pushed["annotations"] == {}
    assert "names no commit" in shown.stderr


def test_options_win_and_drop_the_other_commits_time(repository: Path) -> None:
    session = Recording()
    sha = "b" * 40
    options = ["--source", "https://u:p@git.example.com/x", "--revision", f"main@sha1:{sha}"]
    CliRunner().invoke(cli, ["push", str(repository), "r.example.com/shop:v1", *options], obj=session)
    assert session.pushed["annotations"] == {
        "org.opencontainers.image.source": "https://git.example.com/x",
        "org.opencontainers.image.revision": f"main@sha1:{sha}",
    }
