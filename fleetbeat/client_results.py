"""What ``client.py`` answers: a request that was made, how it goes, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleetbeat.model import Revision
from fleetbeat.model_results import WELL, ObjectResult


@dataclass(frozen=True)
class Request:
    """A sync that was asked for."""

    id: str  #: hand it to ``follow`` and ``outcome``
    run: str  #: id of a run that is under way already and will be followed by this request's own, or ""


@dataclass(frozen=True)
class Progress:
    """Something changed in the run that is being followed."""

    run: str  #: "" while the request waits for its turn
    step: str  #: "pull", …, "apply:1"; "" while it waits
    state: str  #: queued, working, waiting
    message: str  #: what is being waited for, in words
    results: tuple[ObjectResult, ...] = ()  #: objects that were written since the last progress


@dataclass(frozen=True)
class Outcome:
    """How a sync ended."""

    app: str
    run: str
    phase: str  #: Succeeded, Failed, Error, Superseded
    sync: str  #: the application's status after it
    health: str
    message: str
    revision: Revision
    entry: dict[str, Any] = field(repr=False)  #: the history entry, {} when the request needed no run
    held_back: str = ""  #: why it is not at what its source means: a pin or a veto, in words

    @property
    def ok(self) -> bool:
        """Everything wanted is there and healthy."""
        return self.phase == "Succeeded" and self.health in WELL

    @property
    def results(self) -> list[ObjectResult]:
        """Every object that is not unchanged."""
        return [ObjectResult.from_json(result) for result in self.entry.get("results", ())]
