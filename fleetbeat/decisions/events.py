"""What is told of an application as it happens: one event for each thing, in Flux's shape. Pure.

An event holds names, words and the messages that status shows as well: no manifest, no value of a Secret.
Source of the shape: Flux's notification API (``eventv1.Event``); of reasons: its ``meta`` package as far as that goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from fleetbeat.decisions.choice import is_suspension
from fleetbeat.decisions.lifecycle import origin

Severity = Literal["info", "error"]

#: Every reason of an event or condition, and when it is given. docs/architecture.md has the same table.
REASONS: Mapping[str, str] = {
    "Progressing": "a run began, or is under way",
    "ProgressingWithRetry": "the same, after a failure",
    "ReconciliationSucceeded": "a run ended well",
    "ReconciliationFailed": "a run failed, or a look at the application, for any reason that is not below",
    "ArtifactFailed": "the bundle cannot be found, read or trusted",
    "BuildFailed": "the manifests in it cannot be used",
    "HealthCheckFailed": "a wave or a hook did not become healthy, or what is applied is not healthy now",
    "PruneFailed": "something was not pruned for a reason that is not in the bundle",
    "Conflict": "a field is left to another writer for now",
    "BackOff": "an object that was healed again and again waits for its next heal",
    "OutOfSync": "something differs from the bundle and is not written",
    "RequestRefused": "a saved plan, or an override of sync windows, is refused; nothing follows from it",
    "Superseded": "a newer digest, catalog entry or request took over",
    "DriftDetected": "a run began because objects are not as the last one left them",
    "DriftHealed": "such a run has put them back",
    "SyncWindow": "a run waits for a sync window",
    "DependencyNotReady": "a run waits for another application",
    "Hold": "a run waits for a hold, or something is left as it is for one or for a self-heal annotation",
    "HoldEnds": "a hold, or a self-heal annotation, ends in ten minutes, and what differs is written then",
    "Suspended": "the application is suspended",
    "ConfirmationNeeded": "a deletion waits for a person's word",
    "Stopped": "a person has stopped the run",
    "Unblocked": "what a run waited for is over",
    "HeldBack": "a pin or a veto keeps the application from what its source means",
    "Idle": "nothing is under way",
    "NotStalled": "nothing needs a person",
}

#: What a rule or a person makes a run wait for, as ``workers.task.Wait.blocked`` has it.
BLOCKS = ("SyncWindow", "DependencyNotReady", "Hold", "Suspended", "ConfirmationNeeded")

_GROUP = "fleetbeat.dev"
_MOST = 1024  #: characters of a message, as in a Kubernetes Event

_BY_ERROR = {
    **dict.fromkeys(
        (
            *("SourceUnavailable", "SourceThrottled", "SourceNotFound"),
            *("BundleError", "DigestMismatch", "UnsafeBundle", "BundleTooLarge"),
        ),
        "ArtifactFailed",
    ),
    "ManifestError": "BuildFailed",
    "HealthCheckFailed": "HealthCheckFailed",
    "HealthCheckTimeout": "HealthCheckFailed",
    "NoProgress": "HealthCheckFailed",
    "Stopped": "Stopped",
    "PruneRefused": "PruneFailed",
    "Conflict": "Conflict",
    "BackOff": "BackOff",
    "Held": "Hold",
    **dict.fromkeys(("PlanRefused", "OverrideRefused"), "RequestRefused"),
}


@dataclass(frozen=True)
class Event:
    """One of them. ``id`` and ``app`` are given when it is read back; the id sorts by time."""

    reason: str
    message: str
    severity: Severity = "info"
    metadata: Mapping[str, str] = field(default_factory=dict)
    app: str = ""
    id: str = ""  #: "<ms since epoch>-<number>", by the clock of Redis

    @property
    def at(self) -> int:
        """ms since epoch."""
        return int(self.id.partition("-")[0] or 0)

    @property
    def run(self) -> str:
        return self.metadata.get(f"{_GROUP}/run", "")

    def dump(self) -> str:
        """For the stream; ``load`` restores it."""
        told = {"reason": self.reason, "message": self.message, "severity": self.severity}
        return orjson.dumps({**told, "metadata": dict(self.metadata)}).decode()

    @classmethod
    def load(cls, text: str | bytes, *, app: str, id_: str) -> Event:
        return cls(**orjson.loads(text), app=app, id=id_)

    def to_json(self) -> dict[str, Any]:
        """Flux's event, and the ``id`` that following goes on from."""
        return {
            "id": self.id,
            "involvedObject": {
                "apiVersion": f"{_GROUP}/v1alpha1",
                "kind": "Application",
                "name": self.app,
                "namespace": "",
            },
            "severity": self.severity,
            "timestamp": stamp(self.at),
            "message": self.message,
            "reason": self.reason,
            "metadata": dict(self.metadata),
            "reportingController": "fleetbeat",
        }


