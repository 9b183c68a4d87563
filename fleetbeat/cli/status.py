"""``fleetbeat status``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.session import Session, unknown_application
from fleetbeat.cli.status_view import View, view
from fleetbeat.decisions import holds
from fleetbeat.decisions.holds import Hold, Subject, hits
from fleetbeat.decisions.spoken import one_line

_SILENT = 15.0
"""Seconds after which a beat that said nothing counts as gone; a healthy one speaks every second."""


@click.command(
    epilog="""\b
Examples:
  fleetbeat status
  fleetbeat status shop
  fleetbeat status -o json | jq -r '.applications[] | select(.sync != "Synced") | .app'"""
)
@click.argument("app", required=False, shell_complete=complete_application)
@out.output_option
@click.pass_obj
def status(session: Session, app: str | None, output: str) -> None:
    """What is synced, what is not, and why.

    One line per application, or everything about one APP. Says as well when beat is silent or the catalog on disk is
    broken, since nothing moves then.
    """
    catalog = session.catalogs.status()
    departing = session.departures.held() if catalog.departing else {}
    names = sorted({*session.catalogs.names(), *departing})
    if app is not None and app not in names:
        raise unknown_application(app, names)
    pulse = session.pulse()
    due = session.due([app] if app else names)
    standing = session.holds.read()
    views = [
        _view(
            session,
            name,
            now_ms=pulse.now_ms,
            due_ms=due[name],
            held=departing.get(name),
            there=standing.holds,
        )
        for name in due
    ]
    warnings = (
        holds.warning(standing.holds, standing.now)
        + pulse_warnings(pulse.beats)
        + [f"catalog: {line}" for line in catalog.error.splitlines()]
    )
    if output != "table":
        data = views[0].to_json() if app else {"applications": [v.to_json() for v in views], "warnings": warnings}
        out.write(data, output)
        return
    if app:
        _show_one(views[0])
    elif views:
        headings = ["APP", "SYNC", "HEALTH", "REVISION", "PHASE", "AGE", "MESSAGE"]
        out.table(headings, [_row(v) for v in views])
    else:
        out.say("No applications: no catalog has been published, or it is empty.")
    for warning in warnings:
        out.say(click.style("warning: ", fg="yellow") + warning, err=True)
    if catalog.error:
        out.say("The last good catalog stays in force.", err=True)


def _view(
    session: Session, name: str, *, now_ms: float, due_ms: float | None, held: str | None, there: Sequence[Hold]
) -> View:
    look = session.runs.look(name)
    entry = None
    if look.state.get("sync") == "OutOfSync":  # only then history has something to add: what was left alone, and why
        newest = next(iter(session.runs.history(name, most=1)), None)
        entry = json.loads(newest) if newest else None
    return view(name, look, now_ms=now_ms, due_ms=due_ms, held=held, entry=entry, holds=_holds_of(session, name, there))


def _holds_of(session: Session, app: str, standing: Sequence[Hold]) -> list[Hold]:
    """Those that hit the application as a whole. What single objects are held by, its conditions tell."""
    entry = session.catalogs.application(app) if standing else None
    return [hold for hold in standing if entry is not None and hits(hold, Subject.of(entry[0]))]


def pulse_warnings(beats: dict[str, float]) -> list[str]:
    """``beats``: beat id → seconds since it spoke."""
    if not beats:
        return ["no beat has ever run here: nothing is looked at by itself. Start: celery -A scheduler.app beat"]
    youngest = min(beats.values())
    if youngest > _SILENT:
        return [f"beat has been silent for {out.age(youngest)}: nothing is looked at by itself. Is it running?"]
    return []


def _row(v: View) -> list[str]:
    first_line = v.message.splitlines()[0] if v.message else ""
    for before in (*map(str, v.holds), v.held_back):
        first_line = "; ".join(filter(None, (before, first_line)))
    return [
        v.app,
        out.word(v.sync),
        out.word(v.health),
        _revision(v),
        out.word(v.phase),
        out.age(v.age),
        first_line,
    ]


def _revision(v: View) -> str:
    if not v.revision.digest:
        return "-"
    return f"{v.revision.tag}@{v.revision.short}" if v.revision.tag else v.revision.short


def _show_one(v: View) -> None:
    lines = {
        "Application": v.app,
        "Sync": out.word(v.sync),
        "Health": out.word(v.health),
        "Revision": str(v.revision) if v.revision.digest else "none in force yet",
        "Commit": _commit(v),
        "Held back": v.held_back,
        "Held": "; ".join(map(str, v.holds)),
        "Tried last": v.attempted and f"{v.attempted} (not in force)",
        "Objects": "" if v.objects is None else str(v.objects),
        "Phase": out.word(v.phase) + (f", {out.age(v.age)} ago" if v.age is not None and not v.step else ""),
        "Step": v.step,
        "Error": _error(v),
        "Drift": _drift(v),
        "Conditions": ", ".join(_condition(one) for one in v.conditions if one["type"] in _STANDING),
        "Next look": _next_look(v.next_look),
    }
    for name, value in lines.items():
        if value:
            out.say(f"{name + ':':<13}{one_line(value)}")
    for number, line in enumerate(v.message.splitlines()):
        out.say(f"{'Message:' if number == 0 else '':<13}{line}")
    for condition in v.conditions:
        # the first conflict stands there already
        if condition["type"] not in _STANDING and condition["message"] not in v.message:
            out.say(f"{condition['type'] + ':':<13}{condition['message'].removeprefix(condition['type'] + ': ')}")


_STANDING = ("Ready", "Reconciling", "Stalled")


def _condition(one: dict[str, Any]) -> str:
    """``Ready False (DependencyNotReady)``."""
    return f"{one['type']} {one['status']} ({one['reason']})"


def _commit(v: View) -> str:
    if not v.revision.digest:
        return ""
    commit = v.revision.commit or v.revision.revision or "unknown"
    parts = [commit, v.revision.source and f"of {v.revision.source}", v.revision.created]
    return ", ".join(part for part in parts if part)


def _error(v: View) -> str:
    if v.error == "Superseded":  # something newer took over, which is how it should be
        return ""
    return f"{v.error}, {v.failures} in a row" if v.error and v.failures > 1 else v.error


def _drift(v: View) -> str:
    """``2 fields, healed 3 times; 1 stands since …; the last: data.k of ConfigMap shop/web, kubectl-edit (…)``."""
    told = v.drift
    if not told:
        return ""
    fields, healed = out.many(told["fields"], "field"), out.many(told["healed"], "time")
    stand = "stands" if told["standing"] == 1 else "stand"
    standing = f"; {told['standing']} {stand} since {told['standsSince']}" if told["standing"] else ""
    return f"{fields}, healed {healed}{standing}; the last: {told['last']}, {told['by']}. See: fleetbeat drift {v.app}"


def _next_look(seconds: float | None) -> str:
    if seconds is None:
        return "never: not in the due set"
    return f"in {out.age(seconds)}" if seconds >= 0 else f"overdue by {out.age(-seconds)}"
