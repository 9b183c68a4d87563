"""Which bundle an application is to have now: asks its source, the pin and the vetoes (decisions/choice.py)."""

from __future__ import annotations

from fleetbeat.clients.orders import Orders
from fleetbeat.clients.runs import Look
from fleetbeat.decisions.choice import Choice, Order, choose
from fleetbeat.model import Application, Revision
from workers import memory
from workers.parts import Parts


def wanted(shared: Parts, application: Application, look: Look, *, fresh: bool = False) -> Choice:
    """A source whose application is pinned is not asked; a veto is looked up only for what is not in force.

    ``fresh``: somebody waits, see ``memory.resolve``. Raises the errors of ``ports.SourcePort``.
    """
    pin = Order.of_pin(look.orders)
    newest = None if pin else memory.resolve(shared, application.source, fresh=fresh)
    candidate = pin.digest if pin else newest.digest if newest else ""
    force = in_force(look)
    if force is not None and force.digest == candidate:
        return choose(newest, pin, None, force)
    return choose(newest, pin, Orders(shared.store).vetoed(candidate), force)


def in_force(look: Look) -> Revision | None:
    """What was synced last, as the state has it."""
    state = look.state
    if not state.get("digest"):
        return None
    return Revision(*(state.get(word, "") for word in ("digest", "tag", "source", "revision", "created")))
