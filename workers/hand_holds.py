"""Holds that people with only kubectl set on an ApplySet parent become holds like all others when a run meets them.

Which one was taken up last is in the state, so that one that was lifted by `fleetbeat hold --lift` does not come back
with the annotation that is still there.
"""

from __future__ import annotations

from collections.abc import Mapping

from fleetbeat.clients import applyset
from fleetbeat.clients.holds import Holds
from fleetbeat.decisions.hand_holds import KEYS, by_hand
from workers.parts import Parts


def meet(shared: Parts, app: str, state: Mapping[str, str], parent: applyset.Parent | None) -> bool:
    """Take up what the parent says, or lift what it says no more. True when that changed anything.

    Raises Refused (``decisions/hand_holds.py``). Asks Redis only where something is or was said.
    """
    annotations = (parent.body["metadata"].get("annotations") if parent else None) or {}
    before = state.get("hand_hold", "")
    if not before and not any(key in annotations for key in KEYS):
        return False
    found = by_hand(app, annotations, parent.holders if parent else (), shared.runs.now())
    if (found.id if found else "") == before:
        return False
    client = Holds(shared.store)
    if before:
        client.lift(before)
    if found:
        client.restore([found])
    shared.runs.remember(app, {"hand_hold": found.id if found else ""})
    return True
