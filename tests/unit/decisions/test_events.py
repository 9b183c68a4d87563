"""What is told, in which words; the shape of Flux."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.events import (
    REASONS,
    Event,
    began,
    ended,
    held_back,
    is_asked_again,
    over,
    stopped_or_goes_on,
    trouble,
)

RUN = {"run": "r1", "trigger": "Revision", "digest": "sha256:ab", "tag": "stable", "by": "", "reason": ""}


def entry(**more: Any) -> dict[str, Any]:
    return {
        "phase": "Succeeded",
        "trigger": "Revision",
        "error": "",
        "message": "1 configured, 1 unchanged",
        "counts": {"configured": 1, "unchanged": 1},
        "health": "Healthy",
        "count": 1,
        "revision": {"digest": "sha256:ab", "revision": "main@sha1:c0ffee"},
        **more,
    }


@pytest.mark.parametrize(
    ("event", "reason", "severity", "message"),
    [
        (began(RUN), "Progressing", "info", "sync began: Revision"),
        (
            began({**RUN, "trigger": "Request", "by": "ada", "reason": "release"}),
            *("Progressing", "info", "sync began: Request by ada: release"),
        ),
        (began(RUN, ["ConfigMap shop/web"]), "DriftDetected", "info", "drift found: ConfigMap shop/web"),
        (began(RUN, list("abcdefg")), "DriftDetected", "info", "drift found: a, b, c, d, e and 2 more"),
        (ended(RUN, entry()), "ReconciliationSucceeded", "info", "Succeeded: 1 configured, 1 unchanged"),
        (ended(RUN, entry(trigger="Drift")), "DriftHealed", "info", "Succeeded: 1 configured, 1 unchanged"),
        (
            ended(RUN, entry(trigger="Drift", counts={"unchanged": 2}, message="2 unchanged")),
            *("ReconciliationSucceeded", "info", "Succeeded: 2 unchanged"),
        ),
        (
            ended(RUN, entry(trigger="Drift", error="Conflict", message="left")),
            *("Conflict", "info", "Succeeded: left"),
        ),
        (
            ended(RUN, entry(phase="Superseded", error="Superseded", message="by b")),
            "Superseded",
            "info",
            "by b",
        ),
        (ended(RUN, entry(phase="Failed", error="UnsafeBundle", message="x")), "ArtifactFailed", "error", "Failed: x"),
        (stopped_or_goes_on(RUN, "SyncWindow", "shut"), "SyncWindow", "info", "shut"),
        (stopped_or_goes_on({**RUN, "blocked": "SyncWindow"}, "", ""), "Unblocked", "info", "the sync goes on"),
        (stopped_or_goes_on({**RUN, "blocked": "SyncWindow"}, "Hold", "held"), "Hold", "info", "held"),
        (trouble("SourceNotFound", "no tag"), "ArtifactFailed", "error", "SourceNotFound: no tag"),
        (over("SourceNotFound is over"), "Unblocked", "info", "SourceNotFound is over"),
        (held_back("pinned"), "HeldBack", "info", "pinned"),
        (held_back(""), "Unblocked", "info", "nothing holds it back any more"),
    ],
)
def test_what_is_told(event: Event, reason: str, severity: str, message: str) -> None:
    assert (event.reason, event.severity, event.message) == (reason, severity, message)
    assert event.reason in REASONS


def test_what_has_not_changed_is_not_told_again() -> None:
    assert stopped_or_goes_on(RUN, "", "") is None
    assert stopped_or_goes_on({**RUN, "blocked": "Hold"}, "Hold", "another sentence") is None


def test_the_shape() -> None:
    event = Event.load(ended(RUN, entry(count=3)).dump(), app="shop", id_="1796040187204-1")
    assert event.to_json() == {
        "id": "1796040187204-1",
        "involvedObject": {
            "apiVersion": "fleetbeat.dev/v1alpha1",
            "kind": "Application",
            "name": "shop",
            "namespace": "",
        },
        "severity": "info",
        "timestamp": "2026-11-30T12:03:07.204Z",
        "message": "Succeeded: 1 configured, 1 unchanged",
        "reason": "ReconciliationSucceeded",
        "metadata": {
            "fleetbeat.dev/revision": "stable@sha256:ab",
            "fleetbeat.dev/run": "r1",
            "fleetbeat.dev/trigger": "Revision",
            "originRevision": "main@sha1:c0ffee",
            "summary": "1 configured, 1 unchanged",
            "fleetbeat.dev/health": "Healthy",
            "fleetbeat.dev/count": "3",
        },
        "reportingController": "fleetbeat",
    }


def test_a_long_message_is_cut() -> None:
    assert len(trouble("X", "y" * 5000).message) == 1024


@pytest.mark.parametrize(
    ("blocked", "step", "following", "again"),
    [
        ("SyncWindow", "apply:0", "diff", True),
        ("SyncWindow", "diff", "apply:0", True),
        ("SyncWindow", "apply:0", "apply:1", False),
        ("SyncWindow", "apply:0", "report", False),
        ("SyncWindow", "diff", "report", False),
        ("Hold", "apply:0", "diff", True),
        ("Hold", "apply:2", "pull", True),
        ("DependencyNotReady", "pull", "render", True),
        ("DependencyNotReady", "render", "diff", True),
        ("ConfirmationNeeded", "pull", "render", False),
        ("", "diff", "apply:0", False),
    ],
    ids=lambda value: str(value),
)
def test_a_plan_made_anew_is_no_end_of_a_wait(blocked: str, step: str, following: str, again: bool) -> None:
    assert is_asked_again(blocked, step, following) is again
