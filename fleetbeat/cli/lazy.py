"""A click group that imports a command when it is used, so that ``fleetbeat --help`` costs no import of clients."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import NamedTuple

import click

from fleetbeat.cli.exits import tell
from fleetbeat.errors import FleetbeatError
from fleetbeat.settings import nearest


class Entry(NamedTuple):
    """Where a command lives, and its line in the list of commands (a test holds it to the command's own help)."""

    place: str  #: "package.module:attribute"
    line: str


class LazyGroup(click.Group):
    """Commands in named sections, told from a table; FleetbeatErrors of any of them end in ``exits.tell``."""

    def __init__(self, *, sections: Mapping[str, Mapping[str, Entry]], **more: object) -> None:
        super().__init__(**more)  # type: ignore[arg-type]  # click's own keyword arguments, passed through
        self._sections = sections
        self._entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = self._entries.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self._entries and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}.{nearest(args[0], self._entries)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, self._entries))
        for title, section in self._sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.line) for name, entry in section.items()])

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except FleetbeatError as error:
            if ctx.params.get("debug"):
                raise
            ctx.exit(tell(error))
        except KeyboardInterrupt:
            click.echo(err=True)
            ctx.exit(130)  # as shells say it: 128 + SIGINT
