"""What ``fleetbeat explain`` found out, for people."""

from __future__ import annotations

from typing import Any

from fleetbeat.cli import output as out
from fleetbeat.cli.drift import by, now
from fleetbeat.decisions.spoken import one_line
from fleetbeat.model import Revision
from fleetbeat.model_results import Manager


def show(told: dict[str, Any]) -> None:
    where = "" if told["exists"] else " (not there any more)"
    out.say(f"{told['object']} on cluster {told['cluster']}{where}")
    lines = {"Owner": told["owner"]}
    if health := told.get("health"):
        lines["Health"] = ": ".join(filter(None, (out.word(health["status"]), health["message"])))
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
            out.say(f"{name + ':':<10} {one_line(value)}")
    if drift := told.get("drift"):
        out.say("Drift:")
        for row in drift:
            what = row["field"] or "all of it"
            last = f", last in run {row['run']}" if row["run"] else ""
            often = f", healed {out.many(row['healed'], 'time')}{last}"
            out.say(one_line(f"  {what}: {by(row)}{often}; {now(row)}"))
    if fields := told.get("fields"):
        out.say("Fields:")
        for one in fields:
            out.say(one_line(f"  {_manager(one)}: {_some(one['fields'])}"))


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
