"""When to stop putting a field back that somebody else changes each time: the fight breaker.

A heal is a write that puts back what was changed since the last sync. A field that was healed ``heals`` times within
``within`` seconds and is found changed once more is fought over: it is left to the other party for a pause, healed
once when the pause is over, and left for a longer one when that heal does not last either. So each field costs a
bounded number of writes, whoever rewrites it and however fast (field cases a5, f2, f3)::

    heal heal heal │ 1 min │ heal │ 2 min │ heal │ 4 min │ … │ heal │ 1 h │ heal │ 1 h │ …

All of it begins anew with another digest or catalog entry, and after a quiet time: a success in between is no reason,
since in a fight every heal is one. The rest of the object, and of the application, is healed as ever.

Times are ms since the epoch by the store's clock, passed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.decisions.schedule import backoff
from fleetbeat.model import ObjectId, Retry

#: In the place of a field: the object as a whole, which is deleted each time, or rewritten in more than MANY fields.
WHOLE = ""

#: Of one object; more that are changed together are one dispute, so that what is remembered stays small.
MANY = 20


@dataclass(frozen=True)
class Limits:
    """Seconds, except for the number of heals."""

    heals: int = 3
    within: float = 600.0
    pause: float = 60.0
    longest: float = 3600.0

    @property
    def quiet(self) -> float:
        """After so long without a dispute it is forgotten. Longer than any pause, else none could grow."""
        return max(self.longest, self.within)

    def pause_after(self, truces: int) -> float:
        """Seconds of the truce that follows ``truces`` others: never less than the one before, at most ``longest``."""
        return backoff(truces, Retry(duration=self.pause, factor=2.0, max_duration=max(self.longest, self.pause)))


@dataclass(frozen=True)
class Dispute:
    """One field of one object that had to be put back."""

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
    return before if before is not None and not before.forgotten(now, limits) else Dispute()


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


def after_run(
    before: Disputes,
    truces: Disputes,
    heals: Mapping[ObjectId, Iterable[tuple[str, str]]],
    now: int,
    limits: Limits,
) -> dict[ObjectId, dict[str, Dispute]]:
    """What is remembered after a run that left ``truces`` alone and made ``heals`` (object → field and party)."""
    found = {
        key: kept
        for key, fields in before.items()
        if (kept := {name: one for name, one in fields.items() if not one.forgotten(now, limits)})
    }
    for key, left in truces.items():
        found.setdefault(key, {}).update(left)
    for key, made in heals.items():
        fields = found.setdefault(key, {})
        for name, party in collapsed(made):
            fields[name] = healed(fields.get(name), party, now, limits)
    return found


def collapsed(fields: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The fields with their parties, each once; more than MANY are the object as a whole."""
    each: dict[str, str] = {}
    for name, party in fields:
        each[name] = each.get(name) or party
    if len(each) <= MANY:
        return tuple(each.items())
    return ((WHOLE, next((party for party in each.values() if party), "")),)


# ── in words and as JSON ─────────────────────────────────────────────────────────────────────────────────────────


def told(field: str, dispute: Dispute, key: ObjectId | None = None) -> str:
    """``Conflict: webhooks[name=w].rules is rewritten by x each time fleetbeat puts it back; left alone until …``.

    With ``key``, whose field it is stands there too.
    """
    what = field + (f" of {key}" if key is not None else "") if field != WHOLE else str(key or "the object")
    if dispute.party:
        doing = f"is rewritten by {dispute.party}"
    else:
        doing = f"is {'deleted' if field == WHOLE else 'removed'} by somebody whom only the cluster's audit log knows"
    return f"Conflict: {what} {doing} each time {FIELD_MANAGER} puts it back; left alone until {_moment(dispute.until)}"


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(key: ObjectId, field: str, dispute: Dispute) -> dict[str, Any]:
    """For status, as Kubernetes writes conditions, with the parts a program wants."""
    return {
        "type": "Conflict",
        "status": "True",
        "reason": "RewrittenEachTime" if dispute.party else "RemovedEachTime",
        "message": told(field, dispute, key),
        "object": str(key),
        "field": field,
        "parties": [FIELD_MANAGER, dispute.party or "unknown"],
        "until": _moment(dispute.until),
    }


def to_json(disputes: Disputes) -> dict[str, Any]:
    return {
        key.key: {name: [list(one.heals), one.truces, one.until, one.last, one.party] for name, one in fields.items()}
        for key, fields in disputes.items()
    }


def from_json(data: Mapping[str, Any]) -> dict[ObjectId, dict[str, Dispute]]:
    return {
        ObjectId.from_key(key): {name: Dispute(tuple(heals), *rest) for name, (heals, *rest) in fields.items()}
        for key, fields in data.items()
    }
