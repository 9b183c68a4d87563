"""Sync windows in the loop: what is waiting is planned and shown, and written when the window opens, at once.

A window that ends or opens soon is one that began with this minute: schedules have no seconds, durations have.
"""

from __future__ import annotations

import base64
import json
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result
from fleet import PATIENT, Fleet, config_map, in_wave, outcomes
from traces import contents, traces
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.cli.key import new_key
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.client import Fleetbeat
from fleetbeat.decisions.overrides import sign
from fleetbeat.decisions.windows import stamp

CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}},
}


def now(fleet: Fleet) -> datetime:
    """By the clock that decides: Redis'."""
    return datetime.fromtimestamp(fleet.runs.now() / 1000, UTC)


def until(fleet: Fleet, seconds: float, kind: str = "deny", **more: Any) -> tuple[dict[str, Any], datetime]:
    """A window that is open now and ends so many seconds ahead, and its end."""
    at = now(fleet)
    began, end = at.replace(second=0, microsecond=0), at + timedelta(seconds=seconds)
    duration = f"{(end - began).total_seconds():.3f}s"
    return {"kind": kind, "schedule": f"{began:%M %H} * * *", "duration": duration, **more}, end


def always(kind: str = "deny", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "schedule": "* * * * *", "duration": "1h", **more}


def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def waits(fleet: Fleet, app: str, text: str = "waits for a sync window") -> dict[str, str]:
    """The record of its run, once it waits for a window."""

    def waiting() -> dict[str, str] | None:
        run = fleet.runs.look(app).run
        return run if run.get("state") == "waiting" and text in run.get("message", "") else None

    try:
        return wait_for(waiting, what=f"{app} to wait for a window")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{fleet.runs.look(app)}\n{fleet.logs()[-5000:]}") from None


def put(fleet: Fleet, app: str, manifests: list[dict[str, Any]], namespace: str, *windows: dict[str, Any]) -> None:
    fleet.push(app, manifests)
    fleet.application(app, namespace=namespace, windows=list(windows))


def woken_at(record: dict[str, str]) -> datetime:
    """When a run that waits goes on by itself."""
    return datetime.fromtimestamp(int(record["wake"]) / 1000, UTC)


#: When a run is to go on is exact. How soon it then writes says how busy the machine is; its next look is further off.
BUSY = timedelta(seconds=60)


def first_write(fleet: Fleet, app: str, since: int = 0) -> datetime:
    found = fleet.writes(app, since=since, parents=True)
    return min(datetime.fromisoformat(event["requestReceivedTimestamp"]) for event in found)


# ── waiting and opening ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_shut_window_shows_what_waits_and_opens_on_time(
    fleet: Fleet, namespace: str, command: Callable[..., Result]
) -> None:
    """Field case e7: the application is looked at once an hour; its window's opening does not wait for that."""
    app = fleet.name("waiting")
    shut, opening = until(fleet, 900, description="release freeze")
    put(fleet, app, [config_map("web")], namespace, shut)
    assert woken_at(waits(fleet, app, f"shut until {stamp(opening)}")) == opening
    shown = command("status", app).output
    assert "wave 0 waits for a sync window: shut until" in shown
    assert "release freeze" in shown
    assert fleet.writes(app, parents=True) == []
    assert fleet.state(app)["sync"] == "OutOfSync"

    # the same window, ending soon: the run asks again and waits for its end
    shut, opening = until(fleet, 12, description="release freeze")
    fleet.application(app, namespace=namespace, windows=[shut])
    assert woken_at(waits(fleet, app, f"shut until {stamp(opening)}")) == opening
    entry = fleet.wait_run(app, phase="Succeeded")
    assert outcomes(entry) == {f"ConfigMap {namespace}/web": "created"}
    assert timedelta(0) <= first_write(fleet, app) - opening < BUSY
    assert fleet.state(app)["failures"] == "0"
    assert len(fleet.history(app)) == 1


