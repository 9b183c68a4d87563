"""An application that is neither looked at nor synced nor deleted, because the catalog suspends it or its cluster."""

from __future__ import annotations

from fleetbeat.clients.runs import Look
from fleetbeat.decisions import events
from fleetbeat.decisions.choice import suspension
from workers.parts import Parts


def note(shared: Parts, app: str, look: Look, why: str) -> str:
    """Say so, once. A sync that was asked for meanwhile begins when it is so no more. ``why``: what suspends it."""
    told = suspension(why)
    if look.state.get("held_back", "") != told:
        shared.runs.remember(app, {"held_back": told}, events.held_back(told))
    return told
