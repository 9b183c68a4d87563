"""What YAML says is what the cluster gets: odd but honest files, from the bundle to the live object."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from typing import Any

import pytest
from fleet import Fleet, config_map
from stories import doc

from fleetbeat.local.cluster import Cluster

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: modes-{name}}}
spec:
  paused: true
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers: [{{name: web, image: "registry.example.com/web:1"}}]
      volumes: [{{name: v, configMap: {{name: x, defaultMode: {mode}}}}}]
"""

# `=` without quotes, as the Prometheus operator's definitions have it; GROUP is this session's own.
DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: matchers.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Matcher, plural: matchers}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              type: {type: string, enum: ['!=', =, =~, '!~']}
              project: {type: integer, format: int64}
"""

AROUND = """\
# only a comment
---
--- # note
null
---
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
data:
  cert: |
    -----BEGIN CERTIFICATE-----
    MIIB
    -----END CERTIFICATE-----
  text: |
    above
    ---
    below
---
...
---
apiVersion: v1
kind: ConfigMap
metadata: {name: second}
data: {a: b}
---
"""

MERGED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: merged
  labels: &labels {app: shop, tier: web}
  annotations: {<<: *labels, note: mine}
data: {a: b}
"""

LISTS = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "ConfigMapList",
            "items": [{"metadata": {"name": "listed-1"}}, {"metadata": {"name": "listed-2"}}],
        },
        {"apiVersion": "v1", "kind": "List", "items": []},
    ],
}


@dataclass(frozen=True)
class Synced:
    fleet: Fleet
    app: str
    namespace: str
    group: str
    first: dict[str, Any]
    again: dict[str, Any]
    rewritten: list[dict[str, Any]]  #: kept writes of the second sync

    def config_map(self, name: str) -> dict[str, Any]:
        return self.object(f"/api/v1/namespaces/{self.namespace}/configmaps/{name}")

    def object(self, path: str) -> dict[str, Any]:
        body = self.fleet.get(path)
        assert body is not None, path
        return body


@pytest.fixture(scope="module")
def synced(fleet: Fleet, cluster: Cluster) -> Synced:
    app = fleet.name("odd")
    group = f"{uuid.uuid4().hex[:8]}.example.com"
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": app}})
    matcher = f"apiVersion: {group}/v1\nkind: Matcher\nmetadata: {{name: equal}}\n"
    cluster_role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": app, "namespace": "meaningless"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    files = {
        "around.yaml": AROUND,
        "bom.yaml": "\ufeff" + doc(config_map("bom", data={"line": "end"})).replace("\n", "\r\n"),
        "definition.yaml": DEFINITION.replace("GROUP", group),
        "matcher.yaml": f"{matcher}spec: {{type: =, project: 9007199254740993}}\n",
        "merged.yaml": MERGED,
        "lists.json": json.dumps(LISTS),
        "row.json": "".join(json.dumps(config_map(f"row-{n}")) for n in (1, 2)),
        "modes/plain.yaml": DEPLOYMENT.format(name="plain", mode="0644"),
        "modes/octal.yaml": DEPLOYMENT.format(name="octal", mode="0o644"),
        "role.yaml": doc(cluster_role),
        "upper/A.YAML": doc(config_map("upper-yaml")),
        "upper/b.yml": doc(config_map("upper-yml")),
        "upper/c.Json": json.dumps(config_map("upper-json")),
        "numbers.yaml": doc(config_map("numbers", data={"tag": "4651090", "size": "8388608"})),
        "README.md": "# not a manifest\n",
        "web.yaml.bak": "not: [yaml",
        ".github/workflows/ci.yml": "on: push\n",
    }
    fleet.push(app, files)
    fleet.application(app, namespace=app)
    first = fleet.wait_run(app)
    assert first["phase"] == "Succeeded", first["message"]
    position = cluster.audit_position()
    again = fleet.sync(app)
    return Synced(fleet, app, app, group, first, again, fleet.writes(app, since=position))


def test_second_sync_writes_nothing(synced: Synced) -> None:
    """None of these spellings looks like drift."""
    assert synced.again["phase"] == "Succeeded"
    assert set(synced.again["counts"]) == {"unchanged"}
    assert synced.rewritten == []


@pytest.mark.parametrize("name", ["plain", "octal"])
def test_file_modes(synced: Synced, name: str) -> None:
    """Field case i1. The quoted spelling is the server's to refuse (test_bad_manifests)."""
    body = synced.object(f"/apis/apps/v1/namespaces/{synced.namespace}/deployments/modes-{name}")
    assert body["spec"]["template"]["spec"]["volumes"][0]["configMap"]["defaultMode"] == 420


def test_bare_equals_sign(synced: Synced) -> None:
    """Field case i2."""
    definition = synced.object(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/matchers.{synced.group}")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["spec"]["properties"]["type"]["enum"] == ["!=", "=", "=~", "!~"]
    matcher = synced.object(f"/apis/{synced.group}/v1/namespaces/{synced.namespace}/matchers/equal")
    assert matcher["spec"]["type"] == "="


def test_digits_of_numbers(synced: Synced) -> None:
    """Field case i4."""
    matcher = synced.object(f"/apis/{synced.group}/v1/namespaces/{synced.namespace}/matchers/equal")
    assert matcher["spec"]["project"] == 9007199254740993
    assert synced.config_map("numbers")["data"] == {"tag": "4651090", "size": "8388608"}


def test_separators_in_all_their_forms(synced: Synced) -> None:
    """Field case i5."""
    assert synced.config_map("first")["data"] == {"cert": PEM, "text": "above\n---\nbelow\n"}
    assert synced.config_map("second")["data"] == {"a": "b"}


@pytest.mark.parametrize("name", ["listed-1", "listed-2", "row-1", "row-2"])
def test_lists_and_rows_of_json(synced: Synced, name: str) -> None:
    """Field case i6."""
    assert synced.config_map(name)["metadata"]["labels"]["applyset.kubernetes.io/part-of"]


@pytest.mark.parametrize("name", ["upper-yaml", "upper-yml", "upper-json", "bom"])
def test_every_ending_is_read(synced: Synced, name: str) -> None:
    """Field case i8."""
    assert synced.config_map(name)["data"]


def test_what_is_no_manifest_is_left_alone(synced: Synced) -> None:
    """Field case i7."""
    created = {result["id"] for result in synced.first["results"]}
    assert len(created) == 17, created


def test_meaningless_namespace_is_dropped(synced: Synced) -> None:
    """Field case i10."""
    role = synced.object(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{synced.app}")
    assert "namespace" not in role["metadata"]


def test_honest_anchors_and_merges(synced: Synced) -> None:
    """Field case i12."""
    metadata = synced.config_map("merged")["metadata"]
    assert metadata["annotations"] == {"app": "shop", "tier": "web", "note": "mine"}
    assert metadata["labels"].items() >= {"app": "shop", "tier": "web"}.items()
