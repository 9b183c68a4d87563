"""Field cases f: what failed for a passing reason, and what people did by hand meanwhile.

f2 is in tests/unit/decisions (test_schedule.py, test_lifecycle.py, test_fights.py), f3 in test_fights.py and
test_watch.py, f7 in test_rollback.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import Result
from fleet import Fleet, config_map, outcomes, words
from people import Hands
from waiting import wait_for

from fleetbeat.decisions.self_heal import SELF_HEAL
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"


@pytest.fixture
def hands(cluster: Cluster) -> Hands:
    return Hands(cluster)


def maps(namespace: str, name: str = "web") -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps/{name}"


# ── f1 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def rule(groups: str, resources: str, verbs: str) -> Body:
    return {"apiGroups": [groups], "resources": resources.split(), "verbs": verbs.split()}


def grant(hands: Hands, place: str, account: str, *rules: Body) -> None:
    """``place``: a namespace, or "" for the whole cluster."""
    kind = "Role" if place else "ClusterRole"
    base = f"{RBAC}/namespaces/{place}" if place else RBAC
    space = account.partition("/")[0]
    name = f"{space}-{account.partition('/')[2]}"
    subject = {"kind": "ServiceAccount", "namespace": space, "name": account.partition("/")[2]}
    binding = {"roleRef": {"apiGroup": GROUP, "kind": kind, "name": name}, "subjects": [subject]}
    hands.create(f"{base}/{kind.lower()}s", {"metadata": {"name": name}, "rules": list(rules)})
    hands.create(f"{base}/{kind.lower()}bindings", {"metadata": {"name": name}, **binding})


@pytest.fixture
def limited(fleet: Fleet, cluster: Cluster, hands: Hands, namespace: str) -> Iterator[tuple[str, str]]:
    """(cluster of the catalog, service account) whose rights end at reading and at Fleetbeat's own namespace."""
    account = f"{namespace}/deployer"
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    hands.create(path, {"metadata": {"name": "deployer"}})
    token = hands.create(f"{path}/deployer/token", {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    grant(hands, "", account, rule("*", "*", "get list watch"), rule("", "namespaces", "create"))
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": "fleetbeat"}})
    assert status in (201, 409), answer  # another test may have been first
    grant(hands, "fleetbeat", account, rule("", "configmaps events", "*"))
    name = fleet.name("limited")
    spec = {"server": cluster.server, "ca": {"inline": cluster.ca_pem}, "token": {"inline": token}}
    document = {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}, "spec": spec}
    fleet._write(f"cluster-{name}.yaml", document)
    yield name, account
    for path in fleet.catalog.glob("app-*.yaml"):
        if f"cluster: {name}\n" in path.read_text():
            app = path.stem.removeprefix("app-")
            fleet.leave(app)
            wait_for(lambda app=app: app not in fleet.catalogs.names(), what="it gone")  # type: ignore[misc]
    (fleet.catalog / f"cluster-{name}.yaml").unlink()


def failed(fleet: Fleet, app: str, times: int, words: str) -> dict[str, str]:
    """Its state, once it has failed so often, and for this."""

    def found() -> dict[str, str] | None:
        state = fleet.state(app)
        there = f"{state.get('reason')}: {state.get('message')}"
        return state if int(state.get("failures") or 0) >= times and words in there else None

    return wait_for(found, timeout=120, what=f"{times} failures: {words}")


def test_a_right_that_comes_late_is_used_unattended(
    fleet: Fleet, cluster: Cluster, hands: Hands, namespace: str, limited: tuple[str, str]
) -> None:
    """Field case f1: retried with growing pauses, no new digest and nobody's word needed."""
    where, account = limited
    app = fleet.name("late")
    digest = fleet.push(app, [config_map("web", data={"v": "1"}), config_map("other")]).digest
    patient = {"limit": 100, "backoff": {"duration": "200ms", "factor": 2, "maxDuration": "2s"}}
    start = cluster.audit_position()
    fleet.application(app, cluster=where, namespace=namespace, retry=patient)
    # The authorizer learns of new rights a moment late: what fails at first may be a read.
    state = failed(fleet, app, 3, 'cannot patch resource "configmaps"')
    assert (state["phase"], state["sync"]) == ("Failed", "OutOfSync")
    assert set(outcomes(fleet.history(app)[0]).values()) == {"failed"}
    assert {entry["trigger"] for entry in fleet.history(app)} <= {"First", "Retry"}

    grant(hands, namespace, account, rule("", "configmaps", "*"))
    entry = fleet.wait_run(app, phase="Succeeded")
    assert (entry["trigger"], entry["request"], entry["revision"]["digest"]) == ("Retry", "", digest)
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "created" for name in ("web", "other")}
    state = fleet.state(app)
    assert (state["sync"], state["failures"], state["reason"]) == ("Synced", "0", "")
    kept = [event for event in fleet.writes(app, since=start) if event["responseStatus"]["code"] < 300]
    assert sorted(words(kept)) == sorted(f"patch configmaps {namespace}/{name}" for name in ("web", "other"))
    assert fleet.tick(app) == "nothing to do"


