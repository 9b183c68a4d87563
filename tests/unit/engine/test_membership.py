"""Whatever is live and ours is listed by the ApplySet parent, after any interleaving of crashes and retries.

Runs go through the real plan, parent and deletions; the cluster is a dictionary that stops answering after so many
writes. What it says of parents is what tests/contract/test_applyset.py holds the client to on a real API server.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fleetbeat.clients import applyset
from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.decisions.changes import fingerprint
from fleetbeat.decisions.inventory import PART_OF, applyset_id, group_kinds, namespaces, parent_name
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Known
from fleetbeat.engine.planning import make_plan
from fleetbeat.engine.remove import remove_tier
from fleetbeat.engine.weigh import Weigher
from fleetbeat.errors import Conflict
from fleetbeat.model import (
    ApiResource,
    ApiSet,
    Application,
    Body,
    Destination,
    Manifest,
    ObjectId,
    Origin,
    Source,
    SyncPolicy,
)
from fleetbeat.ports import Seen, Written

HOME = "fleetbeat"
SHOP = Application("shop", Source("registry.example.com/shop"), Destination("local"), SyncPolicy(allow_empty=True))
OURS = applyset_id(parent_name("shop"), HOME)
MANAGED = {"manager": "fleetbeat", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {f"f:{PART_OF}": {}}}}}


class Crash(BaseException):
    """The worker is killed."""


class Cluster:
    """Objects by id. Raises Crash in place of the write after ``left``."""

    name = "local"

    def __init__(self) -> None:
        self.objects: dict[ObjectId, Body] = {}
        self.left = 0
        self._version = 0

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC)

    def api_set(self, **_: object) -> ApiSet:
        return BUILTIN

    def get(self, resource: ApiResource, namespace: str, name: str) -> Body | None:
        return copy.deepcopy(self.objects.get(ObjectId(resource.group, resource.kind, namespace, name)))

    def list(self, resource: ApiResource, *, selector: str = "", namespace: str = "", **_: object) -> list[Body]:
        label, _, value = selector.partition("=")
        return [
            copy.deepcopy(body)
            for key, body in self.objects.items()
            if (key.group, key.kind) == (resource.group, resource.kind) and namespace in ("", key.namespace)
            if (mark := (body["metadata"].get("labels") or {}).get(label)) and value in ("", mark)
        ]

    def apply(self, resource: ApiResource, body: Body, *, dry_run: bool = False, **_: object) -> Written:
        key = _key(resource, body)
        created = key not in self.objects
        made = self._made(body) if not dry_run else body
        if not dry_run:
            self._write(key, made)
        return Written(made, created, "")

    def create(self, resource: ApiResource, body: Body) -> Written:
        if (key := _key(resource, body)) in self.objects:
            raise Conflict("exists")
        return Written(self._write(key, self._made(body)), created=True, audit_id="")

    def replace(self, resource: ApiResource, body: Body, **_: object) -> Written:
        key = _key(resource, body)
        if self.objects[key]["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict("moved")
        return Written(self._write(key, self._made(body)), created=False, audit_id="")

    def delete(self, resource: ApiResource, namespace: str, name: str, *, seen: Seen, **_: object) -> Written | None:
        key = ObjectId(resource.group, resource.kind, namespace, name)
        if key not in self.objects:
            return None
        if self.objects[key]["metadata"]["resourceVersion"] != seen.resource_version:
            raise Conflict("moved")
        self._write(key, None)
        return Written({"kind": "Status"}, created=False, audit_id="audit")

    def _made(self, body: Body) -> Body:
        self._version += 1
        made = copy.deepcopy(body)
        mark = {"uid": str(self._version), "managedFields": [MANAGED], **made["metadata"]}
        made["metadata"] = mark | {"resourceVersion": str(self._version)}
        return made

    def _write(self, key: ObjectId, body: Body | None) -> Body:
        if self.left <= 0:
            raise Crash
        self.left -= 1
        if body is None:
            return self.objects.pop(key)
        self.objects[key] = body
        return body


def _key(resource: ApiResource, body: Body) -> ObjectId:
    return ObjectId(resource.group, resource.kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])


def manifest(key: ObjectId) -> Manifest:
    body = {"apiVersion": "v1", "kind": key.kind, "metadata": {"name": key.name, "namespace": key.namespace}}
    return Manifest(key, "v1", body, Origin("a.yaml", 1, 1))


def run(cluster: Any, number: int, wanted: Sequence[ObjectId], known: Mapping[ObjectId, Known], pool: Requests) -> Any:
    """One run as the workers go through it; returns the inventory it leaves."""
    manifests = [manifest(key) for key in wanted]
    parent = applyset.read(cluster, HOME, "shop")
    owned = parent.group_kinds if parent else ()
    plan, _ = make_plan(
        cluster, BUILTIN, SHOP, manifests, applyset=OURS, owned_kinds=owned, known=known, pool=pool, home=HOME
    )
    assert not plan.failed
    everything = [*wanted, *(removal.id for removal in plan.removals), *plan.known]
    left = dict(plan.known)
    holder = None
    for stage in plan.stages:
        holder = applyset.take(
            cluster,
            HOME,
            "shop",
            run=f"r{number}",
            fence=number,
            group_kinds=group_kinds(everything),
            namespaces=namespaces(everything),
            digest=f"sha256:{number}",
        )
        for tier in stage.tiers:
            if stage.part == "prune":
                gone = [removal for removal in plan.removals if removal.id in tier]
                for done in remove_tier(cluster, BUILTIN, OURS, gone, pool, record=lambda _: None):
                    left.pop(done.result.id, None)
                continue
            for change in plan.changes:
                if change.id in tier:
                    weigher, wish = Weigher(cluster, SHOP, OURS), manifests[change.index]
                    written = cluster.apply(BUILTIN.find("", change.id.kind), weigher.wanted(wish))
                    mark = fingerprint(written.body, change.id.group_kind)
                    left[change.id] = Known(weigher.hash(wish), mark, "Healthy")
    if holder is not None:
        applyset.shrink(cluster, holder, group_kinds(left), namespaces(left), f"sha256:{number}")
    return left


OBJECTS = [ObjectId("", kind, space, "x") for kind in ("ConfigMap", "Secret", "Service") for space in ("a", "b")]
RUNS = st.lists(
    st.tuples(
        st.sets(st.sampled_from(OBJECTS)),
        st.integers(0, 12) | st.just(1000),  # writes until the worker is killed
        st.booleans(),  # Redis loses the inventory afterwards
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=150)
@given(RUNS, st.sets(st.sampled_from(OBJECTS)))
def test_the_parent_lists_whatever_is_live_and_ours(
    runs: list[tuple[set[ObjectId], int, bool]], last: set[ObjectId]
) -> None:
    cluster, known = Cluster(), dict[ObjectId, Known]()
    with ThreadPoolExecutor(1) as threads:
        pool = Requests(threads, 1)
        for number, (wanted, cluster.left, flushed) in enumerate([*runs, (last, 1000, False)], 1):
            with contextlib.suppress(Crash):
                known = run(cluster, number, sorted(wanted), known, pool)
            known = {} if flushed else known
            ours = _ours(cluster)
            parent = applyset.read(cluster, HOME, "shop")  # type: ignore[arg-type]
            assert group_kinds(ours) <= (parent.group_kinds if parent else frozenset())
            assert namespaces(ours) <= (parent.namespaces if parent else frozenset())
        assert set(ours) == last
        if parent is not None:
            assert parent.group_kinds >= group_kinds(last)


def _ours(cluster: Cluster) -> list[ObjectId]:
    return [key for key, body in cluster.objects.items() if (body["metadata"].get("labels") or {}).get(PART_OF) == OURS]
