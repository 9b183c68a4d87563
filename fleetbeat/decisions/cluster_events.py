"""The end of a run as a Kubernetes Event on the application's ApplySet parent: what ``kubectl describe`` shows. Pure.

Told is what changed something or failed; what repeats counts up in the Event that is there. Source of the form:
``core/v1`` Event, as Kubernetes' own recorder writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fleetbeat.decisions.events import Event, cut
from fleetbeat.decisions.inventory import event_prefix
from fleetbeat.model import Body

_MOST = 1024  #: bytes of a message, more is refused by some clusters


def is_worth_telling(entry: Mapping[str, Any]) -> bool:
    """``entry``: the run's, as history has it. A cluster that is away cannot be told that it is."""
    if entry["phase"] == "Failed":
        return bool(entry["error"] != "ClusterUnavailable")
    changed = any(entry["counts"].get(word) for word in ("created", "configured", "pruned", "handed-over"))
    return bool(entry["phase"] == "Succeeded" and (changed or entry["hooks"]))


def body(event: Event, entry: Mapping[str, Any], *, parent: str, namespace: str, uid: str) -> Body:
    """``event``: what the stream says of the same end. ``uid``: of the parent."""
    first = int(entry.get("since", entry["started"]))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        # The same for each repetition, and for an execution that takes over from a killed one.
        "metadata": {"name": f"{event_prefix(parent)}{first:x}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": namespace,
            "name": parent,
            "uid": uid,
        },
        "type": "Warning" if event.severity == "error" else "Normal",
        "reason": event.reason,
        "message": _cut(event.message),
        "count": int(entry["count"]),
        "firstTimestamp": _time(first),
        "lastTimestamp": _time(int(entry["finished"])),
        "source": {"component": "fleetbeat"},
        "reportingComponent": "fleetbeat",
        "reportingInstance": entry["run"],
    }


def _cut(text: str) -> str:
    """At most so many bytes."""
    while len(text.encode()) > _MOST:
        text = cut(text, len(text) - max((len(text.encode()) - _MOST) // 4, 1))
    return text


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
