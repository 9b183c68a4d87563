"""When an application is looked at after a request that was refused: as if nobody had asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from workers.refusals import _next_look

SHARED: Any = SimpleNamespace(catalogs=SimpleNamespace(application=lambda _app: None))


@pytest.mark.parametrize(
    ("state", "when"),
    [
        pytest.param({}, "now", id="never synced"),
        pytest.param({"phase": "Superseded"}, "now", id="broken off for something newer"),
        pytest.param({"phase": "Succeeded"}, "slot", id="all is well"),
        pytest.param({"phase": "Failed", "failures": "1", "cure": "time"}, "soon", id="time may mend it"),
        pytest.param({"phase": "Failed", "failures": "1", "cure": ""}, "soon", id="nobody knows what mends it"),
        pytest.param({"phase": "Failed", "failures": "1", "cure": "change"}, "slot", id="only a change mends it"),
    ],
)
def test_nothing_follows_from_a_refused_request(state: dict[str, str], when: str) -> None:
    seconds = _next_look(SHARED, "shop", state)
    assert {"now": seconds == 0, "slot": seconds is None, "soon": bool(seconds)}[when]
