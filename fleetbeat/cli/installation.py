"""The data folder of ``fleetbeat up``: key, passwords, logs, how to reach what runs. For its owner only."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from fleetbeat.cli.key import new_key
from fleetbeat.errors import ConfigurationError
from fleetbeat.settings import variable


def default_folder() -> Path:
    """``$XDG_STATE_HOME/fleetbeat``, else ``~/.local/state/fleetbeat``."""
    root = variable("XDG_STATE_HOME")
    return (Path(root) if root else Path.home() / ".local" / "state") / "fleetbeat"


class Installation:
    """One data folder. ``held`` makes sure that one `up` uses it at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    @contextlib.contextmanager
    def held(self) -> Iterator[Installation]:
        """Raises ConfigurationError while another `up` holds the folder. The kernel lets go when its holder dies."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self.folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigurationError(
                    f"fleetbeat up is running already with the data folder {self.folder}. "
                    "Stop it, or give another folder with --data"
                ) from None
            try:
                yield self
            finally:
                self._env_file.unlink(missing_ok=True)

    def key(self) -> str:
        """The sealing key: made at the first start and kept, as what is in Redis can be read with it only."""
        return self._kept("key", new_key)

    def redis_password(self) -> str:
        return self._kept("redis-password", lambda: secrets.token_urlsafe(24))

    def made(self, url: str) -> bool:
        """Is this the embedded Redis of this folder? A shell that asked `fleetbeat env` names it, running or not."""
        path = self.folder / "redis-password"
        return path.exists() and urlsplit(url).password == path.read_text().strip()

    def redis_port(self, free: int) -> int:
        """The same port as last time, so that exported variables stay right; ``free`` the first time."""
        return int(self._kept("redis-port", lambda: str(free)))

    def forget_redis_port(self) -> None:
        """Somebody else has it now."""
        (self.folder / "redis-port").unlink(missing_ok=True)

    @property
    def shell_line(self) -> str:
        """What to type in another shell."""
        data = "" if self.folder == default_folder() else f" --data {shlex.quote(str(self.folder))}"
        return f'eval "$(fleetbeat env{data})"'

    def publish(self, env: Mapping[str, str]) -> None:
        """Write what other shells need; it goes when ``held`` ends."""
        _write_private(self._env_file, "".join(f"{name}={value}\n" for name, value in env.items()))

    def exports(self) -> list[str]:
        """``export NAME='value'`` lines. Raises ConfigurationError when nothing runs."""
        try:
            text = self._env_file.read_text()
        except FileNotFoundError:
            raise ConfigurationError(
                f"nothing runs with the data folder {self.folder}. Start it: fleetbeat up CATALOG"
                + ("" if self.folder == default_folder() else f" --data {shlex.quote(str(self.folder))}")
            ) from None
        pairs = (line.partition("=") for line in text.splitlines())
        return [f"export {name}={shlex.quote(value)}" for name, _, value in pairs]

    @property
    def _env_file(self) -> Path:
        return self.folder / "env"

    def _kept(self, name: str, make: Callable[[], str]) -> str:
        path = self.folder / name
        if path.exists():
            return path.read_text().strip()
        text = make()
        _write_private(path, text + "\n")
        return text


def _write_private(path: Path, text: str) -> None:
    """Readable for its owner only from the first byte on; never half written."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)
