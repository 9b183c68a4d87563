"""What makes workloads run in a simulated cluster: controller-manager, scheduler, and kwok in the kubelets' place."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleetbeat.errors import ClusterUnavailable
from fleetbeat.local.api import Api
from fleetbeat.local.process import LocalError, Process

_NODE = "node-0"


class Controllers:
    """The three processes and the one node they serve. Pods become Ready at once; no container runs."""

    def __init__(self, binary: Path, folder: Path, kubeconfig: Path, api: Api, only: Sequence[str] = ()) -> None:
        """``folder`` holds the cluster's CA and service account key; logs go there. ``kubeconfig`` logs in as admin.

        ``only``: names of controllers, e.g. ``deployment-controller``; then the controller-manager runs these alone,
        and there is no scheduler and no node.
        """
        self._binary = binary
        self._api = api
        self._workloads = not only
        login = f"--kubeconfig={kubeconfig}"
        self._stages = folder / "kwok-stages.yaml"
        manager = [
            "kube-controller-manager",
            login,
            f"--service-account-private-key-file={folder / 'service-accounts.key'}",
            f"--root-ca-file={folder / 'ca.crt'}",
            # there is no network and no cloud
            f"--controllers={','.join(only) or '*,-nodeipam,-cloud-node-lifecycle'}",
            "--leader-elect=false",
            "--kube-api-qps=200",  # the default of 20 would make the controllers the slow part of a benchmark
            "--kube-api-burst=400",
            "--secure-port=0",
        ]
        scheduler = ["kube-scheduler", login, "--leader-elect=false", "--secure-port=0"]
        # The lease is the heartbeat: the stage beside it reports only every ten minutes, and the controllers take a
        # node for dead after 50 s of silence.
        lease = "--node-lease-duration-seconds=40"
        kwok = ["kwok", login, f"--config={self._stages}", "--manage-all-nodes=true", lease]
        self.processes = [
            Process(command[0], [binary, *command], log=folder / f"{command[0]}.log")
            for command in ((manager, scheduler, kwok) if self._workloads else (manager,))
        ]

    def start(self) -> None:
        """Start all and wait until the node is ready and pods can be made. Raises LocalError."""
        if self._workloads:
            self._prepare_node()
        for process in self.processes:
            process.start()
        if self._workloads:
            self.processes[-1].wait_ready(self._node_ready, timeout=120)
        self.processes[0].wait_ready(self._account_exists, timeout=120)

    def stop(self) -> None:
        """SIGKILL: they keep no state."""
        for process in self.processes:
            process.kill()

    def _prepare_node(self) -> None:
        done = subprocess.run([self._binary, "kwok-stages"], capture_output=True, check=False)
        if done.returncode != 0:
            raise LocalError(f"{self._binary} kwok-stages: {done.stderr.decode(errors='replace')}")
        self._stages.write_bytes(done.stdout)
        self._add_node()

    def _add_node(self) -> None:
        room = {"cpu": "1000", "memory": "4Ti", "ephemeral-storage": "10Ti", "pods": "10000"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": _NODE,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/hostname": _NODE, "kubernetes.io/os": "linux", "type": "kwok"},
            },
            "status": {"allocatable": room, "capacity": room},
        }
        status, answer = self._api.request("POST", "/api/v1/nodes", node)
        if status not in (201, 409):
            raise LocalError(f"The API server refused the node {_NODE}: {status} {answer}")

    def _node_ready(self) -> bool:
        node = self._get(f"/api/v1/nodes/{_NODE}")
        conditions = node.get("status", {}).get("conditions", []) if node else []
        # new nodes carry the taint not-ready until the controller-manager has seen the condition
        tainted = bool(node and node["spec"].get("taints"))
        return not tainted and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _account_exists(self) -> bool:
        return self._get("/api/v1/namespaces/default/serviceaccounts/default") is not None

    def _get(self, path: str) -> dict[str, Any] | None:
        with contextlib.suppress(ClusterUnavailable):
            status, body = self._api.request("GET", path)
            return body if status == 200 else None
        return None
