"""The applications of W1 and W3: five objects each, in a namespace of its own that is there beforehand."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from fleetbeat.clients.oci_push import push
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.registry import Registry

OBJECTS = 5
LABEL = "bench.example.com/version"
#: where the observer watches them
PATHS = (
    "/api/v1/serviceaccounts",
    "/api/v1/services",
    "/api/v1/configmaps",
    "/apis/rbac.authorization.k8s.io/v1/roles",
    "/apis/apps/v1/deployments",
)
KINDS = ("ServiceAccount", "Service", "ConfigMap", "Role.rbac.authorization.k8s.io", "Deployment.apps")
RESOURCES = ("serviceaccounts", "services", "configmaps", "roles", "deployments")


def names(count: int) -> list[str]:
    return [f"app-{number:03}" for number in range(count)]


def manifests(app: str, version: str) -> list[dict[str, Any]]:
    """ServiceAccount, Service, ConfigMap of 2 KB, Role, Deployment without replicas; all carry ``LABEL``."""
    metadata = {"name": "web", "labels": {"app": "web", LABEL: version}}
    pod = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "serviceAccountName": "web",
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example.com/web:1.0.0",
                    "ports": [{"name": "http", "containerPort": 8080}],
                    "envFrom": [{"configMapRef": {"name": "web"}}],
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                }
            ],
        },
    }
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {"settings": f"{app} {version} " * 160},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}],
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": pod},
        },
    ]


def push_bundles(registry: Registry, apps: Iterable[str], version: str = "v1") -> None:
    """One repository per application, one plain YAML file each, tag ``main``."""

    def one(app: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "app.yaml").write_text(yaml.safe_dump_all(manifests(app, version)))
            push(Path(folder), f"{registry.host}/{app}:main", plain_http=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, apps))


def make_namespaces(cluster: Cluster, apps: Iterable[str]) -> None:
    def one(app: str) -> None:
        status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": app}})
        assert status == 201, answer

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, apps))


def application(app: str, registry: Registry, cluster: str, interval: str) -> str:
    """Its catalog document."""
    return yaml.safe_dump(
        {
            "apiVersion": "fleetbeat.dev/v1alpha1",
            "kind": "Application",
            "metadata": {"name": app},
            "spec": {
                "source": {"oci": f"{registry.host}/{app}", "tag": "main", "plainHTTP": True},
                "destination": {"cluster": cluster, "namespace": app},
                "sync": {"interval": interval},
            },
        }
    )


def target(cluster: Cluster) -> str:
    """The cluster's catalog document: Fleetbeat's own user there, bound by RBAC, subject to flow control."""
    return yaml.safe_dump(
        {
            "apiVersion": "fleetbeat.dev/v1alpha1",
            "kind": "Cluster",
            "metadata": {"name": cluster.name},
            "spec": {
                "server": cluster.server,
                "ca": {"inline": cluster.ca_pem},
                "token": {"inline": cluster.token},
            },
        }
    )
