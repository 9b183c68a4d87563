"""The drift ledger: which fields were changed past the bundle, by whom, since when, and how often they were healed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from click.testing import CliRunner
from fleet import Fleet, config_map, outcomes
from people import Hands
from traces import Monitor
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.local.cluster import Cluster

Row = dict[str, Any]


@pytest.fixture
def hands(cluster: Cluster) -> Hands:
    return Hands(cluster)


def installed(fleet: Fleet, namespace: str, *more: dict[str, Any], **options: Any) -> tuple[str, str]:
    """(application, path of its ConfigMap)."""
    app = fleet.name("drifting")
    fleet.push(app, [config_map("web", data={"greeting": "hello", "colour": "blue"}), *more])
    fleet.application(app, namespace=namespace, **options)
    fleet.wait_run(app, phase="Succeeded")
    return app, f"/api/v1/namespaces/{namespace}/configmaps/web"


def said(fleet: Fleet, *words: str, session: type[Session] = Session) -> str:
    """What the command line says, in this process: one of its own for each would cost more than the test."""
    done = CliRunner().invoke(cli, list(words), obj=session(), env=fleet.env)
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(fleet: Fleet, app: str) -> dict[str, Row]:
    """``ConfigMap web data.k`` → row, as ``fleetbeat drift -o json`` has it."""
    found: list[Row] = json.loads(said(fleet, "drift", app, "-o", "json"))["fields"]
    return {f"{row['id'].split('/')[1]} {row['id'].split('/')[3]} {row['field']}": row for row in found}


def by_the_server(live: dict[str, Any], manager: str) -> str:
    (entry,) = [one for one in live["metadata"]["managedFields"] if one["manager"] == manager]
    return str(entry["time"])


def test_config_map_changed_by_hand_is_restored_and_the_ledger_names_the_editor(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    """ConfigMap changed by hand: restored, ledger names the editor."""
    app, path = installed(fleet, namespace)
    assert said(fleet, "drift", app) == f"Nothing of {app} is known to have been changed past its bundle.\n"
    edited = hands.merge(path, {"data": {"greeting": "hacked"}}, "kubectl-edit")
    fleet.tick(app)
    healing = fleet.history(app)[0]
    assert hands.get(path)["data"] == {"greeting": "hello", "colour": "blue"}

    (row,) = rows(fleet, app).values()
    at = by_the_server(edited, "kubectl-edit")
    assert (row["object"], row["field"]) == (f"ConfigMap {namespace}/web", "data.greeting")
    assert (row["manager"], row["operation"], row["changedAt"]) == ("kubectl-edit", "Update", at)
    assert (row["healed"], row["run"], row["standsSince"], row["leftUntil"]) == (1, healing["run"], None, None)
    assert row["firstSeen"] == row["lastSeen"] == row["lastHealed"]
    seen = datetime.fromisoformat(row["firstSeen"]).timestamp() * 1000
    assert healing["started"] <= seen <= fleet.runs.now()

    who = f"kubectl-edit (Update, {at})"
    table = said(fleet, "drift", app)
    assert f"ConfigMap {namespace}/web   data.greeting   1 " in table
    assert table.rstrip().endswith(f"as wanted   {who}")
    assert f"1 field, healed 1 time; the last: data.greeting of ConfigMap {namespace}/web, {who}" in (
        said(fleet, "status", app)
    )
    explained = said(fleet, "explain", "cm/web", "-n", namespace)
    assert f"data.greeting: {who}, healed 1 time, last in run {healing['run']}; as wanted" in explained

    # Again, by another client and in another way; then a removal and a deletion, of which nobody is named.
    hands.apply(path, config_map("web", namespace, {"greeting": "mine"}), "deployer")
    fleet.tick(app)
    hands.merge(path, {"data": {"colour": None}}, "kubectl-edit")
    fleet.tick(app)
    hands.delete(path)
    fleet.tick(app)
    found = rows(fleet, app)
    greeting = found["ConfigMap web data.greeting"]
    assert (greeting["manager"], greeting["operation"], greeting["healed"]) == ("deployer", "Apply", 2)
    assert greeting["firstSeen"] == row["firstSeen"] < greeting["lastSeen"]
    for name, word in (("data.colour", "removed"), ("", "deleted")):
        one = found[f"ConfigMap web {name}"]
        assert (one["manager"], one["operation"], one["changedAt"], one["healed"]) == (None, None, None, 1)
        assert f"{word} by somebody whom only the cluster's audit log knows" in said(fleet, "drift", app)
    shown = json.loads(said(fleet, "status", app, "-o", "json"))["drift"]
    assert (shown["fields"], shown["healed"], shown["standing"]) == (3, 4, 0)


def test_names_of_fields_are_told_and_values_never(fleet: Fleet, namespace: str, hands: Hands) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"token": "ours-5c1e"}}
    app, _ = installed(fleet, namespace, secret)
    marker = "dGhlaXJzLTliNDA="  # theirs-9b40
    hands.merge(f"/api/v1/namespaces/{namespace}/secrets/key", {"data": {"token": marker}}, "kubectl-edit")
    fleet.tick(app)
    (row,) = rows(fleet, app).values()
    assert (row["field"], row["manager"], row["healed"]) == ("data.token", "kubectl-edit", 1)
    kept = fleet.store.redis.get(keys.drift(app))
    told = said(fleet, "drift", app, "-o", "yaml") + said(fleet, "explain", "secret/key", "-n", namespace)
    for value in (marker, "theirs-9b40", "ours-5c1e", "b3Vycy01YzFl"):
        assert value not in told
        assert value.encode() not in kept  # type: ignore[operator]


def test_with_self_heal_off_drift_stands_until_it_goes_by_itself(fleet: Fleet, namespace: str, hands: Hands) -> None:
    app, path = installed(fleet, namespace, config_map("gone"), selfHeal=False)
    hands.merge(path, {"data": {"greeting": "mine"}}, "kubectl-edit")
    hands.delete(f"/api/v1/namespaces/{namespace}/configmaps/gone")
    fleet.tick(app)
    first = rows(fleet, app)
    assert sorted(first) == ["ConfigMap gone ", "ConfigMap web data.greeting"]
    greeting = first["ConfigMap web data.greeting"]
    assert (greeting["healed"], greeting["run"], greeting["manager"]) == (0, None, "kubectl-edit")
    assert greeting["standsSince"] == greeting["firstSeen"]
    assert fleet.store.redis.pttl(keys.drift(app)) == -1, "as long as something stands it has no end"
    assert f"2 stand since {greeting['standsSince']}" in said(fleet, "status", app)

    hands.merge(path, {"data": {"colour": "red"}}, "kubectl-edit")
    fleet.tick(app)
    assert rows(fleet, app)["ConfigMap web data.greeting"]["standsSince"] == greeting["standsSince"]
    hands.merge(path, {"data": {"colour": "blue", "greeting": "hello"}}, "kubectl-edit")
    fleet.tick(app)
    found = rows(fleet, app)
    assert [(name, row["healed"]) for name, row in found.items() if row["standsSince"]] == [("ConfigMap gone ", 0)]
    assert found["ConfigMap web data.colour"]["standsSince"] is None

    # A new bundle has the object made anew, which is no heal.
    fleet.push(app, [config_map("web", data={"greeting": "hi", "colour": "blue"}), config_map("gone", data={"k": "2"})])
    assert fleet.sync(app)["counts"] == {"created": 1, "configured": 1}
    assert all(row["standsSince"] is None and row["healed"] == 0 for row in rows(fleet, app).values())
    assert fleet.store.redis.pttl(keys.drift(app)) > 89 * 86_400_000


def test_it_costs_no_command_of_an_unchanged_look_and_none_of_its_own_at_the_end_of_a_run(
    fleet: Fleet, namespace: str, hands: Hands
) -> None:
    app, path = installed(fleet, namespace)
    drifts = f'"{keys.drift(app)}"'.encode()

    def commands(act: Callable[[], object]) -> list[bytes]:
        with Monitor(fleet.redis.url) as monitor:
            act()
            end = fleet.name("end")
            fleet.store.redis.echo(end)
            wait_for(lambda: end.encode() in monitor.heard, what="what Redis was sent")
            lines = monitor.heard.splitlines()
        return [line.partition(b'] "')[2].partition(b'"')[0].upper() for line in lines if drifts in line]

    assert commands(lambda: fleet.sync(app)) == [b"EVALSHA"]  # the script that ends the run has it among its keys
    assert commands(lambda: fleet.tick(app)) == []
    hands.merge(path, {"data": {"greeting": "hacked"}}, "kubectl-edit")
    assert commands(lambda: fleet.tick(app)) == [b"EVALSHA", b"SET", b"PEXPIRE"]  # the last two within the script
    assert commands(lambda: fleet.tick(app)) == []


class NoCluster(Session):
    def cluster(self, cluster: object) -> Any:
        raise AssertionError(f"{cluster} was asked")


def test_it_is_shown_without_asking_the_cluster(fleet: Fleet, namespace: str, hands: Hands) -> None:
    app, path = installed(fleet, namespace)
    hands.merge(path, {"data": {"greeting": "hacked"}}, "kubectl-edit")
    fleet.tick(app)
    assert outcomes(fleet.history(app)[0]) == {f"ConfigMap {namespace}/web": "configured"}
    assert "data.greeting" in said(fleet, "drift", app, session=NoCluster)
    assert "data.greeting" in said(fleet, "status", app, session=NoCluster)
    unknown = CliRunner().invoke(cli, ["drift", "nobody"], obj=NoCluster(), env=fleet.env)
    assert unknown.exit_code == 3
    assert "no application is called 'nobody'" in unknown.stderr
