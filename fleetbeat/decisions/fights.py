"""When to stop putting back what somebody else changes each time: the fight breaker, and the back-off of an object.

A heal is a write that puts back what was changed since the last sync. A field that was healed ``heals`` times within
``within`` seconds and is found changed once more is fought over: it is left to the other party for a pause, healed
once when the pause is over, and left for a longer one when that heal does not last either. So each field costs a
bounded number of writes, whoever rewrites it and however fast (field cases a5, f2, f3)::

    heal heal heal │ 1 min │ heal │ 2 min │ heal │ 4 min │ … │ heal │ 1 h │ heal │ 1 h │ …

All of it begins anew with another digest or catalog entry, and after a quiet time: a success in between is no reason,
since in a fight every heal is one. The rest of the object, and of the application, is healed as ever.

An object whose fields are changed one after the other is no fight over any of them. Its heals are counted as well,
under ``ANY`` and with other limits: the first ones are made at once, later ones after pauses of 2, 6, 18, 54, 162 and
300 seconds, as Argo CD spaces self-healing (argo-cd#20172, #20976), and for the time of a pause all of it is left.

Times are ms since the epoch by the store's clock, passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.decisions.schedule import backoff
from fleetbeat.model import ObjectId, Retry
from fleetbeat.model_results import Drifted, Manager

#: In the place of a field: the object as a whole, which is deleted each time, or rewritten in more than MANY fields.
WHOLE = ""

#: In the place of a field: whichever of the object's fields is changed, one after the other.
ANY = "any field"

#: Of one object; more that are changed together are one dispute, so that what is remembered stays small.
MANY = 20


@dataclass(frozen=True)
class Limits:
    """Seconds, except for the number of heals."""

    heals: int = 3
    within: float = 600.0
    pause: float = 60.0
    longest: float = 3600.0
    factor: float = 2.0

    @property
    def quiet(self) -> float:
        """After so long without a dispute it is forgotten. Longer than any pause, else none could grow."""
        return max(self.longest, self.within)

    def pause_after(self, truces: int) -> float:
        """Seconds of the truce that follows ``truces`` others: never less than the one before, at most ``longest``."""
        longest = max(self.longest, self.pause)
        return backoff(truces, Retry(duration=self.pause, factor=self.factor, max_duration=longest))


@dataclass(frozen=True)
class Dispute:
    """One field of one object that had to be put back, or with ``ANY`` the object."""

    heals: tuple[int, ...] = ()  #: when, oldest first; the last ``Limits.heals`` of them
    truces: int = 0  #: how often it was left alone, in a row
    until: int = 0  #: end of the last truce
    last: int = 0  #: when it was last healed or found changed
    party: str = ""  #: field manager who had it last; "" = the API server does not say (it was removed)

    def stands(self, now: int, limits: Limits) -> bool:
        """Is it to be left alone now? An end further away than any truce lasts was noted by a clock that went back."""
        return now < self.until <= now + _ms(max(limits.longest, limits.pause))

    def forgotten(self, now: int, limits: Limits) -> bool:
        return now > max(self.last, self.until) + _ms(limits.quiet)

    def to_json(self) -> list[Any]:
        return [list(self.heals), self.truces, self.until, self.last, self.party]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Dispute:
        heals, truces, until, last, party = data
        return cls(tuple(map(int, heals)), int(truces), int(until), int(last), str(party))


#: What is remembered of an application: object → field as ``fieldsets.text`` writes it → dispute.
Disputes = Mapping[ObjectId, Mapping[str, Dispute]]


def changed(before: Dispute | None, party: str, now: int, limits: Limits) -> Dispute:
    """The field is found otherwise than the bundle has it. Heal it, unless the answer ``stands``."""
    found = _remembered(before, now, limits)
    found = replace(found, last=now, party=party or found.party)
    if found.stands(now, limits):
        return found
    if found.truces:
        # Once after each truce it is tried again; only when that did not last either does the next one begin.
        fought = bool(found.heals) and found.heals[-1] >= found.until
    else:
        fought = sum(0 <= now - at <= _ms(limits.within) for at in found.heals) >= limits.heals
    if not fought:
        return found
    return replace(found, truces=found.truces + 1, until=now + _ms(limits.pause_after(found.truces)))


def healed(before: Dispute | None, party: str, now: int, limits: Limits) -> Dispute:
    """The field was put back."""
    found = _remembered(before, now, limits)
    return replace(found, heals=(*found.heals, now)[-limits.heals :], last=now, party=party or found.party)


def _remembered(before: Dispute | None, now: int, limits: Limits) -> Dispute:
    """What is seen was seen before now. If not so, the clock went back since, and all times go back with it: else no
    heal counts until the old time has come again, and for so long each one is made at once.
    """
    if before is None or before.forgotten(now, limits):
        return Dispute()
    back = before.last - now
    if back <= 0:
        return before
    heals = tuple(at - back for at in before.heals)
    return replace(before, heals=heals, until=before.until - back if before.until else 0, last=now)


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def collapsed(fields: Iterable[Drifted]) -> tuple[Drifted, ...]:
    """The fields with who set them, each once; more than MANY are the object as a whole."""
    each: dict[str, Manager | None] = {}
    for name, by in fields:
        each[name] = each.get(name) or by
    if len(each) <= MANY:
        return tuple(Drifted(name, by) for name, by in each.items())
    return (Drifted(WHOLE, next((by for by in each.values() if by), None)),)


# ── in words and as JSON ─────────────────────────────────────────────────────────────────────────────────────────


def told(field: str, dispute: Dispute, key: ObjectId | None = None) -> str:
    """``Conflict: webhooks[name=w].rules is rewritten by x each time fleetbeat puts it back; left alone until …``,
    ``BackOff: ConfigMap shop/web was healed 10 times in 4 min, next at …; changed by kubectl-edit``.

    With ``key``, whose field it is stands there too.
    """
    if field == ANY:
        often = f"was healed {len(dispute.heals)} times in {_span(dispute)}"
        by = dispute.party or NOBODY_KNOWN
        return f"BackOff: {key or 'the object'} {often}, next at {_moment(dispute.until)}; changed by {by}"
    what = field + (f" of {key}" if key is not None else "") if field != WHOLE else str(key or "the object")
    if dispute.party:
        doing = f"is rewritten by {dispute.party}"
    else:
        doing = f"is {'deleted' if field == WHOLE else 'removed'} by {NOBODY_KNOWN}"
    return f"Conflict: {what} {doing} each time {FIELD_MANAGER} puts it back; left alone until {_moment(dispute.until)}"


#: Who has removed something (docs/decisions/0004).
NOBODY_KNOWN = "somebody whom only the cluster's audit log knows"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _span(dispute: Dispute) -> str:
    """From the first heal that is remembered until the object was found changed."""
    seconds = max(dispute.last - min(dispute.heals, default=dispute.last), 0) // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


def condition(key: ObjectId, field: str, dispute: Dispute) -> dict[str, Any]:
    """For status, as Kubernetes writes conditions, with the parts a program wants."""
    about = {
        "object": str(key),
        "parties": [FIELD_MANAGER, dispute.party or "unknown"],
        "until": _moment(dispute.until),
    }
    head = {"type": word(field), "status": "True", "message": told(field, dispute, key)}
    if field == ANY:
        return {**head, "reason": "HealedOften", "heals": len(dispute.heals), **about}
    return {**head, "reason": "RewrittenEachTime" if dispute.party else "RemovedEachTime", "field": field, **about}


def word(field: str) -> str:
    """The reason in status, events and conditions for leaving this alone."""
    return "BackOff" if field == ANY else "Conflict"


def to_json(disputes: Disputes) -> dict[str, Any]:
    return {key.key: {name: one.to_json() for name, one in fields.items()} for key, fields in disputes.items()}


def from_json(data: Mapping[str, Any]) -> dict[ObjectId, dict[str, Dispute]]:
    return {
        ObjectId.from_key(key): {name: Dispute.from_json(one) for name, one in fields.items()}
        for key, fields in data.items()
    }
