"""`fleetbeat windows --catalog`: open or shut, by which windows, until when, without a server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli

HEAD = {"apiVersion": "fleetbeat.dev/v1alpha1"}
OFFICE = {
    "kind": "deny",
    "schedule": "0 9 * * 1-5",
    "duration": "8h",
    "timeZone": "Europe/London",
    "applications": ["shop"],
    "manualSync": True,
    "description": "office hours",
}
TUESDAY = "2026-06-02T10:00:00Z"


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is asked: there is not even an address of one."""
    monkeypatch.setenv("FLEETBEAT_REDIS_URL", "redis://192.0.2.1:1/0")
    monkeypatch.delenv("FLEETBEAT_KEY", raising=False)


def catalog(folder: Path, *windows: dict[str, Any]) -> Path:
    documents = [
        {**HEAD, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"inCluster": True}},
        {**HEAD, "kind": "Project", "metadata": {"name": "web"}, "spec": {"syncWindows": list(windows)}},
    ]
    for name in ("shop", "blog"):
        spec = {"project": "web", "source": {"oci": "registry.example.com/x"}, "destination": {"cluster": "prod"}}
        documents.append({**HEAD, "kind": "Application", "metadata": {"name": name}, "spec": spec})
    (folder / "all.yaml").write_text(yaml.safe_dump_all(documents))
    return folder


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["windows", *map(str, arguments)])


def answer(*arguments: Any) -> Any:
    shown = run(*arguments, "-o", "json")
    assert shown.exit_code == Exit.OK, shown.output
    return json.loads(shown.stdout)


def test_json_is_exactly_what_is_promised(tmp_path: Path) -> None:
    by = [
        {
            "kind": "deny",
            "schedule": "0 9 * * 1-5",
            "durationSeconds": 28800,
            "timeZone": "Europe/London",
            "description": "office hours",
            "kinds": [],
            "scope": "all",
            "manualSync": True,
            "syncOverrun": False,
            "from": "Project web",
            "because": ["applications shop"],
        }
    ]
    assert answer("shop", "--catalog", catalog(tmp_path, OFFICE), "--at", TUESDAY) == {
        "automated": {"open": False, "by": by, "until": "2026-06-02T16:00:00Z"},
        "manual": {"open": True, "by": by, "until": None},
    }


def test_any_offset_may_be_asked_in(tmp_path: Path) -> None:
    folder = catalog(tmp_path, OFFICE)
    assert not answer("shop", "--catalog", folder, "--at", "2026-06-02T04:00:00-04:00")["automated"]["open"]
    assert answer("shop", "--catalog", folder, "--at", "2026-06-02T03:59:59-04:00")["automated"]["open"]


def test_without_a_time_it_is_now(tmp_path: Path) -> None:
    always = {**OFFICE, "schedule": "* * * * *", "duration": "1h"}
    assert answer("shop", "--catalog", catalog(tmp_path, always))["automated"]["open"] is False


def test_a_table_for_people(tmp_path: Path) -> None:
    shown = run("shop", "--catalog", catalog(tmp_path, OFFICE), "--at", TUESDAY)
    assert shown.exit_code == Exit.OK
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["SYNC", "NOW", "UNTIL", "BY"]
    assert lines[1].split()[:3] == ["automated", "shut", "2026-06-02T16:00:00Z"]
    assert (
        'deny "0 9 * * 1-5" for 8h in Europe/London, manualSync (Project web: office hours), for applications shop'
        in lines[1]
    )
    assert lines[2].startswith("manual")
    assert len(lines) == 3


def test_no_more_is_said_than_was_looked_at(tmp_path: Path) -> None:
    evens = {**OFFICE, "kind": "allow", "schedule": "*/2 * * 1-11 *", "duration": "1m", "timeZone": "UTC"}
    folder = catalog(tmp_path, evens, {**evens, "schedule": "1-59/2 * * 1-11 *"})
    found = answer("shop", "--catalog", folder, "--at", "2026-11-20T20:30:00Z")["automated"]
    assert (found["open"], found["until"]) == (True, None)
    shown = run("shop", "--catalog", folder, "--at", "2026-11-20T20:30:00Z").stdout.splitlines()[1]
    assert f"at least {found['atLeastUntil']}" in shown


