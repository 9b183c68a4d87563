"""What ``fleetbeat explain`` found out, for people."""

from __future__ import annotations

from typing import Any

import click

from fleetbeat.cli.drift import by, now
from fleetbeat.cli.output import many
from fleetbeat.model import Revision
from fleetbeat.model_results import Manager


def show(told: dict[str, Any]) -> None:
    where = "" if told["exists"] else " (not there any more)"
    click.echo(f"{told['object']} on cluster {told['cluster']}{where}")
    lines = {"Owner": told["owner"]}
    if write := told.get("write"):
        asked = ", ".join(part for part in (write["by"], write["reason"]) if part)
        found = "" if write["state"] == "written" else ", found done after a worker was killed"
        lines |= {
            "Written": f"{write['time']} ({write['verb']}{found}, {write['stage']})",
            "What": write["what"].partition("\n")[0],
            "Run": f"{write['run']}, fence {write['fence']}",
            "Trigger": write["trigger"] + (f" ({asked})" if asked else ""),
            "Revision": str(Revision(write["digest"], write["tag"])),
            "Commit": write["commit"] or "unknown",
            "Source": write["source"] or "unknown",
            "Audit-Id": write["auditId"] or "unknown: lost with the worker that wrote",
        }
        lines["Since"] = _since(told) if told["exists"] else ""
    if told.get("unknown"):
        lines["Unknown"] = told["unknown"]
    for name, value in lines.items():
        if value:
            click.echo(f"{name + ':':<10} {value}")
    if drift := told.get("drift"):
        click.echo("Drift:")
        for row in drift:
            what = row["field"] or "all of it"
            often = f", healed {many(row['healed'], 'time')}" + (f", last in run {row['run']}" if row["run"] else "")
            click.echo(f"  {what}: {by(row)}{often}; {now(row)}")
    if fields := told.get("fields"):
        click.echo("Fields:")
        for one in fields:
            click.echo(f"  {_manager(one)}: {_some(one['fields'])}")


def _since(told: dict[str, Any]) -> str:
    if told["changedSince"] is False:
        return "unchanged"
    by = "; ".join(f"{_manager(one)}: {_some(one['fields'])}" for one in told["changedBy"])
    if told["changedSince"] is None:
        return f"what it was like is not known; others wrote: {by}" if by else "what it was like is not known"
    return f"changed by {by}" if by else "changed; the API server does not tell by whom (something was removed)"


def _manager(one: dict[str, Any]) -> str:
    return str(Manager.from_json(one))


def _some(paths: list[str], most: int = 6) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return (", ".join(paths[:most]) or "nothing but itself") + more
