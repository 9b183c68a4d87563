"""``fleetbeat history``."""

from __future__ import annotations

import json
from typing import Any

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.results import lines_of
from fleetbeat.cli.session import Session, unknown_application
from fleetbeat.decisions.events import stamp
from fleetbeat.decisions.problems import shown
from fleetbeat.decisions.spoken import one_line
from fleetbeat.errors import SourceNotFound
from fleetbeat.model import Revision
from fleetbeat.model_results import ObjectResult


@click.command(
    epilog="""\b
Examples:
  fleetbeat history shop
  fleetbeat history shop --run 20261130T114512Z-3fa9c1
  fleetbeat history shop -o json"""
)
@click.argument("app", shell_complete=complete_application)
@click.option("--run", help="Everything about this run: commit, each changed object, who had changed it.")
@out.output_option
@click.pass_obj
def history(session: Session, app: str, run: str | None, output: str) -> None:
    """What syncs have done, who asked for them and why.

    Newest first. A failure that repeats is one line with a count.
    """
    entries: list[dict[str, Any]] = [json.loads(text) for text in session.runs.history(app)]
    if not entries:
        names = session.catalogs.names()
        if app not in names:
            raise unknown_application(app, names)
    if run is not None:
        entries = [entry for entry in entries if entry["run"] == run]
        if not entries:
            raise SourceNotFound(f"{app}: history has no run {shown(run)}. See: fleetbeat history {app}")
    if output != "table":
        told = [_for_programs(entry) for entry in entries]
        out.write(told[0] if run else told, output)
    elif run:
        show(entries[0])
    elif entries:
        headings = ["RUN", "ENDED", "TRIGGER", "BY", "REVISION", "PHASE", "CHANGES"]
        out.table(headings, [_row(entry) for entry in entries])
    else:
        out.say(f"{app} has not been synced yet.")


def _for_programs(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry with its times in RFC 3339, in UTC."""
    return {**entry, **{name: stamp(entry[name]) for name in ("started", "finished") if entry.get(name)}}


def _row(entry: dict[str, Any]) -> list[str]:
    revision = _revision(entry)
    phase = out.word(entry["phase"]) + (f" ×{entry['count']}" if entry.get("count", 1) > 1 else "")
    told = changes(entry) if entry["phase"] == "Succeeded" else entry.get("message", "").partition("\n")[0]
    short = f"{revision.tag}@{revision.short}" if revision.tag else revision.short
    return [
        entry["run"],
        out.moment(entry.get("finished")),
        entry.get("trigger", ""),
        entry.get("by", "") or "-",
        short or "-",
        phase,
        told,
    ]


def changes(entry: dict[str, Any]) -> str:
    """``3 created, 1 configured``; of a run that wrote nothing, "nothing"."""
    counts = entry.get("counts", {})
    said = [f"{counts[word]} {word}" for word in _WRITTEN if counts.get(word)]
    if ran := entry.get("hooks"):
        said.append(f"{ran} {'hook' if ran == 1 else 'hooks'} run")
    return ", ".join(said) or "nothing"


_WRITTEN = ("created", "configured", "pruned", "handed-over", "kept", "skipped", "failed")


def show(entry: dict[str, Any]) -> None:
    """One run in full."""
    revision = _revision(entry)
    took = (entry.get("finished", 0) - entry.get("started", 0)) / 1000
    asked = ", ".join(part for part in (entry.get("by", ""), entry.get("reason", "")) if part)
    lines = {
        "Run": entry["run"],
        "Trigger": _trigger(entry) + (f" ({asked})" if asked else ""),
        "Revision": str(revision) if revision.digest else "",
        "Commit": revision.commit or revision.revision or "unknown",
        "Source": revision.source or "unknown",
        "Committed": revision.created,
        "Phase": out.word(entry["phase"]) + (f", {entry['count']} times" if entry.get("count", 1) > 1 else ""),
        "Took": f"{took:.1f} s: " + ", ".join(f"{k} {v:.2f}" for k, v in entry.get("durations", {}).items()),
        "Ended": out.moment(entry.get("finished")),
        "Changes": changes(entry),
        "Overrode": (windows := entry.get("overrode", "")) and f"sync windows: {windows}",
        "Waited": entry.get("waited", ""),
    }
    for name, value in lines.items():
        if value:
            out.say(f"{name + ':':<11}{one_line(value)}")
    if entry["phase"] != "Succeeded":
        for number, line in enumerate(entry.get("message", "").splitlines()):
            out.say(f"{'Message:' if number == 0 else '':<11}{line}")
    results = [ObjectResult.from_json(result) for result in entry.get("results", ())]
    for line in lines_of(results):
        out.say(line)


def _trigger(entry: dict[str, Any]) -> str:
    """``Retry of 20261130T123553Z-231a36, Request``."""
    said = str(entry.get("trigger", ""))
    return f"{said} of {entry['retry_of']}, {entry.get('repeats', '')}" if entry.get("retry_of") else said


def _revision(entry: dict[str, Any]) -> Revision:
    return Revision(**(entry.get("revision") or {"digest": ""}))
