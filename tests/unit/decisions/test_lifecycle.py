"""The life of a run as tables: what follows what, what starts a run, what its end means."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions import lifecycle
from fleetbeat.decisions.schedule import spread
from fleetbeat.errors import (
    ClusterUnavailable,
    Denied,
    FleetbeatError,
    ManifestError,
    NotYet,
    Refused,
    Rejected,
    Unauthorized,
)
from fleetbeat.model import ObjectId, Retry, Revision
from fleetbeat.model_results import ObjectResult

WEB = ObjectId("", "ConfigMap", "shop", "web")
SYNCED = {"attempted": "sha256:a", "spec": "s1", "phase": "Succeeded"}


@pytest.mark.parametrize(
    ("step", "stages", "following"),
    [
        ("pull", 0, "render"),
        ("render", 0, "diff"),
        ("diff", 0, "report"),
        ("diff", 2, "apply:0"),
        ("apply:0", 2, "apply:1"),
        ("apply:1", 2, "report"),
        ("apply:9", 11, "apply:10"),
    ],
)
def test_what_follows_a_step(step: str, stages: int, following: str) -> None:
    assert lifecycle.after(step, stages) == following


@pytest.mark.parametrize(
    ("step", "stages", "steps"),
    [
        ("pull", None, ["pull", "render", "diff", "apply:0", "report"]),
        ("diff", 0, ["diff", "report"]),
        ("apply:1", 3, ["apply:1", "apply:2", "report"]),
        ("report", 3, ["report"]),
    ],
)
def test_the_chain_is_what_remains(step: str, stages: int | None, steps: list[str]) -> None:
    assert lifecycle.remaining(step, stages) == steps


@pytest.mark.parametrize(
    ("state", "change", "trigger"),
    [
        pytest.param(SYNCED, {}, None, id="all as it was left"),
        pytest.param({}, {}, "First", id="never synced, or Redis was flushed"),
        pytest.param(SYNCED, {"digest": "sha256:b"}, "Revision", id="a newer digest"),
        pytest.param(SYNCED, {"spec": "s2"}, "Spec", id="a changed catalog entry"),
        pytest.param(SYNCED, {"drifted": True}, "Drift", id="drift"),
        pytest.param({**SYNCED, "phase": "Failed"}, {}, "Retry", id="the last run failed"),
        pytest.param({**SYNCED, "phase": "Failed"}, {"digest": "sha256:b"}, "Revision", id="f5: failed, then fixed"),
        pytest.param({**SYNCED, "phase": "Superseded"}, {}, "Revision", id="broken off, then the tag went back"),
        pytest.param({**SYNCED, "phase": "Failed", "given_up": "1"}, {}, None, id="j5: it kills its workers"),
        pytest.param(
            {**SYNCED, "phase": "Failed", "given_up": "1"}, {"digest": "sha256:b"}, "Revision", id="j5: fixed"
        ),
        pytest.param(SYNCED, {"requested": True, "digest": "sha256:b"}, "Request", id="asked for, whatever else"),
    ],
)
def test_what_starts_a_run(state: dict[str, str], change: dict[str, Any], trigger: str | None) -> None:
    """Field case f5 among them: a new digest goes before retrying the old one."""
    now = {"requested": False, "spec": "s1", "digest": "sha256:a", "drifted": False, **change}
    assert lifecycle.wants_run(state=state, **now) == trigger


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (ClusterUnavailable("down"), "time"),
        (NotYet("soon"), "time"),
        (Unauthorized("no right"), "time"),
        (ManifestError(["broken"]), "change"),
        (Refused("theirs"), "change"),
        (Rejected("an invalid label"), "change"),
        (Denied("not today"), "time"),
    ],
)
def test_what_may_mend_an_error(error: Exception, cure: str) -> None:
    assert lifecycle.cure(error) == cure


BAD, BARRED = Rejected("an invalid label"), Unauthorized("no right")


@pytest.mark.parametrize(
    ("errors", "cure"),
    [
        pytest.param([BAD], "change", id="the same would be refused again"),
        pytest.param([BAD, BAD], "change", id="all of them"),
        pytest.param([BAD, BARRED], "time", id="one that may pass is reason enough"),
        pytest.param([BARRED], "time", id="a right may be granted"),
        pytest.param([Denied("not today")], "time", id="a policy or webhook may say something else soon"),
        pytest.param([NotYet("its namespace is going away")], "time", id="it is on its way"),
        pytest.param([], "time", id="none: something else went wrong"),
    ],
)
def test_what_may_mend_objects_that_failed(errors: list[FleetbeatError], cure: str) -> None:
    """Told apart for each object, as for a run (decision 0029), and kept over the steps of a run."""
    keys = [ObjectId("", "ConfigMap", "shop", f"c{number}") for number in range(len(errors) + 1)]
    results = [ObjectResult(keys[-1], "created")]
    results += [ObjectResult.failure(key, error, 3) for key, error in zip(keys, errors, strict=False)]
    results += [ObjectResult(keys[-1], "failed", "a hook for the failed sync", phase="SyncFail")]
    stored = [ObjectResult.from_json(result.to_json()) for result in results]
    assert stored == results
    assert lifecycle.cure_of(stored) == cure


@pytest.mark.parametrize(
    ("what", "failures", "retry_after", "seconds"),
    [
        ("", 0, 0.0, None),
        ("change", 1, 0.0, None),
        ("time", 1, 0.0, 5.0),
        ("time", 2, 0.0, 10.0),
        ("time", 5, 0.0, 80.0),
        ("time", 6, 0.0, None),  # past the limit: at the regular slot
        ("time", 1, 30.0, 30.0),  # the other side asked for more
        ("time", 3, 2.0, 20.0),
        ("time", 1, 31_536_000.0, 3600.0),  # a year is no answer
    ],
)
def test_when_a_failed_application_is_looked_at_again(
    what: lifecycle.Cure, failures: int, retry_after: float, seconds: float | None
) -> None:
    """Field case f1: a passing reason is retried with growing delays, unattended."""
    assert lifecycle.next_look(what, failures, Retry(), retry_after) == seconds


@pytest.mark.parametrize(
    ("what", "failures", "seconds"),
    [
        pytest.param("time", 1, 5.0, id="as long as the next look is away"),
        pytest.param("time", 5, 80.0, id="and the one after that"),
        pytest.param("time", 6, 160.0, id="past the limit, when the next look is at the regular slot"),
        pytest.param("time", 1000, 180.0, id="attempt 1,000"),
        pytest.param("change", 1, 5.0, id="what only a change can mend"),
        pytest.param("change", 9, 180.0, id="what only a change can mend, again and again"),
    ],
)
def test_how_long_a_watch_begins_no_other_try(what: lifecycle.Cure, failures: int, seconds: float) -> None:
    """Field case f3."""
    assert lifecycle.rest(what, failures, Retry()) == seconds


@pytest.mark.parametrize(
    ("state", "phase", "times"),
    [
        pytest.param({}, "Failed", 1, id="the first run of all"),
        pytest.param({"failures": "3"}, "Failed", 1, id="looks had failed before any run"),
        pytest.param({**SYNCED, "failures": "0"}, "Failed", 1, id="after a good one"),
        pytest.param({**SYNCED, "failures": "12"}, "Failed", 13, id="again and again"),
        pytest.param({**SYNCED, "failures": "999"}, "Failed", 1000, id="attempt 1,000"),
        pytest.param({**SYNCED, "failures": "12"}, "Succeeded", 0, id="it went well"),
        pytest.param({**SYNCED, "failures": "12"}, "Superseded", 0, id="something newer took over"),
        pytest.param({**SYNCED, "attempted": "sha256:old", "failures": "12"}, "Failed", 1, id="another digest"),
        pytest.param({**SYNCED, "spec": "old", "failures": "12"}, "Failed", 1, id="another catalog entry"),
    ],
)
def test_failures_are_counted_for_one_input(state: dict[str, str], phase: str, times: int) -> None:
    """Field case f2: another digest is not kept waiting for the failures of the one before."""
    assert lifecycle.failures(state, phase, "sha256:a", "s1") == times


def test_a_fleet_that_failed_together_comes_back_apart() -> None:
    """Field cases f2, g5: each pause is spread up to the next one, by name, and so is a Retry-After, a little."""
    retry = Retry(duration=5, factor=2, max_duration=180)
    pauses = [lifecycle.next_look("time", 2, retry, spread=spread(f"app-{number}")) for number in range(200)]
    assert min(pauses) >= 10
    assert max(pauses) <= 20
    assert max(pauses) - min(pauses) > 8
    asked = [lifecycle.next_look("time", 1, retry, 30.0, spread=spread(f"app-{number}")) for number in range(200)]
    assert min(asked) >= 30
    assert 31 < max(asked) <= 33


def test_pauses_between_health_looks_grow_to_a_limit() -> None:
    pauses = [lifecycle.health_pause(looks, 0.25, 10.0) for looks in range(1000)]
    assert pauses[0] == 0.25
    assert pauses == sorted(pauses)
    assert pauses[-1] == 10.0


@pytest.mark.parametrize(
    ("outcomes", "compared", "status"),
    [
        (["created", "configured", "unchanged", "pruned"], True, "Synced"),
        ([], True, "Synced"),
        (["unchanged", "kept"], True, "OutOfSync"),
        (["unchanged", "skipped"], True, "OutOfSync"),
        (["failed"], True, "OutOfSync"),
        ([], False, "Unknown"),
    ],
)
def test_sync_status(outcomes: list[Any], compared: bool, status: str) -> None:
    assert lifecycle.sync_status([ObjectResult(WEB, word) for word in outcomes], compared=compared) == status


def test_an_ending_in_words() -> None:
    results = [ObjectResult(WEB, "created"), ObjectResult(WEB, "unchanged"), ObjectResult(WEB, "created")]
    assert lifecycle.ending(results) == lifecycle.Ending("Succeeded", "2 created, 1 unchanged")
    assert lifecycle.ending([]) == lifecycle.Ending("Succeeded", "no objects")
    failing = [ObjectResult(WEB, "failed", "first"), ObjectResult(WEB, "failed", "second")]
    assert lifecycle.ending(failing) == lifecycle.Ending("Failed", "first (and 1 more)", "ObjectsFailed")
    assert lifecycle.ending([], "ManifestError", "broken") == lifecycle.Ending("Failed", "broken", "ManifestError")


def entry(
    phase: str = "Failed", message: str = "broken", digest: str = "sha256:a", request: str = ""
) -> dict[str, Any]:
    return lifecycle.history_entry(
        run={"run": "r1", "trigger": "Retry", "request": request, "created": "1000"},
        revision=Revision(digest),
        end=lifecycle.Ending(phase, message, "ManifestError"),  # type: ignore[arg-type]
        results=[ObjectResult(WEB, "unchanged"), ObjectResult(WEB, "failed", "broken")],
        finished=2000,
        durations={"pull": 0.1},
        health="Healthy",
    )


def test_history_leaves_out_what_did_not_change() -> None:
    written = entry()
    assert written["counts"] == {"unchanged": 1, "failed": 1}
    assert [result["outcome"] for result in written["results"]] == ["failed"]


@pytest.mark.parametrize(
    ("newest", "this", "same"),
    [
        (None, entry(), False),
        (entry(), entry(), True),
        (entry(message="other"), entry(), False),
        (entry(digest="sha256:b"), entry(), False),
        (entry(phase="Succeeded"), entry(phase="Succeeded"), False),
        (entry(), entry(request="asked"), False),  # somebody waits for this one's answer
    ],
)
def test_the_same_failure_again_is_counted_not_repeated(
    newest: dict[str, Any] | None, this: dict[str, Any], same: bool
) -> None:
    """Field case f3: history is not flooded."""
    assert lifecycle.repeats(newest, this) is same


def drift(
    outcome: str = "configured",
    fields: tuple[str, ...] = ("data.k",),
    manager: str = "operator",
    *,
    digest: str = "sha256:a",
    trigger: str = "Drift",
    request: str = "",
    when: str = "14:00",
) -> dict[str, Any]:
    reason = f"data.k changed by {manager} (Update, {when})"
    result = ObjectResult(WEB, outcome, reason, managers=(manager,), fields=fields)  # type: ignore[arg-type]
    return lifecycle.history_entry(
        run={"run": "r1", "trigger": trigger, "request": request, "created": "1000"},
        revision=Revision(digest),
        end=lifecycle.Ending("Succeeded", f"1 {outcome} at {when}"),
        results=[result],
        finished=2000,
        durations={},
        health="Healthy",
    )


@pytest.mark.parametrize(
    ("newest", "this", "same"),
    [
        pytest.param(drift(), drift(when="14:03"), True, id="the same field of the same object by the same manager"),
        pytest.param(drift(fields=("data.l",)), drift(), False, id="another field"),
        pytest.param(drift(manager="kubectl-edit"), drift(), False, id="another manager"),
        pytest.param(drift("skipped"), drift(), False, id="left alone before, healed now"),
        pytest.param(drift("skipped"), drift("skipped", when="14:03"), True, id="left alone again"),
        pytest.param(drift(digest="sha256:b"), drift(), False, id="another bundle"),
        pytest.param(drift(trigger="Request"), drift(), False, id="a sync that somebody asked for"),
        pytest.param(drift(), drift(request="asked"), False, id="somebody waits for its answer"),
    ],
)
def test_the_same_drift_again_is_counted_not_repeated(newest: dict[str, Any], this: dict[str, Any], same: bool) -> None:
    """Field case f3: history is not flooded by a fight."""
    assert lifecycle.repeats(newest, this) is same


@pytest.mark.parametrize(
    ("newest", "this", "same"),
    [
        pytest.param(drift("skipped"), drift(fields=("data.l",)), True, id="a wait and the heal after it"),
        pytest.param(drift(fields=("data.l",), manager="x"), drift("skipped"), True, id="a heal and the wait after it"),
        pytest.param(drift("skipped", digest="sha256:b"), drift(), False, id="another bundle"),
        pytest.param(drift("skipped", trigger="Request"), drift(), False, id="a sync that somebody asked for"),
    ],
)
def test_spaced_heals_of_an_object_are_one_line(newest: dict[str, Any], this: dict[str, Any], same: bool) -> None:
    """Field case f3: history is not flooded by whoever changes another field each time; the drift ledger has them."""
    assert lifecycle.repeats({**newest, "spaced": True}, {**this, "spaced": True}) is same
    assert lifecycle.repeats(newest, {**this, "spaced": True}) is False
    other = {**newest, "results": [{**newest["results"][0], "id": "/ConfigMap/shop/other"}], "spaced": True}
    assert lifecycle.repeats(other, {**this, "spaced": True}) is False


def hook(outcome: str, phase: str = "PreSync") -> ObjectResult:
    return ObjectResult(ObjectId("batch", "Job", "shop", "x"), outcome, "why", phase=phase)  # type: ignore[arg-type]


def test_hooks_are_told_apart_from_what_is_wanted() -> None:
    web = ObjectResult(ObjectId("", "ConfigMap", "shop", "web"), "created")
    assert lifecycle.ending([web, hook("created"), hook("configured")]).message == "1 created, 2 hooks run"
    assert lifecycle.ending([hook("created")]).message == "1 hook run"
    assert lifecycle.sync_status([web, hook("skipped"), hook("failed")], compared=True) == "Synced"


def test_a_hook_for_a_failed_sync_never_takes_the_place_of_the_failure() -> None:
    end = lifecycle.ending([hook("failed", "SyncFail")], "HealthCheckFailed", "it is broken")
    assert (end.phase, end.reason, end.message) == ("Failed", "HealthCheckFailed", "it is broken")
    assert lifecycle.ending([hook("failed")], "ObjectsFailed").message == "why"
