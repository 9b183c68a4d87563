"""The kubeconfig of a simulated cluster: one file that kubectl, Fleetbeat and the controllers read."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import yaml

from fleetbeat.local.certificates import private


def write(path: Path, *, name: str, server: str, ca_pem: str, tokens: Mapping[str, str]) -> Path:
    """``tokens``: context name → bearer token; the first is the current context. Only the owner may read the file."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": next(iter(tokens)),
        "clusters": [
            {
                "name": name,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(ca_pem.encode()).decode(),
                },
            }
        ],
        "users": [{"name": context, "user": {"token": token}} for context, token in tokens.items()],
        "contexts": [{"name": context, "context": {"cluster": name, "user": context}} for context in tokens],
    }
    return private(path, yaml.safe_dump(config, sort_keys=False))
