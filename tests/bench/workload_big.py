"""The application of W5: 1,000 ConfigMaps of 2 KB in ten namespaces that are there beforehand."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from workload import LABEL

from fleetbeat.clients.oci_push import push
from fleetbeat.local.registry import Registry

NAMESPACES = 10


def spaces(app: str) -> list[str]:
    return [f"{app}-{number}" for number in range(NAMESPACES)]


def version(app: str, number: int) -> str:
    """What the objects of a version carry in ``LABEL``: no two measurements wait for the same value."""
    return f"{app}-v{number}"


def manifests(app: str, objects: int, *, waves: int = 1, changed: Iterable[int] = ()) -> list[dict[str, Any]]:
    """``changed``: numbers of the objects that are as version 2 has them; the others are as in version 1."""
    second = frozenset(changed)
    found = []
    for number in range(objects):
        wanted = version(app, 2 if number in second else 1)
        metadata: dict[str, Any] = {
            "name": f"settings-{number:04}",
            "namespace": f"{app}-{number % NAMESPACES}",
            "labels": {LABEL: wanted},
        }
        if waves > 1:
            metadata["annotations"] = {"argocd.argoproj.io/sync-wave": str(number * waves // objects)}
        data = {"settings": (f"{number} {wanted} " * 200)[:2048]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    return found


def push_bundle(registry: Registry, app: str, bodies: Iterable[dict[str, Any]]) -> None:
    """One plain YAML file, tag ``main``."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.yaml").write_text(yaml.dump_all(bodies, Dumper=yaml.CSafeDumper))
        push(Path(folder), f"{registry.host}/{app}:main", plain_http=True)
