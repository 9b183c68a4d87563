"""When something that is waited for has got on, and when it only looks like it."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fleetbeat.decisions.progress import Progress, follow, mark_of, runs, told

Body = dict[str, Any]

WEB: Body = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "generation": 2, "resourceVersion": "7", "managedFields": [{"time": "now"}]},
    "status": {
        "observedGeneration": 2,
        "replicas": 3,
        "readyReplicas": 1,
        "conditions": [
            {
                "type": "Progressing",
                "status": "True",
                "reason": "ReplicaSetUpdated",
                "message": "1 of 3, request 4f2a",
                "lastUpdateTime": "2026-11-30T12:00:00Z",
            }
        ],
    },
}


def after(body: Body, *path: str | int, value: Any) -> Body:
    """The object with another value at this place; None = without it."""
    changed = copy.deepcopy(body)
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return changed


CONDITION = ("status", "conditions", 0)


@pytest.mark.parametrize(
    ("now", "moved"),
    [
        pytest.param(after(WEB, "status", "readyReplicas", value=2), True, id="one more is ready"),
        pytest.param(after(WEB, "status", "percent", value=40), True, id="a field nobody here knows"),
        pytest.param(after(WEB, *CONDITION, "status", value="False"), True, id="a condition"),
        pytest.param(after(WEB, *CONDITION, "reason", value="NewReplicaSetCreated"), True, id="its reason"),
        pytest.param(after(WEB, "status", "phase", value="Bound"), True, id="a phase"),
        pytest.param(after(WEB, "status", "observedGeneration", value=1), True, id="observed, or not"),
        pytest.param(after(WEB, "status", value=None), True, id="no status"),
        pytest.param(after(WEB, "metadata", "deletionTimestamp", value="2026-11-30T12:00:00Z"), True, id="is going"),
        pytest.param(after(WEB, "metadata", "finalizers", value=["example.com/keep"]), True, id="finalizers"),
        pytest.param(after(WEB, "metadata", "resourceVersion", value="8"), False, id="written"),
        pytest.param(after(WEB, "metadata", "labels", value={"a": "b"}), False, id="labelled"),
        pytest.param(after(WEB, *CONDITION, "message", value="1 of 3, request 77aa"), False, id="a text"),
        pytest.param(after(WEB, *CONDITION, "lastUpdateTime", value="2026-11-30T12:09:00Z"), False, id="a time"),
        pytest.param(after(WEB, "status", "heartbeat", value="2026-11-30T12:09:00.123+01:00"), False, id="a heartbeat"),
        pytest.param(after(WEB, "status", "restartCount", value=4), False, id="restarts"),
        pytest.param(
            after(after(WEB, "metadata", "generation", value=9), "status", "observedGeneration", value=9),
            False,
            id="edited again and again, and observed",
        ),
    ],
)
def test_the_marks_of_one_object(now: Body, moved: bool) -> None:
    assert (mark_of(now, "Progressing") != mark_of(WEB, "Progressing")) is moved


def test_its_health_counts_too() -> None:
    assert mark_of(WEB, "Progressing") != mark_of(WEB, "Unknown")
    assert mark_of(None) != mark_of({"metadata": {}})


@pytest.mark.parametrize("odd", [{}, {"metadata": [], "status": "ready"}, {"status": {1: [None, float("nan"), {}]}}])
def test_odd_objects_have_marks_as_well(odd: Body) -> None:
    assert mark_of(odd) == mark_of(copy.deepcopy(odd))
    assert not runs(odd)


def pod(phase: str, policy: str, ready: str = "True") -> Body:
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"restartPolicy": policy}, "status": status}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param({"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1, "ready": 1}}, True, id="a Job"),
        pytest.param(
            {"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1, "ready": 0}}, False, id="its Pod waits"
        ),
        pytest.param({"apiVersion": "batch/v1", "kind": "Job", "status": {"active": 1}}, False, id="nothing said"),
        pytest.param({"apiVersion": "batch/v1", "kind": "Job"}, False, id="not begun"),
        pytest.param(pod("Running", "Never"), True, id="a Pod that is to end"),
        pytest.param(pod("Running", "OnFailure", "False"), False, id="it crashes"),
        pytest.param(pod("Pending", "Never"), False, id="it pulls its image"),
        pytest.param(pod("Running", "Always"), False, id="a Pod that runs on"),
        pytest.param(WEB, False, id="a Deployment"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_what_runs_is_at_work(body: Body | None, expected: bool) -> None:
    assert runs(body) is expected


LIMIT = 60.0


def watch(*looks: dict[str, str], working: frozenset[int] = frozenset(), every: float = 10.0) -> Progress:
    """Looks at these marks, one after the other, from second 0 on; kept as a record keeps them in between."""
    seen: Progress | None = None
    for number, marks in enumerate(looks):
        seen = follow(seen, marks, limit=LIMIT, working=number in working, now=number * every)
        seen = Progress.from_json(seen.to_json())
    assert seen is not None
    return seen


A, B, C = "aaaaaaaa", "bbbbbbbb", "cccccccc"


@pytest.mark.parametrize(
    ("looks", "at"),
    [
        pytest.param([{"web": A}], 0, id="the first look"),
        pytest.param([{"web": A}] * 4, 0, id="nothing moves"),
        pytest.param([{"web": A}, {"web": A}, {"web": B}, {"web": B}], 20, id="it moves"),
        pytest.param([{"web": A}, {"web": B}, {"web": A}, {"web": B}], 10, id="back and forth"),
        pytest.param([{"web": A}, {"web": B}, {"web": A}, {"web": C}], 30, id="on after all"),
        pytest.param([{"db": A, "web": A}, {"db": B, "web": A}, {"db": C, "web": A}], 20, id="another one moves"),
        pytest.param([{"db": A, "web": A}, {"db": A, "web": A}, {"web": A}], 20, id="one is well"),
        pytest.param(
            [{"db": A, "web": B}, {"db": A, "web": A}, {"db": A, "web": A}], 10, id="marks are an object's own"
        ),
    ],
)
def test_the_time_of_the_last_progress(looks: list[dict[str, str]], at: float) -> None:
    assert watch(*looks).at == at


def test_what_runs_gets_on() -> None:
    assert watch({"job": A}, {"job": A}, {"job": A}, {"job": A}, working=frozenset({0, 1, 2})).at == 20


def test_a_long_wait_keeps_a_hundred_states() -> None:
    states = [{"web": f"{number:08x}"} for number in range(300)]
    seen = watch(*states, every=1)
    assert len(seen.seen["web"]) == 100 * 8
    assert follow(seen, {"web": f"{299:08x}"}, limit=LIMIT, working=False, now=400).at == 299


def test_time_is_up_when_the_limit_is_reached() -> None:
    seen = watch({"web": A}, {"web": B})
    assert [seen.left(now) for now in (10, 69, 70, 100)] == [60, 1, 0, -30]


@pytest.mark.parametrize(
    ("state", "now", "says"),
    [
        ("waiting", 50, "no progress for 40 s of 60 s"),
        ("waiting", 90, "no progress for 60 s of 60 s"),
        ("waiting", 10.5, ""),
        ("working", 50, ""),
    ],
)
def test_it_is_told(state: str, now: float, says: str) -> None:
    assert told({"state": state, "progress": watch({"web": A}, {"web": B}).to_json()}, now) == says


def test_nothing_is_told_without_a_limit() -> None:
    assert told({"state": "waiting", "progress": ""}, 50) == ""
    assert told({}, 50) == ""


def test_a_clock_that_goes_back_gives_no_more_time() -> None:
    """Field case j4."""
    before = follow(None, {"a": "1"}, limit=60, working=False, now=10_000)
    after = follow(before, {"a": "1"}, limit=60, working=False, now=6_400)
    assert after.left(6_400) == 60
    assert follow(after, {"a": "1"}, limit=60, working=False, now=6_460).left(6_460) == 0


def test_a_status_of_any_depth_has_a_mark() -> None:
    def nested(inner: Any) -> dict[str, Any]:
        status: Any = inner
        for _ in range(900):
            status = {"of": [status]}
        return {"status": {"phase": "Waiting", "tree": status}}

    assert mark_of(nested(1)) == mark_of(nested(2))
    assert mark_of(nested(1)) != mark_of({"status": {"phase": "Waiting"}})
