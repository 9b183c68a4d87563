"""The data folder of `fleetbeat up`."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from fleetbeat.cli.exits import Exit
from fleetbeat.cli.installation import Installation
from fleetbeat.cli.main import cli
from fleetbeat.errors import ConfigurationError
from fleetbeat.settings import load


def test_key_and_password_are_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Installation(folder).held() as first:
        key, password = first.key(), first.redis_password()
    assert load({"FLEETBEAT_KEY": key}).sealing_key()
    assert (Installation(folder).key(), Installation(folder).redis_password()) == (key, password)
    for name in ("key", "redis-password"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_its_own_redis_is_known_by_the_password(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    assert not installation.made("redis://127.0.0.1:6379/0")
    password = installation.redis_password()
    assert installation.made(f"redis://:{password}@127.0.0.1:7001/0")
    assert not installation.made("redis://:another@127.0.0.1:7001/0")
    assert not installation.made("redis://127.0.0.1:7001/0")


def test_one_at_a_time(tmp_path: Path) -> None:
    with Installation(tmp_path).held(), pytest.raises(ConfigurationError, match="is running already"):
        Installation(tmp_path).held().__enter__()


def test_exports_are_there_while_it_runs_and_gone_after(tmp_path: Path) -> None:
    arguments = ["env", "--data", str(tmp_path)]
    with Installation(tmp_path).held() as running:
        running.publish({"FLEETBEAT_REDIS_URL": "redis://:a'b@127.0.0.1:1/0"})
        assert stat.S_IMODE((tmp_path / "env").stat().st_mode) == 0o600
        shown = CliRunner().invoke(cli, arguments)
        assert shown.stdout == """export FLEETBEAT_REDIS_URL='redis://:a'"'"'b@127.0.0.1:1/0'\n"""
    shown = CliRunner().invoke(cli, arguments)
    assert shown.exit_code == Exit.CONFIGURATION
    assert f"fleetbeat up CATALOG --data {tmp_path}" in shown.stderr


def test_the_port_stays_until_it_is_taken(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    assert installation.redis_port(7001) == 7001
    assert installation.redis_port(7002) == 7001
    installation.forget_redis_port()
    assert installation.redis_port(7002) == 7002
