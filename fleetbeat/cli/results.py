"""Results of single objects as lines, grouped by wave: the same in sync, history and demo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from fleetbeat.cli.output import word
from fleetbeat.model_results import ObjectResult


def lines_of(results: Iterable[ObjectResult]) -> Iterator[str]:
    """``wave 0`` and below it ``configured  ConfigMap shop/web-config   changed by kubectl-edit``.

    Hooks stand under ``PreSync wave -5``, in the order of a sync.
    """

    def place(result: ObjectResult) -> tuple[int, int, str]:
        return _PHASES.index(result.phase or "Sync"), result.wave, result.phase

    for (_, wave, phase), members in groupby(sorted(results, key=lambda r: (place(r), r.id)), key=place):
        yield f"{phase} wave {wave}" if phase else f"wave {wave}"
        for result in members:
            yield "  " + line_of(result)


#: in the order they run in, of a sync as of a deletion, which has no PreSync and no SyncFail; a command that shows
#: results need not load decisions/hooks.py
_PHASES = ("PreSync", "PreDelete", "Sync", "PostSync", "SyncFail", "PostDelete")


def line_of(result: ObjectResult) -> str:
    """Outcome, object, reason and who had changed it."""
    text = f"{word(result.outcome)}{' ' * (11 - len(result.outcome))}{result.id}"
    why = why_of(result)
    return f"{text}   {why}" if why else text


def why_of(result: ObjectResult) -> str:
    """The reason in one line, and who had changed the object where the reason does not say it."""
    reason = result.reason.partition("\n")[0]
    if reason == "new":  # "created" says it
        reason = ""
    unnamed = [manager for manager in result.managers if manager not in reason]
    told = [reason] if reason else []
    if unnamed:
        told.append(f"changed by {', '.join(unnamed)}")
    return "; ".join(told)


def left_alone(entry: Mapping[str, Any]) -> list[ObjectResult]:
    """Objects that a good run left as they are although that is not what the bundle says. ``entry``: of history."""
    if entry.get("phase") != "Succeeded":  # its error says it, and most of what is skipped just had no turn
        return []
    results = [ObjectResult.from_json(result) for result in entry.get("results", ())]
    return [result for result in results if result.outcome in ("kept", "skipped") and not result.phase]
