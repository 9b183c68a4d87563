"""``fleetbeat key``."""

from __future__ import annotations

import base64
import os

import click


@click.command(epilog='Example: export FLEETBEAT_KEY="$(fleetbeat key)"')
def key() -> None:
    """Print a new key for FLEETBEAT_KEY.

    32 random bytes in base64. The key seals manifests and credentials kept in Redis; beat, workers and CLI of one
    installation need the same one. Keep it where you keep other secrets: it is not stored anywhere. One for
    FLEETBEAT_OVERRIDE_KEY is made in the same way.
    """
    click.echo(new_key())


def new_key() -> str:
    """base64 of 32 bytes from the system's random source."""
    return base64.b64encode(os.urandom(32)).decode()
