"""``fleetbeat completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command(
    epilog="""\b
Examples:
  eval "$(fleetbeat completion bash)"          in ~/.bashrc
  eval "$(fleetbeat completion zsh)"           in ~/.zshrc
  fleetbeat completion fish > ~/.config/fish/completions/fleetbeat.fish"""
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print completion for a shell.

    Completes commands, options and the names of applications.
    """
    maker = get_completion_class(shell)
    if maker is None:  # click lost a shell we offer
        raise click.UsageError(f"{shell} is not supported by this version of click")
    click.echo(maker(ctx.find_root().command, {}, "fleetbeat", "_FLEETBEAT_COMPLETE").source())


def complete_application(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Names of applications, for the shell; none when the installation cannot be asked."""
    from fleetbeat.cli.session import Session
    from fleetbeat.errors import FleetbeatError

    try:
        return [name for name in Session().catalogs.names() if name.startswith(incomplete)]
    except FleetbeatError:
        return []


def complete_departing(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """Names of applications that are being deleted."""
    from fleetbeat.cli.session import Session
    from fleetbeat.errors import FleetbeatError

    try:
        return [name for name in Session().departures.held() if name.startswith(incomplete)]
    except FleetbeatError:
        return []
