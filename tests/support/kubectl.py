"""What people do with kubectl: the real program where it is installed, else the very requests it sends."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

from people import Hands

from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]
PROGRAM = shutil.which("kubectl")


class Kubectl(Protocol):
    """Deployments and ConfigMaps of one namespace."""

    def edit(self, config_map: str, key: str, value: str) -> None: ...
    def scale(self, deployment: str, replicas: int) -> None: ...
    def restart(self, deployment: str) -> None: ...


class Requests:
    """As kubectl 1.32 sends them."""

    def __init__(self, hands: Hands, namespace: str) -> None:
        self._hands = hands
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._deployments = f"/apis/apps/v1/namespaces/{namespace}/deployments"

    def edit(self, config_map: str, key: str, value: str) -> None:
        self._hands.merge(f"{self._maps}/{config_map}", {"data": {key: value}}, "kubectl-edit")

    def scale(self, deployment: str, replicas: int) -> None:
        self._hands.scale(f"{self._deployments}/{deployment}", replicas, "kubectl")

    def restart(self, deployment: str) -> None:
        at = {"kubectl.kubernetes.io/restartedAt": "2026-11-30T12:00:00Z"}
        patch = {"spec": {"template": {"metadata": {"annotations": at}}}}
        self._hands.merge(f"{self._deployments}/{deployment}", patch, "kubectl-rollout")


class Program:
    """The real one."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        assert PROGRAM is not None
        self._command = [PROGRAM, f"--kubeconfig={cluster.kubeconfig}", f"--context={cluster.name}-admin"]
        self._command += ["-n", namespace]
        self._folder = folder

    def edit(self, config_map: str, key: str, value: str) -> None:
        """Its editor is a program that does what a person would: find the key, type another value, save."""
        script = self._folder / "editor.py"
        script.write_text(
            "import sys, yaml\n"
            "text = open(sys.argv[1]).read()\n"
            "body = yaml.safe_load(text)\n"
            f"body['data'][{json.dumps(key)}] = {json.dumps(value)}\n"
            "open(sys.argv[1], 'w').write(yaml.safe_dump(body))\n"
        )
        editor = shlex.join([sys.executable, str(script)])
        self._run("edit", "configmap", config_map, KUBE_EDITOR=editor)

    def scale(self, deployment: str, replicas: int) -> None:
        self._run("scale", f"deployment/{deployment}", f"--replicas={replicas}")

    def restart(self, deployment: str) -> None:
        self._run("rollout", "restart", f"deployment/{deployment}")

    def _run(self, *arguments: str, **environment: str) -> None:
        home = {"HOME": str(self._folder), "PATH": "/usr/local/bin:/usr/bin:/bin", **environment}
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, env=home, timeout=240, check=False
        )
        assert done.returncode == 0, done.stderr
