"""``fleetbeat plan``."""

from __future__ import annotations

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.chosen import preview_chosen
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.diff import notes, show
from fleetbeat.cli.session import Session, unknown_application


@click.command(
    epilog="""\b
Examples:
  fleetbeat plan shop
  fleetbeat sync shop --plan 3f9a1c22b0d4 --wait
Exit code 0: saved; 1: the bundle is vetoed, and no other was ever synced; 3 or 4: it could not be compared."""
)
@click.argument("app", shell_complete=complete_application)
@click.pass_obj
def plan(session: Session, app: str) -> None:
    """Save what a sync would do, to have exactly that done later.

    Shows what `fleetbeat diff` shows, hooks included, and saves it for a day. `fleetbeat sync APP --plan ID` carries
    out exactly that, or refuses and names what has moved: another bundle, an edited catalog entry, an object somebody
    has changed in between. Nothing is written to the cluster.
    """
    entry = session.catalogs.application(app)
    if entry is None:
        raise unknown_application(app, session.catalogs.names())
    application, cluster, spec = entry
    (changes, refusal, promise), instead = preview_chosen(session, application, cluster, spec=spec, asked_for=True)
    show(changes, refusal)
    for line in notes(session, application, instead):
        out.say(f"note: {line}", err=True)
    if not changes:
        click.echo(f"{app}: nothing would change")
    plan_id = session.orders.promise(promise)
    click.echo(f"plan {plan_id}, kept for a day. To carry out exactly this: fleetbeat sync {app} --plan {plan_id}")
