"""An application leaves the catalog: its objects stay, or go with it, whatever happens meanwhile."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from breaking import breakable, stale_writes
from departing import DELETE, command, deleting, departures, objects, parent, removed, synced
from fleet import Fleet, config_map, in_wave, outcomes, words
from people import Hands
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.decisions.inventory import PART_OF, applyset_id, parent_name
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

Body = dict[str, Any]


def test_its_objects_go_the_way_back_and_the_record_last(fleet: Fleet, cluster: Cluster, namespace: str) -> None:
    app = synced(
        fleet,
        "leaver",
        [in_wave(0, config_map("base")), in_wave(5, config_map("late")), in_wave(-3, config_map("early"))],
        namespace,
    )
    start = cluster.audit_position()
    fleet.leave(app)
    entry = removed(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "pruned" for name in ("early", "base", "late")}
    assert {result["reason"] for result in entry["results"]} == {"its application has left the catalog"}
    deletions = [word for word in words(fleet.writes(app, since=start, parents=True)) if word.startswith("delete")]
    assert deletions == [
        *(f"delete configmaps {namespace}/{name}" for name in ("late", "base", "early")),
        f"delete configmaps fleetbeat/{parent_name(app)}",
    ]
    assert objects(fleet, namespace) == []
    assert parent(fleet, app) is None


def test_nothing_is_known_of_it_afterwards_but_its_history(fleet: Fleet, namespace: str) -> None:
    """Field case j8: what stays in Redis goes by itself."""
    app = synced(fleet, "gone", [config_map("a")], namespace)
    fleet.leave(app)
    removed(fleet, app)
    redis = fleet.store.redis
    wait_for(lambda: not redis.hexists(keys.PERIODS, app), what="the application to leave the due set")
    assert app not in fleet.catalogs.status().departing
    assert redis.zscore(keys.DUE, app) is None
    assert 0 < redis.ttl(keys.history(app)) <= 7 * 86_400
    assert 0 < redis.ttl(keys.state(app)) <= 7 * 86_400


def test_without_the_policy_everything_stays_as_it_is(fleet: Fleet, namespace: str) -> None:
    """A returning application finds what it has applied and writes nothing."""
    app = fleet.name("orphan")
    fleet.push(app, [config_map("a")])
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    before = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/a")
    fleet.leave(app)
    wait_for(lambda: app not in fleet.catalogs.names(), what="it to leave")
    fleet.ring(app)
    wait_for(lambda: not fleet.store.redis.hexists(keys.PERIODS, app), what="the application to leave the due set")
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/a") == before
    assert parent(fleet, app) is not None

    fleet.application(app, namespace=namespace)
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/a") == before


KEPT = [
    pytest.param({"annotations": {"argocd.argoproj.io/sync-options": "Delete=false"}}, id="Argo CD"),
    pytest.param({"annotations": {"helm.sh/resource-policy": "keep"}}, id="Helm"),
    pytest.param({"labels": {"kustomize.toolkit.fluxcd.io/prune": "Disabled"}}, id="Flux"),
    pytest.param({"annotations": {"client.lifecycle.config.k8s.io/deletion": "detach"}}, id="cli-utils detach"),
    pytest.param({"annotations": {"cli-utils.sigs.k8s.io/on-remove": "keep"}}, id="cli-utils keep"),
]


@pytest.mark.parametrize("marks", KEPT)
def test_what_asks_to_stay_stays_without_our_label(fleet: Fleet, namespace: str, marks: Body) -> None:
    app = synced(fleet, "keeps", [config_map("data", **marks), config_map("a")], namespace)
    fleet.leave(app)
    entry = removed(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/data": "kept", f"ConfigMap {namespace}/a": "pruned"}
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/data")
    assert live is not None
    assert PART_OF not in live["metadata"].get("labels", {})
    assert live["data"] == {"key": "value"}
    assert parent(fleet, app) is None


def test_prune_false_is_about_leaving_the_bundle_not_about_the_application(fleet: Fleet, namespace: str) -> None:
    """As in Argo CD."""
    marks = {"argocd.argoproj.io/sync-options": "Prune=false"}
    app = synced(fleet, "prunefalse", [config_map("a", annotations=marks)], namespace)
    fleet.leave(app)
    assert outcomes(removed(fleet, app)) == {f"ConfigMap {namespace}/a": "pruned"}


@pytest.mark.parametrize("live", [True, False], ids=["on the live object too", "in the bundle only"])
def test_one_of_three_objects_is_skipped(fleet: Fleet, cluster: Cluster, namespace: str, live: bool) -> None:
    """Field case d13. The marks of live objects count, since no bundle is asked when an application goes."""
    mark = {"kustomize.toolkit.fluxcd.io/reconcile": "disabled"}
    app = synced(fleet, "skips", [config_map(name) for name in ("a", "b", "c")], namespace)
    fleet.push(app, [config_map("a"), config_map("b", annotations=mark), config_map("c")])
    assert fleet.sync(app)["phase"] == "Succeeded"
    if live:
        path = f"/api/v1/namespaces/{namespace}/configmaps/b"
        Hands(cluster).merge(path, {"metadata": {"annotations": mark}}, "kubectl-annotate")
    fleet.leave(app)
    assert removed(fleet, app)["phase"] == "Succeeded"
    assert objects(fleet, namespace) == (["b"] if live else [])
    assert parent(fleet, app) is None


def test_a_copy_of_the_label_is_not_ours(fleet: Fleet, cluster: Cluster, namespace: str) -> None:
    """Field case d8."""
    app = synced(fleet, "copied", [config_map("a")], namespace)
    labels = (fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/a") or {})["metadata"]["labels"]
    copy = config_map("copy", namespace, labels=labels)
    Hands(cluster).create(f"/api/v1/namespaces/{namespace}/configmaps", copy, "an-operator")
    fleet.leave(app)
    removed(fleet, app)
    assert objects(fleet, namespace) == ["copy"]


def test_it_comes_back_while_it_is_deleted(fleet: Fleet, cluster: Cluster, namespace: str) -> None:
    """What is missing then is made anew, even where self-healing is off."""
    held = in_wave(5, config_map("held", finalizers=["example.com/slow"]))
    app = fleet.name("returns")
    fleet.push(app, [config_map("a"), held, in_wave(9, config_map("last"))])
    fleet.application(app, namespace=namespace, spec=DELETE, selfHeal=False)
    fleet.wait_run(app, phase="Succeeded")
    fleet.leave(app)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    wait_for(lambda: deleting(fleet, f"{path}/held"), what="held to be deleted")
    assert fleet.get(f"{path}/last") is None
    assert fleet.get(f"{path}/a") is not None
    fleet.application(app, namespace=namespace, spec=DELETE, selfHeal=False)
    wait_for(lambda: app in fleet.catalogs.names(), what="it to be back")
    removed(fleet, app, phase="Superseded")
    Hands(cluster).merge(f"{path}/held", {"metadata": {"finalizers": None}})
    wait_for(lambda: fleet.state(app).get("sync") == "Synced" and objects(fleet, namespace) == ["a", "held", "last"])
    uid = (fleet.get(f"{path}/a") or {})["metadata"]["uid"]
    assert uid


def test_it_comes_back_after_it_was_deleted(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("again")
    fleet.push(app, [config_map("a")])
    fleet.application(app, namespace=namespace, spec=DELETE, selfHeal=False)
    fleet.wait_run(app, phase="Succeeded")
    fleet.leave(app)
    removed(fleet, app)
    runs = fleet.runs_ended(app)
    fleet.application(app, namespace=namespace, spec=DELETE, selfHeal=False)
    entry = fleet.wait_run(app, phase="Succeeded", since=runs)
    assert entry["trigger"] == "First"
    assert objects(fleet, namespace) == ["a"]
    assert fleet.store.redis.ttl(keys.state(app)) == -1


def test_a_broken_catalog_deletes_nothing(make_fleet: Any, namespace: str) -> None:
    fleet = make_fleet(workers=1)
    app = synced(fleet, "careful", [config_map("a")], namespace)
    broken = fleet.catalog / "broken.yaml"

    def write(text: str) -> None:
        (fleet.folder / "new").write_text(text)
        (fleet.folder / "new").rename(broken)  # at no moment is it empty, which would be no mistake

    write("kind: [\n")
    wait_for(lambda: fleet.catalogs.status().error, what="the mistake to be seen")
    fleet.leave(app)
    # Beat has looked at the folder without the application when it names the new mistake.
    write("kind: Clutser\n")
    wait_for(lambda: "Clutser" in fleet.catalogs.status().error, what="the new mistake to be seen")
    assert app in fleet.catalogs.names()
    moved = fleet.catalog.rename(fleet.folder / "elsewhere")
    wait_for(lambda: "No such file" in fleet.catalogs.status().error, what="the missing folder to be seen")
    assert app in fleet.catalogs.names()
    assert objects(fleet, namespace) == ["a"]
    broken = moved / "broken.yaml"
    broken.unlink()
    moved.rename(fleet.catalog)
    removed(fleet, app)


def test_an_empty_folder_deletes_nothing_until_a_person_says_so(make_fleet: Any, namespace: str) -> None:
    fleet = make_fleet(workers=1)
    app = synced(fleet, "alone", [config_map("a")], namespace)
    away = fleet.folder / "away"
    fleet.catalog.rename(away)
    fleet.catalog.mkdir()
    wait_for(lambda: fleet.catalogs.status().departing == (app,), what="it to depart")
    fleet.ring(app)
    assert "the catalog is empty" in departures(fleet).held()[app]
    wait_for(lambda: fleet.catalogs.names() == [], what="the empty catalog to be in force")
    assert objects(fleet, namespace) == ["a"]

    fleet.catalog.rmdir()
    away.rename(fleet.catalog)
    wait_for(lambda: fleet.catalogs.names() == [app], what="the catalog to be back")
    assert fleet.catalogs.status().departing == ()
    assert fleet.sync(app)["phase"] == "Succeeded"
    assert [entry["trigger"] for entry in fleet.history(app) if entry["trigger"] == "Removed"] == []


def test_redis_forgets_and_the_objects_stay(make_fleet: Any, namespace: str) -> None:
    fleet = make_fleet(workers=1, FLEETBEAT_BEAT_REMOVAL_GRACE="600")
    app = synced(fleet, "forgotten", [config_map("a")], namespace)
    fleet.leave(app)
    wait_for(lambda: fleet.catalogs.status().departing == (app,), what="it to depart")
    fleet.store.redis.flushall()
    wait_for(lambda: fleet.catalogs.status().digest, what="the catalog to be back")
    assert fleet.catalogs.status().departing == ()
    fleet.ring(app)
    assert objects(fleet, namespace) == ["a"]


def test_redis_forgets_in_the_middle_and_the_rest_stays_until_it_is_back(make_fleet: Any, namespace: str) -> None:
    """After a flush nobody is known to depart. A returning application finds its record, and what is left of it."""
    fleet = make_fleet(workers=1)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    held = in_wave(5, config_map("held", finalizers=["example.com/slow"]))
    app = synced(fleet, "halfway", [config_map("a"), held], namespace)
    fleet.leave(app)
    wait_for(lambda: deleting(fleet, f"{path}/held"), what="held to be deleted")
    fleet.store.redis.flushall()
    wait_for(lambda: fleet.catalogs.status().digest, what="the catalog to be back")
    assert fleet.catalogs.status().departing == ()
    fleet.ring(app)
    Hands(fleet.clusters["test"]).merge(f"{path}/held", {"metadata": {"finalizers": None}})
    wait_for(lambda: objects(fleet, namespace) == ["a"], what="held to be gone")
    assert parent(fleet, app) is not None

    fleet.push(app, [config_map("a")])
    fleet.application(app, namespace=namespace, spec=DELETE)
    fleet.sync(app)
    fleet.leave(app)
    removed(fleet, app)
    assert objects(fleet, namespace) == []
    assert parent(fleet, app) is None


@pytest.mark.parametrize("goes", ["owner", "claimant"])
def test_what_another_application_has_too_stays_with_it(controlled: Fleet, goes: str) -> None:
    """Field case d3: two bundles with the same Namespace; whichever application is deleted, it stays."""
    fleet, space = controlled, controlled.name("team")
    shared = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    owner = synced(fleet, "owner", [shared, config_map("of-owner", space)], "default")
    claimant = synced(fleet, "claimant", [shared, config_map("of-claimant", space)], "default")
    uid = (fleet.get(f"/api/v1/namespaces/{space}") or {})["metadata"]["uid"]
    leaves, stays = (owner, claimant) if goes == "owner" else (claimant, owner)
    fleet.leave(leaves)
    entry = removed(fleet, leaves)
    if goes == "owner":
        assert outcomes(entry)[f"Namespace {space}"] == "handed-over"
    assert fleet.sync(stays)["phase"] == "Succeeded"
    live = fleet.get(f"/api/v1/namespaces/{space}")
    assert live is not None
    assert live["metadata"]["uid"] == uid
    assert "deletionTimestamp" not in live["metadata"]
    assert live["metadata"]["labels"][PART_OF] == applyset_id(parent_name(stays), "fleetbeat")
    assert objects(fleet, space) == ["of-claimant" if goes == "owner" else "of-owner"]
    assert parent(fleet, leaves) is None


def test_a_namespace_with_what_others_have_in_it_is_let_go_of(controlled: Fleet) -> None:
    fleet, space = controlled, controlled.name("t")
    shared = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    app = synced(fleet, "tenant", [shared, config_map("a", space)], "default")
    cluster = next(iter(fleet.clusters.values()))
    Hands(cluster).create(f"/api/v1/namespaces/{space}/configmaps", config_map("theirs", space))
    fleet.leave(app)
    entry = removed(fleet, app)
    assert outcomes(entry) == {f"Namespace {space}": "kept", f"ConfigMap {space}/a": "pruned"}
    assert "theirs" in next(r["reason"] for r in entry["results"] if r["outcome"] == "kept")
    live = fleet.get(f"/api/v1/namespaces/{space}")
    assert live is not None
    assert PART_OF not in live["metadata"]["labels"]
    assert objects(fleet, space) == ["theirs"]
    assert parent(fleet, app) is None


def test_a_shut_window_holds_no_deletion_up(fleet: Fleet, namespace: str) -> None:
    """Field case e4."""
    app = synced(fleet, "windowed", [config_map("a")], namespace)
    shut = {"kind": "deny", "schedule": "* * * * *", "duration": "24h"}
    fleet.application(app, namespace=namespace, spec=DELETE, windows=[shut])
    wait_for(lambda: (entry := fleet.catalogs.application(app)) and entry[0].windows, what="the window in force")
    fleet.sync(app)  # nothing to write, so nothing waits
    fleet.leave(app)
    removed(fleet, app)
    assert objects(fleet, namespace) == []


def test_a_confirmation_is_waited_for(fleet: Fleet, namespace: str) -> None:
    asks = config_map("data", annotations={"argocd.argoproj.io/sync-options": "Delete=confirm"})
    app = synced(fleet, "asks", [asks, config_map("a")], namespace)
    fleet.leave(app)
    told = f"ConfigMap {namespace}/data asks for a confirmation (Delete=confirm): fleetbeat delete {app} --confirm"
    wait_for(lambda: fleet.runs.look(app).run.get("message") == told, what="it to ask")
    assert objects(fleet, namespace) == ["a", "data"]
    shown = command(fleet, "status", app).output
    assert "Deleting" in shown
    assert told in shown
    # Going on is not confirming.
    command(fleet, "delete", app)
    wait_for(lambda: not fleet.runs.look(app).request or fleet.runs.look(app).run.get("state") == "waiting")
    assert objects(fleet, namespace) == ["a", "data"]

    assert "is being deleted" in command(fleet, "delete", app, "--confirm", "--reason", "moved").output
    entry = removed(fleet, app)
    assert outcomes(entry) == {f"ConfigMap {namespace}/{name}": "pruned" for name in ("a", "data")}
    (data,) = (result for result in entry["results"] if result["id"].endswith("/data"))
    assert data["reason"] == "its application has left the catalog; confirmed"
    assert objects(fleet, namespace) == []


def test_what_is_held_is_shown_and_goes_on_by_a_word(make_fleet: Any, namespace: str) -> None:
    fleet = make_fleet(workers=1)
    apps = [synced(fleet, f"many{number}", [config_map(f"a{number}")], namespace) for number in range(5)]
    stays, *leave = apps
    # All in one moment: one that goes alone is not held.
    rest = fleet.folder / "rest"
    shutil.copytree(fleet.catalog, rest)
    for app in leave:
        (rest / f"app-{app}.yaml").unlink()
    fleet.catalog.rename(fleet.folder / "away")
    rest.rename(fleet.catalog)
    wait_for(lambda: sorted(fleet.catalogs.status().departing) == sorted(leave), what="four to depart")
    for app in leave:
        fleet.ring(app)
    shown = command(fleet, "status").output
    assert shown.count("Held") == 4
    assert "4 applications have left the catalog and 1 stay" in shown
    assert len(objects(fleet, namespace)) == 5

    command(fleet, "delete", leave[0])
    removed(fleet, leave[0])
    assert len(objects(fleet, namespace)) == 4
    assert command(fleet, "delete", "--held").exit_code == 0
    for app in leave:
        removed(fleet, app)
    assert objects(fleet, namespace) == ["a0"]
    assert command(fleet, "delete", "--held").output == "Nothing is held back.\n"
    assert parent(fleet, stays) is not None


def test_the_command_refuses_what_is_in_the_catalog_and_a_sync_what_is_leaving(fleet: Fleet, namespace: str) -> None:
    held = config_map("held", finalizers=["example.com/slow"])
    app = synced(fleet, "words", [held], namespace)
    refused = command(fleet, "delete", app)
    assert refused.exit_code == 3
    assert f"{app} is in the catalog, so it would come back" in refused.stderr
    assert "is not being deleted" in command(fleet, "delete", "nobody").stderr
    fleet.leave(app)
    path = f"/api/v1/namespaces/{namespace}/configmaps/held"
    wait_for(lambda: deleting(fleet, path), what="held to be deleted")
    refused = command(fleet, "sync", app)
    assert refused.exit_code == 3
    assert "is being deleted" in refused.stderr
    wait_for(lambda: "finalizer example.com/slow holds it" in command(fleet, "status", app).output)

    # A person may leave the rest as it is.
    assert "what is left of it in the cluster stays" in command(fleet, "delete", app, "--orphan").output
    assert "no application is called" in command(fleet, "status", app).stderr
    Hands(fleet.clusters["test"]).merge(path, {"metadata": {"finalizers": None}})


def test_a_cluster_that_does_not_answer_is_tried_again_and_said(
    tmp_path: Path, registry: Registry, local_binary: Path
) -> None:
    """Field case k7."""
    with (
        Cluster(name="away") as cluster,
        RedisServer() as redis,
        Fleet(tmp_path / "fleet", redis, registry, [cluster], workers=1) as fleet,
    ):
        app = synced(fleet, "away", [config_map("a", "default")], "default")
        cluster.stop()
        fleet.leave(app)
        entry = removed(fleet, app, phase="Failed")
        assert entry["error"] == "ClusterUnavailable"
        assert entry["results"] == []
        shown = command(fleet, "status", app).output
        assert "Deleting" in shown
        assert "ClusterUnavailable" in shown
        assert fleet.catalogs.status().departing == (app,)
        command(fleet, "delete", app, "--orphan")
        assert fleet.catalogs.status().departing == ()


KILLS: dict[str, dict[str, Any]] = {
    "begun, not published": {"point": "after start"},
    "planned, not advanced": {"point": "before advance", "step": "diff"},
    "parent taken": {"point": "after take"},
    "between two deletions": {"point": "before send", "path": "configmaps/", "nth": 2},
    "deleted, answer not seen": {"point": "after send", "path": "configmaps/", "nth": 2},
    "deleted, results not kept": {"point": "before record"},
    "a stage done, not advanced": {"point": "before advance", "step": "apply"},
    "before the parent goes": {"point": "before farewell"},
    "the parent has gone": {"point": "after farewell"},
    "forgotten, not ended": {"point": "after end"},
    "ended, not acknowledged": {"point": "after finish"},
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Any]:
    # Locks that end soon after a kill, and are yet long enough for a worker that waits for its share of a core.
    patience = {"lock_ttl": 1.5, "lease": 1.2, "FLEETBEAT_LOCK_MARGIN": "0.3"}
    with breakable(tmp_path_factory.mktemp("deleting"), registry, cluster, **patience) as made:
        yield made


@pytest.mark.parametrize("plan", [pytest.param(plan, id=name) for name, plan in KILLS.items()])
def test_killed_while_deleting(place: Any, cluster: Cluster, namespace: str, plan: dict[str, Any]) -> None:
    """Field case j6. The next worker ends it; every object is told as deleted, and nothing else is touched."""
    fleet, nursery = place
    keep = config_map("keep", annotations={"helm.sh/resource-policy": "keep"})
    steady = nursery.worker()
    app = synced(fleet, "killed", [config_map("a"), config_map("b"), in_wave(5, config_map("late")), keep], namespace)
    Hands(cluster).create(f"/api/v1/namespaces/{namespace}/configmaps", config_map("theirs", namespace))
    steady.kill()
    doomed = nursery.worker({"do": "kill", **plan})
    start = cluster.audit_position()
    fleet.leave(app)
    wait_for(lambda: not doomed.alive, what=f"the worker to die at {plan}")
    other = nursery.worker()
    entry = removed(fleet, app)
    assert outcomes(entry) == {
        **{f"ConfigMap {namespace}/{name}": "pruned" for name in ("a", "b", "late")},
        f"ConfigMap {namespace}/keep": "kept",
    }
    assert objects(fleet, namespace) == ["keep", "theirs"]
    assert parent(fleet, app) is None
    wait_for(lambda: fleet.catalogs.status().departing == (), what="it to be forgotten")
    wait_for(lambda: not fleet.runs.look(app).run, what="the run to end")
    assert stale_writes(fleet, app, since=start) == []
    assert [one["trigger"] for one in fleet.history(app)].count("Removed") == 1
    other.kill()


def test_what_is_kept_is_handed_over_to_whoever_has_it_too(fleet: Fleet, namespace: str) -> None:
    """Let go of, it would be nobody's, and nobody would tell the other application."""
    shared = config_map("shared", annotations={"argocd.argoproj.io/sync-options": "Delete=false"})
    owner = synced(fleet, "owner", [shared, config_map("of-owner")], namespace)
    claimant = synced(fleet, "claimant", [config_map("shared", data={"of": "claimant"})], namespace)
    assert fleet.state(claimant)["sync"] == "OutOfSync"
    fleet.leave(owner)
    entry = removed(fleet, owner)
    key = f"ConfigMap {namespace}/shared"
    assert outcomes(entry) == {key: "handed-over", f"ConfigMap {namespace}/of-owner": "pruned"}
    assert next(r["reason"] for r in entry["results"] if r["outcome"] == "handed-over") == f"to application {claimant}"
    fleet.tick(claimant)
    assert fleet.state(claimant)["sync"] == "Synced"
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/shared")
    assert live is not None
    assert live["data"] == {"of": "claimant"}
    assert live["metadata"]["labels"][PART_OF] == applyset_id(parent_name(claimant), "fleetbeat")
    assert parent(fleet, owner) is None
