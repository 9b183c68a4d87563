"""Which bundle an application is to have: what its source means, unless a person has pinned it or vetoed that.

A pin (``fleetbeat rollback``) keeps an application at one digest until it is lifted. A veto (``fleetbeat veto``) keeps
a digest out of the whole fleet: applications that have it keep it, all others stay where they are until their source
means something else. A veto beats a pin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fleetbeat.model import Revision


@dataclass(frozen=True)
class Order:
    """A pin or veto: who gave it, when and why."""

    digest: str
    by: str = ""
    reason: str = ""
    at: int = 0  #: ms since epoch

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"by {self.by or 'somebody'}{why}"

    @classmethod
    def of_pin(cls, orders: Mapping[str, str]) -> Order | None:
        """From what is ordered for one application (``keys.orders``)."""
        digest = orders.get("pin", "")
        if not digest:
            return None
        return cls(digest, orders.get("pin_by", ""), orders.get("pin_reason", ""), int(orders.get("pin_at") or 0))


def suspension(why: str) -> str:
    """Why nothing at all is chosen. ``why``: what in the catalog says so."""
    return f"{_SUSPENDED}{why} in the catalog: nothing is looked at and nothing is synced"


def is_suspension(held_back: str) -> bool:
    return held_back.startswith(_SUSPENDED)


_SUSPENDED = "suspended by "


@dataclass(frozen=True)
class Choice:
    """``revision`` None: there is nothing that may be synced."""

    revision: Revision | None
    held_back: str = ""  #: why it is not what the source means, in words


def choose(newest: Revision | None, pin: Order | None, veto: Order | None, in_force: Revision | None) -> Choice:
    """``newest``: what the source means, None when it need not be asked because of ``pin``.

    ``veto``: of the pinned digest, else of ``newest``. ``in_force``: what was synced last, None when nothing was.
    """
    wanted = Revision(pin.digest) if pin else newest
    if wanted is None:
        raise ValueError("without a pin the source must have been asked")
    if pin and in_force and in_force.digest == pin.digest:
        wanted = in_force  # with its tag and commit
    pinned = f"pinned to {wanted.short} {pin}" if pin else ""
    if veto is None:
        return Choice(wanted, pinned)
    told = f"{wanted.short} is vetoed {veto}"
    if in_force is None:
        return Choice(None, f"{told}; nothing else was ever synced")
    if in_force.digest == wanted.digest:
        return Choice(in_force, f"{told}; it is in force already and stays")
    return Choice(in_force, f"{told}; {in_force.short} stays in force")
