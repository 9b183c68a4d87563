"""Which ends of runs are told in the cluster, and as which Event."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.cluster_events import body, is_worth_telling
from fleetbeat.decisions.events import Event

CHANGES = ("created", "configured", "pruned", "handed-over")


def entry(**more: Any) -> dict[str, Any]:
    return {
        "run": "20261130T114512Z-3fa9c1",
        "phase": "Succeeded",
        "error": "",
        "counts": {"unchanged": 2},
        "hooks": 0,
        "count": 1,
        "started": 1_796_000_000_000,
        "finished": 1_796_000_002_500,
        **more,
    }


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (entry(), False),
        (entry(hooks=1), True),
        *((entry(counts={word: 1, "unchanged": 1}), True) for word in CHANGES),
        (entry(counts={"kept": 1, "skipped": 1}), False),
        (entry(phase="Superseded", counts={"created": 1}), False),
        (entry(phase="Failed", error="Rejected"), True),
        (entry(phase="Failed", error="ClusterUnavailable"), False),
    ],
)
def test_what_changed_something_or_failed_is_told(end: dict[str, Any], told: bool) -> None:
    assert is_worth_telling(end) is told


def test_the_event() -> None:
    event = Event("ReconciliationSucceeded", "Succeeded: 1 created")
    assert body(event, entry(), parent="app-shop", namespace="fleetbeat", uid="u1") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "app-shop.1a229f12800", "namespace": "fleetbeat"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": "fleetbeat",
            "name": "app-shop",
            "uid": "u1",
        },
        "type": "Normal",
        "reason": "ReconciliationSucceeded",
        "message": "Succeeded: 1 created",
        "count": 1,
        "firstTimestamp": "2026-11-30T00:53:20Z",
        "lastTimestamp": "2026-11-30T00:53:22Z",
        "source": {"component": "fleetbeat"},
        "reportingComponent": "fleetbeat",
        "reportingInstance": "20261130T114512Z-3fa9c1",
    }


def test_what_repeats_is_the_same_event_with_a_higher_count() -> None:
    event = Event("BuildFailed", "Failed: x", "error")
    place = {"parent": "app-shop", "namespace": "fleetbeat", "uid": "u1"}
    first = body(event, entry(), **place)
    later = body(event, entry(started=1, since=1_796_000_000_000, count=7), **place)
    assert first["type"] == "Warning"
    assert later["metadata"] == first["metadata"]
    assert later["firstTimestamp"] == first["firstTimestamp"]
    assert (first["count"], later["count"]) == (1, 7)


@pytest.mark.parametrize("letter", ["x", "ä", "漢", "🐙"])
def test_a_message_is_at_most_1024_bytes(letter: str) -> None:
    message = body(Event("X", letter * 1024), entry(), parent="p", namespace="n", uid="u")["message"]
    assert len(message.encode()) <= 1024
    assert len(message.encode()) > 1000
