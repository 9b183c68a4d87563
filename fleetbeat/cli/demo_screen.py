"""What the demo shows: headings, the progress of syncs, results of objects. One rich console, so it can be saved."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fleetbeat.cli.demo_picture import save
from fleetbeat.cli.results import why_of
from fleetbeat.client import Outcome, Progress
from fleetbeat.model_results import ObjectResult

_WIDTH = 100
_STYLES = {
    "created": "green",
    "configured": "cyan",
    "pruned": "magenta",
    "failed": "bold red",
    "kept": "yellow",
    "skipped": "yellow",
    "unchanged": "dim",
}
#: steps that write nothing and may be seen passing; of the others the objects speak
_WORDS = {
    "pull": "the bundle, verified by digest",
    "render": "manifests, checked against the kinds the cluster serves",
    "diff": "every object dry-run by the API server",
}


class Screen:
    """Thread-safe: parts that start side by side tell it when they are ready."""

    def __init__(self, *, record: bool = False) -> None:
        """``record``: keep what is shown for ``save``, in a fixed width."""
        wide = Console(highlight=False)
        fixed = record or not wide.is_terminal
        self.console = Console(record=record, width=_WIDTH, highlight=False) if fixed else wide
        self._number = 0
        self._step = ""
        self._told = ("", 0)  # run and wave that are being shown

    def heading(self, title: str) -> None:
        """Before the story begins."""
        self.console.print(Text(title, style="bold"))

    def step(self, title: str, *explanation: str) -> None:
        """A numbered step of the story."""
        self._number += 1
        self._step = ""
        self.console.print()
        self.console.print(Text(f"{self._number}  {title}", style="bold"))
        for line in explanation:
            self.line(line, "dim")

    def line(self, text: str, style: str = "") -> None:
        """Below a step's title; a long one goes on where it began."""
        self.console.print(Padding(Text(text, style=style), (0, 0, 0, 3), expand=False))

    def good(self, text: str) -> None:
        """A fact that was checked."""
        self.console.print(Text.assemble(("   ✓ ", "bold green"), text))

    def bad(self, text: str) -> None:
        self.console.print()
        self.console.print(Text.assemble(("✗ ", "bold red"), text))

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Tells what was started, and how long it took."""
        begin = time.monotonic()
        yield
        self.line(f"{what:<60}{time.monotonic() - begin:5.1f} s")

    def event(self, event: Progress | Outcome) -> None:
        """One piece of news of the sync that is being followed."""
        if isinstance(event, Outcome):
            self._ended(event)
            return
        for result in event.results:
            if result.outcome != "unchanged":
                self.result(result, event.run)
        if event.results:
            return
        if event.message:
            self.line(f"waiting: {event.message}", "dim")
        elif event.step in _WORDS and event.step != self._step:
            self.line(f"{event.step:<8}{_WORDS[event.step]}", "dim")
        self._step = event.step

    def result(self, result: ObjectResult, run: str = "") -> None:
        """One object, below a line for its wave when that is another one than before."""
        if (run, result.wave) != self._told:
            self._told = (run, result.wave)
            self.line(f"wave {result.wave}", "bold")
        text = Text.assemble((f"{result.outcome:<11}", _STYLES.get(result.outcome, "")), str(result.id))
        why = why_of(result) if result.outcome != "created" else ""
        if why:
            text.append(f"   {why}", "yellow" if result.managers else "dim")
        self.console.print(Padding(text, (0, 0, 0, 5), expand=False))

    def _ended(self, outcome: Outcome) -> None:
        entry = outcome.entry
        went_well = outcome.phase == "Succeeded"
        said = outcome.message if went_well else str(entry.get("error") or outcome.message).partition("\n")[0]
        text = Text.assemble("   ", (outcome.phase, "bold green" if went_well else "bold red"))
        text.append(f", {outcome.health}: {said}")
        if entry:
            text.append(f"   {(entry['finished'] - entry['started']) / 1000:.1f} s", "dim")
        self.console.print(text)

    def save(self, path: Path) -> None:
        """Everything shown so far as an SVG picture."""
        save(self.console, path)
