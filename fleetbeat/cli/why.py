"""``fleetbeat why``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.exits import Exit
from fleetbeat.cli.session import Session, unknown_application

if TYPE_CHECKING:
    from fleetbeat.decisions.why import Facts, Finding
    from fleetbeat.decisions.windows import Verdict
    from fleetbeat.model_windows import SyncWindow


@click.command(
    epilog="""\b
Examples:
  fleetbeat why shop
  fleetbeat why shop -o json | jq -r '.findings[0] | "\\(.rule) until \\(.until)"'"""
)
@click.argument("app", shell_complete=complete_application)
@out.output_option
@click.pass_context
def why(ctx: click.Context, app: str, output: str) -> None:
    """The one rule that keeps an application from being synced, and until when.

    Told first is what blocks it, with the object or field and the command that helps; below it whatever else holds it
    back. Of one that is synced and healthy: since when, and at which commit. Asks Redis alone, so it works while
    clusters and registries are down. Exit code 1 when something blocks, 0 when nothing does.
    """
    from fleetbeat.decisions.why import why as find

    facts = gather(ctx.obj, app)
    findings = find(facts)
    blocked = findings[0].blocks
    if output != "table":
        out.write({"app": app, "blocked": blocked, "findings": [one.to_json() for one in findings]}, output)
    else:
        for number, one in enumerate(findings):
            _show(one, facts.now, "" if number == 0 else "also: ")
    ctx.exit(Exit.FAILED if blocked else Exit.OK)


def gather(session: Session, app: str) -> Facts:
    """Everything Redis knows, in a handful of round trips. Raises CatalogError for what is not in the catalog."""
    from fleetbeat.decisions.why import Facts

    entry = session.catalogs.application(app)
    application = entry[0] if entry is not None else None
    departure = session.departures.get(app) if application is None else None
    if application is None and departure is None:
        raise unknown_application(app, session.catalogs.names())
    pulse, look, waiting = session.pulse(), session.runs.look(app), session.messages()
    newest = session.runs.history(app, most=1)
    return Facts(
        app=app,
        now=pulse.now_ms,
        state=look.state,
        run=look.run,
        request=look.request,
        orders=look.orders,
        vetoes=[one.digest for one in session.orders.vetoes()] if look.state.get("held_back") else (),
        due=session.due([app])[app],
        beats=pulse.beats,
        messages=waiting,
        workers=len(session.ping_workers()) if waiting else None,  # which takes a second
        catalog_error=session.catalogs.status().error,
        departing=departure.held if departure is not None else None,
        unmet=_unmet(session, application.depends_on) if application is not None and look.run.get("blocked") else {},
        automated=_verdict(application.windows, pulse.now_ms) if application is not None else None,
        results=json.loads(newest[0]).get("results", []) if newest else [],
    )


def _unmet(session: Session, needs: tuple[str, ...]) -> dict[str, str]:
    """Which of these do not stand well now. Whether their sources have something newer is for a worker to ask."""
    from fleetbeat.decisions.dependencies import Standing, unmet

    found: dict[str, str] = {}
    for name in needs:
        entry = session.catalogs.application(name)
        look = session.runs.look(name)
        standing = Standing(look.state, bool(look.run), entry[2], look.state.get("attempted", "")) if entry else None
        if said := unmet(name, standing):
            found[name] = said
    return found


def _verdict(windows: tuple[SyncWindow, ...], now_ms: int) -> Verdict | None:
    from fleetbeat.decisions.windows import ask

    return ask(windows, "automated", datetime.fromtimestamp(now_ms / 1000, UTC)) if windows else None


def _show(finding: Finding, now: int, head: str) -> None:
    colour = "red" if finding.blocks else "green" if finding.rule == "Synced" else "cyan"
    out.say(f"{head}{click.style(finding.rule, fg=colour)}: {finding.message}")
    if finding.until is not None:
        left = (finding.until - now) / 1000
        when = f"in {out.age(left)}" if left >= 0 else f"{out.age(-left)} ago"
        out.say(f"  until: {out.moment(finding.until)} ({when})")
    if finding.help:
        out.say(f"  help:  {finding.help}")
