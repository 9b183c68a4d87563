"""A plan survives its journey as JSON, and one that an earlier version left can still be read."""

from __future__ import annotations

import orjson

from fleetbeat.engine.plan import HookRun, Plan, StagePlan
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult

JOB = ObjectId("batch", "Job", "shop", "migrate")
WEB = ObjectId("apps", "Deployment", "shop", "web")

PLAN = Plan(
    stages=(
        StagePlan(-5, "objects", ((JOB,),), phase="PreSync"),
        StagePlan(0, "cleanup", ((JOB,),), phase="PreSync"),
        StagePlan(0, "objects", ((WEB,),), unsettled=(JOB,)),
        StagePlan(0, "prune", ((WEB,),)),
    ),
    hooks=(HookRun(JOB, 3, "PreSync", -5), HookRun(JOB, 3, "PostSync", -5)),
    failing=(StagePlan(0, "cleanup", ((JOB,),), phase=""),),
    settled=(ObjectResult(JOB, "failed", "no", -5, phase="PostSync"),),
)


def test_round_trip() -> None:
    assert Plan.from_json(PLAN.to_json()) == PLAN


def test_a_plan_from_before_hooks() -> None:
    data = orjson.loads(Plan(stages=PLAN.stages[2:]).to_json())
    del data["hooks"], data["failing"]
    data["stages"] = [stage[:4] for stage in data["stages"]]
    assert Plan.from_json(orjson.dumps(data)) == Plan(stages=PLAN.stages[2:])


def test_titles_say_phase_and_wave() -> None:
    assert [stage.title for stage in (*PLAN.stages, *PLAN.failing)] == [
        "PreSync wave -5",
        "deleting hooks of PreSync",
        "wave 0",
        "prune of wave 0",
        "deleting hooks of the phase that failed",
    ]


def test_hooks_of_one_phase() -> None:
    assert PLAN.hooks_of("PostSync") == {JOB: PLAN.hooks[1]}
    assert PLAN.hooks_of("SyncFail") == {}


def test_a_result_from_before_hooks_has_no_phase() -> None:
    assert ObjectResult.from_json({"id": JOB.key, "outcome": "created"}).phase == ""
