"""Writes of the ledger as rows, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from fleetbeat.cli import output as out
from fleetbeat.model import Revision

if TYPE_CHECKING:
    from fleetbeat.clients.ledger import Chain
    from fleetbeat.decisions.ledger import Entry, Execution, Place, Write


def show(chains: Sequence[Chain], cluster: str | None, start: int, output: str) -> None:
    rows = [row for chain in chains for row in rows_of(chain) if row["at"] >= start]
    rows = sorted((row for row in rows if cluster in (None, row["cluster"])), key=lambda row: row["at"])
    if output == "json":
        for row in rows:
            click.echo(out.as_json(row))
        return
    if not rows:
        out.say("No write is known. See: fleetbeat status")
        return
    headings = ["TIME", "APP", "CLUSTER", "RUN", "VERB", "OBJECT", "BY", "COMMIT", "WHAT"]
    cells = [
        [
            *(row["time"], row["app"], row["cluster"], row["run"], row["verb"], row["object"], _who(row)),
            *(row["commit"][:12] or "-", row["what"].partition("\n")[0]),
        ]
        for row in rows
    ]
    out.table(headings, cells)


def _who(row: dict[str, Any]) -> str:
    """Of what was written past a shut window also why."""
    by = row["by"] or "-"
    return f"{by}, past sync windows: {row['reason']}" if row["overrode"] else by


def rows_of(chain: Chain) -> Iterator[dict[str, Any]]:
    """One for each write and for each that may have been made, as a program reads them."""
    for entry in chain.entries:
        for write in entry.writes:
            yield row(entry, write)
        for place in entry.possible:
            what = entry.note or "it was so already: perhaps by a write whose answer got lost"
            yield {**_moment(entry.at), **_possible(place), "what": what, **_by(entry.execution, entry)}


def row(entry: Entry, write: Write) -> dict[str, Any]:
    """One write, as a program reads it."""
    return {
        **_moment(write.at),
        "verb": write.verb,
        **_about(write.place),
        "auditId": write.audit_id,
        "state": "written" if write.audit_id else "found",
        "before": write.before,
        "after": write.after,
        "what": write.what,
        **_by(entry.execution, entry),
    }


def _possible(place: Place) -> dict[str, Any]:
    return {"verb": "perhaps", **_about(place), "auditId": "", "state": "possible", "before": None, "after": None}


def _moment(ms: int) -> dict[str, Any]:
    from fleetbeat.decisions.audit_join import moment

    return {"time": moment(ms), "at": ms}


def _about(place: Place) -> dict[str, str]:
    return {"object": str(place.id), **place.id._asdict(), "resource": place.resource}


def _by(execution: Execution, entry: Entry) -> dict[str, Any]:
    who = execution
    return {
        "app": who.app,
        "cluster": who.cluster,
        "run": who.run,
        "fence": who.fence,
        "stage": who.stage,
        "trigger": who.trigger,
        "by": who.by,
        "reason": who.reason,
        "overrode": who.overrode,
        "digest": who.digest,
        "tag": who.tag,
        "commit": Revision("", revision=who.revision).commit or who.revision,
        "source": who.source,
        "entry": entry.number,
    }
