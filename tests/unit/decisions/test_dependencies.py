"""May what depends on an application be written?"""

from __future__ import annotations

import pytest

from fleetbeat.decisions.dependencies import Standing, unmet

OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64
GOOD = {
    "attempted": OLD,
    "digest": OLD,
    "phase": "Succeeded",
    "spec": "s1",
    "health": "Healthy",
    "message": "1 created",
}


def standing(running: bool = False, spec: str = "s1", digest: str = OLD, **state: str) -> Standing:
    return Standing({**GOOD, **state}, running, spec, digest)


CASES = [
    pytest.param(standing(), "", id="all is well"),
    pytest.param(standing(health="Suspended"), "", id="suspended is well"),
    pytest.param(None, "db is not in the catalog any more", id="gone"),
    pytest.param(Standing({}, False, "s1", OLD), "db has not been synced yet", id="never synced"),
    pytest.param(standing(running=True), "db is being synced", id="a run under way"),
    pytest.param(standing(digest=NEW), "db has not applied bbbbbbbbbbbb yet", id="something newer was pushed"),
    pytest.param(
        standing(digest=""),
        "it is not known whether db has something newer to apply: its source does not answer",
        id="registry away",
    ),
    pytest.param(
        standing(attempted=NEW, digest=NEW, phase="Failed", message="Deployment x: refused"),
        "the last sync of db ended as Failed: Deployment x: refused",
        id="failed",
    ),
    pytest.param(
        standing(phase="Superseded", message="by x"), "the last sync of db ended as Superseded: by x", id="broken off"
    ),
    pytest.param(standing(spec="s2"), "db has not been synced since its catalog entry was edited", id="edited"),
    pytest.param(standing(health="Progressing"), "db is Progressing", id="not healthy yet"),
    pytest.param(standing(health="Degraded"), "db is Degraded", id="broken"),
    pytest.param(standing(health=""), "db is Unknown", id="never judged"),
]


@pytest.mark.parametrize(("seen", "why"), CASES)
def test_what_depends_on_it(seen: Standing | None, why: str) -> None:
    assert unmet("db", seen) == why
