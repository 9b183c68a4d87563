"""``fleetbeat demo``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from fleetbeat.cli.exits import Exit


@click.command(
    epilog="""\b
Examples:
  fleetbeat demo
  fleetbeat demo --once
  fleetbeat demo --context kind-kind
  fleetbeat demo --once --svg demo.svg"""
)
@click.option(
    "--once", is_flag=True, help="Stop everything at the end; exit code 1 when a step did not do what it says."
)
@click.option("--context", default="", help="Use the cluster of this kubeconfig context, namespace shop.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Save a picture of the run.")
@click.pass_context
def demo(ctx: click.Context, once: bool, context: str, svg: Path | None) -> None:
    """See a sync, a heal and a refused mistake on real parts.

    Starts Redis, an OCI registry, a Kubernetes API server with controllers, beat, two workers and Flower on free ports
    of 127.0.0.1, plays a small shop through push, sync, drift, a new version and a broken one, and checks each step in
    the cluster. Stays up until Ctrl-C. Nothing is left behind.
    """
    from fleetbeat.cli.demo_screen import Screen
    from fleetbeat.cli.demo_stage import Stage
    from fleetbeat.cli.demo_story import Failed, play, tell_where
    from fleetbeat.cli.signals import interruptible, stopping

    screen = Screen(record=svg is not None)
    begin = time.monotonic()
    try:
        with interruptible(), Stage(screen, context) as stage:
            play(stage, screen)
            screen.good(f"Everything did what it says, in {time.monotonic() - begin:.0f} s.")
            if svg is not None:
                screen.save(svg)
            if not once:
                tell_where(stage, screen)
                with stopping() as stop:
                    stage.stay(stop)
    except Failed as failed:
        screen.bad(str(failed))
        ctx.exit(Exit.FAILED)
