"""What is said of a wait that went wrong."""

from __future__ import annotations

import pytest

from workers.waiting import advised


@pytest.mark.parametrize(
    "told", ["wave 0: Deployment shop/web is Degraded", 'ReplicaSet "web" has timed out progressing.']
)
def test_the_advice_begins_a_sentence(told: str) -> None:
    said = advised(told, "noProgressTimeout")
    assert said.startswith(
        f"{told.rstrip('.')}. Mend it and push, give it more time by spec.sync.noProgressTimeout, or"
    )
