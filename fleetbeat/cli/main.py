"""``fleetbeat``: puts the commands together and nothing else. Each command is a module beside this one."""

from __future__ import annotations

import click

from fleetbeat import __version__
from fleetbeat.cli.exits import EPILOG
from fleetbeat.cli.lazy import Entry, LazyGroup
from fleetbeat.cli.session import Session

_HERE = "fleetbeat.cli."
SECTIONS = {
    "Every day": {
        "check": Entry(_HERE + "check:check", "Look for mistakes in manifests, without a server."),
        "push": Entry(_HERE + "push:push", "Push a folder of manifests to an OCI registry."),
        "sync": Entry(_HERE + "sync:sync", "Sync an application now."),
        "delete": Entry(
            _HERE + "delete:delete", "Go on with the deletion of an application that has left the catalog."
        ),
        "status": Entry(_HERE + "status:status", "What is synced, what is not, and why."),
        "why": Entry(_HERE + "why:why", "The one rule that keeps an application from being synced, and until when."),
        "events": Entry(_HERE + "events:events", "What happens, as it happens: syncs, drift, what blocks them."),
        "drift": Entry(
            _HERE + "drift:drift", "What was changed past the bundle: field by field, by whom, how often healed."
        ),
        "diff": Entry(_HERE + "diff:diff", "What a sync would change, as the API server sees it."),
        "plan": Entry(_HERE + "plan:plan", "Save what a sync would do, to have exactly that done later."),
        "health": Entry(_HERE + "health:health", "Judge live objects in files as a sync would, without a server."),
        "windows": Entry(
            _HERE + "windows:windows",
            "Whether sync windows let an application be written, by which and until when.",
        ),
        "history": Entry(_HERE + "history:history", "What syncs have done, who asked for them and why."),
        "explain": Entry(_HERE + "explain:explain", "Where an object comes from: application, run, commit, who asked."),
        "audit": Entry(_HERE + "audit:audit", "Every write to a cluster, by whom and why, oldest first."),
    },
    "When it went wrong": {
        "rollback": Entry(_HERE + "rollback:rollback", "Go back to an earlier bundle, and stay there."),
        "unpin": Entry(_HERE + "rollback:unpin", "Lift the pin of a rollback, and sync what the source means now."),
        "stop": Entry(_HERE + "stop:stop", "End the sync that is under way, between two waves."),
        "hold": Entry(_HERE + "hold:hold", "Keep Fleetbeat from writing, for a time."),
        "veto": Entry(_HERE + "veto:veto", "Keep a bundle out of the whole fleet."),
    },
    "On one machine": {
        "demo": Entry(_HERE + "demo:demo", "See a sync, a heal and a refused mistake on real parts."),
        "up": Entry(_HERE + "up:up", "Run Redis, beat, watch, workers and Flower for a catalog folder."),
        "env": Entry(_HERE + "env:env", "Shell lines that reach what `fleetbeat up` runs."),
        "local": Entry(
            _HERE + "local:local", "Run one part Fleetbeat needs on this machine: a cluster, a registry or Redis."
        ),
    },
    "Set up and check": {
        "watch": Entry(_HERE + "watch:watch", "Watch the clusters, so that drift is found at once."),
        "doctor": Entry(_HERE + "doctor:doctor", "Check everything an installation needs."),
        "key": Entry(_HERE + "key:key", "Print a new key for FLEETBEAT_KEY."),
        "completion": Entry(_HERE + "completion:completion", "Print completion for a shell."),
    },
}


@click.group(cls=LazyGroup, sections=SECTIONS, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, prog_name="fleetbeat")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:  # noqa: ARG001  # LazyGroup reads it
    """GitOps for Kubernetes fleets on a task queue.

    An installation is reached through FLEETBEAT_REDIS_URL and FLEETBEAT_KEY; see `fleetbeat env` and docs/cli.md.
    """
    if ctx.obj is None:
        ctx.obj = Session()


def main() -> None:
    """Entry point of the console script."""
    cli(prog_name="fleetbeat")


if __name__ == "__main__":
    main()
