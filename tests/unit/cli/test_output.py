"""What commands print of the words of others: field managers, keys, messages, reasons. None of it moves a cursor."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

from fleetbeat.cli import explain_view
from fleetbeat.cli import output as out
from fleetbeat.cli.drift import _row
from fleetbeat.decisions.drift import DriftLedger, Row, rows_to_json
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Manager

#: Clears the screen, by ESC and by one byte of C1; sets the title; hides; forges a line; turns the text around.
HOSTILE = "kubectl\x1b[2J\x9b2J\x1b]0;root\x07\x1b[8m\nshop   Synced \u202e"


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    row = Row(1, 2, Manager(HOSTILE, HOSTILE, HOSTILE, HOSTILE), since=2, healed=1, healed_at=2, run=HOSTILE)
    return rows_to_json(DriftLedger({ObjectId("", "ConfigMap", "shop", "web"): {HOSTILE: row}}), now=3)


def is_harmless(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in click.unstyle(text)) and "[2J" in text


def test_drift_is_one_harmless_line_for_each_field(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    out.table(["OBJECT", "FIELD", "HEALED", "FIRST SEEN", "LAST SEEN", "NOW", "BY"], [_row(row) for row in rows])
    said = capsys.readouterr().out
    assert said.count("\n") == 2
    assert is_harmless(said)


def test_explain_cannot_be_made_to_say_more_lines(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"object": "ConfigMap shop/web", "cluster": "prod", "exists": True, "owner": HOSTILE}
    fields = [{"manager": HOSTILE, "fields": [HOSTILE]}]
    explain_view.show({**about, "drift": rows, "fields": fields})
    said = capsys.readouterr().out
    assert len(said.splitlines()) == 6, "object, owner, and a head and a line for drift and fields each"
    assert is_harmless(said)


def test_json_says_the_same_without_what_a_terminal_obeys(
    rows: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    for output in ("json", "yaml"):
        out.write(rows, output)
        assert is_harmless(capsys.readouterr().out)
        out.write({"größe": "注文"}, output)
        assert "注文" in capsys.readouterr().out
    assert json.loads(out.as_json(rows)) == rows


def test_own_colours_stay_and_columns_keep_their_width(capsys: pytest.CaptureFixture[str]) -> None:
    out.table(["SYNC", "WHY"], [[out.word("Synced"), "-"], ["OutOfSync", HOSTILE]])
    head, first, _ = capsys.readouterr().out.splitlines()
    assert head.index("WHY") == click.unstyle(first).index("-")
