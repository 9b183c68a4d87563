"""``fleetbeat up``."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from fleetbeat.cli.installation import Installation, default_folder
from fleetbeat.cli.session import Session
from fleetbeat.cli.signals import stopping


@click.command(
    epilog="""\b
Examples:
  fleetbeat up catalog/
  fleetbeat up catalog/ --workers 4 --data /var/lib/fleetbeat
  eval "$(fleetbeat env)" && fleetbeat status     in another shell"""
)
@click.argument("catalog", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker processes.")
@click.option(
    "--watch/--no-watch", default=True, show_default=True, help="Watch the clusters, so that drift is found at once."
)
@click.option("--port", type=click.IntRange(1, 65535), default=5555, show_default=True, help="Flower's port.")
@click.option("--flower/--no-flower", default=True, show_default=True, help="Run Flower, the view of the work.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for key, Redis data and logs. Default: ~/.local/state/fleetbeat.",
)
@click.pass_obj
def up(session: Session, catalog: Path, workers: int, watch: bool, port: int, flower: bool, data: Path | None) -> None:
    """Run Redis, beat, watch, workers and Flower for a catalog folder.

    Everything one machine needs, supervised: what dies is started again. Redis is an embedded one, or the one of
    FLEETBEAT_REDIS_URL when that is set. Listens on 127.0.0.1 only. Ctrl-C stops all of it; state and key stay in
    the data folder for the next time.
    """
    from fleetbeat.cli.up_run import Plan, run

    installation = Installation(data or default_folder())
    plan = Plan(
        catalog=catalog.resolve(),
        workers=workers,
        watch=watch,
        flower_port=port if flower else None,
        flower_password=secrets.token_urlsafe(12),
    )
    with installation.held(), stopping() as stop:
        run(session, installation, plan, stop)
