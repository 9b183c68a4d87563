"""Health by the conventions that kinds share: observedGeneration and the conditions Ready, Reconciling, Stalled."""

from __future__ import annotations

from collections.abc import Iterable

from fleetbeat.decisions.health.live import Condition, Live, whole
from fleetbeat.model import ApiResource
from fleetbeat.model_results import Health

#: Seconds after creation for which a missing status means "not yet". Controllers write their first one within two.
SILENCE = 10.0


def for_every_kind(live: Live) -> Health | None:
    """What is decided before any kind's own rule, None when that rule has the word."""
    if not observed(live):
        return Health("Progressing", "the controller has not observed this generation yet")
    if (condition := live.condition("Stalled")) and condition.status == "True":
        return Health("Degraded", condition.text)
    if (condition := live.condition("Reconciling")) and condition.status == "True":
        return Health("Progressing", condition.text)
    return None


def observed(live: Live) -> bool:
    """False while the status speaks of an earlier generation.

    Later generations count as observed, unlike in kstatus: a status restored from a backup is ahead of its object and
    would block for ever. A value that is not a number proves nothing and counts as not observed (field case h1).
    """
    if "observedGeneration" not in live.status or live.status["observedGeneration"] is None:
        return True
    seen = live.status["observedGeneration"]
    return isinstance(seen, int) and seen >= whole(live.metadata.get("generation"), 0)


def not_yet_seen(live: Live) -> Health | None:
    """For kinds whose controller always writes ``status.observedGeneration``: Progressing until it has (c4, h6)."""
    if isinstance(live.status.get("observedGeneration"), int):
        return None
    return Health("Progressing", "the controller has not looked at it yet")


def for_other_kinds(live: Live) -> Health:
    """Kinds without a rule of their own: their Ready condition, if they have one. The message says how it was read.

    Ready=False is Progressing, as most controllers begin with it; those that give up say Stalled, and a wave that waits
    has its time-out.
    """
    if not live.status:
        return without_status(live)
    ready = live.condition("Ready")
    if ready is None:
        return Health("Healthy", "has no Ready condition; there is no rule for its kind")
    if behind(live, ready):
        return Health("Progressing", "the Ready condition speaks of an earlier generation")
    said = f"Ready is {ready.status}: {ready.text}" if ready.reason or ready.message else f"Ready is {ready.status}"
    return Health("Healthy" if ready.status == "True" else "Progressing", said)


def behind(live: Live, condition: Condition) -> bool:
    """Whether a condition speaks of an earlier generation, as its own observedGeneration tells."""
    return condition.generation is not None and condition.generation < whole(live.metadata.get("generation"), 0)


def without_status(live: Live) -> Health:
    """An object that says nothing about itself (field cases c4 and h1, docs/decisions/0011).

    Has its kind a status subresource, then its controller may be about to write one, and it is Progressing for a
    moment. After that it passes: many controllers never write a status, and what waits for them would wait for ever.
    """
    if live.has_status is False:
        return Health("Healthy", "its kind reports no status")
    if live.lasts(live.metadata.get("creationTimestamp"), SILENCE):
        return Health("Healthy", f"no status reported in {SILENCE:.0f} s: its controller writes none, or does not run")
    return Health("Progressing", "no status reported yet")


def reporting(resources: Iterable[ApiResource]) -> dict[tuple[str, str], bool]:
    """(group, kind) → has any of its versions a status subresource? Kinds of which that is not known are left out."""
    found: dict[tuple[str, str], bool] = {}
    for resource in resources:
        if resource.has_status is not None:
            key = (resource.group, resource.kind)
            found[key] = found.get(key, False) or resource.has_status
    return found
