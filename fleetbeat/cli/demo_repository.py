"""The shop's git repository, and the CI job that pushes from it: made anew for each demo, with real commits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from fleetbeat import local
from fleetbeat.cli import git
from fleetbeat.cli.push import annotations_of
from fleetbeat.clients.oci_push import push
from fleetbeat.model import Revision

EXAMPLE = Path(local.__file__).parent / "example"
_REMOTE = "https://git.example.com/team/shop.git"
_AUTHOR = ("-c", "user.name=Example", "-c", "user.email=shop@example.com")
_PLAIN = ("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null")  # the user's own ways stay out of it


class Repository:
    """Without git on the machine there are no commits, and the bundles name none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._git("init", "-q")
        self._git("symbolic-ref", "HEAD", "refs/heads/main")
        self._git("remote", "add", "origin", _REMOTE)

    def release(self, version: str, reference: str) -> Revision:
        """Commit a version of the example and push it to ``reference``. Raises the errors of a push."""
        deploy = self._folder / "deploy"
        shutil.rmtree(deploy, ignore_errors=True)
        shutil.copytree(EXAMPLE / version, deploy)
        self._git("add", "--all")
        self._git(*_AUTHOR, *_PLAIN, "commit", "-q", "-m", f"Release {version}")
        notes = annotations_of(git.look(deploy), None, None)
        pushed = push(deploy, reference, annotations=notes, plain_http=True)
        return Revision(
            pushed.digest,
            pushed.tag,
            source=notes.get("org.opencontainers.image.source", ""),
            revision=notes.get("org.opencontainers.image.revision", ""),
        )

    def _git(self, *arguments: str) -> None:
        try:
            subprocess.run(
                ["git", "-C", str(self._folder), *arguments],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                env=git.environment(),
                check=False,
            )
        except FileNotFoundError:
            return