def stamp(ms: int) -> str:
    """``2026-11-30T14:03:11.204Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cut(text: str, most: int = _MOST) -> str:
    """At most so many characters, the last one an ellipsis where something is missing."""
    return text if len(text) <= most else text[: most - 1] + "…"


def reason_of(error: str) -> str:
    """The reason for the word of an error in state and history; "" = it went well."""
    return _BY_ERROR.get(error, "ReconciliationFailed") if error else "ReconciliationSucceeded"


def began(run: Mapping[str, str], moved: Sequence[str] = ()) -> Event:
    """A run begins. ``run``: its record; ``moved``: the objects that differ, when drift is why."""
    trigger = run.get("trigger", "") + (f" of {run['repeats']}" if run.get("repeats") else "")
    if moved:
        more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
        return _event("DriftDetected", f"drift found: {', '.join(moved[:5])}{more}", run)
    asked = f" by {run['by']}" if run.get("by") else ""
    why = f": {run['reason']}" if run.get("reason") else ""
    return _event("Progressing", f"sync began: {trigger}{asked}{why}", run)


def ended(run: Mapping[str, str], entry: Mapping[str, Any]) -> Event:
    """A run has ended as the history ``entry`` says."""
    phase, error = entry["phase"], entry.get("error", "")
    changed = any(entry["counts"].get(word) for word in ("created", "configured", "pruned"))
    if phase == "Superseded":
        reason = "Superseded"
    elif phase == "Succeeded" and not error and changed and origin(entry) == "Drift":
        reason = "DriftHealed"
    else:
        reason = reason_of(error if phase == "Succeeded" else error or phase)
    revision = entry["revision"]
    summary = ", ".join(f"{count} {word}" for word, count in entry["counts"].items())
    found = {
        "originRevision": revision["revision"],
        "summary": summary,
        f"{_GROUP}/error": error,
        f"{_GROUP}/health": entry["health"],
        f"{_GROUP}/count": str(entry["count"]) if entry["count"] > 1 else "",
    }
    severity: Severity = "error" if phase == "Failed" else "info"
    told = entry["message"] if phase == reason else f"{phase}: {entry['message']}"
    return _event(reason, told, run, severity, **found)


def stopped_or_goes_on(run: Mapping[str, str], blocked: str, message: str) -> Event | None:
    """The run of this record has done a step. ``blocked``: what holds it up from here on, "" = nothing.

    None when that is as it was before.
    """
    before = run.get("blocked", "")
    if blocked == before:
        return None
    return _event(blocked, message, run) if blocked else _event("Unblocked", "the sync goes on", run)


#: Of BLOCKS those that are asked about right before a stage is written.
_BEFORE_A_STAGE = ("SyncWindow", "DependencyNotReady", "Hold")


def is_asked_again(blocked: str, step: str, following: str) -> bool:
    """Is a run that was held up by this on its way back to the stage where it will be asked about anew?

    That its plan is made anew meanwhile is no end of the wait, and is not told as one.
    """
    if blocked not in _BEFORE_A_STAGE or following == "report":
        return False
    return not (step.startswith("apply:") and following.startswith("apply:"))


def trouble(error: str, message: str) -> Event:
    """A look at the application failed before any run."""
    return Event(reason_of(error), cut(f"{error}: {message}"), "error", {f"{_GROUP}/error": error})


def over(message: str) -> Event:
    """A look goes well again."""
    return Event("Unblocked", cut(message))


def held_back(message: str) -> Event:
    """A pin, a veto or a suspension; "" = it was lifted."""
    reason = "Suspended" if is_suspension(message) else "HeldBack"
    return Event(reason, cut(message)) if message else over("nothing holds it back any more")


def hold_ends(message: str, run: Mapping[str, str]) -> Event:
    """``run``: the record of the one that waits, or the application's state where something is left as it is."""
    return _event("HoldEnds", message, run)


def _event(reason: str, message: str, run: Mapping[str, str], severity: Severity = "info", **more: str) -> Event:
    digest, tag = run.get("digest", ""), run.get("tag", "")
    metadata = {
        f"{_GROUP}/revision": f"{tag}@{digest}" if tag and digest else digest,
        f"{_GROUP}/run": run.get("run", ""),
        f"{_GROUP}/trigger": run.get("trigger", ""),
        f"{_GROUP}/by": run.get("by", ""),
        **more,
    }
    return Event(reason, cut(message), severity, {name: cut(text) for name, text in metadata.items() if text})
