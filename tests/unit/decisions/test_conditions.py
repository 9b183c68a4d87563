"""Flux's conditions from what is known of an application, and when they count as changed."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.conditions import argo, changed, conditions, ready, stalled
from fleetbeat.decisions.events import BLOCKS, REASONS

WELL = {"phase": "Succeeded", "sync": "Synced", "health": "Healthy", "finished": "1796000000000"}


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ({}, "Unknown", "Progressing"),
        (WELL, "True", "ReconciliationSucceeded"),
        (WELL | {"health": "Suspended"}, "True", "ReconciliationSucceeded"),
        (WELL | {"health": "Progressing"}, "Unknown", "Progressing"),
        (WELL | {"health": "Degraded"}, "False", "HealthCheckFailed"),
        (WELL | {"health": "Missing"}, "False", "HealthCheckFailed"),
        (WELL | {"sync": "OutOfSync"}, "False", "OutOfSync"),
        (WELL | {"sync": "OutOfSync", "reason": "Conflict"}, "False", "Conflict"),
        (WELL | {"sync": "OutOfSync", "reason": "PruneRefused"}, "False", "PruneFailed"),
        (WELL | {"phase": "Superseded"}, "True", "ReconciliationSucceeded"),
        (WELL | {"trouble": "SourceThrottled", "sync": "Unknown"}, "False", "ArtifactFailed"),
        (WELL | {"trouble": "ConfigurationError"}, "False", "ReconciliationFailed"),
        *(
            (WELL | {"phase": "Failed", "reason": word}, "False", reason)
            for word, reason in [
                ("SourceNotFound", "ArtifactFailed"),
                ("UnsafeBundle", "ArtifactFailed"),
                ("ManifestError", "BuildFailed"),
                ("HealthCheckTimeout", "HealthCheckFailed"),
                ("ObjectsFailed", "ReconciliationFailed"),
                ("WorkerLost", "ReconciliationFailed"),
            ]
        ),
    ],
)
def test_ready(state: dict[str, str], status: str, reason: str) -> None:
    assert ready(state)[:2] == (status, reason)
    assert reason in REASONS


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ({}, "False"),
        (WELL, "False"),
        (WELL | {"cure": "change"}, "False"),
        (WELL | {"phase": "Failed", "reason": "Rejected", "cure": "change"}, "True"),
        (WELL | {"phase": "Failed", "reason": "ClusterUnavailable", "cure": "time"}, "False"),
        (WELL | {"phase": "Failed", "given_up": "1", "reason": "WorkerLost"}, "True"),
        (WELL | {"trouble": "SourceNotFound", "trouble_cure": "change"}, "True"),
        (WELL | {"trouble": "SourceUnavailable", "trouble_cure": "time"}, "False"),
    ],
)
def test_stalled(state: dict[str, str], status: str) -> None:
    assert stalled(state).status == status
    assert stalled(state).reason in REASONS


FAILED = WELL | {"phase": "Failed", "message": "said", "ready_since": "1795000000000"}


@pytest.mark.parametrize(
    ("state", "departing", "kind", "since"),
    [
        ({}, False, "", ""),
        (WELL, False, "", ""),
        (WELL | {"health": "Degraded"}, False, "", ""),
        (WELL | {"phase": "Superseded", "reason": "Superseded"}, False, "", ""),
        (WELL | {"sync": "OutOfSync", "reason": "Conflict"}, False, "", ""),
        (FAILED | {"reason": "ObjectsFailed", "sync": "OutOfSync"}, False, "SyncError", "2026-11-30T00:53:20.000Z"),
        (FAILED | {"reason": "HealthCheckTimeout"}, False, "SyncError", "2026-11-30T00:53:20.000Z"),
        (FAILED | {"reason": "ManifestError", "sync": "Unknown"}, False, "ComparisonError", "2026-11-30T00:53:20.000Z"),
        (FAILED | {"trouble": "SourceUnavailable"}, False, "ComparisonError", "2026-11-18T11:06:40.000Z"),
        (WELL | {"trouble": "ClusterUnavailable"}, False, "ComparisonError", None),
        (WELL | {"trouble": "ConfigurationError"}, False, "InvalidSpecError", None),
        (FAILED | {"reason": "CatalogError"}, False, "InvalidSpecError", "2026-11-30T00:53:20.000Z"),
        (FAILED | {"reason": "InternalError"}, False, "UnknownError", "2026-11-30T00:53:20.000Z"),
        (FAILED | {"reason": "Refused", "removing": "1796"}, False, "DeletionError", "2026-11-30T00:53:20.000Z"),
        (FAILED | {"trouble": "ClusterUnavailable"}, True, "DeletionError", "2026-11-18T11:06:40.000Z"),
    ],
)
def test_argo_cds_types_for_what_is_wrong(state: dict[str, str], departing: bool, kind: str, since: str) -> None:
    found = argo(state, departing=departing)
    assert [one["type"] for one in found] == ([kind] if kind else [])
    for one in found:
        assert (one["status"], one["lastTransitionTime"], one["message"]) == ("True", since, state.get("message", ""))
        assert one["reason"] in REASONS


def test_only_another_status_is_a_transition() -> None:
    known = WELL | {"ready": "True", "stalled": "False"}
    assert changed(known, {"message": "3 unchanged", "finished": 1}) == {}
    assert changed(known, {"health": "Degraded"}) == {"ready": "False"}
    assert changed(known | {"health": "Degraded", "ready": "False"}, {"sync": "OutOfSync"}) == {}
    assert changed({}, WELL) == {"ready": "True", "stalled": "False"}


def test_all_three_with_their_times() -> None:
    state = WELL | {"ready_since": "1796000000000", "stalled_since": "1795000000000"}
    idle = conditions(state, {})
    assert [(one["type"], one["status"], one["reason"]) for one in idle] == [
        ("Ready", "True", "ReconciliationSucceeded"),
        ("Reconciling", "False", "Idle"),
        ("Stalled", "False", "NotStalled"),
    ]
    assert [one["lastTransitionTime"] for one in idle] == [
        "2026-11-30T00:53:20.000Z",
        "2026-11-30T00:53:20.000Z",
        "2026-11-18T11:06:40.000Z",
    ]
    assert conditions({}, {})[0]["lastTransitionTime"] is None


@pytest.mark.parametrize("block", BLOCKS)
def test_what_a_run_waits_for_is_why_it_is_not_ready(block: str) -> None:
    state = WELL | {"sync": "OutOfSync", "ready": "False"}
    run = {"run": "r", "created": "1796000000000", "step": "apply:0", "blocked": block, "message": "waits for db"}
    first, second, _ = conditions(state, run)
    assert (first["status"], first["reason"], first["message"]) == ("False", block, "waits for db")
    assert (second["status"], second["reason"], second["message"]) == ("True", "Progressing", "apply:0: waits for db")
    assert block in REASONS


def test_a_run_after_a_failure() -> None:
    run = {"run": "r", "step": "pull", "state": "queued"}
    assert conditions(WELL | {"failures": "2"}, run)[1]["reason"] == "ProgressingWithRetry"
