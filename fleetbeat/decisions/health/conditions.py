"""Health by the conventions that kinds share: observedGeneration and the conditions Ready, Reconciling, Stalled."""

from __future__ import annotations

from fleetbeat.decisions.health.live import Live, whole
from fleetbeat.model import Health


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


def for_other_kinds(live: Live, has_status: bool | None) -> Health:
    """Kinds without a rule of their own: their Ready condition, if they have one.

    Ready=False is Progressing, as most controllers begin with it; those that give up say Stalled, and a wave that waits
    has its time-out.
    """
    if not live.status:
        if has_status:
            return Health("Progressing", "no status reported yet")
        return Health("Healthy", "no status reported")
    ready = live.condition("Ready")
    if ready is None:
        return Health("Healthy", "has no Ready condition")
    if ready.generation is not None and ready.generation < whole(live.metadata.get("generation"), 0):
        return Health("Progressing", "the Ready condition speaks of an earlier generation")
    return Health("Healthy" if ready.status == "True" else "Progressing", ready.text)
