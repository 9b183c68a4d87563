"""A Kubernetes cluster without containers: the real etcd and kube-apiserver, and optionally what makes workloads run.

Each cluster has free ports, keys and a state folder of its own, so several stand side by side. Everything is for
throwing away: etcd does not fsync, the servers are ended by SIGKILL (an API server may take a minute over SIGTERM).
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from fleetbeat.errors import ClusterUnavailable
from fleetbeat.local import build, kubeconfig
from fleetbeat.local.api import Api
from fleetbeat.local.certificates import Authority, Pair, private, private_pem
from fleetbeat.local.controllers import Controllers
from fleetbeat.local.folders import Folder
from fleetbeat.local.process import LocalError, Process, free_port, listens

USER = "fleetbeat"
"""Who Fleetbeat is in this cluster. Not in system:masters: that group skips flow control and RBAC, reality does not."""

# One event per request when it is answered, and one more at its start for a watch. Metadata only: who, what, when,
# never a body. The API server's talk to itself would drown the rest.
_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: None
    users: ["system:apiserver"]
  - level: None
    nonResourceURLs: ["/readyz*", "/livez*", "/healthz*"]
  - level: Metadata
"""


class Cluster:
    """etcd + kube-apiserver on 127.0.0.1, as a context manager; ready in about 4 seconds.

    Without controllers objects are only stored: no Deployment ever becomes ready, a deleted namespace stays
    Terminating. That is enough for most tests, and what they should use.
    """

    def __init__(
        self,
        *,
        name: str = "fleetbeat-local",
        controllers: bool | Sequence[str] = False,
        port: int | None = None,
        folder: Path | None = None,
        fsync: bool = False,
        api_flags: Sequence[str] = (),
    ) -> None:
        """``name``: of the kubeconfig context. ``fsync`` True for benchmarks. ``api_flags``: more for kube-apiserver.

        ``controllers``: all of them and a node for pods, or the names of some, without scheduler and node.
        Without ``folder`` state lives in a temporary one, removed at the end. Raises LocalError when the program is
        missing and cannot be built.
        """
        self._binary = build.binary()
        self._folder = Folder("cluster", folder)
        self.folder = self._folder.path
        self.name = name
        self.port = port or free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self._authority = Authority(f"{name} CA")
        self.ca_pem = self._authority.pem
        self.token = secrets.token_urlsafe(24)  #: of user ``fleetbeat``, bound to ClusterRole cluster-admin
        self.admin_token = secrets.token_urlsafe(24)  #: of a member of system:masters
        self.kubeconfig = kubeconfig.write(
            self.folder / "kubeconfig",
            name=name,
            server=self.server,
            ca_pem=self.ca_pem,
            tokens={name: self.token, f"{name}-admin": self.admin_token},
        )
        self.audit_log = self.folder / "audit.log"
        self._api = Api(self.server, self.ca_pem, self.admin_token)
        self._etcd_port = free_port()
        self._etcd = Process(
            "etcd", self._etcd_command(fsync=fsync), log=self.folder / "etcd.log", port=self._etcd_port
        )
        self._apiserver = Process(
            "kube-apiserver",
            self._apiserver_command(bool(controllers), api_flags),
            log=self.folder / "apiserver.log",
            port=self.port,
        )
        only = () if isinstance(controllers, bool) else controllers
        self._controllers = self._make_controllers(only) if controllers else None

    def start(self) -> Cluster:
        """Start everything and wait until it serves. Raises LocalError with the end of the failing part's log."""
        self._etcd.start()
        self._etcd.wait_ready(lambda: listens(self._etcd_port), timeout=60)
        self.restart()
        self._grant()
        if self._controllers is not None:
            self._controllers.start()
        return self

    def restart(self) -> None:
        """Start the API server again after ``kill``: same port, same data. Returns when it is ready."""
        self._apiserver.start()
        self._apiserver.wait_ready(self._ready, timeout=120)

    def kill(self) -> None:
        """SIGKILL the API server; etcd and controllers stay."""
        self._apiserver.kill()

    def pause(self) -> None:
        """SIGSTOP the API server: connections are accepted by the kernel and nobody answers."""
        self._apiserver.pause()

    def resume(self) -> None:
        self._apiserver.resume()

    def stop(self) -> None:
        """End everything at once; a temporary state folder is removed."""
        if self._controllers is not None:
            self._controllers.stop()
        self._api.close()
        self._apiserver.kill()
        self._etcd.kill()
        self._folder.remove()

    def __enter__(self) -> Cluster:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        """True while every process runs."""
        return all(process.alive for process in self._processes)

    @property
    def pids(self) -> list[int]:
        """Of every process that runs, the API server first."""
        return list(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """Every process that runs: its name, such as ``kube-apiserver``, and its process id."""
        return {process.name: process.pid for process in self._processes if process.pid is not None}

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str | None = None,
        user_agent: str = "fleetbeat-local",
        token: str | None = None,
    ) -> tuple[int, Any]:
        """(status, parsed JSON) of one request, as administrator unless ``token`` is given. See ``api.Api.request``."""
        return self._api.request(method, path, body, content_type=content_type, user_agent=user_agent, token=token)

    def client_certificate(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A client certificate the API server accepts; ``groups=["system:masters"]`` may do everything."""
        return self._authority.client(user, groups)

    def audit_position(self) -> int:
        """Bytes in the audit log now; hand it to ``audit`` later to see only what came after."""
        return self.audit_log.stat().st_size if self.audit_log.exists() else 0

    def audit(self, since: int = 0) -> list[dict[str, Any]]:
        """Audit events so far (audit.k8s.io/v1 Event), oldest first.

        Written before the answer is sent, so a request that has been answered is in it. A watch appears twice
        (``stage`` ResponseStarted, ResponseComplete), every other request once.
        """
        if not self.audit_log.exists():
            return []
        with self.audit_log.open("rb") as log:
            log.seek(since)
            lines = log.read().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith(b"\n")]  # the last one may be half written

    @property
    def _processes(self) -> list[Process]:
        return [self._apiserver, self._etcd, *(self._controllers.processes if self._controllers else [])]

    def _make_controllers(self, only: Sequence[str]) -> Controllers:
        login = kubeconfig.write(
            self.folder / "controllers.kubeconfig",
            name=self.name,
            server=self.server,
            ca_pem=self.ca_pem,
            tokens={"admin": self.admin_token},
        )
        return Controllers(self._binary, self.folder, login, self._api, only)

    def _ready(self) -> bool:
        try:
            return self._api.request("GET", "/readyz")[0] == 200
        except ClusterUnavailable:
            return False

    def _grant(self) -> None:
        """Make Fleetbeat's user an administrator the way a real cluster does: by RBAC."""
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"{USER}-admin"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        status, answer = self._api.request("POST", path, binding)
        if status not in (201, 409):  # 409: a folder that was used before
            raise LocalError(f"The API server refused the ClusterRoleBinding {USER}-admin: {status} {answer}")
        # The authorizer learns of it through a watch, a moment after the write.
        self._apiserver.wait_ready(self._granted, timeout=60)

    def _granted(self) -> bool:
        with contextlib.suppress(ClusterUnavailable):
            return self._api.request("GET", "/api/v1/namespaces?limit=1", token=self.token)[0] == 200
        return False

    def _etcd_command(self, *, fsync: bool) -> list[str | Path]:
        client = f"http://127.0.0.1:{self._etcd_port}"
        peer = f"http://127.0.0.1:{free_port()}"
        command: list[str | Path] = [
            self._binary,
            "etcd",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
        ]
        return command if fsync else [*command, "--unsafe-no-fsync"]

    def _apiserver_command(self, controllers: bool, more: Sequence[str]) -> list[str | Path]:
        serving = self._authority.server()
        users = f'{self.admin_token},admin,admin,"system:masters"\n{self.token},{USER},{USER},"{USER}"\n'
        account_key = private(
            self.folder / "service-accounts.key", private_pem(ec.generate_private_key(ec.SECP256R1()))
        )
        command: list[str | Path] = [
            self._binary,
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={private(self.folder / 'apiserver.crt', serving.certificate)}",
            f"--tls-private-key-file={private(self.folder / 'apiserver.key', serving.key)}",
            f"--client-ca-file={private(self.folder / 'ca.crt', self.ca_pem)}",
            f"--token-auth-file={private(self.folder / 'tokens.csv', users)}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={account_key}",
            f"--service-account-signing-key-file={account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--audit-policy-file={private(self.folder / 'audit-policy.yaml', _AUDIT_POLICY)}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=0",  # no rotation: a test reads one file
            "--endpoint-reconciler-type=none",  # nobody looks the API server up from inside
            "--profiling=false",
        ]
        if not controllers:
            # It refuses pods until a controller has made their service account; here none ever would.
            command.append("--disable-admission-plugins=ServiceAccount")
        return [*command, *more]
