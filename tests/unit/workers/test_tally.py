"""What is kept of a run's objects as they come, and what the ledger is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from fleetbeat.clients.store import Store
from fleetbeat.decisions.changes import Fingerprint
from fleetbeat.engine.plan import Change, Known
from fleetbeat.engine.write import Done
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Health, ObjectResult, Outcome
from fleetbeat.ports import Seen
from workers import tally

KEY = ObjectId("", "Secret", "shop", "key")
HASH = "sha256:" + "ab" * 32
KNOWN = Known(HASH, Fingerprint("u", "7", None, "m", deleting=False), "Healthy")


class Runs:
    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def record(self, _run: str, results: Mapping[str, str]) -> None:
        self.kept |= results

    def results(self, _run: str) -> dict[str, str]:
        return self.kept


class Pen:
    """Writes down what it is told."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.told: list[tuple[Any, ...]] = []

    def keep(self, run: str, results: Mapping[str, str]) -> None:
        self._runs.record(run, results)

    def __getattr__(self, name: str) -> Any:
        return lambda *words: self.told.append((name, *words))


def parts(key: bytes = bytes(32)) -> tuple[Any, Any]:
    runs = Runs()
    return SimpleNamespace(runs=runs, store=Store("redis://127.0.0.1:1", key)), Pen(runs)


def test_the_hash_of_a_manifest_is_kept_sealed() -> None:
    """A plain one would tell whoever reads Redis whether a guessed Secret is right."""
    shared, pen = parts()
    tally.keep(shared, "r1", [Done(ObjectResult(KEY, "created"), KNOWN, Health("Healthy"))], pen)
    (text,) = shared.runs.kept.values()
    assert HASH not in text
    assert tally.load(shared, "r1") == {KEY: (ObjectResult(KEY, "created"), KNOWN)}
    tally.settle(shared, "r1", {KEY: (Health("Degraded"), None)}, {})
    assert HASH not in shared.runs.kept[KEY.key]
    assert tally.load(shared, "r1") == {KEY: (ObjectResult(KEY, "created", health="Degraded"), KNOWN)}
    assert tally.load(shared, "r2")[KEY][1] is None, "sealed for its run"
    shared.store = Store("redis://127.0.0.1:1", b"x" * 32)
    assert tally.load(shared, "r1")[KEY][1] is None, "unknown under another key: the object is compared again"


@pytest.mark.parametrize(
    ("outcome", "audit_id", "told"),
    [
        ("created", "", ("found", KEY, "why")),
        ("configured", "", ("found", KEY, "why")),
        ("unchanged", "", ("possible", KEY)),
        ("pruned", "", ("possible", KEY)),
        ("pruned", "a-1", ("explain", KEY, "why")),
        ("failed", "", None),
        ("kept", "", None),
    ],
)
def test_what_the_ledger_is_told(outcome: Outcome, audit_id: str, told: tuple[Any, ...] | None) -> None:
    _, pen = parts()
    tally.tell([Done(ObjectResult(KEY, outcome, "why", audit_id=audit_id))], pen)
    assert pen.told == ([told] if told else [])


def test_the_ledger_is_told_which_state_a_change_was_decided_on() -> None:
    _, pen = parts()
    change = Change(KEY, 0, 0, Seen("u", "7"), before="hash")
    tally.tell([Done(ObjectResult(KEY, "configured", "why", audit_id="a-1"), change=change)], pen)
    assert pen.told == [("explain", KEY, "why"), ("know", KEY, "7", "hash")]
