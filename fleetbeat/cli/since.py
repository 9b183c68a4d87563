"""``--since``: a duration or a time."""

from __future__ import annotations

import datetime

import click

from fleetbeat.cli import output as out
from fleetbeat.decisions.problems import shown


def moment(text: str, now: int) -> int:
    """ms since epoch. ``now``: the same, by Redis' clock. Raises click.UsageError."""
    try:
        return now - int(out.Duration().convert(text, None, None) * 1000)
    except click.UsageError:
        pass
    try:
        at = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--since {shown(text)} is neither a duration (90s, 24h) nor a time of RFC 3339"
        ) from None
    if at.tzinfo is None:
        raise click.UsageError(f"--since {text!r} has no time zone; for UTC append Z")
    return int(at.timestamp() * 1000)
