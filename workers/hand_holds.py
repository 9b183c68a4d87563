"""Holds that people with only kubectl set on an ApplySet parent become holds like all others when a run meets them.

Which one was taken up last is in the state, so that one that was lifted by `fleetbeat hold --lift` does not come back
with the annotation that is still there.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetbeat.clients import applyset
from fleetbeat.clients.holds import Holds
from fleetbeat.decisions.hand_holds import KEYS, by_hand
from fleetbeat.decisions.holds import Hold
from fleetbeat.errors import Refused
from workers.parts import Parts


def meet(shared: Parts, app: str, state: Mapping[str, str], parent: applyset.Parent | None) -> bool:
    """Take up what the parent says, or lift what it says no more. True when that changed anything.

    Raises Refused (``decisions/hand_holds.py``), and then what was said before is lifted: every write is refused by
    now, and whoever waits is to learn why at once, not at an end that nobody means any more. Asks Redis only where
    something is or was said.
    """
    annotations = (parent.body["metadata"].get("annotations") if parent else None) or {}
    before = state.get("hand_hold", "")
    if not before and not any(key in annotations for key in KEYS):
        return False
    try:
        found = by_hand(app, annotations, parent.holders if parent else (), shared.runs.now())
    except Refused:
        _replace(shared, app, before, None)
        raise
    if (found.id if found else "") == before:
        return False
    _replace(shared, app, before, found)
    return True


def _replace(shared: Parts, app: str, before: str, found: Hold | None) -> None:
    """``before``: id of the one that was taken up last, "" = none."""
    client = Holds(shared.store)
    if before:
        client.lift(before)
    if found:
        client.restore([found])
    if before or found:
        shared.runs.remember(app, {"hand_hold": found.id if found else ""})
