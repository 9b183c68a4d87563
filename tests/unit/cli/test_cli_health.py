"""`fleetbeat health`. What each kind is judged by is told in tests/golden/health."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "shop"}}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop", "generation": 2},
    "spec": {"replicas": 1},
    "status": {
        "observedGeneration": 2,
        "conditions": [
            {"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}
        ],
    },
}
PAUSED = {**DEPLOYMENT, "spec": {"paused": True}, "status": {"observedGeneration": 2}}
NODE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "status": {"phase": "Active"}}


def health(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["health", *map(str, arguments)], input=stdin)


def write(path: Path, *bodies: Any) -> Path:
    path.write_text(yaml.safe_dump_all(bodies))
    return path


def statuses(*arguments: str | Path, stdin: str | None = None) -> dict[str, str]:
    shown = health(*arguments, "-o", "json", stdin=stdin)
    assert shown.exit_code in (Exit.OK, Exit.FAILED), shown.output
    return {f"{one['kind']} {one['name']}": one["status"] for one in json.loads(shown.stdout)}


def test_json_is_exactly_what_is_promised() -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": [CONFIG_MAP, DEPLOYMENT]}
    shown = health("-", "-o", "json", stdin=yaml.safe_dump(listed))
    assert json.loads(shown.stdout) == [
        {
            "group": "",
            "kind": "ConfigMap",
            "namespace": "shop",
            "name": "web",
            "status": "Healthy",
            "message": "",
        },
        {
            "group": "apps",
            "kind": "Deployment",
            "namespace": "shop",
            "name": "web",
            "status": "Degraded",
            "message": "ProgressDeadlineExceeded: timed out",
        },
    ]
    assert shown.exit_code == Exit.FAILED


def test_a_table_for_people(tmp_path: Path) -> None:
    shown = health(write(tmp_path / "live.yaml", NODE, DEPLOYMENT))
    assert shown.output == (
        "OBJECT                HEALTH     MESSAGE\n"
        "Namespace shop        Healthy    Active\n"
        "Deployment shop/web   Degraded   ProgressDeadlineExceeded: timed out\n"
    )


def test_suspended_is_well(tmp_path: Path) -> None:
    """Field case h3."""
    shown = health(write(tmp_path / "live.yaml", CONFIG_MAP, PAUSED))
    assert "Suspended" in shown.output
    assert shown.exit_code == Exit.OK


def test_several_files_and_json_of_the_api(tmp_path: Path) -> None:
    """Items of a raw list have no kind of their own."""
    items = [{key: value for key, value in DEPLOYMENT.items() if key not in ("apiVersion", "kind")}]
    (tmp_path / "list.json").write_text(json.dumps({"apiVersion": "apps/v1", "kind": "DeploymentList", "items": items}))
    found = statuses(write(tmp_path / "a.yaml", CONFIG_MAP), tmp_path / "list.json")
    assert found == {"ConfigMap web": "Healthy", "Deployment web": "Degraded"}


def test_what_asks_to_be_left_out_is_shown_and_does_not_count() -> None:
    annotations = {"argocd.argoproj.io/ignore-healthcheck": "true"}
    body = {**DEPLOYMENT, "metadata": {**DEPLOYMENT["metadata"], "annotations": annotations}}
    shown = health("-", "-o", "json", stdin=yaml.safe_dump(body))
    [one] = json.loads(shown.stdout)
    assert (one["status"], one["message"]) == ("Degraded", "ProgressDeadlineExceeded: timed out (does not count)")
    assert shown.exit_code == Exit.OK


CART = {"apiVersion": "shop.example.com/v1", "kind": "Cart", "metadata": {"name": "main"}, "status": {"phase": "Full"}}
RULE = {"apiVersion": "shop.example.com/v1", "kind": "Cart", "current": "status.phase == 'Empty'"}


@pytest.mark.parametrize(
    "rules",
    [
        [RULE],
        {"healthCheckExprs": [RULE]},
        {"kind": "Application", "spec": {"healthCheckExprs": [RULE], "source": {"oci": "…"}}},
    ],
    ids=["list", "mapping", "application"],
)
def test_rules_can_be_tried(tmp_path: Path, rules: Any) -> None:
    live = write(tmp_path / "live.yaml", CART)
    assert statuses(live) == {"Cart main": "Healthy"}
    assert statuses(live, "--rules", write(tmp_path / "rules.yaml", rules)) == {"Cart main": "Progressing"}


def test_a_rule_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    rules = write(tmp_path / "rules.yaml", [{**RULE, "current": "status.phase ="}])
    shown = health(write(tmp_path / "live.yaml", CART), "--rules", rules)
    assert shown.exit_code == Exit.CONFIGURATION
    assert "rules.yaml, document 1 (line 1): healthCheckExprs[0].current: is not CEL that can be read" in shown.output


def test_definitions_beside_the_objects_tell_who_reports_a_status() -> None:
    """Field cases c4 and h1."""

    def definition(kind: str, version: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{kind.lower()}s.shop.example.com"},
            "spec": {
                "group": "shop.example.com",
                "names": {"kind": kind, "plural": f"{kind.lower()}s"},
                "versions": [{"name": "v1", **version}],
            },
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        }

    moments = {"new": datetime.now(UTC) + timedelta(minutes=10), "old": datetime.now(UTC) - timedelta(minutes=10)}

    def instance(kind: str, age: str) -> dict[str, Any]:
        metadata = {"name": age, "creationTimestamp": moments[age].strftime("%Y-%m-%dT%H:%M:%SZ")}
        return {"apiVersion": "shop.example.com/v1", "kind": kind, "metadata": metadata}

    text = yaml.safe_dump_all(
        [
            *(instance(kind, age) for kind in ("Cart", "Basket", "Stall") for age in moments),
            definition("Cart", {"subresources": {"status": {}}}),
            definition("Basket", {}),
        ]
    )
    found = statuses("-", stdin=text)
    assert [found[f"{kind} {age}"] for kind in ("Cart", "Basket", "Stall") for age in moments] == [
        *("Progressing", "Healthy"),
        *("Healthy", "Healthy"),
        *("Progressing", "Healthy"),
    ]


def test_storage_classes_beside_the_claims_tell_which_wait() -> None:
    """Field case h7."""
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "local"}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"storageClassName": "local"},
        "status": {"phase": "Pending"},
    }
    late = {**storage, "volumeBindingMode": "WaitForFirstConsumer"}
    assert statuses("-", stdin=yaml.safe_dump_all([claim, storage]))["PersistentVolumeClaim data"] == "Progressing"
    assert statuses("-", stdin=yaml.safe_dump_all([claim, late]))["PersistentVolumeClaim data"] == "Healthy"


UNREADABLE = {
    "nothing": ("", "standard input: is empty. Expected are objects"),
    "no-yaml": ("a: [", "standard input, line 1: "),
    "no-object": ("just text", "standard input, document 1 (line 1): must be an object with apiVersion"),
    "no-kind": ("apiVersion: v1\nmetadata: {name: x}", "kind: missing"),
    "no-name": ("apiVersion: v1\nkind: Secret\nmetadata: {}\ndata: {a: czNjcjN0}", "Secret: metadata.name: missing"),
    "in-a-list": ("apiVersion: v1\nkind: List\nitems: [{kind: Pod}]", "(line 1), item 1: apiVersion: missing"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_be_judged_is_never_well(name: str) -> None:
    """A pipe whose first command failed must not look like a healthy cluster."""
    text, said = UNREADABLE[name]
    shown = health("-", stdin=text)
    assert shown.exit_code == Exit.CONFIGURATION
    assert said in shown.output
    assert "czNjcjN0" not in shown.output


def test_an_empty_list_is_said(tmp_path: Path) -> None:
    shown = health("-", "-o", "json", stdin="apiVersion: v1\nkind: List\nitems: []\n")
    assert (shown.exit_code, shown.stdout) == (Exit.OK, "[]\n")
    assert "there is no object in it" in shown.stderr
