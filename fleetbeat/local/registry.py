"""An OCI registry on one's own machine: CNCF distribution, the code behind most self-hosted registries."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import urllib3
import yaml

from fleetbeat.local import build
from fleetbeat.local.certificates import Authority, private
from fleetbeat.local.folders import Folder
from fleetbeat.local.process import LocalError, Process, free_port


@dataclass(frozen=True)
class TokenAuth:
    """Bearer tokens, as the big public registries ask for: a 401 sends the client to ``realm`` for one."""

    realm: str  #: URL of the token service
    service: str  #: becomes the token's ``aud``
    issuer: str  #: must be the token's ``iss``
    certificate: str  #: PEM; tokens are signed by its key


class Registry:
    """A registry on 127.0.0.1, as a context manager. Anonymous over plain HTTP unless told otherwise."""

    def __init__(
        self,
        *,
        folder: Path | None = None,
        port: int | None = None,
        users: Mapping[str, str] | None = None,
        token: TokenAuth | None = None,
        tls: bool = False,
    ) -> None:
        """``users``: name → password, basic auth for every request. ``tls``: HTTPS under a CA of its own, ``ca_pem``.

        Without ``folder`` content lives in a temporary one, removed at the end. Raises LocalError when the program is
        missing and cannot be built.
        """
        self._binary = build.binary()
        self._folder = Folder("registry", folder)
        self.folder = self._folder.path
        self.port = port or free_port()
        self.host = f"127.0.0.1:{self.port}"  #: as it stands in a reference: HOST/repository:tag
        self.url = f"{'https' if tls else 'http'}://{self.host}"
        self.ca_pem: str | None = None
        config = self._config(users or {}, token, tls=tls)
        path = self.folder / "registry.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        # OTEL: since 3.0 the registry tries to send traces to localhost:4318 and logs every failure
        quiet = {"OTEL_TRACES_EXPORTER": "none"}
        self._process = Process(
            "registry",
            [self._binary, "registry", "serve", path],
            log=self.folder / "registry.log",
            env=quiet,
            port=self.port,
        )

    @property
    def log(self) -> Path:
        """Access log (one line per request) and errors."""
        return self._process.log

    @property
    def alive(self) -> bool:
        return self._process.alive

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def storage(self) -> Path:
        """Where the registry keeps blobs and tags; a test may break things here."""
        return self.folder / "storage"

    def start(self) -> Registry:
        """Start it, again after ``kill``, and wait until it answers. Raises LocalError."""
        self._process.start()
        self._process.wait_ready(self._answers, timeout=60)
        return self

    def kill(self) -> None:
        """SIGKILL; the content stays."""
        self._process.kill()

    def pause(self) -> None:
        """SIGSTOP: connections are accepted by the kernel and nobody answers."""
        self._process.pause()

    def resume(self) -> None:
        self._process.resume()

    def stop(self) -> None:
        """An orderly end; a temporary folder is removed."""
        self._process.stop()
        self._folder.remove()

    def __enter__(self) -> Registry:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _config(self, users: Mapping[str, str], token: TokenAuth | None, *, tls: bool) -> dict[str, Any]:
        http: dict[str, Any] = {"addr": self.host, "secret": "one instance needs no shared secret"}
        if tls:
            authority = Authority("fleetbeat-local registry")
            pair = authority.server()
            self.ca_pem = authority.pem
            http["tls"] = {
                "certificate": str(private(self.folder / "tls.crt", pair.certificate)),
                "key": str(private(self.folder / "tls.key", pair.key)),
            }
        config: dict[str, Any] = {
            "version": 0.1,
            "log": {"level": "warn"},
            "storage": {
                "filesystem": {"rootdirectory": str(self.storage)},
                "delete": {"enabled": True},
                "maintenance": {"uploadpurging": {"enabled": False}},
            },
            "http": http,
        }
        if users:
            lines = "".join(self._htpasswd(name, password) for name, password in users.items())
            path = private(self.folder / "htpasswd", lines)
            config["auth"] = {"htpasswd": {"realm": "fleetbeat-local", "path": str(path)}}
        elif token is not None:
            bundle = private(self.folder / "token.crt", token.certificate)
            config["auth"] = {
                "token": {
                    "realm": token.realm,
                    "service": token.service,
                    "issuer": token.issuer,
                    "rootcertbundle": str(bundle),
                }
            }
        return config

    def _htpasswd(self, name: str, password: str) -> str:
        done = subprocess.run(
            [self._binary, "htpasswd", name], input=password, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LocalError(
                f"{self._binary} cannot hash the registry's passwords ({done.stderr.strip()}). It is older than this "
                "Fleetbeat: unset FLEETBEAT_LOCAL_BINARY to have the right one built."
            )
        return done.stdout

    def _answers(self) -> bool:
        try:
            # 401 is an answer of a registry that is ready
            with urllib3.PoolManager(ca_cert_data=self.ca_pem, retries=False, timeout=2.0) as pool:
                return pool.request("GET", f"{self.url}/v2/").status in (200, 401)
        except urllib3.exceptions.HTTPError:
            return False
