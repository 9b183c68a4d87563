"""An object that somebody rewrites faster than a look and a write take: tried a few times, then given up for now."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from fleetbeat.decisions.builtin_kinds import BUILTIN
from fleetbeat.engine.parallel import Requests
from fleetbeat.engine.plan import Change
from fleetbeat.engine.weigh import Weighed
from fleetbeat.engine.write import TRIES, Done, write_stage
from fleetbeat.errors import Conflict
from fleetbeat.model import Body, Manifest, ObjectId
from fleetbeat.ports import Seen, Written

KEY = ObjectId("", "ConfigMap", "shop", "web")


class Cluster:
    """Its one ConfigMap has moved whenever it is written to."""

    def __init__(self, *managers: Body) -> None:
        self.managers = list(managers)
        self.tries = 0

    def get(self, *_: object) -> Body:
        marks = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": str(self.tries)}
        return {"metadata": {**marks, "managedFields": self.managers}, "data": {"k": f"theirs {self.tries}"}}

    def apply(self, *_: object, expect: Seen, **_more: object) -> Written:
        assert expect.resource_version == str(self.tries), "decided on what was seen last"
        self.tries += 1
        raise Conflict("moved")


def write(cluster: Cluster) -> Done:
    body: Body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"k": "ours"}}

    def weigh(_: object, __: object, live: Body) -> Weighed:
        return Weighed(live, Seen.of(live), live, paths=(("data", "k"),))

    weigher: Any = SimpleNamespace(wanted=lambda _: body, weigh=weigh, stays=lambda *_: None)
    recorded: list[Done] = []
    with ThreadPoolExecutor(1) as threads:
        write_stage(
            cluster,  # type: ignore[arg-type]
            BUILTIN,
            [[Change(KEY, 0, 0, Seen("u1", "0"))]],
            [Manifest(KEY, "v1", body, None)],  # type: ignore[arg-type]
            Requests(threads, 1),
            weigher=weigher,
            judge=None,  # type: ignore[arg-type]
            record=recorded.extend,
            run_hook=None,  # type: ignore[arg-type]
        )
    (done,) = recorded
    return done


def entry(manager: str, time: str, subresource: str = "") -> Body:
    return {"manager": manager, "operation": "Update", "time": f"2026-11-30T12:00:{time}Z", "subresource": subresource}


@pytest.mark.parametrize(
    ("managers", "who"),
    [
        pytest.param([entry("fleetbeat", "09"), entry("old", "01"), entry("operator", "08")], "operator", id="newest"),
        pytest.param([entry("operator", "01"), entry("kubelet", "02", "status")], "operator", id="no status"),
        pytest.param([], "somebody else", id="the API server does not say"),
    ],
)
def test_who_is_faster_is_named(managers: list[Body], who: str) -> None:
    """Field case f3. Without a time, so that the same failure again is counted instead of filling the history."""
    cluster = Cluster(*managers)
    result = write(cluster).result
    assert result.outcome == "failed"
    assert result.reason == (
        f"ConfigMap shop/web was changed by {who} at each of {TRIES} tries; it is looked at again later"
    )
    assert cluster.tries == TRIES
