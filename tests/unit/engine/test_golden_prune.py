"""What is pruned: one folder per case in tests/golden/prune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fleetbeat.catalog import parse_application
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.engine.pruning import plan_pruning
from fleetbeat.model import ApiSet, Application, Body, ObjectId

CASES = sorted(path for path in (Path(__file__).parents[2] / "golden" / "prune").iterdir() if path.is_dir())


def application(sync: dict[str, Any]) -> Application:
    document = {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop"},
        "spec": {
            "source": {"oci": "registry.example.com/shop"},
            "destination": {"cluster": "prod", "namespace": "shop"},
            "sync": sync,
        },
    }
    return parse_application(document, "shop.yaml")


def objects(path: Path) -> dict[ObjectId, Body]:
    found = {}
    for body in yaml.safe_load_all(path.read_text()):
        if body is not None:
            metadata = body["metadata"]
            group = body["apiVersion"].rpartition("/")[0]
            found[ObjectId(group, body["kind"], metadata.get("namespace", ""), metadata["name"])] = body
    return found


def as_listed(key: ObjectId, body: Body) -> Body:
    """With what the API server would have written beside what the file says."""
    ours = {
        "manager": "fleetbeat",
        "operation": "Apply",
        "apiVersion": body["apiVersion"],
        "fieldsV1": {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}},
    }
    return {**body, "metadata": {"uid": key.key, "resourceVersion": "1", "managedFields": [ours], **body["metadata"]}}


def told(case: Path) -> str:
    conditions = yaml.safe_load(path.read_text()) if (path := case / "conditions.yaml").exists() else {}
    live = {key: as_listed(key, body) for key, body in objects(case / "live.yaml").items()}
    labelled = {key: body for key, body in live.items() if PART_OF in body["metadata"].get("labels", {})}
    wanted = objects(case / "wanted.yaml").keys()
    pruning = plan_pruning(
        application(conditions.get("sync", {})),
        ApiSet((), conditions.get("complete", True), "1.36"),
        labelled,
        wanted,
        applyset="shop",
        wanted_uids={live[key]["metadata"]["uid"] for key in wanted if key in live},
        confirmed=conditions.get("confirmed", ""),
        may_empty=conditions.get("mayEmpty", False),
    )
    lines = []
    for number, stage in enumerate(pruning.stages, 1):
        lines.append(f"deleted, stage {number}, wave {stage.wave}")
        lines += [f"  {tier}  {key}" for tier, keys in enumerate(stage.tiers, 1) for key in keys]
    if pruning.kept:
        lines.append("stays")
        lines += [f"  {result.id}: {result.reason} [{result.outcome}]" for result in pruning.kept]
    settled = {removal.id for removal in pruning.removals} | {result.id for result in pruning.kept}
    if pruning.refusal:
        lines.append(pruning.refusal)
    elif others := sorted(live.keys() - settled - wanted):
        lines.append("left alone")
        lines += [f"  {key}" for key in others]
    assert {key for stage in pruning.stages for tier in stage.tiers for key in tier} == {r.id for r in pruning.removals}
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_golden(case: Path):
    assert told(case) == (case / "expected.txt").read_text()
