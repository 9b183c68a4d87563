"""The drift ledger: of each field that was found otherwise than the applied bundle has it, by whom, since when, how
often it was put back. Pure.

A row is one field of one object; an object that was deleted, or changed in many fields at once, is one row with the
field "". It names what the API server recorded of the last change (manager, operation, time); of what was removed or
deleted nobody is named, since nothing records that (docs/decisions/0004). No row holds a value.

The fight breaker counts heals of the same fields, so its disputes are part of the rows (``fights``). They begin anew
with another digest, catalog entry or cluster; what the ledger tells does not, but for another cluster, which has other
objects. Times are ms since the epoch by the store's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleetbeat.decisions.events import stamp
from fleetbeat.decisions.fights import ANY, NOBODY_KNOWN, WHOLE, Dispute, Disputes, Limits, healed
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Drifted, Manager


@dataclass(frozen=True)
class Row:
    """One field of one object."""

    first: int  #: when it was first found otherwise
    last: int  #: when last
    by: Manager | None = None  #: of the last change; None = removed or deleted, by whom nobody knows
    since: int = 0  #: it stands otherwise since then; 0 = it does not
    healed: int = 0  #: how often it was put back
    healed_at: int = 0  #: when last, 0 = never
    run: str = ""  #: the run that did
    dispute: Dispute = field(default_factory=Dispute)

    def to_json(self) -> list[Any]:
        by = self.by.to_json() if self.by else None
        seen = [self.first, self.last, by, self.since, self.healed, self.healed_at, self.run]
        return [*seen, self.dispute.to_json() if self.dispute != Dispute() else None]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Row:
        first, last, by, since, healed_, healed_at, run, dispute = data
        return cls(
            *(int(first), int(last), Manager.from_json(by) if by else None, int(since), int(healed_), int(healed_at)),
            str(run),
            dispute=Dispute.from_json(dispute) if dispute else Dispute(),
        )


Rows = Mapping[ObjectId, Mapping[str, Row]]


@dataclass(frozen=True)
class DriftLedger:
    """Of one application."""

    rows: Rows = field(default_factory=dict)
    often: Mapping[ObjectId, Dispute] = field(default_factory=dict)  #: heals of an object, of whichever fields
    about: tuple[str, ...] = ()  #: the digest, catalog entry and parent that the disputes belong to
    cluster: str = ""  #: its name in the catalog
    cut: int = 0  #: rows that are not kept any more, for their number

    def dispute(self, key: ObjectId, name: str) -> Dispute | None:
        if name == ANY:
            return self.often.get(key)
        row = self.rows.get(key, {}).get(name)
        return row.dispute if row is not None else None

    def for_run(self, about: tuple[str, ...]) -> DriftLedger:
        """As a run of this digest, catalog entry and parent has it: disputes of others are over."""
        if about == self.about:
            return self
        rows = {
            key: {name: replace(row, dispute=Dispute()) for name, row in fields.items()}
            for key, fields in self.rows.items()
        }
        return replace(self, rows=rows, often={}, about=about)

    @property
    def each(self) -> Iterator[tuple[ObjectId, str, Row]]:
        for key, fields in self.rows.items():
            for name, row in fields.items():
                yield key, name, row

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": {
                key.key: {name: row.to_json() for name, row in fields.items()} for key, fields in self.rows.items()
            },
            "often": {key.key: dispute.to_json() for key, dispute in self.often.items()},
            "about": list(self.about),
            "cluster": self.cluster,
            "cut": self.cut,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> DriftLedger:
        """Raises AttributeError, KeyError, TypeError or ValueError for what is none."""
        of = ObjectId.from_key
        return cls(
            {of(key): {name: Row.from_json(row) for name, row in rows.items()} for key, rows in data["rows"].items()},
            {of(key): Dispute.from_json(dispute) for key, dispute in data["often"].items()},
            tuple(data["about"]),
            str(data["cluster"]),
            int(data["cut"]),
        )


@dataclass(frozen=True)
class Found:
    """What one run found and did."""

    run: str
    now: int
    healed: Mapping[ObjectId, Sequence[Drifted]]  #: put back
    left: Mapping[ObjectId, Sequence[Drifted]]  #: found, and still there
    unknown: Collection[ObjectId] = ()  #: objects that could not be compared or written: they are as they were
    truces: Disputes = field(default_factory=dict)  #: of what is left, where a dispute is why


@dataclass(frozen=True)
class Kept:
    """How much is remembered."""

    rows: int = 300  #: of drift that is over; what stands, and what is fought over, is kept besides
    days: float = 90.0  #: since it was last found


def after_run(before: DriftLedger, found: Found, fields: Limits, objects: Limits, kept: Kept) -> DriftLedger:
    """The ledger after a run. ``fields``: when a field is fought over; ``objects``: when an object is healed often."""
    now = found.now
    rows = {key: dict(there) for key, there in before.rows.items()}
    often = {key: dispute for key, dispute in before.often.items() if not dispute.forgotten(now, objects)}
    for key, there in rows.items():
        if key not in found.unknown:
            still = {one.field for one in found.left.get(key, ())}
            rows[key] = {name: row if name in still else replace(row, since=0) for name, row in there.items()}
    for key, drift in found.left.items():
        truces = found.truces.get(key, {})
        for one in drift:
            row = _seen(rows.get(key, {}).get(one.field), one, now)
            row = replace(row, since=row.since or now, dispute=truces.get(one.field, row.dispute))
            rows.setdefault(key, {})[one.field] = row
        if ANY in truces:
            often[key] = truces[ANY]
    for key, drift in found.healed.items():
        for one in drift:
            row = _seen(rows.get(key, {}).get(one.field), one, now)
            dispute = healed(row.dispute, one.party, now, fields)
            row = replace(row, since=0, healed=row.healed + 1, healed_at=now, run=found.run, dispute=dispute)
            rows.setdefault(key, {})[one.field] = row
        party = next((one.party for one in drift if one.party), "")
        often[key] = healed(often.get(key), party, now, objects)
    return _bounded(replace(before, rows=rows, often=often), now, fields, kept)


def _seen(before: Row | None, drift: Drifted, now: int) -> Row:
    if before is None:
        return Row(now, now, drift.by)
    return replace(before, last=now, by=drift.by)


def _bounded(ledger: DriftLedger, now: int, limits: Limits, kept: Kept) -> DriftLedger:
    """Disputes that are over are forgotten, then rows of drift that is over: old ones, and the oldest of too many."""
    fresh = [
        (key, name, replace(row, dispute=Dispute()) if row.dispute.forgotten(now, limits) else row)
        for key, name, row in ledger.each
    ]
    there = [one for one in fresh if one[2].since or one[2].dispute != Dispute()]
    over = [one for one in fresh if not (one[2].since or one[2].dispute != Dispute())]
    young = sorted((one for one in over if now - one[2].last <= kept.days * _DAY), key=lambda one: -one[2].last)
    room = max(kept.rows - len(there), 0)
    rows: dict[ObjectId, dict[str, Row]] = {}
    for key, name, row in (*there, *young[:room]):
        rows.setdefault(key, {})[name] = row
    return replace(ledger, rows=rows, cut=ledger.cut + len(young[room:]))


_DAY = 86_400_000


def end(ledger: DriftLedger, kept: Kept) -> int:
    """ms for which it is to be kept without another change; 0 = without an end, as long as something stands."""
    return 0 if any(row.since for _, _, row in ledger.each) else int(kept.days * _DAY)


# ── shown ────────────────────────────────────────────────────────────────────────────────────────────────────────


def who(field_name: str, by: Manager | None) -> str:
    """``kubectl-edit (Update, 2026-11-30T14:03:11Z)``, or that nobody knows who has removed or deleted it."""
    if by is not None:
        return str(by)
    return f"{'deleted' if field_name == WHOLE else 'removed'} by {NOBODY_KNOWN}"


def rows_to_json(ledger: DriftLedger, now: int) -> list[dict[str, Any]]:
    """For programs: what stands first, then the latest. Times are RFC 3339, null = never."""
    found = sorted(ledger.each, key=lambda one: (not one[2].since, -one[2].last, str(one[0]), one[1]))
    return [_row_to_json(key, name, row, ledger.often.get(key), now) for key, name, row in found]


def _row_to_json(key: ObjectId, name: str, row: Row, often: Dispute | None, now: int) -> dict[str, Any]:
    ends = [dispute.until for dispute in (row.dispute, often) if row.since and dispute and dispute.until > now]
    return {
        "object": str(key),
        "id": key.key,
        "field": name,
        "manager": row.by.name if row.by else None,
        "operation": row.by.operation if row.by else None,
        "subresource": row.by.subresource or None if row.by else None,
        "changedAt": row.by.time or None if row.by else None,
        "firstSeen": stamp(row.first),
        "lastSeen": stamp(row.last),
        "standsSince": stamp(row.since) if row.since else None,
        "leftUntil": stamp(max(ends)) if ends else None,
        "healed": row.healed,
        "lastHealed": stamp(row.healed_at) if row.healed_at else None,
        "run": row.run or None,
    }


def summary(ledger: DriftLedger) -> dict[str, Any]:
    """For status: how many fields, how often healed, how many stand, and the last that was found."""
    every = list(ledger.each)
    if not every:
        return {}
    key, name, row = max(every, key=lambda one: (one[2].last, bool(one[2].since)))
    standing = [one.since for _, _, one in every if one.since]
    return {
        "fields": len(every),
        "healed": sum(one.healed for _, _, one in every),
        "standing": len(standing),
        "standsSince": stamp(min(standing)) if standing else None,
        "lastSeen": stamp(row.last),
        "last": f"{name} of {key}" if name else str(key),
        "by": who(name, row.by),
    }
