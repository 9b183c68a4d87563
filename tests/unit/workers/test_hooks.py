"""What a run does after a stage has failed."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.engine.plan import Plan, StagePlan
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult
from workers.hooks import after_failure
from workers.task import Next

JOB = ObjectId("batch", "Job", "shop", "x")
STAGES = (StagePlan(0, "objects", (), phase="PreSync"), StagePlan(0, "objects", ()))
CLEANS = StagePlan(0, "cleanup", (), phase="")
ALARM = StagePlan(0, "objects", (), phase="SyncFail")
ALARM_CLEANS = StagePlan(0, "cleanup", (), phase="SyncFail")
ERROR = Next("report", {"error": "HealthCheckFailed", "error_text": "it is broken"})


@pytest.mark.parametrize(
    ("failing", "number", "step", "fields"),
    [
        pytest.param((), 0, "report", {"error": "HealthCheckFailed"}, id="nothing follows"),
        pytest.param((CLEANS,), 0, "apply:2", {"stages": 3, "failed_in": "PreSync"}, id="policies"),
        pytest.param((CLEANS, ALARM), 1, "apply:2", {"stages": 4, "failed_in": "Sync"}, id="policies, then hooks"),
        pytest.param((ALARM,), 1, "apply:2", {"stages": 3, "error_text": "it is broken"}, id="hooks"),
        pytest.param((ALARM,), 2, "report", {"after_failure": "it is broken"}, id="a hook fails too"),
        pytest.param((ALARM, ALARM_CLEANS), 2, "apply:3", {"failed_in": "SyncFail"}, id="and is cleaned up"),
    ],
)
def test_what_follows(failing: Any, number: int, step: str, fields: dict[str, Any]) -> None:
    plan = Plan(stages=STAGES, failing=failing)
    found = after_failure(plan, (*STAGES, *failing)[number], number, ERROR, {}, {"pending": ""})
    assert found.step == step
    assert fields.items() <= found.fields.items()
    if number >= len(STAGES):
        assert "error" not in found.fields  # the first one stays


def test_a_hook_that_was_refused_is_told_in_its_own_words() -> None:
    plan = Plan(stages=STAGES, failing=(ALARM,))
    refused = {("SyncFail", JOB): ObjectResult(JOB, "failed", "not allowed", phase="SyncFail")}
    found = after_failure(plan, ALARM, 2, Next("report", {"error": "ObjectsFailed"}), refused, {})
    assert found.fields["after_failure"] == "not allowed"
