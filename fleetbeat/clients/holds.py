"""Holds in Redis: one hash for the whole fleet (``decisions/holds.py`` says what they are)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from fleetbeat import keys
from fleetbeat.clients import fleet_orders
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions import hold_targets
from fleetbeat.decisions.holds import LONGEST, MOST, MOST_ON_ONE, SHORTEST, Hold, HoldKind, Scope
from fleetbeat.decisions.spoken import spoken
from fleetbeat.errors import ConfigurationError

_FORGET_AFTER = 86_400_000  # ms after its end


@dataclass(frozen=True)
class Held:
    """All holds that have not ended, the one that ends first first, and the time they were read at."""

    holds: tuple[Hold, ...]
    now: int  #: ms since epoch by the server's clock


class Holds:
    """Thread-safe. Every method raises StoreUnavailable; times are of the server's clock."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self) -> Held:
        """One round trip."""
        found, now = self._all()
        standing = [hold for hold in found if hold.stands(now)]
        return Held(tuple(sorted(standing, key=lambda hold: (hold.until, hold.id))), now)

    def add(
        self, kind: HoldKind, target: str, *, seconds: float, scope: Scope, by: str, reason: str, cluster: str = ""
    ) -> Hold:
        """Hold from now on. Raises ConfigurationError for a target, time or reason that no hold may have."""
        if why := hold_targets.wrong(kind, target):
            raise ConfigurationError(why)
        if not SHORTEST <= seconds <= LONGEST:
            raise ConfigurationError(
                f"a hold lasts from {SHORTEST} second to {LONGEST // 86_400} days, not {_length(seconds)}. What is to "
                "stay for longer belongs into the catalog: spec.suspend, spec.sync.selfHeal or spec.sync.prune: false"
            )
        by, reason = spoken(by, "name of who holds"), spoken(reason)
        if not reason:
            raise ConfigurationError("a hold needs a reason, which is shown wherever it stands. Give one")
        found, now = self._all()
        standing = [one for one in found if one.stands(now)]
        if len(standing) >= MOST or sum((one.kind, one.target) == (kind, target) for one in standing) >= MOST_ON_ONE:
            raise ConfigurationError(
                f"{MOST_ON_ONE} holds of one {kind} or {MOST:,} of all are enough. Lift what is needed no more: "
                "fleetbeat hold"
            )
        until = now + int(seconds * 1000)
        hold = Hold(secrets.token_hex(3), kind, target, scope, by, reason, now, until, cluster)
        over = [old for old in found if old.until + _FORGET_AFTER < now]
        self._write([hold], over)
        return hold

    def lift(self, hold_id: str) -> Hold | None:
        """The hold that was lifted; None when there is none of this id (any more)."""
        found, now = self._all()
        hold = next((one for one in found if one.id == hold_id and one.stands(now)), None)
        return (
            hold if hold is not None and self._write([], [hold], now) else None
        )  # not what another has lifted just now

    def restore(self, found: Iterable[Hold]) -> None:
        """Put back what the cluster remembers, after Redis has lost it."""
        self._write(list(found), [])

    def _write(self, new: list[Hold], gone: list[Hold], lifted: int = 0) -> int:
        """Returns how many of ``gone`` were there. Each change gives the orders of its application, or
        those of the fleet, another mark. ``lifted``: ms, when a person has ended ``gone``.

        The mark says nothing of the holds: two people at once would each make it from what they have seen.
        """
        apps = {hold.target for hold in (*new, *gone) if hold.kind == "app"}
        fleet = [hold.id for hold in (*new, *(gone if lifted else [])) if hold.kind != "app"]
        with errors():
            pipe = self._store.redis.pipeline()
            if gone:
                pipe.hdel(keys.HOLDS, *(hold.id for hold in gone))
            for hold in new:
                pipe.hset(keys.HOLDS, hold.id, orjson.dumps(hold.to_json()))
            for app in apps:
                pipe.hset(keys.orders(app), "holds", secrets.token_hex(4))
            if fleet:
                fleet_orders.changed(pipe, fleet[0] if lifted else "", lifted)
            answers: list[Any] = pipe.execute()
        return int(answers[0]) if gone else 0

    def _all(self) -> tuple[list[Hold], int]:
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            pipe.hgetall(keys.HOLDS)
            pipe.time()
            answers: list[Any] = pipe.execute()
        found, now = answers
        return [Hold.from_json(orjson.loads(text)) for text in found.values()], int(now[0] * 1000 + now[1] // 1000)


def _length(seconds: float) -> str:
    return f"{seconds / 86_400:.0f} days" if seconds >= 2 * 86_400 else f"{seconds:g} seconds"
