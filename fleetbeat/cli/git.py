"""What git knows of the folder that is pushed: the facts that lead from a cluster back to a commit."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

_TIMEOUT = 20  # seconds; a git that asks for something never gets an answer
#: set inside git hooks; each would turn us from the folder we were given to the repository of the hook
_OF_ANOTHER_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE"),
)


@dataclass(frozen=True)
class Commit:
    """The commit a folder stands at. ``source`` is "" without a remote."""

    source: str  #: URL of the remote, without credentials
    revision: str  #: "<branch-or-tag>@sha1:<sha>", Flux's form
    created: str  #: commit time, RFC 3339
    dirty: bool  #: files in the folder differ from the commit, or are not in it


def look(directory: Path) -> Commit | None:
    """None when the folder is not in a git work tree with a commit, or git is not installed."""
    sha = _git(directory, "rev-parse", "HEAD")
    if not sha:
        return None
    branch = _git(directory, "symbolic-ref", "--short", "-q", "HEAD")
    # A pipeline usually checks out a bare commit: a tag on it says more than "HEAD".
    ref = branch or _git(directory, "describe", "--tags", "--exact-match", "HEAD") or "HEAD"
    kind = "sha256" if len(sha) == 64 else "sha1"
    changed = _git(directory, "status", "--porcelain", "--untracked-files=all", "--", ".")
    return Commit(
        source=without_credentials(_remote(directory)),
        revision=f"{ref}@{kind}:{sha}",
        created=_git(directory, "show", "-s", "--format=%cI", "HEAD"),
        dirty=bool(changed),
    )


def without_credentials(url: str) -> str:
    """``https://user:token@host/x`` → ``https://host/x``; ``git@host:x`` is no secret and stays."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def environment() -> dict[str, str]:
    """Ours, without what would point git at another repository than the one it is run in."""
    return {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER_REPOSITORY}


def _remote(directory: Path) -> str:
    """The upstream's remote, else origin, else the only one there is."""
    names = _git(directory, "remote").split()
    upstream = _git(directory, "rev-parse", "--abbrev-ref", "--symbolic-full-name", "@{upstream}").partition("/")[0]
    for name in (upstream, "origin"):
        if name in names:
            return _git(directory, "remote", "get-url", name)
    return _git(directory, "remote", "get-url", names[0]) if len(names) == 1 else ""


def _git(directory: Path, *arguments: str) -> str:
    """Output of a git command that only reads, "" when it fails."""
    try:
        done = subprocess.run(
            # no optional locks: `status` would else refresh the index of somebody's checkout
            ["git", "--no-optional-locks", "-C", str(directory), *arguments],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=environment(),
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
