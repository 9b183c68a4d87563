"""The standing of an application as Kubernetes conditions, in Flux's words, beside Argo CD's of ``status``. Pure.

Ready       what is wanted now is live and healthy; while a run is under way it stays what it was
Reconciling a run is under way
Stalled     only another bundle, another catalog entry or a person helps
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from fleetbeat.decisions.events import reason_of, stamp
from fleetbeat.decisions.lifecycle import given_up
from fleetbeat.model_results import WELL

Status = Literal["True", "False", "Unknown"]


class Standing(NamedTuple):
    """One condition without its time."""

    status: Status
    reason: str  #: a word of ``decisions.events.REASONS``
    message: str


def ready(state: Mapping[str, str]) -> Standing:
    """``state``: the application's state hash."""
    message = state.get("message", "")
    if state.get("trouble"):
        return Standing("False", reason_of(state["trouble"]), message)
    if not state.get("phase"):
        return Standing("Unknown", "Progressing", "not synced yet")
    if state["phase"] == "Failed":
        return Standing("False", reason_of(state.get("reason") or state["phase"]), message)
    if state.get("sync") != "Synced":
        told = reason_of(state.get("reason", ""))
        return Standing("False", told if told in _SAID else "OutOfSync", message)
    health = state.get("health") or "Unknown"
    if health in WELL:
        return Standing("True", "ReconciliationSucceeded", message)
    if health in ("Degraded", "Missing"):
        return Standing("False", "HealthCheckFailed", f"what is applied is {health}")
    return Standing("Unknown", "Progressing", f"what is applied is {health}")


#: Reasons for being OutOfSync after a sync that went well.
_SAID = ("Conflict", "BackOff", "PruneFailed", "Hold")


def stalled(state: Mapping[str, str]) -> Standing:
    """True where trying again changes nothing."""
    failed = state.get("phase") == "Failed"
    word = state.get("trouble", "") or (state.get("reason") or state.get("phase", "") if failed else "")
    cure = state.get("trouble_cure" if state.get("trouble") else "cure", "")
    if given_up(state) or (word and cure == "change"):
        return Standing("True", reason_of(word), state.get("message", ""))
    return Standing("False", "NotStalled", "")


def changed(before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, str]:
    """Of ``ready`` and ``stalled`` those whose status is another one in a state with the fields ``after``."""
    state = {**before, **{name: str(value) for name, value in after.items()}}
    now = {"ready": ready(state).status, "stalled": stalled(state).status}
    return {name: status for name, status in now.items() if before.get(name) != status}


def conditions(state: Mapping[str, str], run: Mapping[str, str]) -> list[dict[str, Any]]:
    """Ready, Reconciling and Stalled as JSON. ``run``: the record of the run under way, empty without one."""
    standing = ready(state)
    if run.get("blocked") and standing.status != "True":
        standing = standing._replace(reason=run["blocked"], message=run.get("message", ""))
    since = {name: state.get(f"{name}_since", "") for name in ("ready", "stalled")}
    if run:
        again = int(state.get("failures") or 0) > 0
        said = f"{run.get('step', '')}: {run.get('message') or run.get('state', '')}"
        working = Standing("True", "ProgressingWithRetry" if again else "Progressing", said)
    else:
        working = Standing("False", "Idle", "")
    return [
        _condition("Ready", standing, since["ready"]),
        _condition("Reconciling", working, run.get("created", "") if run else state.get("finished", "")),
        _condition("Stalled", stalled(state), since["stalled"]),
    ]


def argo(state: Mapping[str, str], *, departing: bool = False) -> list[dict[str, Any]]:
    """What is wrong, in the types of Argo CD's Application conditions; empty = nothing. ``departing``: being deleted.

    ComparisonError   what is wanted, or what is there, could not be found out
    InvalidSpecError  the application's own definition, or a setting it needs, is wrong
    SyncError         the last sync was tried and failed
    DeletionError     its objects could not be deleted
    UnknownError      something failed that is a fault of ours
    """
    word, failed = state.get("trouble", ""), state.get("phase") == "Failed"
    since = state.get("finished", "") if not word else state.get("ready_since", "")
    word = word or (state.get("reason", "") if failed else "")
    if not word:
        return []
    if word == "InternalError":
        kind = "UnknownError"
    elif departing or (failed and state.get("removing")):
        kind = "DeletionError"
    elif word in _OF_THE_SPEC:
        kind = "InvalidSpecError"
    elif state.get("trouble") or state.get("sync") == "Unknown":
        kind = "ComparisonError"
    else:
        kind = "SyncError"
    return [_condition(kind, Standing("True", reason_of(word), state.get("message", "")), since)]


#: Words of ``fleetbeat.errors`` that say so of the catalog or of a setting.
_OF_THE_SPEC = ("CatalogError", "ConfigurationError")


def _condition(kind: str, standing: Standing, since: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": standing.status,
        "reason": standing.reason,
        "message": standing.message,
        "lastTransitionTime": stamp(int(since)) if since else None,
    }
