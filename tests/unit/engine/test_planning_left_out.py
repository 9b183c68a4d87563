"""An object whose manifest asks to be left out is neither written nor pruned, whatever was applied before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.planning import make_plan
from fleetbeat.model import ApiResource, ApiSet, Application, Body, Destination, Manifest, ObjectId, Origin, Source
from fleetbeat.ports import Written

APPLICATION = Application("shop", Source("registry.example.com/shop"), Destination("local", "shop"))
OURS = "applyset-x-v1"


def config_map(name: str, **annotations: str) -> Manifest:
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}}
    body["metadata"]["annotations"] = {f"argocd.argoproj.io/{key}": value for key, value in annotations.items()}
    return Manifest(ObjectId("", "ConfigMap", "shop", name), "v1", body, Origin("a.yaml", 1, 1))


class Cluster:
    """Holds config maps that an earlier sync applied."""

    name = "local"

    def __init__(self, *names: str) -> None:
        fields = {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}}
        self.live = [
            {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "uid": name,
                    "resourceVersion": "1",
                    "labels": {PART_OF: OURS},
                    "managedFields": [{"manager": "fleetbeat", "operation": "Apply", "fieldsV1": fields}],
                }
            }
            for name in names
        ]

    def api_set(self, **_: object) -> ApiSet:
        return BUILTIN

    def list(self, resource: ApiResource, **_: Any) -> list[Body]:
        return self.live if resource.kind == "ConfigMap" else []

    def get(self, *_: object) -> Body | None:
        return None

    def apply(self, _: ApiResource, body: Body, **__: object) -> Written:
        return Written(body, created=True, audit_id="")


def planned(cluster: Cluster, *manifests: Manifest) -> tuple[list[str], list[str], str]:
    """Names of what is written and what is pruned, and why nothing is pruned."""
    with ThreadPoolExecutor(1) as threads:
        plan, _ = make_plan(
            cluster,  # type: ignore[arg-type]
            BUILTIN,
            APPLICATION,
            manifests,
            applyset=OURS,
            owned_kinds=["ConfigMap"],
            known={},
            pool=Requests(threads, 1),
        )
    assert {c.id for c in plan.changes} == {key for s in plan.stages if s.part != "prune" for t in s.tiers for key in t}
    assert all(manifests[c.index].id == c.id for c in plan.changes)
    return [c.id.name for c in plan.changes], [r.id.name for r in plan.removals], plan.refusal


def test_it_is_not_written_and_its_live_copy_stays():
    """Field case d13."""
    cluster = Cluster("gone", "skipped")
    written, pruned, _ = planned(cluster, config_map("skipped", hook="Skip"), config_map("new"))
    assert (written, pruned) == (["new"], ["gone"])


def test_a_bundle_with_nothing_else_is_an_empty_one():
    """Field case d4: no pruning of everything because only an object is left that is not applied."""
    written, pruned, refusal = planned(Cluster("gone"), config_map("skipped", hook="Skip"))
    assert (written, pruned) == ([], [])
    assert "would delete all 1" in refusal
