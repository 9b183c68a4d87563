"""``fleetbeat diff``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.chosen import at, preview_chosen
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.exits import Exit, code_of, tell
from fleetbeat.cli.session import Session
from fleetbeat.engine.preview import Preview
from fleetbeat.errors import FleetbeatError
from fleetbeat.model import Application

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(
    epilog="""\b
Examples:
  fleetbeat diff shop
  fleetbeat diff shop --revision v2
  fleetbeat diff shop -o json | jq -r '.changes[] | .action, .name, .fields[]'
Exit code 0: nothing would change; 1: something would; 3 or 4: it could not be compared."""
)
@click.argument("app", shell_complete=complete_application)
@click.option("--revision", help="Compare with this tag or digest instead of what a sync would have.")
@out.output_option
@click.pass_context
def diff(ctx: click.Context, app: str, revision: str | None, output: str) -> None:
    """What a sync would change, as the API server sees it.

    Every object is sent to the API server as a dry run, so defaults and admission count as they would in a sync.
    Nothing is written. Values of Secrets are masked. Where a pin or a veto keeps the newest bundle back, what is
    compared is the bundle that a sync would have.
    """
    session: Session = ctx.obj
    application, cluster = session.application(app)
    instead = ""
    try:
        if revision is not None:
            application = at(application, revision)
            changes, refusal, _ = session.preview(application, cluster)
        else:
            (changes, refusal, _), instead = preview_chosen(session, application, cluster)
    except FleetbeatError as error:
        if code_of(error) != Exit.FAILED or ctx.find_root().params.get("debug"):
            raise
        tell(error)
        ctx.exit(Exit.CONFIGURATION)  # 1 would say that the two were compared and differ
    left = notes(session, application, instead)
    if output != "table":
        out.write({"changes": [change.to_json() for change in changes], "refusal": refusal, "notes": left}, output)
        ctx.exit(Exit.FAILED if changes else Exit.OK)
    show(changes, refusal)
    if not changes:
        out.say(f"{app}: nothing would change")
    for line in left:
        out.say(f"note: {line}", err=True)
    ctx.exit(Exit.FAILED if changes else Exit.OK)


def notes(session: Session, application: Application, held_back: str) -> list[str]:
    """What keeps a sync from writing what differs, or some of it; ``held_back``: from having the newest bundle."""
    from fleetbeat.decisions.bypasses import Bypasses
    from fleetbeat.decisions.holds import Subject, standing, told

    found = session.holds.read()
    whole = told(standing(found.holds, Subject.of(application), "sync", found.now))
    left = Bypasses.of(application, holds_there=found.holds, now=found.now, asked=True)
    said = [f"not what the source means now: {held_back}"] if held_back else []
    said += [f"suspended by {application.suspended} in the catalog: nothing is synced"] if application.suspended else []
    said += [f"nothing is written: {whole.why}"] if whole else []
    said += [f"what was changed by hand stays: {left.drift.why}"] if left.drift else []
    if not (application.sync.self_heal or left.drift):
        said += ["what was changed by hand stays until somebody asks for a sync: self-heal is off"]
    return said + ([f"nothing is pruned: {left.prune.why}"] if left.prune else [])


def show(changes: Sequence[Preview], refusal: str) -> None:
    """Each object that differs with its unified diff, then why nothing would be pruned, where that is held back."""
    for change in changes:
        click.secho(f"{change.action} {change.id}", bold=True, nl=False)
        reason = "" if change.reason == "new" else change.reason.removeprefix(f"{change.id}: ")
        out.say(f"   {reason}" if reason else "")
        for line in change.text.splitlines():
            out.say(click.style(line, fg=_COLOURS.get(line[:1])))
    if refusal:
        out.say(refusal)
