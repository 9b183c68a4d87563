"""Deleting one object, or handing it over, on exactly the state that was seen."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.decisions.inventory import PART_OF, Claimant
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Removal
from fleetbeat.engine.remove import remove_tier, still_there
from fleetbeat.errors import Conflict
from fleetbeat.model import ApiResource, Body, ObjectId
from fleetbeat.model_results import ObjectResult
from fleetbeat.ports import Seen, Written

KEY = ObjectId("", "ConfigMap", "shop", "web")
HEIR = Claimant("blog", "applyset-blog-v1")
REMOVAL = Removal(KEY, Seen("u1", "1"), 0)


class Cluster:
    """One ConfigMap, which may have moved since it was seen."""

    name = "local"

    def __init__(self, owner: str, version: str = "1", **metadata: Any) -> None:
        marks = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": version}
        self.live: Body | None = {"metadata": {**marks, "labels": {PART_OF: owner}, **metadata}}
        self.writes: list[str] = []

    def get(self, *_: object) -> Body | None:
        return self.live

    def delete(self, _: ApiResource, __: str, name: str, *, seen: Seen, propagation: str) -> Written | None:
        self._check(seen.resource_version)
        self.writes.append(f"delete {name} {propagation}")
        return Written({"kind": "Status"}, created=False, audit_id="audit")

    def patch(self, _: ApiResource, __: str, name: str, operations: Sequence[dict[str, Any]]) -> Written:
        sent = {operation["path"]: operation["value"] for operation in operations}
        self._check(sent.pop("/metadata/resourceVersion"))
        self.writes.append(f"patch {name} {sent}")
        return Written({}, created=False, audit_id="audit")

    def _check(self, version: str) -> None:
        if self.live is None or self.live["metadata"]["resourceVersion"] != version:
            raise Conflict("moved")


def removed(cluster: Cluster, heir: Claimant | None = None) -> ObjectResult:
    with ThreadPoolExecutor(1) as threads:
        [done] = remove_tier(
            cluster,  # type: ignore[arg-type]
            BUILTIN,
            "applyset-shop-v1",
            [REMOVAL],
            Requests(threads, 1),
            heirs={KEY: heir} if heir else {},
            propagation="Foreground",
            record=lambda _: None,
        )
    return done.result


def test_a_claimed_object_changes_its_owner_and_nothing_else() -> None:
    cluster = Cluster("applyset-shop-v1")
    result = removed(cluster, HEIR)
    assert (result.outcome, result.reason) == ("handed-over", "to application blog")
    assert cluster.writes == ["patch web {'/metadata/labels/applyset.kubernetes.io~1part-of': 'applyset-blog-v1'}"]


def test_what_a_killed_execution_handed_over_is_told_and_not_touched() -> None:
    cluster = Cluster(HEIR.applyset, version="2")
    assert removed(cluster, HEIR).outcome == "handed-over"
    assert cluster.writes == []


@pytest.mark.parametrize(
    ("cluster", "outcome", "writes"),
    [
        (Cluster("applyset-shop-v1"), "pruned", ["delete web Foreground"]),
        (Cluster("applyset-shop-v1", version="2"), "pruned", ["delete web Foreground"]),
        (Cluster("applyset-other-v1", version="2"), "kept", []),
        (
            Cluster("applyset-shop-v1", "2", annotations={"argocd.argoproj.io/sync-options": "Prune=confirm"}),
            "kept",
            [],
        ),
    ],
    ids=["as seen", "moved", "given away", "protected since"],
)
def test_an_object_that_moved_is_looked_at_again(cluster: Cluster, outcome: str, writes: list[str]) -> None:
    assert removed(cluster).outcome == outcome
    assert cluster.writes == writes


def test_a_new_object_of_the_same_name_is_not_ours() -> None:
    live = Cluster("any", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x.io/y"]).live
    assert still_there({KEY: REMOVAL}, {KEY: live}) == {
        KEY: "is being deleted since 2026-01-01T00:00:00Z; finalizer x.io/y holds it"
    }
    assert still_there({KEY: REMOVAL}, {KEY: Cluster("any", uid="u2").live}) == {}
    assert still_there({KEY: REMOVAL}, {KEY: None}) == {}
