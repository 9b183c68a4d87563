"""Results of single objects as lines, grouped by wave: the same in sync, history and demo."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from fleetbeat.cli.output import word
from fleetbeat.model import ObjectResult


def lines_of(results: Iterable[ObjectResult]) -> Iterator[str]:
    """``wave 0`` and below it ``configured  ConfigMap shop/web-config   changed by kubectl-edit``."""
    ordered = sorted(results, key=lambda result: (result.wave, result.id))
    for wave, members in groupby(ordered, key=lambda result: result.wave):
        yield f"wave {wave}"
        for result in members:
            yield "  " + line_of(result)


def line_of(result: ObjectResult) -> str:
    """Outcome, object, reason and who had changed it."""
    padding = " " * (11 - len(result.outcome))
    text = f"{word(result.outcome)}{padding}{result.id}"
    told = [result.reason.partition("\n")[0]] if result.reason else []
    if result.managers:
        told.append(f"changed by {', '.join(result.managers)}")
    return f"{text}   {'; '.join(told)}" if told else text
