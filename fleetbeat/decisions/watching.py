"""What one event of a watch means: which application is to be looked at, if any. Pure.

A watch only rings: whether anything is wrong is decided by the look that follows. So an event may be told once too
often, never once too seldom. Passed over are what every controller does all day (a status) and our own writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions.changes import Fingerprint, fingerprint, moved
from fleetbeat.decisions.inventory import FIELD_MANAGER, PART_OF
from fleetbeat.model import Body

#: namespace and name
Place = tuple[str, str]


@dataclass(frozen=True)
class Sight:
    """An object as it was seen last."""

    applyset: str  #: the value of its membership label
    fingerprint: Fingerprint
    ours: str  #: when our field manager wrote last, RFC 3339 in whole seconds; "" = never
    others: frozenset[tuple[str, ...]]  #: manager, operation, subresource, time of all others

    @classmethod
    def of(cls, body: Body, group_kind: str) -> Sight:
        metadata = body.get("metadata") or {}
        owner = (metadata.get("labels") or {}).get(PART_OF, "")
        entries = metadata.get("managedFields") or ()
        return cls(
            owner,
            fingerprint(body, group_kind),
            max((_who(entry)[-1] for entry in entries if entry.get("manager") == FIELD_MANAGER), default=""),
            frozenset(_who(entry) for entry in entries if entry.get("manager") != FIELD_MANAGER),
        )


@dataclass
class Sights:
    """Everything a watch of one kind (in one namespace, or in all) has seen that is still there."""

    group_kind: str  #: ``Kind.group``
    rings_at_first: bool = False  #: the first list rings everybody it shows; else it rings nobody
    seen: dict[Place, Sight] | None = None

    def listed(self, bodies: Iterable[Body]) -> frozenset[str]:
        """A fresh list: replaces all that was seen. Returns the ApplySet ids of what moved meanwhile.

        What happened before the first one is for the ticks.
        """
        before = self.seen
        now = self.seen = {_place(body): Sight.of(body, self.group_kind) for body in bodies}
        if before is None:
            return frozenset(sight.applyset for sight in now.values()) if self.rings_at_first else frozenset()
        ring = {sight.applyset for place, sight in before.items() if place not in now}
        for place, sight in now.items():
            ring |= _stirred(before.get(place), sight)
        return frozenset(ring)

    def event(self, word: str, body: Body) -> frozenset[str]:
        """``word``: ADDED, MODIFIED or DELETED; an object that loses the label comes as DELETED.

        Returns the ApplySet ids whose applications are to be looked at.
        """
        place = _place(body)
        seen = self.seen = {} if self.seen is None else self.seen
        before = seen.get(place)
        if word == "DELETED":
            seen.pop(place, None)
            owner = before.applyset if before else Sight.of(body, self.group_kind).applyset
            return frozenset({owner})
        sight = seen[place] = Sight.of(body, self.group_kind)
        if _written_by_us(before, sight):
            return frozenset()
        return frozenset(_stirred(before, sight))


def _stirred(before: Sight | None, sight: Sight) -> set[str]:
    if before is None:
        return {sight.applyset}
    if before.applyset != sight.applyset:
        return {before.applyset, sight.applyset}
    return {sight.applyset} if moved(before.fingerprint, sight.fingerprint) in ("moved", "new") else set()


def _written_by_us(before: Sight | None, sight: Sight) -> bool:
    """Was what happened since ``before`` our own write?

    Our entry must be newer than before: a field that somebody removes leaves no entry of theirs (decision 0004). And
    nobody else's may have come up since, unless it is older than ours. Of two writes in one second the second cannot be
    told from somebody's: that costs a look.
    """
    if not sight.ours or (before is not None and before.ours == sight.ours):
        return False
    come_up = sight.others - (before.others if before is not None else frozenset())
    return all(entry[-1] < sight.ours for entry in come_up)


def _who(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(key, "")) for key in ("manager", "operation", "subresource", "time"))


def _place(body: Body) -> Place:
    metadata = body.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""
