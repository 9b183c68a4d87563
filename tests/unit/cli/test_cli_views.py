"""status and history: what they make of the hashes in Redis."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli
from fleetbeat.cli.session import Session
from fleetbeat.clients.catalogs import CatalogStatus
from fleetbeat.clients.holds import Held
from fleetbeat.clients.pulse import Pulse
from fleetbeat.clients.runs import Look
from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.events import stamp
from fleetbeat.decisions.holds import Hold
from fleetbeat.model import Application, Cluster, Destination, Source

NOW = 1_796_000_000_000
DIGEST = "sha256:" + "ab" * 32
SHA = "c" * 40
HEALTHY = {
    "sync": "Synced",
    "health": "Healthy",
    "phase": "Succeeded",
    "message": "7 unchanged",
    "digest": DIGEST,
    "attempted": DIGEST,
    "tag": "stable",
    "source": "https://git.example.com/shop",
    "revision": f"main@sha1:{SHA}",
    "created": "2026-11-30T10:00:00Z",
    "finished": str(NOW - 90_000),
    "objects": "7",
    "failures": "0",
}
FAILED = HEALTHY | {
    "sync": "OutOfSync",
    "phase": "Failed",
    "message": "Deployment shop/web: unknown field\nsecond line",
    "reason": "Rejected",
    "attempted": "sha256:" + "ff" * 32,
    "failures": "3",
}
ENTRY: dict[str, Any] = {
    "run": "20261130T114512Z-3fa9c1",
    "trigger": "Drift",
    "by": "",
    "reason": "",
    "request": "",
    "phase": "Succeeded",
    "message": "1 configured, 6 unchanged",
    "health": "Healthy",
    "revision": {"digest": DIGEST, "tag": "stable", "source": "", "revision": f"main@sha1:{SHA}", "created": ""},
    "started": NOW - 1500,
    "finished": NOW,
    "count": 1,
    "durations": {"pull": 0.1, "apply:0": 0.25},
    "counts": {"configured": 1, "unchanged": 6},
    "results": [
        {
            "id": "/ConfigMap/shop/web-config",
            "outcome": "configured",
            "wave": 0,
            "reason": "data.greeting differs",
            "managers": ["kubectl-edit"],
        }
    ],
}


class Runs:
    def __init__(self, looks: dict[str, Look], entries: list[dict[str, Any]]) -> None:
        self._looks, self._entries = looks, entries

    def look(self, app: str) -> Look:
        return self._looks[app]

    def history(self, app: str, most: int = 0) -> list[str]:
        return [json.dumps(entry) for entry in self._entries[: most or None]] if app == "shop" else []


class Catalogs:
    def __init__(self, names: list[str], error: str) -> None:
        self._names, self._error = names, error

    def names(self) -> list[str]:
        return self._names

    def application(self, name: str) -> tuple[Application, Cluster, str]:
        return SHOP, Cluster("prod"), name

    def status(self) -> CatalogStatus:
        return CatalogStatus(NOW, self._error, "x", NOW)


class NothingHeld:
    def read(self) -> Held:
        return Held((), int(NOW))


class Fake(Session):
    """A session whose Redis is a few dictionaries."""

    def __init__(
        self,
        looks: dict[str, Look],
        *,
        entries: list[dict[str, Any]] | None = None,
        silent: float | None = 0.3,
        error: str = "",
    ) -> None:
        self.runs = Runs(looks, entries or [])  # type: ignore[assignment]
        self.catalogs = Catalogs(sorted(looks), error)  # type: ignore[assignment]
        self._silent = silent
        self.holds = NothingHeld()  # type: ignore[assignment]

    def pulse(self) -> Pulse:
        return Pulse(NOW, 0.0, {} if self._silent is None else {"beat-1": self._silent})

    def due(self, apps: Any) -> dict[str, float | None]:
        return dict.fromkeys(apps, NOW + 42000.0)


def look(state: dict[str, str], run: dict[str, str] | None = None, request: dict[str, str] | None = None) -> Look:
    return Look(run or {}, state, request or {})


def invoke(session: Session, *arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments), obj=session)


@pytest.mark.parametrize(
    ("seen", "row"),
    [
        (look(HEALTHY), "shop Synced Healthy stable@abababababab Succeeded 90s 7 unchanged"),
        (look(FAILED), "shop OutOfSync Healthy stable@abababababab Failed 90s Deployment shop/web: unknown field"),
        (look({}), "shop Unknown Unknown - - - not looked at yet"),
        (
            look(
                HEALTHY, {"run": "r", "step": "apply:1", "state": "waiting", "message": "Deployment shop/web: 1 of 2"}
            ),
            "shop Synced Healthy stable@abababababab Running 90s apply:1: Deployment shop/web: 1 of 2",
        ),
        (
            look({}, None, {"id": "x", "by": "ann@host"}),
            "shop Unknown Unknown - - - sync asked for by ann@host, not begun",
        ),
        (
            look(
                {"reason": "ConfigurationError", "message": "Cluster prod, token: there is no file /run/token"},
                None,
                {"id": "x", "by": "ann@host"},
            ),
            "shop Unknown Unknown - - - sync asked for by ann@host, not begun; last: Cluster prod, token: there is no "
            "file /run/token",
        ),
    ],
    ids=["healthy", "failed", "new", "running", "requested", "held up"],
)
def test_a_row_of_the_table(seen: Look, row: str) -> None:
    shown = invoke(Fake({"shop": seen}), "status")
    assert shown.exit_code == 0
    heading, line = shown.stdout.splitlines()
    assert heading.split() == ["APP", "SYNC", "HEALTH", "REVISION", "PHASE", "AGE", "MESSAGE"]
    assert " ".join(line.split()) == row


def test_one_application_tells_commit_attempt_and_every_line_of_the_error() -> None:
    shown = invoke(Fake({"shop": look(FAILED)}), "status", "shop")
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert f"Commit: {SHA}, of https://git.example.com/shop, 2026-11-30T10:00:00Z" in lines
    assert f"Tried last: sha256:{'ff' * 32} (not in force)" in lines
    assert "Error: Rejected, 3 in a row" in lines
    assert "Next look: in 42s" in lines
    assert lines[-2:] == ["Message: Deployment shop/web: unknown field", "second line"]


def test_every_conflict_is_told_once() -> None:
    told = [f"Conflict: data.{key} of ConfigMap shop/web is rewritten by operator each time" for key in "ab"]
    conditions = [{"type": "Conflict", "status": "True", "message": message} for message in told]
    seen = HEALTHY | {"sync": "OutOfSync", "reason": "Conflict", "conflicts": json.dumps(conditions)}
    session = Fake({"shop": look(seen | {"message": f"1 skipped. {told[0]} (and 1 more)"})})
    output = invoke(session, "status", "shop").output
    assert [output.count(message.removeprefix("Conflict: ")) for message in told] == [1, 1]
    assert "Conflict:    data.b of ConfigMap shop/web" in output
    shown = json.loads(invoke(session, "status", "shop", "-o", "json").output)["conditions"]
    assert [one["type"] for one in shown[:3]] == ["Ready", "Reconciling", "Stalled"]
    assert shown[3:] == conditions


def test_what_makes_an_application_out_of_sync_is_told_with_its_reason() -> None:
    results = [
        {"id": "/ConfigMap/shop/old", "outcome": "kept", "reason": "Prune=confirm waits"},
        {"id": "/ConfigMap/shop/both", "outcome": "skipped", "reason": "belongs to application other"},
        {"id": "/ConfigMap/shop/web", "outcome": "configured", "reason": "data.a"},
    ]
    entry = ENTRY | {"phase": "Succeeded", "results": results}
    session = Fake({"shop": look(HEALTHY | {"sync": "OutOfSync"})}, entries=[entry])
    assert invoke(session, "status", "shop").stdout.splitlines()[-2:] == [
        "Kept:        ConfigMap shop/old: Prune=confirm waits",
        "Skipped:     ConfigMap shop/both: belongs to application other",
    ]
    told = json.loads(invoke(session, "status", "shop", "-o", "json").stdout)["conditions"]
    assert [(one["type"], one["object"]) for one in told[3:]] == [
        ("Kept", "ConfigMap shop/old"),
        ("Skipped", "ConfigMap shop/both"),
    ]
    conflict = {"type": "Conflict", "object": "ConfigMap shop/both", "message": "Conflict: data.a is rewritten by x"}
    fought = look(HEALTHY | {"sync": "OutOfSync", "conflicts": json.dumps([conflict])})
    assert "Skipped" not in invoke(Fake({"shop": fought}, entries=[entry]), "status", "shop").stdout
    failed = Fake({"shop": look(FAILED)}, entries=[entry | {"phase": "Failed"}])
    assert "Kept" not in invoke(failed, "status", "shop").stdout


def test_json_and_yaml_say_the_same() -> None:
    session = Fake({"shop": look(HEALTHY)})
    data = json.loads(invoke(session, "status", "-o", "json").stdout)
    assert data == yaml.safe_load(invoke(session, "status", "-o", "yaml").stdout)
    assert data["applications"][0]["commit"] == SHA
    assert data["applications"][0]["revision"] == f"stable@{DIGEST}"


@pytest.mark.parametrize(
    ("silent", "said"),
    [(None, "no beat has ever run here"), (61.0, "beat has been silent for 61s"), (2.0, "")],
    ids=["never", "silent", "alive"],
)
def test_a_silent_beat_is_said(silent: float | None, said: str) -> None:
    shown = invoke(Fake({"shop": look(HEALTHY)}, silent=silent), "status")
    assert said in shown.stderr
    assert bool(shown.stderr) == bool(said)


def test_a_broken_catalog_is_said_with_each_problem() -> None:
    shown = invoke(Fake({"shop": look(HEALTHY)}, error="a.yaml: one\nb.yaml: two"), "status")
    assert shown.exit_code == 0
    assert "catalog: a.yaml: one" in shown.stderr
    assert "catalog: b.yaml: two" in shown.stderr
    assert "last good catalog stays in force" in shown.stderr


@pytest.mark.parametrize("command", ["status", "history"])
def test_unknown_application_names_the_nearest(command: str) -> None:
    shown = invoke(Fake({"shop": look(HEALTHY), "bank": look({})}), command, "shpo")
    assert shown.exit_code == Exit.CONFIGURATION
    assert "Did you mean shop?" in shown.stderr


def test_history_table() -> None:
    failure = ENTRY | {"phase": "Failed", "message": "boom\nmore", "count": 4, "trigger": "Retry"}
    shown = invoke(Fake({"shop": look(HEALTHY)}, entries=[ENTRY, failure]), "history", "shop")
    rows = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert rows[1].endswith("Drift - stable@abababababab Succeeded 1 configured")
    assert rows[2].endswith("Retry - stable@abababababab Failed ×4 boom")


def test_history_of_one_run_names_who_had_changed_what() -> None:
    shown = invoke(Fake({"shop": look(HEALTHY)}, entries=[ENTRY]), "history", "shop", "--run", ENTRY["run"])
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert f"Commit: {SHA}" in lines
    assert "Took: 1.5 s: pull 0.10, apply:0 0.25" in lines
    assert "configured ConfigMap shop/web-config data.greeting differs; changed by kubectl-edit" in lines


def test_history_without_such_a_run() -> None:
    shown = invoke(Fake({"shop": look(HEALTHY)}, entries=[ENTRY]), "history", "shop", "--run", "nope")
    assert shown.exit_code == Exit.FAILED
    assert "no run 'nope'" in shown.stderr


SHOP = Application("shop", Source("r.example.com/shop", tag="stable"), Destination("prod"))
STANDS = Hold("3fa9c1", "app", "shop", "sync", "ada", "draining", NOW - 60_000, NOW + 60_000)


class OneHeld:
    def read(self) -> Held:
        return Held((STANDS,), int(NOW))


class OneVetoed:
    def vetoes(self) -> list[Order]:
        return [Order("sha256:" + "c" * 64, "ada", "loses orders", NOW)]


@pytest.mark.parametrize("command", ["history shop", "hold", "veto", "status shop"])
def test_programs_get_times_in_rfc_3339(command: str) -> None:
    """They were milliseconds in some commands and text in others."""
    session = Fake({"shop": look(HEALTHY)}, entries=[{**ENTRY, "started": NOW - 1500, "finished": NOW}])
    session.holds, session.orders = OneHeld(), OneVetoed()  # type: ignore[assignment]
    told = json.loads(invoke(session, *command.split(), "-o", "json").stdout)
    one = told["holds"][0] if command == "status shop" else told[0]
    times = {name: one[name] for name in ("started", "finished", "since", "until") if name in one}
    expected = {
        "history shop": {"started": stamp(NOW - 1500), "finished": stamp(NOW)},
        "veto": {"since": stamp(NOW)},
    }
    assert times == expected.get(command, {"since": stamp(NOW - 60_000), "until": stamp(NOW + 60_000)})


def test_what_was_taken_over_by_something_newer_is_no_error() -> None:
    shown = invoke(Fake({"shop": look({**HEALTHY, "phase": "Superseded", "reason": "Superseded"})}), "status", "shop")
    assert "Error:" not in shown.stdout
    assert "Superseded" in shown.stdout
