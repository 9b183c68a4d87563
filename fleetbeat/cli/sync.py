"""``fleetbeat sync``."""

from __future__ import annotations

import getpass
import platform

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.exits import EPILOG, Exit
from fleetbeat.cli.results import left_alone, lines_of
from fleetbeat.cli.session import Session
from fleetbeat.client import Outcome, Progress
from fleetbeat.model import ObjectId


@click.command(
    epilog=f"""\b
Examples:
  fleetbeat sync shop
  fleetbeat sync shop --wait --reason "release 2.4"
  fleetbeat sync shop --confirm-prune
  fleetbeat sync shop --plan 3f9a1c22b0d4 --wait
  fleetbeat sync shop --override-windows --reason "mends the outage of tonight"

{EPILOG}"""
)
@click.argument("app", shell_complete=complete_application)
@click.option("--wait", is_flag=True, help="Follow the sync to its end; the exit code tells how it went.")
@click.option("--timeout", type=out.Duration(), default="5m", show_default=True, help="With --wait: how long.")
@click.option("--reason", default="", help="Why, for history.")
@click.option(
    "--confirm-prune",
    is_flag=True,
    help="Agree to deleting what waits for it (Prune=confirm), or everything if the last sync said so.",
)
@click.option("--override-windows", is_flag=True, help="Go past sync windows that are shut. Needs --reason.")
@click.option("--plan", metavar="ID", help="Carry out exactly this plan of `fleetbeat plan`, or refuse.")
@click.option("--key", "idempotency_key", help="Idempotency key: the same key asks only once, e.g. a build number.")
@click.pass_context
def sync(
    ctx: click.Context,
    app: str,
    wait: bool,
    timeout: float,
    reason: str,
    confirm_prune: bool,
    override_windows: bool,
    plan: str | None,
    idempotency_key: str | None,
) -> None:
    """Sync an application now.

    A worker takes it up at once, whether or not anything seems to differ. With --wait the exit code is 0 when
    everything is there and healthy, 1 when the sync failed or was refused, 5 when it goes on after --timeout.

    Where the workers have a FLEETBEAT_OVERRIDE_KEY, --override-windows is for those who have it set here, too.
    """
    if override_windows and not reason.strip():
        raise click.UsageError("--override-windows needs --reason: history keeps why the windows were overridden")
    if plan is not None and not plan.strip():
        raise click.UsageError("--plan is empty: without an id it would be any sync. Give one, or leave it out")
    session: Session = ctx.obj
    asked = session.fleetbeat.request_sync(
        app,
        by=whoami(),
        reason=reason,
        idempotency_key=idempotency_key,
        confirm_prune=confirm_prune,
        override_windows=override_windows,
        plan=plan or "",
    )
    if not override_windows and (held := _held_up(session, app)):
        out.say(
            f"note: sync windows are {held}. What differs waits for them; "
            f"fleetbeat sync {app} --override-windows --reason … goes past them",
            err=True,
        )
    if not wait:
        after = f", after run {asked.run}" if asked.run else ""
        out.say(f"{app}: sync asked for{after} (request {asked.id}). See: fleetbeat status {app}")
        return
    ctx.exit(follow(session, app, asked.id, timeout))


def follow(session: Session, app: str, request: str, timeout: float) -> Exit:
    """Print what happens to a sync that was asked for, and how it ended. Raises StillRunning after ``timeout`` s."""
    outcome = None
    told = ""
    shown: set[tuple[str, ObjectId]] = set()
    for event in session.fleetbeat.follow(app, request, timeout=timeout):
        if isinstance(event, Outcome):
            outcome = event
        else:
            told = _tell(event, told)
            shown |= {(result.phase, result.id) for result in event.results}
    if outcome is None:  # follow ends with one or raises
        return Exit.FAILED
    # What nothing was done to, and why: the application stays OutOfSync for it.
    left = left_alone(outcome.entry)
    for line in lines_of(result for result in left if (result.phase, result.id) not in shown):
        out.say(line)
    # A request that was refused has looked at no bundle: there is nothing whose health could be told.
    stand = f", {out.word(outcome.health)} at {outcome.revision}" if outcome.revision.digest else ""
    out.say(f"{app}: {out.word(outcome.phase)}{stand}")
    if outcome.message:
        out.say(outcome.message, err=outcome.phase != "Succeeded")
    if outcome.held_back:
        out.say(f"note: not what the source means now: {outcome.held_back}", err=True)
    return Exit.OK if outcome.ok else Exit.FAILED


def _held_up(session: Session, app: str) -> str:
    """``shut until … by …`` when sync windows may hold this sync up, else ""."""
    from datetime import UTC, datetime

    from fleetbeat.decisions.windows import ask

    windows = session.application(app)[0].windows
    if not windows:
        return ""
    verdict = ask(windows, "manual", datetime.fromtimestamp(session.runs.now() / 1000, UTC))
    return "" if verdict.open else str(verdict)


def _tell(progress: Progress, told: str) -> str:
    """Print what is new and return it. ``told``: what was printed last; a wait that is looked at again is not news."""
    if progress.results:
        now = "\n".join(lines_of(progress.results))
    elif progress.message:
        now = f"{progress.step or 'queued'}: {progress.message}"
    elif progress.state == "working":
        now = f"{progress.step} …"
    else:
        return told
    # while a wave waits, working and waiting take turns
    if now != told and not told.startswith(now.removesuffix("…").rstrip() + ":"):
        out.say(now)
        return now
    return told


def whoami() -> str:
    """``user@host``, for history."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    return f"{user}@{platform.node()}"
