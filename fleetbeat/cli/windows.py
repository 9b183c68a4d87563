"""``fleetbeat windows``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fleetbeat.cli import output as out
from fleetbeat.cli.completion import complete_application
from fleetbeat.cli.session import Session, unknown_application
from fleetbeat.decisions.problems import shown

if TYPE_CHECKING:
    from fleetbeat.decisions.windows import How, Verdict
    from fleetbeat.model import Application, Cluster
    from fleetbeat.model_windows import SyncWindow

#: Years outside of these have no time zones to speak of.
_FIRST, _LAST = 1971, 9000
#: Windows that are told in the table; JSON has all.
_MOST = 10


class Moment(click.ParamType[datetime]):
    """RFC 3339 with an offset: ``2026-12-24T18:00:00Z``."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(
                f"{value!r} is no time. Write it as 2026-12-24T18:00:00Z or 2026-12-24T18:00:00+01:00", param, ctx
            )
        if moment.tzinfo is None:
            written = f"{moment.isoformat()}Z"
            self.fail(f"{value!r} has no zone. Write {written} for UTC, or an offset such as +01:00", param, ctx)
        if not _FIRST <= moment.year < _LAST:
            self.fail(f"{value!r}: the year must be from {_FIRST} to {_LAST - 1}", param, ctx)
        return moment


@click.command(
    epilog="""\b
Examples:
  fleetbeat windows shop
  fleetbeat windows shop --at 2026-12-24T18:00:00+01:00 --catalog catalog/
  fleetbeat windows shop -o json | jq -e .automated.open"""
)
@click.argument("app", shell_complete=complete_application)
@click.option("--at", type=Moment(), help="The time asked about, RFC 3339; default: now.")
@click.option(
    "--catalog",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Read this catalog folder instead of the catalog in force; needs no server.",
)
@click.option("--kind", "kinds", multiple=True, help="Only for a sync that writes objects of this kind. Repeatable.")
@out.output_option
@click.pass_obj
def windows(
    session: Session, app: str, at: datetime | None, catalog: Path | None, kinds: Sequence[str], output: str
) -> None:
    """Whether sync windows let an application be written, by which and until when.

    Told for an automated sync and for one that somebody asks for; where windows have the scope self-heal, also for one
    that puts back a change by hand. Without --kind it is open only if it is for every kind that a window names.
    """
    from fleetbeat.catalog_windows import is_kind
    from fleetbeat.decisions.window_match import because

    strange = next((kind for kind in kinds if not is_kind(kind)), None)
    if strange is not None:
        raise click.UsageError(f"--kind {shown(strange)} is no kind such as Deployment, or Cart.shop.example.com")
    application, cluster = _from_folder(catalog, app) if catalog is not None else session.application(app)
    found = application.windows
    if at is None:
        at = datetime.now(UTC) if catalog is not None else datetime.fromtimestamp(session.runs.now() / 1000, UTC)
    healing = any(window.scope == "self-heal" for window in found)  # else it is what any automated sync is
    asked = [(word, how) for word, how in _QUESTIONS if healing or how != "self-heal"]
    reasons = {window: because(window, application, cluster) for window in found}
    answers = [Answer(word, how, _ask(found, how, at, kinds), reasons) for word, how in asked]
    if output != "table":
        out.write({one.word: one.to_json() for one in answers}, output)
        return
    out.table(["SYNC", "NOW", "UNTIL", "BY"], [one.row() for one in answers])
    if not found:
        out.say(f"note: no sync window is for {app}", err=True)


@dataclass(frozen=True)
class Answer:
    word: str  #: in JSON
    how: How
    verdict: Verdict
    because: Mapping[SyncWindow, Sequence[str]]  #: by which selectors each window is for the application

    def to_json(self) -> dict[str, Any]:
        from fleetbeat.decisions.windows import stamp

        until, sure = self.verdict.until, self.verdict.sure
        return {
            "open": self.verdict.open,
            "by": [_window(window) | {"because": list(self.because[window])} for window in self.verdict.by],
            "until": stamp(until) if until else None,
            **({} if until or self.verdict.settled else {"atLeastUntil": stamp(sure)}),
        }

    def row(self) -> list[str]:
        data = self.to_json()
        told = [f"{window}{_for(self.because[window])}" for window in self.verdict.by[:_MOST]]
        more = f" and {len(self.verdict.by) - _MOST:,} more" if len(self.verdict.by) > _MOST else ""
        by = "; ".join(told) + more
        until = f"at least {data['atLeastUntil']}" if "atLeastUntil" in data else data["until"] or "no change in sight"
        return [self.how, "open" if self.verdict.open else "shut", until, by or "-"]


_QUESTIONS: tuple[tuple[str, How], ...] = (
    ("automated", "automated"),
    ("manual", "manual"),
    ("selfHeal", "self-heal"),
)


def _ask(found: Sequence[SyncWindow], how: How, at: datetime, kinds: Sequence[str]) -> Verdict:
    from fleetbeat.decisions.windows import ask

    named = [(group if dot else None, name) for name, dot, group in (kind.partition(".") for kind in kinds)]
    return ask(found, how, at, kinds=named or None)


def _window(window: SyncWindow) -> dict[str, Any]:
    """In the catalog's words; the duration in seconds."""
    return {
        "kind": window.kind,
        "schedule": window.schedule,
        "durationSeconds": window.duration,
        "timeZone": window.time_zone,
        "description": window.description,
        "kinds": list(window.kinds),
        "scope": window.scope,
        "manualSync": window.manual_sync,
        "syncOverrun": window.sync_overrun,
        "from": window.origin,
    }


def _for(reasons: Sequence[str]) -> str:
    return f", for {' and '.join(reasons)}" if reasons else ""


def _from_folder(folder: Path, app: str) -> tuple[Application, Cluster]:
    from fleetbeat.catalog import load

    catalog = load(folder).catalog
    if app not in catalog.applications:
        raise unknown_application(app, sorted(catalog.applications))
    application = catalog.applications[app]
    return application, catalog.clusters[application.destination.cluster]
