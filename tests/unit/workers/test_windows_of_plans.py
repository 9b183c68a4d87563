"""A stage of a run before a sync window: whatever it is about to do, prune as well as write, it asks first."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from fleetbeat.clients.runs import Look
from fleetbeat.engine.plan import Plan, StagePlan
from fleetbeat.model import Application, Destination, ObjectId, Source
from fleetbeat.model_windows import SyncWindow
from workers.windows import shut

NOON = datetime(2026, 6, 2, 12, tzinfo=UTC)
ACTIVE, INACTIVE = "0 11 * * *", "0 20 * * *"
OLD = ObjectId("", "ConfigMap", "shop", "old")
PRUNE, WRITE = (Plan(stages=(StagePlan(0, part, ((OLD,),)),)) for part in ("prune", "objects"))  # type: ignore[arg-type]
TRIGGERS = {"auto": "Revision", "manual": "Request", "self-heal": "Drift"}


class Runs:
    """What is asked of Redis, in memory; it is noon."""

    def now(self) -> int:
        return int(NOON.timestamp() * 1000)

    def note(self, *_: Any) -> None: ...

    def remember(self, *_: Any) -> None: ...

    def look(self, _app: str) -> Look:
        return Look({}, {}, {})


def waits(plan: Plan, trigger: str, *windows: SyncWindow) -> bool:
    parts = SimpleNamespace(runs=Runs(), settings=SimpleNamespace(signing_key=lambda: None))
    record = {"run": "r1", "trigger": trigger}
    work: Any = SimpleNamespace(
        record=record, parts=parts, turn=SimpleNamespace(app="shop", run="r1", step="apply:0", record=record)
    )
    application = Application(
        "shop", Source("registry.example.com/shop"), Destination("local", "shop"), windows=windows
    )
    return shut(work, application, plan, 0) is not None


def window(kind: Any, state: str, manual: bool) -> SyncWindow:
    return SyncWindow(kind, ACTIVE if state == "active" else INACTIVE, 2 * 3600, manual_sync=manual)


@pytest.mark.parametrize("how", TRIGGERS)
@pytest.mark.parametrize("plan", [PRUNE, WRITE], ids=["prune", "write"])
@pytest.mark.parametrize(("allowed", "denied"), list(product(["none", "active", "inactive"], repeat=2)))
@pytest.mark.parametrize("flags", list(product([False, True], repeat=2)), ids=["none", "deny", "allow", "both"])
def test_a_prune_waits_where_a_write_would(
    allowed: str, denied: str, flags: tuple[bool, bool], plan: Plan, how: str
) -> None:
    """Field case e8: deny beats allow; the manual flag helps who asks, for what is pruned too, and nobody else."""
    states = (("allow", allowed, flags[0]), ("deny", denied, flags[1]))
    windows = [window(kind, state, flag) for kind, state, flag in states if state != "none"]
    may_ask = flags[1] if denied == "active" else allowed != "inactive" or flags[0]
    by_itself = denied != "active" and allowed != "inactive"
    assert waits(plan, TRIGGERS[how], *windows) is not (may_ask if how == "manual" else by_itself)


@pytest.mark.parametrize("plan", [PRUNE, WRITE], ids=["prune", "write"])
def test_all_windows_that_hold_it_up_must_carry_the_flag(plan: Plan) -> None:
    """Field case e8."""
    flagged, strict = window("deny", "active", True), window("deny", "active", False)
    assert not waits(plan, "Request", flagged, flagged)
    assert waits(plan, "Request", flagged, strict)


def test_a_window_for_a_kind_holds_up_the_prune_of_it() -> None:
    of = {kind: SyncWindow("deny", ACTIVE, 2 * 3600, kinds=(kind,)) for kind in ("ConfigMap", "Secret")}
    assert waits(PRUNE, "Revision", of["ConfigMap"])
    assert not waits(PRUNE, "Revision", of["Secret"])