# ── f5 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


SECRET: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "extra"}, "stringData": {"k": "v"}}


@pytest.mark.parametrize(
    ("bad", "interval", "error"),
    [
        pytest.param([SECRET, config_map("web", data={"v": "bad"})], "1h", "ObjectsFailed", id="retried with pauses"),
        pytest.param({"web.yaml": "kind: [\n"}, "1s", "ManifestError", id="retried at the interval"),
    ],
)
def test_a_good_bundle_is_taken_by_the_very_next_attempt(
    fleet: Fleet, hands: Hands, namespace: str, limited: tuple[str, str], bad: Any, interval: str, error: str
) -> None:
    """Field case f5: the retries of a broken one do not stand in its way. Nobody rings."""
    where, account = limited
    grant(hands, namespace, account, rule("", "configmaps", "*"))  # Secrets are beyond it
    app = fleet.name("broken")
    broken = fleet.push(app, bad).digest
    retry = {"limit": 10, "backoff": {"duration": "1s", "factor": 2, "maxDuration": "3m"}}
    fleet.application(app, cluster=where, namespace=namespace, interval=interval, retry=retry)
    assert failed(fleet, app, 2, f"{error}: ")["attempted"] == broken

    good = fleet.push(app, [config_map("web", data={"v": "good"})]).digest
    before = fleet.runs_ended(app)
    entry = fleet.wait_run(app, digest=good)
    assert (entry["phase"], entry["trigger"], entry["request"]) == ("Succeeded", "Revision", "")
    assert fleet.runs_ended(app) <= before + 2, "at most the one that had asked the registry before it comes first"
    assert {one["revision"]["digest"] for one in fleet.history(app)} == {broken, good}
    state = fleet.state(app)
    assert (state["failures"], state["sync"], state["attempted"]) == ("0", "Synced", good)
    assert fleet.get(maps(namespace))["data"] == {"v": "good"}  # type: ignore[index]


# ── f6 ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_fix_by_hand_under_suspension_is_shown_before_it_is_healed(
    fleet: Fleet, cluster: Cluster, hands: Hands, namespace: str, command: Callable[..., Result]
) -> None:
    """Field case f6: suspend, edit, resume in detect-only mode, then heal; what says "do not heal" stays."""
    app = fleet.name("resumed")
    fleet.push(app, [config_map(name, data={"v": "1"}) for name in ("web", "pinned", "calm")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    fleet.application(app, namespace=namespace, spec={"suspend": True})
    wait_for(lambda: "spec.suspend" in fleet.state(app).get("held_back", ""), what="the suspension")
    start = cluster.audit_position()
    hands.merge(maps(namespace), {"data": {"v": "hot-fix"}})
    mark = {"metadata": {"annotations": {SELF_HEAL: "disabled"}}}
    hands.merge(maps(namespace, "pinned"), {"data": {"v": "hot-fix"}, **mark})
    assert fleet.tick(app).startswith("suspended by")

    # Resumed to look only.
    ended = fleet.runs_ended(app)
    fleet.application(app, namespace=namespace, selfHeal=False)
    entry = fleet.wait_run(app, since=ended)
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "skipped" for name in ("web", "pinned")}
    told = {result["id"].rpartition("/")[2]: result["reason"] for result in entry["results"]}
    assert "data.v changed by kubectl-edit (Update, " in told["web"]
    assert "self-heal is off" in told["web"]
    assert fleet.state(app)["sync"] == "OutOfSync"
    shown = command("diff", app).output
    assert "hot-fix" in shown
    assert fleet.writes(app, since=start) == []

    # Resumed as ever.
    ended = fleet.runs_ended(app)
    fleet.application(app, namespace=namespace)
    entry = fleet.wait_run(app, since=ended)
    assert outcomes(entry) == {
        f"ConfigMap {namespace}/web": "configured",
        f"ConfigMap {namespace}/pinned": "skipped",
    }
    assert words(fleet.writes(app, since=start)) == [f"patch configmaps {namespace}/web"]
    data = {name: hands.get(maps(namespace, name))["data"]["v"] for name in ("web", "pinned", "calm")}
    assert data == {"web": "1", "pinned": "hot-fix", "calm": "1"}
    assert "self-heal is disabled by annotation" in command("status", app).output
    assert fleet.tick(app) == "nothing to do"

    hands.merge(maps(namespace, "pinned"), {"metadata": {"annotations": {SELF_HEAL: None}}})
    fleet.tick(app)
    assert hands.get(maps(namespace, "pinned"))["data"] == {"v": "1"}
    assert len(fleet.writes(app, since=start)) == 2
    assert fleet.state(app)["sync"] == "Synced"
