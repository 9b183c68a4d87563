"""An object that is healed again and again, in other fields each time, waits for its next heal; nothing else does.

Field case f2; the tables are in tests/unit/decisions/test_fights.py.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from click.testing import CliRunner
from fleet import PATIENT, Fleet, config_map, outcomes, words
from people import Hands
from waiting import wait_for
from watching import watching

from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

#: Somebody always finds another one to edit.
FIELDS = {f"field-{number:02}": "ours" for number in range(60)}


@pytest.fixture
def hands(cluster: Cluster) -> Hands:
    return Hands(cluster)


def said(fleet: Fleet, *command: str) -> str:
    return CliRunner().invoke(cli, list(command), obj=Session(), env=fleet.env).stdout


def installed(fleet: Fleet, namespace: str, **sync: Any) -> tuple[str, str]:
    """(application, path of one of its two ConfigMaps)."""
    app = fleet.name("often")
    fleet.push(app, [config_map("web", data=FIELDS), config_map("calm", data=FIELDS)])
    fleet.application(app, namespace=namespace, **sync)
    fleet.wait_run(app, phase="Succeeded")
    return app, f"/api/v1/namespaces/{namespace}/configmaps/web"


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory, registry: Registry, cluster: Cluster) -> Iterator[Fleet]:
    """Its first pause is longer than any of these tests takes on any machine."""
    folder = tmp_path_factory.mktemp("patient")
    settings = PATIENT | {"FLEETBEAT_HEALS_MOST": "4", "FLEETBEAT_HEALS_PAUSE": "900", "FLEETBEAT_HEALS_LONGEST": "900"}
    with RedisServer() as redis, Fleet(folder, redis, registry, [cluster], workers=1, **settings) as running:
        yield running


def test_after_some_heals_an_object_waits_and_says_so_and_everything_else_is_healed(
    patient: Fleet, namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Field case f2: the first heals are immediate; a person and a new digest end the wait."""
    fleet = patient
    app, path = installed(fleet, namespace)
    start = cluster.audit_position()
    edits = iter(FIELDS)

    def edit(where: str = path, again: str = "") -> str:
        field = again or next(edits)
        hands.merge(where, {"data": {field: "theirs"}}, "kubectl-edit")
        fleet.tick(app)
        return field

    first = edit()
    for worker in fleet.workers:  # both counts go on over the death of whoever has counted
        worker.kill()
        begun = worker.log.read_text().count(" ready.")
        worker.start()
        wait_for(lambda: worker.log.read_text().count(" ready.") > begun, what="the worker to be back")  # noqa: B023
    edit(again=first)
    for _ in range(2):
        edit()
        assert hands.get(path)["data"] == FIELDS
    left = edit()
    assert words(fleet.writes(app, since=start)) == [f"patch configmaps {namespace}/web"] * 4
    assert hands.get(path)["data"][left] == "theirs"

    state = fleet.state(app)
    assert (state["sync"], state["phase"], state["reason"]) == ("OutOfSync", "Succeeded", "BackOff")
    often = f"ConfigMap {namespace}/web was healed 4 times in "
    (condition,) = [one for one in json.loads(said(fleet, "status", app, "-o", "json"))["conditions"] if "heals" in one]
    assert (condition["type"], condition["heals"], condition["parties"]) == (
        "BackOff",
        4,
        ["fleetbeat", "kubectl-edit"],
    )
    assert often in condition["message"]
    assert condition["message"].endswith(f", next at {condition['until']}; changed by kubectl-edit")
    why = json.loads(said(fleet, "why", app, "-o", "json"))["findings"][0]
    assert (why["rule"], why["blocks"]) == ("BackOff", True)
    assert why["message"].startswith(often)
    assert datetime.fromisoformat(why["until"]) == datetime.fromisoformat(condition["until"])
    told = [json.loads(line) for line in said(fleet, "events", app, "-o", "json").splitlines()]
    assert told[-1]["reason"] == "BackOff"
    assert condition["message"] in told[-1]["message"]
    row, *healed = json.loads(said(fleet, "drift", app, "-o", "json"))["fields"]
    assert {one["field"]: one["healed"] for one in healed} == {
        "data.field-02": 1,
        "data.field-01": 1,
        f"data.{first}": 2,
    }
    assert (row["field"], row["healed"], row["manager"]) == (f"data.{left}", 0, "kubectl-edit")
    assert row["leftUntil"].startswith(condition["until"].removesuffix("Z"))

    # While it waits, looks cost no run, whatever else is done to it.
    hands.merge(path, {"data": {next(edits): "theirs"}}, "kubectl-edit")
    assert fleet.tick(app) == "nothing to do"
    edit(f"/api/v1/namespaces/{namespace}/configmaps/calm")
    assert outcomes(fleet.history(app)[0]) == {
        f"ConfigMap {namespace}/web": "skipped",
        f"ConfigMap {namespace}/calm": "configured",
    }
    assert hands.get(f"/api/v1/namespaces/{namespace}/configmaps/calm")["data"] == FIELDS

    fleet.sync(app)
    assert hands.get(path)["data"] == FIELDS
    assert fleet.state(app)["sync"] == "Synced"
    edit()
    assert fleet.state(app)["reason"] == "BackOff", "one sync by a person is no reason to begin anew"
    revision = fleet.push(app, [config_map("web", data={**FIELDS, "new": "1"}), config_map("calm", data=FIELDS)])
    fleet.ring(app)
    fleet.wait_run(app, digest=revision.digest, phase="Succeeded")
    edit()
    assert hands.get(path)["data"] == {**FIELDS, "new": "1"}
    assert fleet.state(app)["sync"] == "Synced"


