"""Field case d5: what is in force is healed while something newer cannot be had, and only then."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.stand_in import failed_beside, half_way, stands_in
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult, Outcome, Phase

GOOD = {"digest": "sha256:a", "digest_spec": "s1", "attempted": "sha256:b", "phase": "Failed"}


@pytest.mark.parametrize(
    ("state", "may"),
    [
        pytest.param(GOOD, True, id="a newer one failed before it had written anything"),
        pytest.param({}, False, id="nothing has ever been synced"),
        pytest.param({**GOOD, "digest": ""}, False, id="the first one fails"),
        pytest.param({**GOOD, "digest_spec": "s0"}, False, id="applied by another catalog entry"),
        pytest.param({**GOOD, "digest_spec": ""}, False, id="by a version that did not note it"),
        pytest.param({**GOOD, "half_way": "1"}, False, id="the newer one had begun to write"),
        pytest.param({**GOOD, "stood_in": "1"}, False, id="it is the newer one's turn"),
    ],
)
def test_what_may_stand_in(state: dict[str, str], may: bool) -> None:
    assert stands_in(state, "s1") is may


@pytest.mark.parametrize(
    ("change", "beside"),
    [
        pytest.param({}, True, id="another one failed"),
        pytest.param({"attempted": "sha256:a"}, False, id="the one in force failed: its retry heals"),
        pytest.param({"phase": "Succeeded"}, False, id="nothing failed"),
        pytest.param({"phase": "Superseded"}, False, id="broken off"),
    ],
)
def test_failed_beside_what_is_in_force(change: dict[str, str], beside: bool) -> None:
    assert failed_beside({**GOOD, **change}) is beside


@pytest.mark.parametrize(
    ("before", "phase", "outcomes", "found"),
    [
        ("", "Failed", [], False),
        ("", "Failed", ["failed", "skipped", "unchanged", "kept"], False),
        ("", "Failed", ["created", "skipped"], True),
        ("", "Superseded", ["pruned"], True),
        ("1", "Failed", [], True),
        ("1", "Superseded", ["unchanged"], True),
        ("1", "Succeeded", ["configured"], False),
    ],
)
def test_half_way_to_another_bundle(before: str, phase: Phase, outcomes: list[Outcome], found: bool) -> None:
    results = [ObjectResult(ObjectId("", "ConfigMap", "shop", "a"), outcome) for outcome in outcomes]
    assert half_way({"half_way": before}, phase, results) is found


def test_a_hook_that_has_run_counts() -> None:
    hook = ObjectResult(ObjectId("batch", "Job", "shop", "migrate"), "created", phase="PreSync")
    assert half_way({}, "Failed", [hook])
