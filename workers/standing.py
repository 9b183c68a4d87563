"""What is written into an application's state says, too, since when its conditions are what they are."""

from __future__ import annotations

from collections.abc import Mapping

from fleetbeat.clients.runs import Fields
from fleetbeat.decisions.conditions import changed
from workers.parts import Parts


def noted(shared: Parts, before: Mapping[str, str], fields: Fields) -> Fields:
    """``fields`` for the state, and with them each condition that becomes another one (decisions/conditions.py).

    ``before``: the state as it was read. Redis is asked for the time only when there is one.
    """
    found = changed(before, fields)
    if not found:
        return fields
    now = shared.runs.now()
    return {**fields, **found, **{f"{name}_since": now for name in found}}
