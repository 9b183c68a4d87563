"""What is promised of a plan, and shown of it, is everything that it writes."""

from __future__ import annotations

import pytest

from fleetbeat.engine.compare import Comparison
from fleetbeat.engine.plan import Plan, StagePlan
from fleetbeat.engine.preview import previews
from fleetbeat.engine.promising import promise
from fleetbeat.model import ObjectId

MADE = ObjectId("", "Namespace", "", "shop")


@pytest.mark.parametrize("writes", [True, False], ids=["with writes", "without"])
def test_a_namespace_that_an_option_makes_is_part_of_it(writes: bool):
    """It is made with the first write, so a plan without any makes none."""
    plan = Plan(stages=(StagePlan(0, "objects", ()),) if writes else (), create_namespace="shop")
    promised = promise(plan, [], app="shop", digest="sha256:1", spec="s").writes
    shown = [(one.id, one.action, one.reason) for one in previews(plan, Comparison({}), [], {})]
    assert promised == ({MADE: ("create", "")} if writes else {})
    assert shown == ([(MADE, "create", "CreateNamespace=true")] if writes else [])
