"""What is promised of a plan, and shown of it, is everything that it writes."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.holds import Held
from fleetbeat.engine.compare import Comparison
from fleetbeat.engine.plan import Plan, StagePlan
from fleetbeat.engine.preview import previews
from fleetbeat.engine.promising import left, promise
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult

MADE = ObjectId("", "Namespace", "", "shop")


@pytest.mark.parametrize("writes", [True, False], ids=["with writes", "without"])
def test_a_namespace_that_an_option_makes_is_part_of_it(writes: bool):
    """It is made with the first write, so a plan without any makes none."""
    plan = Plan(stages=(StagePlan(0, "objects", ()),) if writes else (), create_namespace="shop")
    promised = promise(plan, [], app="shop", digest="sha256:1", spec="s").writes
    shown = [(one.id, one.action, one.reason) for one in previews(plan, Comparison({}), [], {})]
    assert promised == ({MADE: ("create", "")} if writes else {})
    assert shown == ([(MADE, "create", "CreateNamespace=true")] if writes else [])


def test_what_is_left_is_told_with_whoever_leaves_it() -> None:
    """The hold itself, not what the comparison says beside it; and nothing that is as wanted."""
    held, other, same = (ObjectId("", "ConfigMap", "shop", name) for name in ("held", "other", "same"))
    plan = Plan(
        settled=(
            ObjectResult(held, "skipped", "data.v differs; hold 3fa9c1"),
            ObjectResult(other, "failed", "belongs to Helm"),
            ObjectResult(same, "unchanged"),
        ),
        held={held: Held("hold 3fa9c1 by ann", 5, "hold")},
    )
    assert left(plan) == {held: "hold 3fa9c1 by ann", other: "belongs to Helm"}