@pytest.mark.parametrize("at", ["2026-06-02", "2026-06-02T10:00", "20260602T100000"])
def test_a_time_without_a_zone_is_refused_with_one_that_is_accepted(tmp_path: Path, at: str) -> None:
    folder = catalog(tmp_path, OFFICE)
    refused = run("shop", "--catalog", folder, "--at", at)
    assert refused.exit_code == Exit.USAGE
    advised = re.search(r"Write (\S+) for UTC", refused.stderr)
    assert advised
    assert run("shop", "--catalog", folder, "--at", advised[1]).exit_code == Exit.OK


def test_an_application_without_windows_is_open(tmp_path: Path) -> None:
    shown = run("blog", "--catalog", catalog(tmp_path, OFFICE), "--at", TUESDAY)
    assert "no change in sight" in shown.stdout
    assert "no sync window is for blog" in shown.stderr


def test_self_healing_is_told_where_a_window_is_about_it(tmp_path: Path) -> None:
    found = answer("shop", "--catalog", catalog(tmp_path, {**OFFICE, "scope": "self-heal"}), "--at", TUESDAY)
    assert {word: one["open"] for word, one in found.items()} == {"automated": True, "manual": True, "selfHeal": False}


def test_kinds(tmp_path: Path) -> None:
    folder = catalog(tmp_path, {**OFFICE, "kinds": ["Deployment.apps"]})
    for kinds, expected in (([], False), (["Deployment"], False), (["Deployment.apps"], False), (["Service"], True)):
        options = [word for kind in kinds for word in ("--kind", kind)]
        assert answer("shop", "--catalog", folder, "--at", TUESDAY, *options)["automated"]["open"] is expected


def test_a_window_says_by_what_it_came(tmp_path: Path) -> None:
    """Field case e5: lists are any of them unless andOperator is set; who meant all of them sees why it is for this."""
    folder = catalog(tmp_path, {**OFFICE, "applications": ["*", "bl*"], "clusters": ["private"]})
    (by,) = answer("shop", "--catalog", folder, "--at", TUESDAY)["automated"]["by"]
    assert by["because"] == ["applications *"]
    told = run("blog", "--catalog", folder, "--at", TUESDAY).stdout
    assert "office hours), for applications * and applications bl*" in told


def test_ten_windows_are_enough_for_a_table(tmp_path: Path) -> None:
    many = [{**OFFICE, "schedule": f"{minute} 9 * * *"} for minute in range(25)]
    folder = catalog(tmp_path, *many)
    told = run("shop", "--catalog", folder, "--at", TUESDAY).stdout
    assert told.count("office hours") == 20
    assert told.count(" and 15 more") == 2
    assert len(answer("shop", "--catalog", folder, "--at", TUESDAY)["automated"]["by"]) == 25


def test_mistakes_are_told(tmp_path: Path) -> None:
    folder = catalog(tmp_path, OFFICE)
    unknown = run("shpo", "--catalog", folder)
    assert (unknown.exit_code, "shop" in unknown.stderr) == (Exit.CONFIGURATION, True)
    for time in ("tomorrow", "2026-06-02T10:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        assert run("shop", "--catalog", folder, "--at", time).exit_code == Exit.USAGE
    for kind in ("deployments", "", "*"):
        assert run("shop", "--catalog", folder, "--kind", kind).exit_code == Exit.USAGE
    catalog(tmp_path, {**OFFICE, "kind": "Deny"})
    broken = run("shop", "--catalog", folder)
    assert broken.exit_code == Exit.CONFIGURATION
    assert "Project web: spec.syncWindows[0].kind: must be allow or deny" in broken.stderr
