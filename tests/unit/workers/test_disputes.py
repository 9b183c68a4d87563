"""Which objects a look passes over since they wait for their next heal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from fleetbeat.decisions.drift import DriftLedger
from fleetbeat.decisions.fights import Dispute
from fleetbeat.model import ObjectId
from fleetbeat.settings import Settings
from workers.disputes import TOLD, is_over, waiting

NOW = 1_796_000_000_000


def parts(ledger: DriftLedger, asked: list[str]) -> Any:
    def read(app: str) -> DriftLedger:
        asked.append(app)
        return ledger

    settings = SimpleNamespace(heals=Settings().heals, fights=Settings().fights)
    runs = SimpleNamespace(now=lambda: NOW, look_by=lambda app, _until: asked.append(app))
    return SimpleNamespace(drifts=SimpleNamespace(read=read), runs=runs, settings=settings)


@pytest.mark.parametrize(("many", "reads"), [(0, 0), (1, 0), (TOLD - 1, 0), (1000, 1)])
def test_all_that_wait_are_passed_over_however_many(many: int, reads: int) -> None:
    """Those that the state has no room for are read from the drift ledger, which unchanged looks never ask for."""
    ids = [ObjectId("", "ConfigMap", "shop", f"web-{number:04}") for number in range(many)]
    over = ObjectId("", "ConfigMap", "shop", "over")
    ends = dict.fromkeys(ids, Dispute(until=NOW + 1000)) | {over: Dispute(until=NOW - 1)}
    told = {key.key: NOW + 1000 for key in ids[:TOLD]}
    asked: list[str] = []
    shared = parts(DriftLedger(often=ends), asked)
    state = {"waiting": orjson.dumps(told).decode() if told else ""}
    assert waiting(shared, "shop", state) == set(ids)
    assert len(asked) == reads


@pytest.mark.parametrize(
    ("until", "ended", "over"),
    [
        pytest.param(None, 0, False, id="nothing is left alone"),
        pytest.param(60_000, -1000, False, id="it stands"),
        pytest.param(60_000, 500, False, id="it stands, by clocks that differ a little"),
        pytest.param(-1, -1000, True, id="it is over"),
        pytest.param(1_860_000, 1_800_000, True, id="it was noted half an hour ahead: the clock went back"),
    ],
)
def test_when_what_is_left_alone_has_its_turn(until: int | None, ended: int, over: bool) -> None:
    asked: list[str] = []
    state = {"truce": "" if until is None else str(NOW + until), "ended": str(NOW + ended)}
    assert is_over(parts(DriftLedger(), asked), "shop", state) is over
    assert asked == (["shop"] if until and not over else [])
