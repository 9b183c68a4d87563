"""Output of data: a table for people, JSON or YAML for programs, by the same option everywhere."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from fleetbeat.decisions.problems import shown
from fleetbeat.decisions.spoken import coloured, one_line

F = TypeVar("F", bound=Callable[..., Any])


def output_option(command: F) -> F:
    """``-o table|json|yaml``, as argument ``output``."""
    kinds = click.Choice(["table", "json", "yaml"])
    return click.option("-o", "--output", type=kinds, default="table", show_default=True, help="Form of the output.")(
        command
    )


def say(text: str = "", *, err: bool = False) -> None:
    """Print lines that hold words of others: managers, fields and messages of a cluster, reasons that people gave.

    What could move a terminal's cursor or hide text is written as its escape.
    """
    click.echo(coloured(text), err=err)


def as_json(data: Any, indent: int | None = None) -> str:
    """JSON with letters of all languages as they are, and without what a terminal would obey."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], text)


#: Besides what JSON escapes anyway: DEL, C1 controls, and what turns the direction of writing.
_OBEYED = re.compile("[\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def write(data: Any, output: str) -> None:
    """Print ``data`` (JSON types) as ``json`` or ``yaml``."""
    if output == "json":
        click.echo(as_json(data, indent=2))
        return
    import yaml

    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    if _OBEYED.search(text):
        text = yaml.safe_dump(data, sort_keys=False)
    click.echo(text.rstrip())


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as kubectl prints them; styled cells keep their width. On a terminal the last one is cut to fit.

    Each row is one line, whatever the words of others in it are.
    """
    cells = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(click.unstyle(row[column])) for row in cells) for column in range(len(headings))]
    room = shutil.get_terminal_size().columns - sum(widths[:-1]) - 3 * (len(widths) - 1)
    cut = sys.stdout.isatty() and room >= _NARROWEST
    for row in cells:
        *fixed, last = row
        if cut and len(click.unstyle(last)) > room:
            last = click.unstyle(last)[: room - 1] + "…"
        padded = [cell + " " * (width - len(click.unstyle(cell))) for cell, width in zip(fixed, widths, strict=False)]
        click.echo("   ".join([*padded, last]).rstrip())


_NARROWEST = 12
"""Characters below which cutting the last column would leave nothing to read: it wraps instead."""


def many(count: int, word: str) -> str:
    """``1 field``, ``2 fields``."""
    return f"{count} {word}" + ("" if count == 1 else "s")


def age(seconds: float | None) -> str:
    """``12s``, ``5m``, ``3h``, ``2d``; "-" when unknown."""
    if seconds is None:
        return "-"
    seconds = max(0.0, seconds)
    for limit, unit, size in ((120, "s", 1), (7200, "m", 60), (172_800, "h", 3600)):
        if seconds < limit:
            return f"{int(seconds / size)}{unit}"
    return f"{int(seconds / 86_400)}d"


def moment(ms: int | float | str | None) -> str:
    """ms since epoch → ``2026-11-30T11:45:12Z``, "-" when there is none."""
    if not ms:
        return "-"
    at = datetime.datetime.fromtimestamp(int(float(ms)) // 1000, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


_COLOURS = {
    **dict.fromkeys(("Synced", "Healthy", "Succeeded", "created", "ok"), "green"),
    **dict.fromkeys(("configured", "Running", "Progressing", "pruned", "handed-over"), "cyan"),
    **dict.fromkeys(("OutOfSync", "Superseded", "Suspended", "Deleting", "Held", "kept", "skipped", "warn"), "yellow"),
    **dict.fromkeys(("Failed", "Error", "Degraded", "Missing", "failed", "fail"), "red"),
}


def word(text: str) -> str:
    """One of the words of status and results, in its colour."""
    colour = _COLOURS.get(text)
    return click.style(text, fg=colour) if colour else text


class Duration(click.ParamType[float]):
    """``90s``, ``5m``, ``1h30m``, ``2d`` or plain seconds → seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", value):
            return float(value)
        parts = re.fullmatch(r"([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?", value)
        if parts is None or not value:
            self.fail(f"{shown(value)} is not a duration such as 90s, 5m or 1h30m", param, ctx)
        sizes = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
        return float(sum(int(part[:-1]) * sizes[part[-1]] for part in parts.groups() if part))
