"""``fleetbeat events``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.exits import EPILOG
from fleetbeat.cli.session import Session, unknown_application
from fleetbeat.cli.since import moment
from fleetbeat.decisions.problems import shown
from fleetbeat.decisions.spoken import one_line
from fleetbeat.errors import StoreUnavailable

if TYPE_CHECKING:
    from fleetbeat.decisions.events import Event

#: The largest number an id can have behind its time, and how far ahead of Redis' clock a time may be (ms).
_LAST, _AHEAD = 2**64 - 1, 60_000


@click.command(
    epilog=f"""\b
Examples:
  fleetbeat events shop --since 1h
  fleetbeat events --follow
  fleetbeat events --follow --since 1796040187204-0 -o json
{EPILOG}"""
)
@click.argument("app", required=False, shell_complete=complete_application)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--since", metavar="ID|TIME", help="Only what is newer: an event's id, 90s, 24h, or a time such as …T12:00:00Z."
)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form.")
@click.pass_obj
def events(session: Session, app: str | None, follow: bool, since: str | None, output: str) -> None:
    """What happens, as it happens: syncs, drift, what blocks them.

    Oldest first; with --follow and without --since only what comes. With -o json one line of JSON for each, in the
    shape of Flux's events, with an id: --since with the last one seen leaves nothing out and tells nothing twice. When
    what it asks for has been cut already, that is said on stderr.
    """
    if app is not None:
        _known(session, app)
    start = _start(session, since, follow)
    if since is not None and not session.events.is_whole(start):
        out.say(f"warning: events between {since} and the oldest one here may have been cut already", err=True)
    if not follow:
        for event in session.events.read(app or "", since=start):
            _show(event, output)
        return
    last = start
    try:
        for each in session.events.follow(app or "", since=start):
            if each is not None:
                _show(each, output)
                last = each.id
    except StoreUnavailable:
        out.say(f"To go on: fleetbeat events --follow --since {last}", err=True)
        raise


def _start(session: Session, since: str | None, follow: bool) -> str:
    """The id to go on from."""
    if since is None:
        return session.events.last() if follow else "0-0"
    now = session.runs.now()
    if re.fullmatch(r"[0-9]{10,20}|[0-9]{1,20}-[0-9]{1,20}", since):
        at, _, number = since.partition("-")
        start = f"{at}-{min(int(number or 0), _LAST)}"
    else:
        at = str(max(moment(since, now) - 1, 0))
        start = f"{at}-{2**63}"  # of its millisecond all
    if int(at) > now + _AHEAD:
        raise click.UsageError(f"--since {shown(since)} is yet to come: nothing could be told before that")
    return start


def _known(session: Session, app: str) -> None:
    """Raises CatalogError for a name that nothing can be told of: following it would be silent for ever."""
    names = session.catalogs.names()
    if app in names or session.departures.departs(app) or any(session.events.read(app)):
        return
    raise unknown_application(app, names)


def _show(event: Event, output: str) -> None:
    if output == "json":
        click.echo(out.as_json(event.to_json()))
        return
    word = click.style(event.reason, fg="red") if event.severity == "error" else event.reason
    first = event.message.splitlines()[0] if event.message else ""
    out.say(f"{out.moment(event.at)}  {event.app}  {word}: {one_line(first)}")
