"""``fleetbeat stop``."""

from __future__ import annotations

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.session import Session, unknown_application
from fleetbeat.cli.sync import whoami


@click.command(
    epilog="""\b
Examples:
  fleetbeat stop shop --reason "the migration locks the orders table"
  fleetbeat stop shop && fleetbeat rollback shop"""
)
@click.argument("app", shell_complete=complete_application)
@click.option("--reason", default="", help="Why; status and history show it.")
@click.pass_obj
def stop(session: Session, app: str, reason: str) -> None:
    """End the sync that is under way, between two waves.

    Whatever it waits for, health, a hook, a window, it ends as Failed. What is written stays as it is, a hook at work
    goes on by itself, and hooks for a failed sync do not run. The same bundle is not begun again before another bundle,
    an edit of the catalog, or `fleetbeat sync APP`. To keep anything from beginning: `fleetbeat hold`.
    """
    names = session.catalogs.names()
    if app not in names and not session.departures.departs(app):
        raise unknown_application(app, names)
    run = session.fleetbeat.stop(app, by=whoami(), reason=reason)
    out.say(f"{app}: run {run} ends before its next wave. See: fleetbeat status {app}")