def test_one_that_is_deleted_after_some_heals_waits_as_well(patient: Fleet, namespace: str, hands: Hands) -> None:
    app, path = installed(patient, namespace)
    for field in itertools.islice(FIELDS, 4):
        hands.merge(path, {"data": {field: "theirs"}}, "kubectl-edit")
        patient.tick(app)
    hands.delete(path)
    patient.tick(app)
    assert hands.gone(path)
    assert patient.state(app)["reason"] == "BackOff"
    assert outcomes(patient.history(app)[0]) == {f"ConfigMap {namespace}/web": "skipped"}
    assert patient.tick(app) == "nothing to do"
    row = json.loads(said(patient, "drift", app, "-o", "json"))["fields"][0]
    assert (row["field"], row["manager"], row["healed"]) == ("", None, 0)
    assert row["leftUntil"]
    patient.sync(app)
    assert hands.get(path)["data"] == FIELDS


def test_whoever_edits_without_a_break_gets_no_more_heals_and_others_all_of_theirs(
    patient: Fleet, namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Field case f3: writes are bounded, with a watch that rings twice a second; neither events nor history fill up."""
    fleet = patient
    # A heal may be refused, as the object moves all the time: then it is tried again soon.
    often = {"limit": 100, "backoff": {"duration": "200ms", "factor": 2, "maxDuration": "1s"}}
    app, path = installed(fleet, namespace, retry=often)
    other = fleet.name("other")
    fleet.push(other, [config_map("other", data=FIELDS)])
    fleet.application(other, namespace=namespace)
    fleet.wait_run(other, phase="Succeeded")
    start, over = cluster.audit_position(), threading.Event()

    def edit() -> None:
        for number, field in enumerate(itertools.cycle(FIELDS)):
            if over.is_set():
                return
            hands.merge(path, {"data": {field: f"theirs {number}"}}, "operator")
            over.wait(0.03)

    def told() -> int:
        return len(said(fleet, "events", app, "-o", "json").splitlines())

    def kept() -> list[str]:
        """Writes that were not refused because the object had moved again."""
        return [event["verb"] for event in fleet.writes(app, since=start) if event["responseStatus"]["code"] < 300]

    editor = threading.Thread(target=edit)
    with watching(fleet):
        editor.start()
        try:
            wait_for(lambda: fleet.state(app).get("reason") == "BackOff", timeout=240, what="the end of its heals")
            wait_for(lambda: not fleet.runs.look(app).run, what="its last run to end")
            assert len(kept()) == 4
            before, position = (told(), len(fleet.history(app))), cluster.audit_position()
            theirs = f"/api/v1/namespaces/{namespace}/configmaps/other"
            for field in itertools.islice(FIELDS, 3):
                hands.merge(theirs, {"data": {field: "edited"}})
                wait_for(lambda: hands.get(theirs)["data"] == FIELDS, what="the heal of another application")
            wait_for(lambda: edits(cluster, position) > 100, timeout=120, what="a hundred edits", every=0.2)
            assert len(kept()) == 4
            assert (told(), len(fleet.history(app))) == before
        finally:
            over.set()
            editor.join()


def edits(cluster: Cluster, since: int) -> int:
    """Writes of the one who edits."""
    return sum("fieldManager=operator" in event["requestURI"] for event in cluster.audit(since))


def test_each_pause_is_longer_and_ends_by_itself_with_one_heal(
    make_fleet: Callable[..., Fleet], namespace: str, hands: Hands, cluster: Cluster
) -> None:
    """Field case f2: monotone up to the cap. The interval is an hour: nobody but the pause's end rings."""
    fleet = make_fleet(
        **PATIENT,
        FLEETBEAT_HEALS_MOST="2",
        FLEETBEAT_HEALS_PAUSE="1",
        FLEETBEAT_HEALS_FACTOR="2",
        FLEETBEAT_HEALS_LONGEST="2",
    )
    app, path = installed(fleet, namespace)
    start = cluster.audit_position()
    edits = iter(FIELDS)

    def healed() -> list[dict[str, Any]]:
        return fleet.writes(app, since=start)

    def is_over() -> bool:
        return not fleet.runs.look(app).run and hands.get(path)["data"] == FIELDS

    for number in range(5):
        hands.merge(path, {"data": {next(edits): "theirs"}}, "kubectl-edit")
        fleet.tick(app)  # heals it at once, or finds that it has to wait
        wait_for(is_over, what=f"heal {number + 1}")
    times = [datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp() for event in healed()]
    assert len(times) == 5
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert all(gap >= pause for gap, pause in zip(gaps[1:], (1, 2, 2), strict=True)), gaps
    # The first sync, two heals at once, then three waits and the heals after them.
    assert [entry["count"] for entry in fleet.history(app)] == [6, 1, 1, 1]
    assert fleet.state(app)["sync"] == "Synced"
