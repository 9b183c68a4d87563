"""When an application is looked at after a run, and how well it is said to be."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.lifecycle import Ending
from fleetbeat.errors import Rejected, Unauthorized
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult
from workers.report import _cure, _pause, health_of

WEB = ObjectId("", "ConfigMap", "shop", "web")
REFUSED = [ObjectResult.failure(WEB, Rejected("an invalid label"))]
BARRED = [ObjectResult.failure(WEB, Unauthorized("no right"))]


@pytest.mark.parametrize(
    ("record", "results", "phase", "soon"),
    [
        pytest.param({"error_cure": "time"}, REFUSED, "Failed", True, id="what time may mend is tried again"),
        pytest.param({"error_cure": "change"}, [], "Failed", False, id="what only a change mends is not"),
        pytest.param(
            *({"error_cure": "time", "promise": "3f9a1c22b0d4"}, [], "Failed", True),
            id="a saved plan is retried as that plan",
        ),
        pytest.param({"error": "ObjectsFailed"}, REFUSED, "Failed", False, id="an object that is refused"),
        pytest.param({"error": "ObjectsFailed"}, BARRED, "Failed", True, id="an object that may be let in"),
        pytest.param({"superseded": "a newer one", "promise": "3f9a1c22b0d4"}, [], "Superseded", True, id="superseded"),
        pytest.param({}, [], "Succeeded", False, id="all is well"),
    ],
)
def test_how_soon_it_is_looked_at_again(
    record: dict[str, str], results: list[ObjectResult], phase: str, soon: bool
) -> None:
    end = Ending(phase, "said")  # type: ignore[arg-type]
    pause, rest = _pause("shop", None, record, end, _cure(record, end, results), times=1)
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
