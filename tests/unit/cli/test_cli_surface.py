"""The command line as a whole: help, names, exit codes, completion."""

from __future__ import annotations

import resource
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from fleetbeat import errors
from fleetbeat.cli.exits import Exit, code_of
from fleetbeat.cli.main import SECTIONS, cli
from fleetbeat.cli.session import Session

COMMANDS = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name: str) -> None:
    shown = CliRunner().invoke(cli, [name, "--help"])
    assert shown.exit_code == 0
    assert "Example" in shown.output or name == "local"  # its own commands have theirs


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_the_command_says(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert command.help is not None
    first = " ".join(command.help.partition("\n\n")[0].split())
    assert first == COMMANDS[name].line


def test_help_is_fast_and_imports_no_client() -> None:
    code = (
        "import sys; from fleetbeat.cli.main import cli; cli(['--help'], standalone_mode=False);"
        "bad = {'redis', 'kubernetes', 'celery', 'rich', 'yaml'} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # CPU time, which a busy machine does not change; 0.15 s on ours
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


def test_a_mistyped_command_names_the_nearest() -> None:
    shown = CliRunner().invoke(cli, ["statsu"])
    assert shown.exit_code == Exit.USAGE
    assert "Did you mean status?" in shown.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.CatalogError(["x"]), Exit.CONFIGURATION),
        (errors.ConfigurationError("x"), Exit.CONFIGURATION),
        (errors.StoreUnavailable("x"), Exit.UNREACHABLE),
        (errors.SourceThrottled("x"), Exit.UNREACHABLE),
        (errors.Unauthorized("x"), Exit.UNREACHABLE),
        (errors.StillRunning("x"), Exit.TIMEOUT),
        (errors.NotYet("x"), Exit.UNREACHABLE),
        (errors.SourceNotFound("x"), Exit.FAILED),
        (errors.Rejected("x"), Exit.FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_exit_codes(error: errors.FleetbeatError, code: Exit) -> None:
    assert code_of(error) == code


class Broken(Session):
    @property
    def catalogs(self):  # type: ignore[override]
        raise errors.CatalogError(["shop.yaml: first", "shop.yaml: second"])


def test_each_problem_is_a_line_without_traceback() -> None:
    shown = CliRunner().invoke(cli, ["status"], obj=Broken())
    assert shown.exit_code == Exit.CONFIGURATION
    assert shown.stderr.splitlines() == ["error: shop.yaml: first", "error: shop.yaml: second"]
    assert shown.stdout == ""


def test_debug_shows_the_traceback() -> None:
    shown = CliRunner().invoke(cli, ["--debug", "status"], obj=Broken())
    assert isinstance(shown.exception, errors.CatalogError)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    shown = CliRunner().invoke(cli, ["completion", shell])
    assert shown.exit_code == 0
    assert "_FLEETBEAT_COMPLETE" in shown.output


def test_key_is_what_the_settings_take() -> None:
    from fleetbeat.settings import load

    text = CliRunner().invoke(cli, ["key"]).output.strip()
    assert len(load({"FLEETBEAT_KEY": text}).sealing_key()) == 32
