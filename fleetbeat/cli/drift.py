"""``fleetbeat drift``."""

from __future__ import annotations

from typing import Any

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.session import Session, unknown_application
from fleetbeat.model_results import Manager


@click.command(
    epilog="""\b
Examples:
  fleetbeat drift shop
  fleetbeat drift shop -o json | jq -r '.fields[] | select(.healed > 2) | "\\(.object) \\(.field) \\(.manager)"'"""
)
@click.argument("app", shell_complete=complete_application)
@out.output_option
@click.pass_obj
def drift(session: Session, app: str, output: str) -> None:
    """What was changed past the bundle: field by field, by whom, how often healed.

    What stands there now comes first, then the latest. BY is the field manager with operation and time as the API
    server recorded them of the last change; of what was removed or deleted it records nobody. No value is shown. Asks
    Redis alone, so it works while clusters are down.
    """
    from fleetbeat.decisions.drift import rows_to_json

    ledger = session.drifts.read(app)
    names = session.catalogs.names()
    if not ledger.rows and app not in names:
        raise unknown_application(app, names)
    rows = rows_to_json(ledger, session.runs.now())
    if output != "table":
        out.write({"app": app, "cluster": ledger.cluster, "fields": rows, "cut": ledger.cut}, output)
        return
    if not rows:
        out.say(f"Nothing of {app} is known to have been changed past its bundle.")
        return
    out.table(["OBJECT", "FIELD", "HEALED", "FIRST SEEN", "LAST SEEN", "NOW", "BY"], [_row(row) for row in rows])
    if ledger.cut:
        out.say(f"{ledger.cut} older ones are not kept (FLEETBEAT_DRIFT_ROWS).")


def _row(row: dict[str, Any]) -> list[str]:
    return [
        row["object"],
        row["field"] or "(all of it)",
        str(row["healed"]),
        _second(row["firstSeen"]),
        _second(row["lastSeen"]),
        now(row),
        by(row),
    ]


def now(row: dict[str, Any]) -> str:
    """What has become of it: ``stands since …``, ``left until …``, or ``as wanted``."""
    if row["leftUntil"]:
        return f"left until {_second(row['leftUntil'])}"
    if row["standsSince"]:
        return f"stands since {_second(row['standsSince'])}"
    return "as wanted"


def by(row: dict[str, Any]) -> str:
    from fleetbeat.decisions.drift import who

    if row["manager"] is None:
        return who(row["field"], None)
    told = Manager(row["manager"], row["operation"], row["changedAt"] or "", row["subresource"] or "")
    return who(row["field"], told)


def _second(stamp: str) -> str:
    return stamp.partition(".")[0] + "Z"
