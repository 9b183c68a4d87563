"""``fleetbeat watch``."""

from __future__ import annotations

import os
import sys

import click


@click.command(
    epilog="""\b
Examples:
  fleetbeat watch
  FLEETBEAT_LOG_LEVEL=DEBUG fleetbeat watch
Runs until Ctrl-C or SIGTERM."""
)
def watch() -> None:
    """Watch the clusters, so that drift is found at once.

    Optional, beside beat and workers: turns what happens in the clusters of the catalog into early looks at the
    applications concerned. Without it, the regular ticks find the same later. Start one, or several on different
    machines: each cluster is watched by one of them, and another takes over within seconds when that one dies.
    Needs FLEETBEAT_REDIS_URL and FLEETBEAT_KEY like a worker, and the right to watch what it may list.
    """
    # A process of the scheduler package, which this package must not import; it takes this one's place.
    os.execv(sys.executable, [sys.executable, "-m", "scheduler.watch"])  # noqa: S606