def test_nothing_to_write_needs_no_open_window(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("same")
    put(fleet, app, [config_map("web")], namespace)
    fleet.wait_run(app, phase="Succeeded")
    fleet.application(app, namespace=namespace, windows=[always()])
    wait_for(lambda: fleet.catalogs.application(app)[0].windows, what="the window in force")  # type: ignore[index]
    assert fleet.sync(app)["counts"] == {"unchanged": 1}
    # an edit of windows is no change of what is wanted
    assert [entry["trigger"] for entry in fleet.history(app)] == ["Request", "First"]


def test_a_newer_digest_takes_over_while_the_window_is_shut(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("newer")
    put(fleet, app, [config_map("web", data={"v": "1"})], namespace, always())
    waits(fleet, app)
    newer = fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    wait_for(lambda: fleet.runs.look(app).run.get("digest") == newer.digest, what="the newer digest's run")
    waits(fleet, app)
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, digest=newer.digest, phase="Succeeded")
    assert fleet.get(f"{maps(namespace)}/web")["data"] == {"v": "2"}  # type: ignore[index]
    assert [entry["phase"] for entry in fleet.history(app)] == ["Succeeded", "Superseded"]


def test_a_plan_is_made_anew_when_the_cluster_moves_while_the_window_is_shut(fleet: Fleet, namespace: str) -> None:
    """What somebody has done by hand meanwhile need not be done any more: the run ends, and the window stays shut."""
    app = fleet.name("anew")
    put(fleet, app, [config_map("web", data={"v": "1"})], namespace)
    fleet.wait_run(app, phase="Succeeded")
    fleet.application(app, namespace=namespace, windows=[always()])
    wait_for(lambda: fleet.catalogs.application(app)[0].windows, what="the window in force")  # type: ignore[index]
    fleet.push(app, [config_map("web", data={"v": "2"})])
    fleet.ring(app)
    run = waits(fleet, app)["run"]
    fleet.ring(app)  # a look that finds nothing new leaves it alone
    path = f"{maps(namespace)}/web"
    body = fleet.get(path)
    assert body is not None
    next(iter(fleet.clusters.values())).request("PUT", path, body | {"data": {"v": "2"}})
    fleet.ring(app)
    entry = fleet.wait_run(app, since=1, phase="Succeeded")
    assert (entry["run"], entry["counts"]) == (run, {"unchanged": 1})
    assert len(fleet.writes(app)) == 1


def test_health_is_told_while_the_window_is_shut(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("healthy")
    claim = {**CLAIM, "metadata": {"name": "data", "annotations": {}}}
    put(fleet, app, [claim], namespace)
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data"

    def become(phase: str) -> None:
        body, kind = {"status": {"phase": phase}}, "application/merge-patch+json"
        status, answer = next(iter(fleet.clusters.values())).request("PATCH", f"{path}/status", body, content_type=kind)
        assert status == 200, answer

    wait_for(lambda: fleet.get(path), what="the claim")
    become("Bound")
    fleet.wait_run(app, phase="Succeeded")
    fleet.application(app, namespace=namespace, windows=[always()])
    wait_for(lambda: fleet.catalogs.application(app)[0].windows, what="the window in force")  # type: ignore[index]
    fleet.push(app, [claim, config_map("web")])
    fleet.ring(app)
    waits(fleet, app)
    become("Lost")
    fleet.ring(app)
    wait_for(lambda: fleet.state(app)["health"] == "Degraded", what="the claim's loss in the status")
    waits(fleet, app)


def test_an_edit_of_the_window_counts_at_once(fleet: Fleet, namespace: str) -> None:
    app, project = fleet.name("edited"), fleet.name("project")
    fleet.project(project, syncWindows=[always(applications=[app])])
    fleet.push(app, [config_map("web")])
    fleet.application(app, namespace=namespace, spec={"project": project})
    run = waits(fleet, app)["run"]
    fleet.project(project, syncWindows=[always(applications=["another"])])
    entry = fleet.wait_run(app, phase="Succeeded")
    assert entry["run"] == run


def opens(fleet: Fleet, ahead: float, **more: Any) -> tuple[dict[str, Any], datetime]:
    """An allow window of five minutes that opens with a minute, so many seconds ahead or a little more."""
    opening = (now(fleet) + timedelta(seconds=ahead + 59)).replace(second=0, microsecond=0)
    return {"kind": "allow", "schedule": f"{opening:%M %H} * * *", "duration": "5m", **more}, opening


def test_forty_applications_are_woken_in_one_moment(fleet: Fleet) -> None:
    """A window of five minutes opens and forty are waiting: all of them are due at its opening, and begin in it.

    Within five seconds, where the machine has nothing else to do: when it takes longer, a warning says how long.
    """
    project, apps = fleet.name("project"), [fleet.name("crowd") for _ in range(40)]
    crowd = {"selector": {"matchLabels": {"crowd": project}}}
    fleet.push(project, [config_map("web")])
    source = {"oci": fleet.repository(project)}
    fleet.project(project, syncWindows=[opens(fleet, 1800, **crowd)[0]])
    began = time.monotonic()
    for app in apps:
        spec = {"project": project}
        fleet.application(
            app, namespace=app, source=source, spec=spec, labels={"crowd": project}, options=["CreateNamespace=true"]
        )
    for app in apps:
        waits(fleet, app)
    # The window opens sooner: the runs ask again and wait for that. Which is less than they have done so far.
    window, opening = opens(fleet, max(15.0, time.monotonic() - began), **crowd)
    since = fleet.clusters[next(iter(fleet.clusters))].audit_position()
    fleet.project(project, syncWindows=[window])
    for app in apps:
        assert woken_at(waits(fleet, app, f"shut until {stamp(opening)}")) == opening
    for app in apps:
        fleet.wait_run(app, phase="Succeeded")
    late = sorted(first_write(fleet, app, since) - opening for app in apps)
    assert timedelta(0) <= late[0]
    if late[-1] > timedelta(seconds=5):
        warnings.warn(f"forty have begun {late[-1].total_seconds():.1f} s after the opening, goal 5 s", stacklevel=1)
    assert late[-1] < BUSY, "each in its turn, and none at its next look"


# ── who may ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_sync_asked_for_waits_too_unless_the_window_lets_people_through(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("manual")
    put(fleet, app, [config_map("web")], namespace, always())
    waits(fleet, app)
    request = fleet.request(app)
    wait_for(lambda: fleet.runs.look(app).run.get("request") == request, what="the run that was asked for")
    waits(fleet, app)
    assert fleet.history(app)[0]["message"] == "by a sync that tester asked for"
    fleet.application(app, namespace=namespace, windows=[always(manualSync=True)])
    entry = fleet.wait_run(app, phase="Succeeded")
    assert (entry["request"], entry["overrode"]) == (request, "")


def test_an_override_goes_through_and_history_keeps_why(
    fleet: Fleet, namespace: str, command: Callable[..., Result]
) -> None:
    """An out-of-window change is held up, then let through by an override with its reason."""
    app = fleet.name("override")
    put(fleet, app, [config_map("web")], namespace, always(description="release freeze"))
    waits(fleet, app)

    refused = command("sync", app, "--override-windows")
    assert (refused.exit_code, "needs --reason" in refused.output) == (2, True)
    held = command("sync", app)
    assert "note: sync windows are shut" in held.stderr
    assert "release freeze" in held.stderr
    assert fleet.writes(app, parents=True) == []

    done = command("sync", app, "--override-windows", "--reason", "mends the outage", "--wait", "--timeout", "200")
    assert done.exit_code == 0, done.output
    entry = fleet.wait_run(app, phase="Succeeded")
    assert (entry["reason"], entry["trigger"]) == ("mends the outage", "Request")
    assert "release freeze" in entry["overrode"]
    assert "sync windows: shut" in command("history", app, "--run", entry["run"]).output


@pytest.fixture
def guarded(make_fleet: Callable[..., Fleet]) -> Fleet:
    """One whose workers let windows be overridden by signed requests only."""
    return make_fleet(workers=1, FLEETBEAT_OVERRIDE_KEY=new_key(), **PATIENT)


def asked_by_hand(fleet: Fleet, app: str, **request: str) -> None:
    """A request as anybody can write it who may write to Redis, looked at by a worker."""
    assert fleet.runs.request(app, request.pop("id"), **request) is not None  # type: ignore[arg-type]
    fleet.ring(app)


def test_an_out_of_window_change_is_refused_then_allowed_by_an_override_with_the_reason_in_the_audit(
    guarded: Fleet, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overriding is a right of its own: nobody without the key has it, whatever is in Redis."""
    fleet, app = guarded, guarded.name("guarded")
    key = fleet.env["FLEETBEAT_OVERRIDE_KEY"]
    for name, value in fleet.env.items():
        monkeypatch.setenv(name, value)

    def override(reason: str) -> Result:
        words = ("sync", app, "--override-windows", "--reason", reason, "--wait", "--timeout", "200")
        return CliRunner().invoke(cli, list(words), obj=Session())

    put(fleet, app, [config_map("web"), in_wave(1, config_map("late"))], namespace, always(description="freeze"))
    run = waits(fleet, app)["run"]

    monkeypatch.delenv("FLEETBEAT_OVERRIDE_KEY")
    missing = override("I may not")
    while "it is not signed" in missing.stderr:  # no worker has said in time what it asks for, so it has refused
        missing = override("I may not")
    assert missing.exit_code == 3, missing.output
    assert "FLEETBEAT_OVERRIDE_KEY is not set" in missing.stderr
    monkeypatch.setenv("FLEETBEAT_OVERRIDE_KEY", new_key())
    other = override("nor may I")
    assert other.exit_code == 1, other.output
    assert "sync windows are not overridden: it was signed with another FLEETBEAT_OVERRIDE_KEY" in other.stderr
    asked_by_hand(fleet, app, id="by-hand", by="eve", reason="let me", override_windows="1")
    refused = wait_for(
        lambda: next((one for one in fleet.history(app) if one["request"] == "by-hand"), None),
        timeout=120,
        what="the answer",
    )
    assert (refused["phase"], refused["error"], refused["by"]) == ("Failed", "OverrideRefused", "eve")
    assert "it is not signed" in refused["message"]
    # a copy of a good one, for another application
    good = sign(base64.b64decode(key), app="another", request="copy", by="ann", reason="real", now=fleet.runs.now())
    asked_by_hand(fleet, app, id="copy", by="ann", reason="real", override_windows=good)
    wait_for(lambda: fleet.history(app)[0]["request"] == "copy", timeout=120, what="the answer to the copy")
    # and written into the run itself: it is asked again when the window is edited
    fleet.runs.note(app, run, {"override_windows": "1", "by": "eve", "reason": "let me"})
    fleet.application(app, namespace=namespace, windows=[always(description="still frozen")])
    assert waits(fleet, app, "still frozen")["run"] == run, "none of them has touched the run that waits"
    assert fleet.writes(app, parents=True) == []
    told = [event.reason for event in Fleetbeat(fleet.settings).events(app)]
    assert told.count("RequestRefused") == len(fleet.history(app)) >= 3
    assert {entry["error"] for entry in fleet.history(app)} == {"OverrideRefused"}

    monkeypatch.setenv("FLEETBEAT_OVERRIDE_KEY", key)
    done = override("mends the outage")
    assert done.exit_code == 0, done.output
    rows = [
        json.loads(line)
        for line in CliRunner().invoke(cli, ["audit", app, "-o", "json"], obj=Session()).output.splitlines()
    ]
    assert {row["object"] for row in rows} >= {f"ConfigMap {namespace}/web", f"ConfigMap {namespace}/late"}
    assert {row["reason"] for row in rows} == {"mends the outage"}
    assert all(row["by"] and "still frozen" in row["overrode"] for row in rows)
    shown = CliRunner().invoke(cli, ["audit", app], obj=Session()).output
    assert "past sync windows: mends the outage" in shown

    everything = b"\n".join(contents(fleet.store.redis).values()) + fleet.logs().encode()
    assert traces(everything, key) == []


def test_self_healing_counts_as_automated_and_can_be_held_up_alone(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("healing")
    put(fleet, app, [config_map("web")], namespace, always(scope="self-heal"))
    fleet.wait_run(app, phase="Succeeded")  # no self-healing: goes through
    path = f"{maps(namespace)}/web"
    body = fleet.get(path)
    assert body is not None
    cluster = next(iter(fleet.clusters.values()))
    cluster.request("PUT", path, body | {"data": {"key": "by hand"}})
    fleet.ring(app)
    assert waits(fleet, app)["trigger"] == "Drift"
    assert fleet.get(path)["data"] == {"key": "by hand"}  # type: ignore[index]
    fleet.push(app, [config_map("web", data={"key": "new"})])
    fleet.ring(app)
    assert fleet.wait_run(app, since=2, phase="Succeeded")["trigger"] == "Revision"
    assert fleet.get(path)["data"] == {"key": "new"}  # type: ignore[index]


def test_a_window_for_a_kind_holds_up_only_syncs_that_write_it(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("kinds")
    put(fleet, app, [config_map("web")], namespace, always(kinds=["Service"]))
    fleet.wait_run(app, phase="Succeeded")
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    fleet.push(app, [config_map("web", data={"key": "new"}), service])
    fleet.ring(app)
    waits(fleet, app)
    assert fleet.get(f"{maps(namespace)}/web")["data"] == {"key": "value"}  # type: ignore[index]
    fleet.application(app, namespace=namespace)
    fleet.wait_run(app, since=1, phase="Succeeded")


# ── a window that shuts in mid-sync ──────────────────────────────────────────────────────────────────────────────


def between_waves(fleet: Fleet, app: str, namespace: str, **window: Any) -> Callable[[], None]:
    """Wave 0 written and waited for, the window's end put forward to now meanwhile.

    Returns what makes wave 0 healthy.
    """
    began = now(fleet).replace(second=0, microsecond=0) - timedelta(minutes=1)
    shape = {"kind": "allow", "schedule": f"{began:%M %H} * * *", **window}
    put(fleet, app, [CLAIM, in_wave(1, config_map("web"))], namespace, {**shape, "duration": "1h"})
    wait_for(lambda: fleet.runs.look(app).run.get("written") == "0", what="wave 0 written")
    length = (now(fleet) - began).total_seconds()
    fleet.application(app, namespace=namespace, windows=[{**shape, "duration": f"{length:.3f}s"}])
    wait_for(lambda: fleet.catalogs.application(app)[0].windows[0].duration != 3600, what="the window in force")  # type: ignore[index]

    def bind() -> None:
        path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data/status"
        cluster = next(iter(fleet.clusters.values()))
        status, answer = cluster.request(
            "PATCH", path, {"status": {"phase": "Bound"}}, content_type="application/merge-patch+json"
        )
        assert status == 200, answer

    return bind


def test_a_sync_stops_between_waves_and_goes_on_at_an_override(
    fleet: Fleet, namespace: str, command: Callable[..., Result]
) -> None:
    """Field case e4: it says so, holds no lock, and a person lets it through for a reason that history keeps."""
    app = fleet.name("between")
    between_waves(fleet, app, namespace)()
    record = waits(fleet, app, "wave 1 waits for a sync window: shut until")
    assert "What came before it is written" in record["message"]
    assert fleet.get(f"{maps(namespace)}/web") is None
    assert not fleet.store.redis.exists(keys.lock(app))
    claim = len(fleet.writes(app))

    done = command("sync", app, "--override-windows", "--reason", "half of it is worse", "--wait", "--timeout", "200")
    assert done.exit_code == 0, done.output
    entry = fleet.wait_run(app, phase="Succeeded")
    assert entry["reason"] == "half of it is worse"
    assert "shut until" in entry["overrode"]
    assert fleet.get(f"{maps(namespace)}/web") is not None
    assert len(fleet.writes(app)) == claim + 1, "what came before is not written again"


def test_an_application_can_leave_while_its_sync_is_stopped_between_waves(fleet: Fleet, namespace: str) -> None:
    """Field case e4."""
    app = fleet.name("between")
    between_waves(fleet, app, namespace)()
    waits(fleet, app, "wave 1 waits for a sync window: shut until")
    fleet.leave(app)
    wait_for(lambda: app not in fleet.catalogs.names(), what="the application gone")
    fleet.ring(app)
    wait_for(lambda: not fleet.runs.look(app).run, what="the run ended")
    assert fleet.get(f"{maps(namespace)}/web") is None


def test_a_sync_under_way_may_overrun(fleet: Fleet, namespace: str) -> None:
    app = fleet.name("overrun")
    between_waves(fleet, app, namespace, syncOverrun=True)()
    entry = fleet.wait_run(app, phase="Succeeded")
    assert set(outcomes(entry).values()) == {"created"}
