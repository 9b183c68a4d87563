"""`fleetbeat check`. Most cases are files: ``tests/golden/plan/<case>/bundle``, and ``expected.txt`` as it is printed.

Lines of ``expected.txt`` without ``note:`` or ``error:`` are the plan. It can be written anew with
``fleetbeat check tests/golden/plan/<case>/bundle > expected.txt 2>&1``, and is then reviewed like code.
"""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.main import cli

CASES = Path(__file__).parents[2] / "golden" / "plan"
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web%s}\n"


def check(*arguments: str | Path, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, ["check", *map(str, arguments)], input=stdin)


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_a_bundle_and_what_is_said_of_it(case: str) -> None:
    shown = check(CASES / case / "bundle")
    assert shown.output == (CASES / case / "expected.txt").read_text()
    assert shown.exit_code == (Exit.FAILED if "error: " in shown.output else Exit.OK)


def test_json_is_exactly_what_is_promised() -> None:
    shown = check(CASES / "depends-on-a-ring" / "bundle", "-o", "json")
    assert shown.exit_code == Exit.FAILED
    assert json.loads(shown.stdout) == {
        "plan": [
            {"phase": "Sync", "wave": 0, "group": "", "kind": "ConfigMap", "namespace": "shop", "name": "free"},
        ],
        "problems": [
            {
                "file": "ring.yaml",
                "document": 1,
                "object": "ConfigMap shop/a",
                "message": "annotation config.kubernetes.io/depends-on goes in a ring: "
                "ConfigMap shop/a → ConfigMap shop/c → ConfigMap shop/b → ConfigMap shop/a",
            },
            {
                "file": "ring.yaml",
                "document": 6,
                "object": "ConfigMap shop/narcissus",
                "message": "annotation config.kubernetes.io/depends-on: it depends on itself",
            },
        ],
    }


def test_json_of_a_file_that_is_no_yaml_keeps_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1\n---\nb: [\n")
    [shape, syntax] = json.loads(check(tmp_path, "-o", "json").stdout)["problems"]
    assert (shape["document"], shape["object"]) == (1, "")
    assert (syntax["file"], syntax["document"], syntax["object"]) == ("a.yaml", 2, "")
    assert syntax["message"].startswith("line 3: ")


def test_json_of_a_whole_file_has_no_document(tmp_path: Path) -> None:
    (tmp_path / "Chart.yaml").write_text("name: x\n")
    [problem] = json.loads(check(tmp_path, "-o", "json").stdout)["problems"]
    assert (problem["file"], problem["document"]) == ("Chart.yaml", None)


def test_every_problem_is_told_not_only_twenty(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.yaml").write_text("a: [\n")
    assert len(json.loads(check(tmp_path, "-o", "json").stdout)["problems"]) == 30


def test_a_namespace_makes_one_of_two(tmp_path: Path) -> None:
    """Field case i9: the same object once with and once without its namespace."""
    (tmp_path / "a.yaml").write_text(CONFIG_MAP % "")
    (tmp_path / "b.yaml").write_text(CONFIG_MAP % ", namespace: shop")
    assert check(tmp_path).exit_code == Exit.OK
    shown = check(tmp_path, "--namespace", "shop")
    assert shown.exit_code == Exit.FAILED
    assert "ConfigMap shop/web: also stands in a.yaml, document 1" in shown.stderr


def test_path_is_read_as_that_of_an_application(tmp_path: Path) -> None:
    (tmp_path / "prod").mkdir()
    (tmp_path / "prod" / "a.yaml").write_text(CONFIG_MAP % "")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    assert check(tmp_path, "--path", "prod").exit_code == Exit.OK
    shown = check(tmp_path, "--path", "prd")
    assert shown.exit_code == Exit.FAILED
    assert "path 'prd' is not in the bundle, which has the folders prod" in shown.stderr


def test_one_file_and_standard_input(tmp_path: Path) -> None:
    text = CONFIG_MAP % ", namespace: shop"
    (tmp_path / "web.yaml").write_text(text)
    for shown in (check(tmp_path / "web.yaml"), check("-", stdin=text)):
        assert shown.stdout == "Sync, wave 0, objects\n  1  ConfigMap shop/web\n"
        assert shown.exit_code == Exit.OK


def test_a_file_that_no_sync_would_read_is_wrong_usage(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    shown = check(tmp_path / "notes.txt")
    assert shown.exit_code == Exit.USAGE
    assert "end in .yaml, .yml or .json" in shown.stderr


def test_what_cannot_be_packed_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("/etc/hostname")
    shown = check(tmp_path, "-o", "json")
    assert shown.exit_code == Exit.FAILED
    assert "leads out of" in json.loads(shown.stdout)["problems"][0]["message"]


def test_a_link_that_leads_round_in_a_circle_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("b.yaml")
    (tmp_path / "b.yaml").symlink_to("a.yaml")
    shown = check(tmp_path)
    assert shown.exit_code == Exit.FAILED
    assert shown.stderr == "error: a.yaml: this link to b.yaml leads round in a circle. Remove it\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.yaml")
    shown = check(tmp_path / "a.yaml")
    assert shown.exit_code == Exit.USAGE
    assert "a.yaml is a pipe; give a file or a folder" in shown.stderr
    assert "a.yaml: a pipe, not a regular file; a bundle holds only files and folders" in check(tmp_path).stderr


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.yaml").write_text("")

    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    for source in (tmp_path / "a.yaml", tmp_path):
        shown = check(source)
        assert shown.exit_code == Exit.CONFIGURATION
        assert shown.stderr == f"error: {tmp_path / 'a.yaml'} cannot be read: Permission denied\n"


def test_a_folder_without_a_file_is_a_problem(tmp_path: Path) -> None:
    shown = check(tmp_path)
    assert shown.exit_code == Exit.FAILED
    assert "holds no files" in shown.stderr


def test_what_is_skipped_is_noted(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("x")
    shown = check(tmp_path)
    assert shown.exit_code == Exit.OK
    assert shown.stderr.splitlines() == [
        "note: README.md is not applied: not .yaml, .yml or .json",
        "note: there is no object in it",
    ]


def test_a_catalog_is_no_bundle(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("apiVersion: fleetbeat.dev/v1alpha1\nkind: Application\nmetadata: {name: a}\n")
    assert "note: documents of Fleetbeat's catalog: 1. They are not synced" in check(tmp_path).stderr
