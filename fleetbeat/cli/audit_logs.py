"""The ledger beside an API server's audit log: reading the log, and saying what is on one side only."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.exits import tell
from fleetbeat.errors import ConfigurationError, Rejected

if TYPE_CHECKING:
    from fleetbeat.clients.ledger import Chain
    from fleetbeat.decisions.audit_join import Joined, Log


def read_logs(names: Sequence[str]) -> Log:
    """Raises ConfigurationError naming file and line for what is no audit log."""
    from fleetbeat.decisions.audit_join import Log

    log = Log()
    for name in names:
        for number, line in enumerate(_lines(name), 1):
            if not line.endswith(b"\n"):
                break  # being written at this moment
            if line.strip():
                try:
                    log.add(json.loads(line))
                except (ValueError, AttributeError, TypeError):
                    raise ConfigurationError(
                        f"{name}, line {number}: is not an event of audit.k8s.io. --join reads the file of the API "
                        "server's --audit-log-path, in its JSON form"
                    ) from None
    if not log.events:
        raise ConfigurationError(f"{', '.join(names)}: no audit event in there")
    return log


def _lines(name: str) -> Iterator[bytes]:
    try:
        with click.open_file(name, "rb") as file:
            if name.endswith(".gz"):
                with gzip.open(file) as unpacked:
                    yield from unpacked
            else:
                yield from file
    except (OSError, EOFError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise ConfigurationError(f"{name}: cannot be read: {why}") from None


def compare(
    chains: Sequence[Chain], log: Log, cluster: str | None, start: int, apps: frozenset[str] | None, output: str
) -> bool:
    """Whether both sides say the same; prints what they do not."""
    from fleetbeat.decisions.audit_join import join

    entries = [entry for chain in chains for entry in chain.entries]
    left = [one for chain in chains for one in chain.open]
    clusters = sorted({entry.execution.cluster for entry in entries} | {who.cluster for who, _ in left})
    if cluster is None and len(clusters) > 1:
        raise ConfigurationError(f"an audit log is one cluster's; name it with --cluster: {', '.join(clusters)}")
    joined = join(
        [entry for entry in entries if cluster in (None, entry.execution.cluster)],
        [(who, places) for who, places in left if cluster in (None, who.cluster)],
        log,
        since=start,
        apps=apps,
    )
    if output == "json":
        out.write(_told(joined), "json")
        return joined.whole
    click.echo(f"{len(joined.by_id)} writes are in both")
    if joined.by_agent:
        click.echo(f"{len(joined.by_agent)} more are known by run and object: their worker was killed before it told")
    if joined.outside:
        click.echo(f"{len(joined.outside)} writes of the ledger are outside the time of the log: not judged")
    for event in joined.not_in_ledger:
        tell(Rejected(f"in the log only: {event}"))
    for claim in joined.not_in_log:
        tell(Rejected(f"in the ledger only: {claim}"))
    for event, claim in joined.contradicting:
        tell(Rejected(f"the log says {event}; the ledger says {claim}"))
    return joined.whole


def _told(joined: Joined) -> dict[str, Any]:
    return {
        "byAuditId": len(joined.by_id),
        "byUserAgent": [str(event) for event, _ in joined.by_agent],
        "outside": [str(claim) for claim in joined.outside],
        "inLogOnly": [str(event) for event in joined.not_in_ledger],
        "inLedgerOnly": [str(claim) for claim in joined.not_in_log],
        "contradicting": [[str(event), str(claim)] for event, claim in joined.contradicting],
    }
