"""``fleetbeat rollback`` and ``fleetbeat unpin``."""

from __future__ import annotations

import json

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.chosen import at
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.diff import show
from fleetbeat.cli.exits import Exit
from fleetbeat.cli.session import Session
from fleetbeat.cli.sync import follow, whoami
from fleetbeat.client import suspended
from fleetbeat.decisions.problems import shown
from fleetbeat.decisions.spoken import spoken
from fleetbeat.errors import Refused, SourceNotFound
from fleetbeat.model import Revision


@click.command(
    epilog="""\b
Examples:
  fleetbeat rollback shop --reason "2.4 loses orders"
  fleetbeat rollback shop 20261130T114512Z-3fa9c1
  fleetbeat rollback shop sha256:0a1b… --yes --wait
Exit code 0: asked for (with --wait: there and healthy); 1: not wanted, or it failed, or the
registry has no such bundle (any more); 3 or 4: the catalog, the registry or the cluster cannot be had."""
)
@click.argument("app", shell_complete=complete_application)
@click.argument("to", required=False)
@click.option("--reason", default="", help="Why; shown wherever the pin is, and in history.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Follow the sync to its end; the exit code tells how it went.")
@click.option("--timeout", type=out.Duration(), default="5m", show_default=True, help="With --wait: how long.")
@click.pass_context
def rollback(ctx: click.Context, app: str, to: str | None, reason: str, yes: bool, wait: bool, timeout: float) -> None:
    """Go back to an earlier bundle, and stay there.

    TO is a run of `fleetbeat history`, or a digest or its beginning; without it, the bundle that was in force before
    the present one. Shows first what would change now, pruning included, and asks. Then the application is pinned to
    that digest: whatever is pushed, it stays there, and drift is healed to it, until `fleetbeat unpin`.
    """
    session: Session = ctx.obj
    application, cluster = session.application(app)
    if application.suspended:
        raise Refused(suspended(app, application.suspended))
    target = _target(session, app, to)
    why = spoken(f"rollback to {target.short}" + (f": {reason}" if reason else ""))
    vetoed = session.orders.vetoed(target.digest)
    if vetoed:
        raise Refused(f"{app}: {target.short} is vetoed {vetoed}. Lift it first: fleetbeat veto --lift {target.digest}")
    changes, refusal, _ = session.preview(at(application, target.digest), cluster)
    out.say(f"{app}: back to {target}" + (f", commit {target.commit}" if target.commit else ""))
    show(changes, refusal)
    if not changes:
        out.say("nothing would change in the cluster")
    if not yes and not click.confirm("Pin the application to it?", default=False, err=True):
        ctx.exit(Exit.FAILED)
    session.orders.pin(app, target.digest, by=whoami(), reason=reason)
    asked = session.fleetbeat.request_sync(app, by=whoami(), reason=why)
    out.say(f"{app}: pinned to {target.short}. It stays there until: fleetbeat unpin {app}")
    if wait:
        ctx.exit(follow(session, app, asked.id, timeout))


@click.command(
    epilog="""\b
Examples:
  fleetbeat unpin shop
  fleetbeat unpin shop --wait"""
)
@click.argument("app", shell_complete=complete_application)
@click.option("--wait", is_flag=True, help="Follow the sync to its end; the exit code tells how it went.")
@click.option("--timeout", type=out.Duration(), default="5m", show_default=True, help="With --wait: how long.")
@click.pass_context
def unpin(ctx: click.Context, app: str, wait: bool, timeout: float) -> None:
    """Lift the pin of a rollback, and sync what the source means now."""
    session: Session = ctx.obj
    application, _ = session.application(app)
    if not session.orders.unpin(app):
        out.say(f"{app}: is not pinned")
        return
    if application.suspended:
        out.say(f"{app}: follows its source again, when it is no more suspended by {application.suspended}")
        return
    asked = session.fleetbeat.request_sync(app, by=whoami(), reason="unpinned")
    out.say(f"{app}: follows its source again")
    if wait:
        ctx.exit(follow(session, app, asked.id, timeout))


def _target(session: Session, app: str, to: str | None) -> Revision:
    """Raises SourceNotFound naming what can be meant."""
    entries = [json.loads(text) for text in session.runs.history(app)]
    done = [Revision(**entry["revision"]) for entry in entries if entry["phase"] == "Succeeded"]
    now = session.runs.look(app).state.get("digest", "")
    if to is None:
        before = next((revision for revision in done if revision.digest != now), None)
        if before is None:
            raise SourceNotFound(f"{app}: history knows no other bundle than the one in force. Give a digest")
        return before
    for entry in entries:
        if entry["run"] == to:
            return Revision(**entry["revision"])
    known = {Revision(**entry["revision"]).digest: Revision(**entry["revision"]) for entry in reversed(entries)}
    digest = to if to.startswith("sha256:") else f"sha256:{to}"
    if len(digest) == len("sha256:") + 64:
        return known.get(digest, Revision(digest))
    found = [revision for name, revision in known.items() if name.startswith(digest) and len(digest) >= _SHORTEST]
    if len(found) == 1:
        return found[0]
    how = "more than one bundle" if found else "no run and no bundle of its history"
    raise SourceNotFound(f"{app}: {shown(to)} is {how}. Give a run or digest of: fleetbeat history {app}")


_SHORTEST = len("sha256:") + 6
