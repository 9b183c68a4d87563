"""When an application is looked at after a run, and how well it is said to be."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.lifecycle import Ending
from workers.report import _pause, health_of


@pytest.mark.parametrize(
    ("record", "phase", "soon"),
    [
        pytest.param({"error_cure": "time"}, "Failed", True, id="what time may mend is tried again"),
        pytest.param({"error_cure": "change"}, "Failed", False, id="what only a change mends is not"),
        pytest.param(
            {"error_cure": "time", "promise": "3f9a1c22b0d4"}, "Failed", True, id="a saved plan is retried as that plan"
        ),
        pytest.param({"superseded": "a newer one", "promise": "3f9a1c22b0d4"}, "Superseded", True, id="superseded"),
        pytest.param({}, "Succeeded", False, id="all is well"),
    ],
)
def test_how_soon_it_is_looked_at_again(record: dict[str, str], phase: str, soon: bool) -> None:
    pause, rest = _pause("shop", None, record, Ending(phase, "said"), times=1)  # type: ignore[arg-type]
    assert (pause is not None) is soon
    assert (rest > 0) is (phase == "Failed")


@pytest.mark.parametrize(
    ("known", "phase", "before", "health"),
    [
        (["Healthy", "Degraded"], "Failed", "", "Degraded"),
        ([], "Succeeded", "", "Healthy"),
        ([], "Failed", "", "Unknown"),
        ([], "Superseded", "Unknown", "Unknown"),
        ([], "Failed", "Healthy", "Healthy"),
    ],
    ids=["objects", "empty bundle", "first sync failed", "first sync taken over", "empty, then a bad bundle"],
)
def test_health_of_what_is_known(known: list[str], phase: str, before: str, health: str) -> None:
    assert health_of(known, phase, before) == health
