"""Exit codes, and how an error is told: one clear line per problem on stderr, no traceback."""

from __future__ import annotations

import enum

import click

from fleetbeat import errors
from fleetbeat.decisions.spoken import harmless
from fleetbeat.model import iter_problems


class Exit(enum.IntEnum):
    """Exit codes of every command (docs/cli.md)."""

    OK = 0
    FAILED = 1
    USAGE = 2
    CONFIGURATION = 3
    UNREACHABLE = 4
    TIMEOUT = 5


EPILOG = (
    "Exit codes: 0 ok; 1 the thing itself failed, differs (diff) or blocks (why); 2 wrong usage; "
    "3 configuration or catalog; 4 something cannot be reached or refuses us; 5 time is up."
)


def code_of(error: errors.FleetbeatError) -> Exit:
    """What a script shall see of this error."""
    if isinstance(error, (errors.CatalogError, errors.ConfigurationError)):
        return Exit.CONFIGURATION
    if isinstance(error, errors.StillRunning):
        return Exit.TIMEOUT
    if isinstance(error, (errors.Transient, errors.Unauthorized)):
        return Exit.UNREACHABLE
    return Exit.FAILED


def tell(error: errors.FleetbeatError) -> Exit:
    """Print the error's problems to stderr and return the exit code."""
    for problem in iter_problems(error):
        click.echo(click.style("error: ", fg="red") + harmless(problem), err=True)
    if isinstance(error, errors.StoreUnavailable):
        click.echo('Is FLEETBEAT_REDIS_URL right? For what `fleetbeat up` runs: eval "$(fleetbeat env)"', err=True)
    return code_of(error)
