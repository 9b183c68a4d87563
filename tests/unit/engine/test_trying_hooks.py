"""Trying hooks out: what is odd about a manifest is for the API server to refuse, and names are never guessed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.engine.compare import account_of
from fleetbeat.engine.deleting import hooks_of, refused_hooks
from fleetbeat.engine.hooking import Hooks
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Plan
from fleetbeat.engine.planning import make_plan
from fleetbeat.engine.weigh import Weigher
from fleetbeat.model import ApiResource, ApiSet, Application, Body, Destination, Manifest, ObjectId, Origin, Source
from fleetbeat.ports import Written

APPLICATION = Application("shop", Source("registry.example.com/shop"), Destination("local", "shop"))
ODD: list[Any] = [None, [], "text", 7, {"serviceAccountName": None}, {"serviceAccountName": ["x"]}]


def manifest(kind: str, name: str, spec: Any, *, hook: str = "", key: str = "") -> Manifest:
    naming = {"generateName": name} if name.endswith("-") else {"name": name}
    annotations = {"argocd.argoproj.io/hook": hook} if hook else {}
    group = "batch" if kind == "Job" else ""
    metadata = {**naming, "namespace": "shop", "annotations": annotations}
    version = "batch/v1" if group else "v1"
    body: Body = {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}
    return Manifest(ObjectId(group, kind, "shop", key or name), "v1", body, Origin("a.yaml", 1, 1))


class Cluster:
    """Accepts everything; remembers under which names."""

    name = "local"

    def __init__(self) -> None:
        self.tried: list[str] = []

    def api_set(self, **_: object) -> ApiSet:
        return BUILTIN

    def list(self, *_: Any, **__: Any) -> list[Body]:
        return []

    def get(self, *_: object) -> Body | None:
        return None

    def apply(self, _: ApiResource, body: Body, **__: object) -> Written:
        self.tried.append(body["metadata"]["name"])
        return Written(body, created=True, audit_id="")


def planned(cluster: Cluster, *manifests: Manifest, run: str = "") -> Plan:
    with ThreadPoolExecutor(1) as threads:
        plan, _ = make_plan(
            cluster,  # type: ignore[arg-type]
            BUILTIN,
            APPLICATION,
            manifests,
            applyset="applyset-x-v1",
            owned_kinds=[],
            known={},
            pool=Requests(threads, 1),
            run=run,
            hooks_due=True,
        )
    return plan


@pytest.mark.parametrize("spec", ODD)
def test_a_pod_without_a_readable_spec_is_the_servers_to_judge(spec: Any):
    cluster = Cluster()
    one = manifest("Pod", "p", spec, hook="PreSync")
    assert not planned(cluster, one, manifest("Pod", "q", spec)).failed
    assert len(cluster.tried) == 2
    runs = hooks_of([manifest("Pod", "p", spec, hook="PreDelete")], "run", ["PreDelete"]).runs
    weigher = Weigher(cluster, APPLICATION, "applyset-x-v1")  # type: ignore[arg-type]
    judge = Judge(APPLICATION, cluster, BUILTIN)  # type: ignore[arg-type]
    runner = Hooks(cluster, BUILTIN, run="run", manifests=[one], weigher=weigher, judge=judge)  # type: ignore[arg-type]
    assert refused_hooks(runs, [one], runner) == []


def test_whose_account_a_pod_needs():
    assert account_of(manifest("Pod", "p", {"serviceAccountName": "robot"})) == "robot"
    assert {account_of(manifest("Pod", "p", spec)) for spec in ODD} == {"default"}
    assert account_of(manifest("Job", "j", {"serviceAccountName": "robot"})) is None


@pytest.mark.parametrize("run", ["", "20261130T120000Z-abcdef"], ids=["looking", "in a run"])
def test_hooks_of_one_prefix_are_tried_under_names_that_can_be(run: str):
    """Two of them are ``m-*`` and ``m-*2`` as long as nobody has given them names; `fleetbeat diff` never does."""
    cluster = Cluster()
    twins = [manifest("Job", "m-", {}, hook="PreSync", key=key) for key in ("m-*", "m-*2")]
    plan = planned(cluster, *twins, run=run)
    assert len(cluster.tried) == 2
    assert not any("*" in name for name in cluster.tried)
    assert [hook.id.name for hook in plan.hooks] == ["m-*", "m-*2"] or run
