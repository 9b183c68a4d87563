"""`fleetbeat why` names the one rule that blocks, until when and what helps; conditions say the same to programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fleet import Fleet, config_map
from waiting import wait_for

from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.decisions.lifecycle import MAX_TRIES

Ask = Callable[..., dict[str, Any]]
SHUT = {"kind": "deny", "schedule": "* * * * *", "duration": "1h", "description": "release freeze"}


def run(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, *words: str) -> Result:
    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)
    return CliRunner().invoke(cli, list(words), obj=Session())


def ask(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, app: str, *, blocked: bool, busy: bool = False
) -> dict[str, Any]:
    """The first finding, once the application is blocked, or not, as it should be.

    ``busy`` False: not that beat or the workers are out of breath, which on a busy machine they may be for a moment.
    """

    def answer() -> dict[str, Any] | None:
        result = run(fleet, monkeypatch, "why", app, "-o", "json")
        if result.exit_code not in (0, 1):
            return None  # not in the catalog yet
        data = json.loads(result.output)
        assert data["blocked"] == (result.exit_code == 1) == data["findings"][0]["blocks"]
        first = data["findings"][0]
        return first if data["blocked"] == blocked and (busy or first["rule"] not in ("NoBeat", "NoWorker")) else None

    return dict(wait_for(answer, timeout=120, what=f"{app} to be {'blocked' if blocked else 'free'}"))


@pytest.fixture
def why(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Ask:
    return lambda app, **options: ask(fleet, monkeypatch, app, **options)


def conditions(fleet: Fleet, monkeypatch: pytest.MonkeyPatch, app: str) -> dict[str, dict[str, Any]]:
    shown = json.loads(run(fleet, monkeypatch, "status", app, "-o", "json").output)
    return {one["type"]: one for one in shown["conditions"]}


def test_synced_since_when_and_at_which_commit(
    fleet: Fleet, namespace: str, why: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = fleet.name("well")
    digest = fleet.push(app, [config_map("web")]).digest
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    first = why(app, blocked=False)
    assert first["rule"] == "Synced"
    assert "synced and healthy since 20" in first["message"]
    assert f"at stable@{digest[7:19]}, commit unknown" in first["message"]
    ready = conditions(fleet, monkeypatch, app)["Ready"]
    assert (ready["status"], ready["reason"]) == ("True", "ReconciliationSucceeded")
    fleet.sync(app)
    assert conditions(fleet, monkeypatch, app)["Ready"]["lastTransitionTime"] == ready["lastTransitionTime"]


def test_a_shut_window(fleet: Fleet, namespace: str, why: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    app = fleet.name("frozen")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, windows=[SHUT])
    wait_for(lambda: fleet.runs.look(app).run.get("blocked"), what="the wait")
    first = why(app, blocked=True)
    assert first["rule"] == "SyncWindow"
    assert "release freeze" in first["message"]
    assert f"fleetbeat sync {app} --override-windows" in first["help"]
    found = conditions(fleet, monkeypatch, app)
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("Unknown", "SyncWindow")
    assert (found["Reconciling"]["status"], found["Stalled"]["status"]) == ("True", "False")
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, phase="Succeeded")
    assert why(app, blocked=False)["rule"] == "Synced"
    told = [event.reason for event in Session().events.read(app)]
    assert told == ["Progressing", "SyncWindow", "Unblocked", "ReconciliationSucceeded"]


def test_a_window_says_until_when(fleet: Fleet, namespace: str, why: Ask) -> None:
    app = fleet.name("until")
    now = datetime.fromtimestamp(fleet.runs.now() / 1000, UTC)
    fleet.push(app, [config_map("web")])
    fleet.application(
        app, namespace=namespace, windows=[{"kind": "deny", "schedule": f"{now:%M %H} * * *", "duration": "5m"}]
    )
    wait_for(lambda: fleet.runs.look(app).run.get("blocked"), what="the wait")
    until = datetime.fromisoformat(why(app, blocked=True)["until"])
    opening = now.replace(second=0, microsecond=0).timestamp() + 300
    assert abs(until.timestamp() - opening) < 1


def test_an_unmet_dependency(fleet: Fleet, namespace: str, why: Ask) -> None:
    db, shop = fleet.name("db"), fleet.name("shop")
    fleet.push(shop, [config_map("shop")])
    fleet.push(db, {"broken.yaml": "kind: [\n"})
    fleet.application(db, namespace=namespace)
    fleet.application(shop, namespace=namespace, spec={"dependsOn": [{"name": db}]})
    wait_for(lambda: fleet.runs.look(shop).run.get("blocked"), what="the wait")
    fleet.wait_run(db, phase="Failed")
    first = why(shop, blocked=True)
    assert first["rule"] == "DependencyNotReady"
    assert f"the last sync of {db} ended as Failed" in first["message"]
    assert first["help"] == f"fleetbeat why {db}"
    assert why(db, blocked=True)["rule"] == "ManifestError"


def test_a_failing_bundle_says_when_it_is_tried_again(fleet: Fleet, namespace: str, why: Ask) -> None:
    app = fleet.name("failing")
    fleet.push(app, [{"apiVersion": "shop.example.com/v1", "kind": "Nonsense", "metadata": {"name": "x"}}])
    fleet.application(app, namespace=namespace, retry={"backoff": {"duration": "10m", "maxDuration": "10m"}})
    entry = fleet.wait_run(app, phase="Failed")
    first = why(app, blocked=True)
    assert first["rule"] == entry["error"]
    assert "Nonsense" in first["message"]
    left = datetime.fromisoformat(first["until"]).timestamp() - fleet.runs.now() / 1000
    assert 0 < left <= 3600


def test_a_bundle_that_is_not_there(fleet: Fleet, namespace: str, why: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    app = fleet.name("nowhere")
    fleet.application(app, namespace=namespace)
    wait_for(lambda: fleet.state(app).get("trouble"), what="the trouble")
    first = why(app, blocked=True)
    assert first["rule"] == "SourceNotFound"
    assert first["until"]
    found = conditions(fleet, monkeypatch, app)
    assert (found["Ready"]["status"], found["Ready"]["reason"]) == ("False", "ArtifactFailed")
    assert found["Stalled"]["status"] == "True"


def test_a_pin_and_a_veto(fleet: Fleet, namespace: str, why: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    app = fleet.name("held")
    first = fleet.push(app, [config_map("web", data={"v": "1"})]).digest
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, digest=first, phase="Succeeded")
    bad = fleet.push(app, [config_map("web", data={"v": "2"})]).digest
    assert run(fleet, monkeypatch, "veto", bad, "--reason", "loses orders").exit_code == 0
    fleet.tick(app)
    found = why(app, blocked=True)
    assert found["rule"] == "Vetoed"
    assert "loses orders" in found["message"]
    assert run(fleet, monkeypatch, *found["help"].partition("fleetbeat ")[2].split()).exit_code == 0
    fleet.wait_run(app, digest=bad, phase="Succeeded")

    Session().orders.pin(app, first, by="ada", reason="2 is bad")
    fleet.ring(app)
    fleet.wait_run(app, digest=first, phase="Succeeded", since=2)
    found = why(app, blocked=True)
    assert found["rule"] == "Pinned"
    assert "by ada: 2 is bad" in found["message"]
    assert found["help"] == f"fleetbeat unpin {app}"
    assert run(fleet, monkeypatch, "unpin", app).exit_code == 0
    fleet.wait_run(app, digest=bad, phase="Succeeded", since=3)
    assert why(app, blocked=False)["rule"] == "Synced"


def test_given_up(fleet: Fleet, namespace: str, why: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    app = fleet.name("killer")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, windows=[SHUT])
    wait_for(lambda: fleet.runs.look(app).run.get("blocked"), what="the wait")
    record = fleet.runs.look(app).run
    # As five workers leave it that were killed by this step; and its time has come.
    fleet.runs.note(app, record["run"], {"tries": MAX_TRIES, "wake": 0})
    fleet.ring(app)
    fleet.wait_run(app, phase="Failed")
    first = why(app, blocked=True)
    assert first["rule"] == "GivenUp"
    assert "WorkerLost" in first["message"]
    assert f"fleetbeat sync {app}" in first["help"]
    assert conditions(fleet, monkeypatch, app)["Stalled"]["status"] == "True"


def test_no_worker_and_no_beat(
    make_fleet: Callable[..., Fleet], namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = make_fleet(workers=1)
    fleet.push("alone", [config_map("web")])
    fleet.workers[0].kill()
    fleet.application("alone", namespace=namespace)
    wait_for(lambda: run(fleet, monkeypatch, "status", "alone").exit_code == 0, what="the catalog")
    fleet.request("alone")
    first = ask(fleet, monkeypatch, "alone", blocked=True, busy=True)
    assert first["rule"] == "NoWorker"
    assert "no worker answers" in first["message"]
    fleet.workers[0].start()
    fleet.wait_run("alone", phase="Succeeded")
    assert ask(fleet, monkeypatch, "alone", blocked=False)["rule"] == "Synced"


def test_it_works_without_the_cluster_and_in_words(
    fleet: Fleet, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = fleet.name("words")
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, windows=[SHUT])
    wait_for(lambda: fleet.runs.look(app).run.get("blocked"), what="the wait")
    monkeypatch.setattr(Session, "cluster", None)
    monkeypatch.setattr(Session, "source", None)
    shown = run(fleet, monkeypatch, "why", app)
    assert shown.exit_code == 1
    lines = shown.output.splitlines()
    assert lines[0].startswith("SyncWindow: apply:0: wave 0 waits for a sync window")
    assert any(line.startswith("  help:  fleetbeat windows") for line in lines)
    assert run(fleet, monkeypatch, "why", "no-such-app").exit_code == 3
