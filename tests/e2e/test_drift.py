"""Drift: whatever somebody changes by hand is put back at the next tick, and history says who it was."""

from __future__ import annotations

from typing import Any

import pytest
from fleet import Fleet, config_map, outcomes

MERGE = "application/merge-patch+json"


@pytest.fixture
def synced(fleet: Fleet, namespace: str) -> tuple[Fleet, str, str]:
    """(fleet, namespace, application) with two ConfigMaps in place."""
    app = fleet.name("shop")
    fleet.push(
        app,
        [
            config_map(
                "web", namespace, {"greeting": "hello", "colour": "blue"}, labels={"tier": "front", "team": "web"}
            ),
            config_map("other", namespace),
        ],
    )
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    return fleet, namespace, app


def edit(fleet: Fleet, namespace: str, patch: dict[str, Any], manager: str = "kubectl-edit") -> None:
    cluster = next(iter(fleet.clusters.values()))
    path = f"/api/v1/namespaces/{namespace}/configmaps/web?fieldManager={manager}"
    status, body = cluster.request("PATCH", path, patch, content_type=MERGE, user_agent="kubectl")
    assert status == 200, body


def web(fleet: Fleet, namespace: str) -> dict[str, Any]:
    live = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/web")
    assert live is not None
    return live


def web_entry(live: dict[str, Any], manager: str) -> dict[str, Any]:
    (entry,) = [entry for entry in live["metadata"]["managedFields"] if entry["manager"] == manager]
    return entry


@pytest.mark.parametrize(
    ("patch", "manager", "told"),
    [
        pytest.param({"data": {"greeting": "hacked"}}, "kubectl-edit", "data.greeting", id="edited"),
        pytest.param({"data": {"greeting": None}}, "kubectl-edit", "data.greeting", id="key removed"),
        pytest.param({"metadata": {"labels": {"team": "mine"}}}, "kubectl-label", "labels.team", id="label changed"),
        pytest.param({"metadata": {"labels": {"team": None}}}, "kubectl-label", "labels.team", id="label removed"),
    ],
)
def test_a_hand_edit_is_healed_and_told(
    synced: tuple[Fleet, str, str], patch: dict[str, Any], manager: str, told: str
) -> None:
    """Field case b11: who made the change, how and when is named wherever the API server recorded it."""
    fleet, namespace, app = synced
    before = web(fleet, namespace)
    edit(fleet, namespace, patch, manager)
    edited = web(fleet, namespace)
    fleet.ring(app)
    entry = fleet.wait_run(app, since=1)
    assert entry["trigger"] == "Drift"
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "configured"}
    after = web(fleet, namespace)
    assert after["data"] == before["data"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    result = entry["results"][0]
    assert told in result["reason"]
    if None in (*patch.get("data", {}).values(), *patch.get("metadata", {}).get("labels", {}).values()):
        # managedFields names the owners of what is there; who took something away is in no object's metadata.
        assert "audit log" in result["reason"]
    else:
        assert result["managers"] == [manager]
        (editor,) = result["editors"]
        written = web_entry(edited, manager)
        assert editor == {"manager": manager, "operation": "Update", "time": written["time"]}
        assert f"changed by {manager} (Update, {written['time']})" in result["reason"]


def test_a_deleted_object_comes_back(synced: tuple[Fleet, str, str]) -> None:
    fleet, namespace, app = synced
    cluster = next(iter(fleet.clusters.values()))
    status, _ = cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/web")
    assert status == 200
    fleet.ring(app)
    entry = fleet.wait_run(app, since=1)
    assert entry["trigger"] == "Drift"
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "created"}
    assert "deleted" in entry["results"][0]["reason"]
    assert web(fleet, namespace)["data"]["greeting"] == "hello"


def test_a_foreign_addition_is_left_alone(synced: tuple[Fleet, str, str]) -> None:
    """Field case b11: a new key of somebody else is not ours to remove; the look that finds it writes nothing."""
    fleet, namespace, app = synced
    edit(fleet, namespace, {"data": {"extra": "theirs"}})
    start = next(iter(fleet.clusters.values())).audit_position()
    fleet.ring(app)
    entry = fleet.wait_run(app, since=1)
    assert entry["counts"] == {"unchanged": 2}
    assert fleet.writes(app, since=start) == []
    assert web(fleet, namespace)["data"]["extra"] == "theirs"


def test_self_heal_off_shows_drift_and_touches_nothing(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("calm")
    fleet.push(app, [config_map("web", namespace, {"greeting": "hello"})])
    fleet.application(app, namespace=namespace, selfHeal=False)
    fleet.wait_run(app, phase="Succeeded")
    edit(fleet, namespace, {"data": {"greeting": "mine"}})
    fleet.ring(app)
    entry = fleet.wait_run(app, since=1)
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "skipped"}
    assert "self-heal is off" in entry["results"][0]["reason"]
    assert fleet.state(app)["sync"] == "OutOfSync"
    assert web(fleet, namespace)["data"]["greeting"] == "mine"
    # Off means by itself, as in Argo CD: who asks for a sync gets what the bundle says.
    assert outcomes(fleet.sync(app)) == {f"ConfigMap {namespace}/web": "configured"}
    assert fleet.state(app)["sync"] == "Synced"
    assert web(fleet, namespace)["data"]["greeting"] == "hello"


def test_self_heal_off_stays_off_however_often_something_is_changed(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("calm")
    good = [config_map("gone", namespace), config_map("web", namespace, {"greeting": "hello"})]
    fleet.push(app, good)
    fleet.application(app, namespace=namespace, selfHeal=False)
    fleet.wait_run(app, phase="Succeeded")
    fleet.clusters["test"].request("DELETE", f"/api/v1/namespaces/{namespace}/configmaps/gone")
    for number in (1, 2, 3):
        edit(fleet, namespace, {"data": {"greeting": f"mine {number}"}})
        fleet.ring(app)
        entry = fleet.wait_run(app, since=number)
        assert set(outcomes(entry).values()) == {"skipped"}, entry["results"]
        assert web(fleet, namespace)["data"]["greeting"] == f"mine {number}"
    assert fleet.get(f"/api/v1/namespaces/{namespace}/configmaps/gone") is None
    newer = fleet.push(app, [*good[:1], config_map("web", namespace, {"greeting": "new"})])
    fleet.ring(app)
    entry = fleet.wait_run(app, digest=newer.digest)
    assert entry["counts"] == {"configured": 1, "skipped": 1}, "another manifest is no self-healing"
    assert web(fleet, namespace)["data"]["greeting"] == "new"
    assert fleet.sync(app)["counts"] == {"created": 1, "unchanged": 1}, "but who asks gets everything"


def test_the_regular_tick_heals_without_being_asked(fleet: Fleet, namespace: str) -> None:
    """Nobody rings: beat does, once per interval."""
    app = fleet.name("ticking")
    fleet.push(app, [config_map("web", namespace, {"greeting": "hello"})])
    fleet.application(app, namespace=namespace, interval="1s")
    fleet.wait_run(app, phase="Succeeded")
    edit(fleet, namespace, {"data": {"greeting": "hacked"}})
    entry = fleet.wait_run(app, since=1)
    assert entry["trigger"] == "Drift"
    assert web(fleet, namespace)["data"]["greeting"] == "hello"
    fleet.leave(app)  # its short interval would disturb the tests that follow
