"""``fleetbeat delete``."""

from __future__ import annotations

import click

from fleetbeat.cli.completion import complete_departing
from fleetbeat.cli.session import Session
from fleetbeat.cli.sync import whoami


@click.command(
    epilog="""\b
Examples:
  fleetbeat delete shop
  fleetbeat delete shop --confirm --reason "its data has been moved"
  fleetbeat delete --held
  fleetbeat delete shop --orphan"""
)
@click.argument("apps", metavar="[APP]...", nargs=-1, shell_complete=complete_departing)
@click.option("--held", "all_held", is_flag=True, help="Every application that is held back at the moment.")
@click.option("--confirm", "confirmed", is_flag=True, help="Objects annotated with Delete=confirm go too.")
@click.option("--skip-hooks", is_flag=True, help="Without the PreDelete and PostDelete hooks of the bundle.")
@click.option("--orphan", is_flag=True, help="Delete nothing more: what is left in the cluster stays.")
@click.option("--reason", default="", help="Why, for history.")
@click.pass_context
def delete(
    ctx: click.Context,
    apps: tuple[str, ...],
    all_held: bool,
    confirmed: bool,
    skip_hooks: bool,
    orphan: bool,
    reason: str,
) -> None:
    """Go on with the deletion of an application that has left the catalog.

    Deleting begins in the catalog: give the application `deletionPolicy: Delete`, then take it out. This command is for
    what waits for a person: a catalog that lost most of its applications at once (see `fleetbeat status`), objects that
    ask for a confirmation, hooks that cannot be run any more, a cluster that is gone for good (--orphan).
    """
    session: Session = ctx.obj
    if bool(apps) == all_held:
        raise click.UsageError("Name applications, or give --held.")
    if orphan and (confirmed or skip_hooks):
        raise click.UsageError("--orphan deletes nothing, so it goes with neither --confirm nor --skip-hooks.")
    # What will be refused comes first, so that nothing is half done.
    apps = tuple(sorted(dict.fromkeys(apps), key=session.departures.departs))
    names = apps or tuple(app for app, why in session.departures.held().items() if why)
    if not names:
        click.echo("Nothing is held back.")
    for app in names:
        if orphan:
            session.fleetbeat.forget(app)
            click.echo(f"{app}: forgotten; what is left of it in the cluster stays")
            continue
        session.fleetbeat.delete(app, by=whoami(), reason=reason, confirmed=confirmed, skip_hooks=skip_hooks)
        click.echo(f"{app}: is being deleted. See: fleetbeat status {app}")
