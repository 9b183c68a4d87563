"""``fleetbeat audit``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.audit_logs import compare, read_logs
from fleetbeat.cli.audit_rows import show
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.exits import EPILOG, Exit, tell
from fleetbeat.cli.session import Session, unknown_application, unknown_cluster
from fleetbeat.cli.since import moment
from fleetbeat.errors import Rejected

if TYPE_CHECKING:
    from fleetbeat.clients.ledger import Chain


@click.command(
    epilog=f"""\b
Examples:
  fleetbeat audit shop --since 24h
  fleetbeat audit -o json > writes.jsonl
  fleetbeat audit --verify
  fleetbeat audit --cluster prod --join audit.log --join audit-2026-11-30.log.gz

{EPILOG}"""
)
@click.argument("app", required=False, shell_complete=complete_application)
@click.option("--cluster", help="Only writes to this cluster.")
@click.option("--since", metavar="TIME", help="Only what is newer: 90s, 24h, or a time such as 2026-11-30T12:00:00Z.")
@click.option("--verify", is_flag=True, help="Find entries that were altered, removed or reordered.")
@click.option("--join", "logs", multiple=True, metavar="FILE", help="An audit log of the cluster; - = standard input.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Form.")
@click.pass_context
def audit(
    ctx: click.Context,
    app: str | None,
    cluster: str | None,
    since: str | None,
    verify: bool,
    logs: tuple[str, ...],
    output: str,
) -> None:
    """Every write to a cluster, by whom and why, oldest first.

    With -o json one line of JSON for each write. --verify checks the chain that the entries form. --join matches the
    writes with the API server's own audit log (JSON lines, gzip too; of several API servers all of theirs) and prints
    what is on one side only. Both exit with 1 when something is wrong.
    """
    session: Session = ctx.obj
    log = read_logs(logs) if logs else None  # before the ledgers: what is in it has been told, or is about to be
    start = moment(since, session.runs.now()) if since else 0
    chains = [session.ledger.read(name) for name in _apps(session, app)]
    if cluster is not None:
        _known_cluster(session, chains, cluster)
    good = True
    if verify:
        good = _verify(session, chains, output)
    if log is not None:
        good = compare(chains, log, cluster, start, frozenset([app]) if app else None, output) and good
    if not verify and log is None:
        show(chains, cluster, start, output)
    ctx.exit(Exit.OK if good else Exit.FAILED)


def _apps(session: Session, app: str | None) -> list[str]:
    names = session.ledger.apps()
    if app is None:
        return names
    if app not in names and app not in (known := session.catalogs.names()):
        raise unknown_application(app, known)
    return [app]


def _known_cluster(session: Session, chains: Sequence[Chain], name: str) -> None:
    """A misspelt name would find no write, and call everything in a log unknown."""
    known = {entry.execution.cluster for chain in chains for entry in chain.entries} | {*session.catalogs.clusters()}
    if name not in known:
        raise unknown_cluster(name, known)


def _verify(session: Session, chains: Sequence[Chain], output: str) -> bool:
    """Whether all chains are whole; prints one line for each."""
    good = True
    for chain in chains:
        faults, entries = session.ledger.faults(chain), chain.entries
        good = good and not faults
        first, writes = chain.anchor.number + 1, sum(len(entry.writes) for entry in entries)
        begins = next((entry.note for entry in entries[:1] if entry.number == 1), "")
        if output == "json":
            head = {"number": chain.head.number, "mac": chain.head.mac}
            told = {
                "app": chain.app,
                "first": first,
                "head": head,
                "writes": writes,
                "begins": begins,
                "faults": faults,
            }
            click.echo(out.as_json(told))
            continue
        word = "whole" if not faults else click.style("broken", fg="red")
        click.echo(
            f"{chain.app}: {word}, entries {first} to {chain.head.number} ({writes} writes), head {chain.head.mac}"
        )
        if begins:
            click.echo(f"  begins anew: {begins}")
        for fault in faults:
            tell(Rejected(f"{chain.app}: {fault}"))
    return good
