"""An identity with the Roles of docs/rights.md and nothing cluster-wide: everything works, and what cannot is said."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from click.testing import Result
from departing import DELETE, objects, parent, removed
from fleet import Fleet, config_map, outcomes, words
from people import Hands
from waiting import wait_for
from watching import watching

from fleetbeat.clients.watch_lease import watchers
from fleetbeat.decisions.inventory import parent_name
from fleetbeat.local.cluster import Cluster

Body = dict[str, Any]
PAGE = Path(__file__).parents[2] / "docs/rights.md"
ACCOUNT: Body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
HOOK = config_map("migration", annotations={"argocd.argoproj.io/hook": "PreSync"})


def documents(title: str) -> list[Body]:
    """Of the page's YAML that begins with ``# title:``."""
    (text,) = re.findall(rf"```yaml\n# {re.escape(title)}:.*?\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return list(yaml.safe_load_all(text))


def kubectl_apply(cluster: Cluster, body: Body) -> None:
    """POST; what another test has made already is as it should be."""
    api = body["apiVersion"]
    space = body["metadata"].get("namespace")
    base = f"/api/{api}" if api == "v1" else f"/apis/{api}"
    path = f"{base}/namespaces/{space}" if space else base
    status, answer = cluster.request("POST", f"{path}/{body['kind'].lower()}s", body)
    assert status in (201, 409), answer


def admit(cluster: Cluster, namespace: str) -> None:
    """What the page says for namespace shop. It is in force afterwards."""
    for body in documents("shop.yaml"):
        kubectl_apply(cluster, {**body, "metadata": {**body["metadata"], "namespace": namespace}})
    wait_for(lambda: admitted(cluster, namespace), what=f"the rights in {namespace}")


def admitted(cluster: Cluster, namespace: str) -> bool:
    spec = {
        "user": "system:serviceaccount:fleetbeat:fleetbeat",
        "resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": namespace},
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    status, answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert status == 201, answer
    return bool(answer["status"]["allowed"])


class Tenant(NamedTuple):
    """The test's namespace, to an installation that may go nowhere else."""

    fleet: Fleet
    cluster: str  #: its entry in the catalog
    namespace: str

    def application(self, word: str, manifests: list[Body]) -> str:
        app = self.fleet.name(word)
        self.fleet.push(app, manifests)
        self.fleet.application(app, cluster=self.cluster, namespace=self.namespace, spec=DELETE)
        return app

    def path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{name}"


@pytest.fixture
def hands(cluster: Cluster) -> Hands:
    return Hands(cluster)


@pytest.fixture
def another(hands: Hands) -> str:
    """A second namespace."""
    name = f"t-{uuid.uuid4().hex[:10]}"
    hands.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture
def tenant(fleet: Fleet, cluster: Cluster, namespace: str) -> Iterator[Tenant]:
    for body in documents("records.yaml"):
        kubectl_apply(cluster, body)
    admit(cluster, namespace)
    wait_for(lambda: admitted(cluster, "fleetbeat"), what="the rights to keep records")
    path = "/api/v1/namespaces/fleetbeat/serviceaccounts/fleetbeat/token"
    token = Hands(cluster).create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    name = fleet.name("tenant")
    spec = {"server": cluster.server, "ca": {"inline": cluster.ca_pem}, "token": {"inline": token}}
    head = {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": name}}
    fleet._write(f"cluster-{name}.yaml", {**head, "spec": spec})
    yield Tenant(fleet, name, namespace)
    for file in fleet.catalog.glob("app-*.yaml"):
        if f"cluster: {name}\n" in file.read_text():
            app = file.stem.removeprefix("app-")
            fleet.leave(app)
            wait_for(lambda app=app: app not in fleet.catalogs.names(), what="it gone")  # type: ignore[misc]
    (fleet.catalog / f"cluster-{name}.yaml").unlink()
    wait_for(lambda: name not in fleet.catalogs.clusters(), what="its cluster gone too")


def lists(cluster: Cluster, run: str, since: int) -> tuple[Counter[str], Counter[str]]:
    """What a run has listed: resources that it was shown, and those it was refused, all within one run."""
    shown: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for event in cluster.audit(since):
        if event["verb"] == "list" and f"run/{run}" in event.get("userAgent", "").split():
            reference = event["objectRef"]
            found = shown if event["responseStatus"]["code"] == 200 else refused
            found[f"{reference['resource']} {reference.get('namespace', '*')}"] += 1
    return shown, refused


def test_first_sync_look_new_revision_drift_and_prune(
    tenant: Tenant, cluster: Cluster, hands: Hands, command: Callable[..., Result]
) -> None:
    """And what `diff`, `plan`, `rollback` and `doctor` say meanwhile."""
    fleet, space = tenant.fleet, tenant.namespace
    app = tenant.application("whole", [config_map("web"), config_map("extra"), ACCOUNT, HOOK])
    first = fleet.wait_run(app, phase="Succeeded")
    assert first["counts"] == {"created": 3}
    start = cluster.audit_position()
    assert fleet.tick(app) == "nothing to do"
    assert fleet.writes(app, since=start, parents=True) == []

    start = cluster.audit_position()
    second = fleet.push(app, [config_map("web", data={"v": "2"}), config_map("extra"), ACCOUNT]).digest
    fleet.tick(app)
    entry = fleet.history(app)[0]
    assert (entry["phase"], entry["trigger"], entry["revision"]["digest"]) == ("Succeeded", "Revision", second)
    assert words(fleet.writes(app, since=start)) == [f"patch configmaps {space}/web"]
    shown, refused = lists(cluster, entry["run"], start)
    assert shown == {f"configmaps {space}": 1, f"serviceaccounts {space}": 1}
    # Each process remembers a refusal for a minute, and one process compares.
    assert refused <= Counter({"configmaps *": 1, "serviceaccounts *": 1})

    hands.merge(tenant.path("web"), {"data": {"v": "by hand"}})
    fleet.tick(app)
    healed = fleet.history(app)[0]
    assert (healed["phase"], healed["trigger"]) == ("Succeeded", "Drift")
    assert fleet.get(tenant.path("web"))["data"] == {"v": "2"}  # type: ignore[index]

    assert command("diff", app).exit_code == 0
    fleet.push(app, [config_map("web", data={"v": "2"}), ACCOUNT])
    assert f"prune ConfigMap {space}/extra" in command("diff", app).output
    fleet.tick(app)
    assert outcomes(fleet.history(app)[0])[f"ConfigMap {space}/extra"] == "pruned"
    assert objects(fleet, space) == ["migration", "web"]
    assert "nothing would change" in command("plan", app).output
    assert command("rollback", app, "--yes", "--wait").exit_code == 0
    assert objects(fleet, space) == ["extra", "migration", "web"]
    told = f"/api/v1/namespaces/fleetbeat/events?fieldSelector=involvedObject.name={parent_name(app)}"
    wait_for(lambda: (fleet.get(told) or {})["items"], what="an Event on the parent")

    checks = {one["name"]: one for one in json.loads(command("doctor", "-o", "json").stdout)}
    rights = checks[f"cluster {tenant.cluster} rights"]
    assert (rights["state"], rights["detail"]) == ("ok", f"per namespace: everything in {space}, records in fleetbeat")
    assert checks[f"cluster {tenant.cluster} clock"]["state"] == "ok"


def test_a_shared_object_has_an_owner_with_a_name_and_applications_are_deleted(tenant: Tenant) -> None:
    fleet, space = tenant.fleet, tenant.namespace
    owner = tenant.application("owner", [config_map("web"), config_map("own"), HOOK])
    fleet.wait_run(owner, phase="Succeeded")
    second = tenant.application("second", [config_map("web"), config_map("other")])
    entry = fleet.wait_run(second, phase="Succeeded")
    assert outcomes(entry)[f"ConfigMap {space}/other"] == "created"
    (shared,) = [one["reason"] for one in entry["results"] if one["id"].endswith("/web")]
    assert f"belongs to application {owner}" in shared

    fleet.leave(owner)
    gone = outcomes(removed(fleet, owner))
    assert gone[f"ConfigMap {space}/own"] == "pruned"
    assert gone[f"ConfigMap {space}/web"] == "handed-over"
    assert objects(fleet, space) == ["other", "web"]  # what the hook had made went too
    assert parent(fleet, owner) is None
    fleet.leave(second)
    removed(fleet, second)
    assert objects(fleet, space) == []
    assert parent(fleet, second) is None


def test_what_cannot_be_seen_is_said_and_not_forgotten(
    tenant: Tenant, cluster: Cluster, hands: Hands, another: str
) -> None:
    """A Role that is taken away: nothing is pruned on the word of a LIST that was refused."""
    fleet, space = tenant.fleet, tenant.namespace
    admit(cluster, another)
    app = tenant.application("spread", [config_map("web"), config_map("far", another)])
    fleet.wait_run(app, phase="Succeeded")
    hands.delete(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{another}/rolebindings/fleetbeat")
    wait_for(lambda: not admitted(cluster, another), what="the rights to end")
    digest = fleet.push(app, [config_map("web", data={"v": "2"})]).digest
    fleet.tick(app)
    entry = fleet.wait_run(app, digest=digest)
    assert (entry["phase"], entry["error"]) == ("Failed", "Unauthorized")
    assert f'cannot list resource "configmaps" in API group "" in the namespace "{another}"' in entry["message"]
    assert fleet.get(tenant.path("web"))["data"] == {"key": "value"}  # type: ignore[index]
    assert objects(fleet, another) == ["far"]
    notes = (parent(fleet, app) or {})["metadata"]["annotations"]
    assert notes["applyset.kubernetes.io/additional-namespaces"] == ",".join(sorted([space, another]))

    admit(cluster, another)
    entry = fleet.sync(app)
    assert (entry["phase"], outcomes(entry)[f"ConfigMap {another}/far"]) == ("Succeeded", "pruned")


def test_a_watch_follows_where_it_may(tenant: Tenant, hands: Hands) -> None:
    """At an interval of an hour nobody rings but the watch."""
    fleet = tenant.fleet
    fields = {f"field-{number:02}": "hello" for number in range(40)}
    app = tenant.application("watched", [config_map("web", data=fields)])
    fleet.wait_run(app, phase="Succeeded")
    following = iter(fields)

    def healed() -> bool:
        # Before the watch's first list an edit is for the tick. Each is of another field, or it would be a fight.
        hands.merge(tenant.path("web"), {"data": {next(following): "hacked"}})
        return bool(wait_for(lambda: fleet.history(app)[0]["trigger"] == "Drift", timeout=3, what="a heal"))

    with watching(fleet):
        wait_for(lambda: all(watchers(fleet.store, [tenant.cluster]).values()), timeout=60, what="it watched too")
        wait_for(healed, timeout=90, what="an edit that is healed at once")
