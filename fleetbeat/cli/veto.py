"""``fleetbeat veto``."""

from __future__ import annotations

import re

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.session import Session
from fleetbeat.cli.sync import whoami
from fleetbeat.decisions.events import stamp

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@click.command(
    epilog="""\b
Examples:
  fleetbeat veto sha256:0a1b… --reason "loses orders"
  fleetbeat veto
  fleetbeat veto --lift sha256:0a1b…"""
)
@click.argument("digest", required=False)
@click.option("--reason", default="", help="Why; shown by status wherever the veto holds something back.")
@click.option("--lift", is_flag=True, help="Let this digest in again.")
@out.output_option
@click.pass_obj
def veto(session: Session, digest: str | None, reason: str, lift: bool, output: str) -> None:
    """Keep a bundle out of the whole fleet.

    No application begins to sync a vetoed DIGEST; each stays where it is until its source means another one. One that
    has it already keeps it (see `fleetbeat rollback`). A veto beats a pin. Without DIGEST: all vetoes.
    """
    if digest is None:
        if lift or reason:
            raise click.UsageError("give the digest that is meant")
        found = session.orders.vetoes()
        if output != "table":
            told = [{"digest": o.digest, "by": o.by, "reason": o.reason, "since": stamp(o.at)} for o in found]
            out.write(told, output)
        elif found:
            rows = [[order.digest, order.by, out.moment(order.at), order.reason] for order in found]
            out.table(["DIGEST", "BY", "SINCE", "REASON"], rows)
        else:
            out.say("No vetoes.")
        return
    full = _DIGEST.fullmatch(digest)
    if full is None:
        raise click.UsageError(
            f"{digest!r} is no digest: sha256: and 64 hex digits, as `fleetbeat status APP` shows it"
        )
    name = f"sha256:{full[1]}"
    if lift:
        _lift(session, name)
        return
    session.orders.veto(name, by=whoami(), reason=reason)
    looks = {app: session.runs.look(app) for app in session.catalogs.names()}
    holders = [app for app, look in looks.items() if look.state.get("digest") == name]
    session.fleetbeat.ring([app for app, look in looks.items() if look.run.get("digest") == name])  # it may wait
    session.fleetbeat.have_noted()
    out.say(f"{name} is kept out of the fleet until: fleetbeat veto --lift {name}")
    if holders:
        out.say(f"In force already, and stays: {', '.join(holders)}. To leave it: fleetbeat rollback APP")


def _lift(session: Session, digest: str) -> None:
    if not session.orders.lift(digest):
        out.say(f"{digest} is not vetoed")
        return
    out.say(f"{digest} may be synced again")
    # What it has held back goes on now, not at its next look.
    session.fleetbeat.ring([app for app in session.catalogs.names() if session.runs.look(app).state.get("held_back")])
    session.fleetbeat.have_noted()
