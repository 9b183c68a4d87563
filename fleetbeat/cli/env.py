"""``fleetbeat env``."""

from __future__ import annotations

from pathlib import Path

import click

from fleetbeat.cli.installation import Installation, default_folder


@click.command(epilog='Example: eval "$(fleetbeat env)" && fleetbeat status')
@click.option(
    "--data", type=click.Path(file_okay=False, path_type=Path), help="Data folder of `up`. Default: its default."
)
def env(data: Path | None) -> None:
    """Shell lines that reach what `fleetbeat up` runs.

    Prints FLEETBEAT_REDIS_URL and FLEETBEAT_KEY as export lines. They are secrets: evaluate them, do not store them.
    """
    for line in Installation(data or default_folder()).exports():
        click.echo(line)
