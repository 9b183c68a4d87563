"""Holds in Redis: one hash for the whole fleet (``decisions/holds.py`` says what they are)."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions import holds
from fleetbeat.decisions.holds import LONGEST, SHORTEST, Hold, HoldKind, Scope
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
        """Hold from now on. Raises ConfigurationError for a time or reason that no hold may have."""
        if not SHORTEST <= seconds <= LONGEST:
            raise ConfigurationError(
                f"a hold lasts from {SHORTEST} second to {LONGEST // 86_400} days, not {_length(seconds)}. What is to "
                "stay for longer belongs into the catalog: spec.suspend, spec.sync.selfHeal or spec.sync.prune: false"
            )
        if not reason.strip():
            raise ConfigurationError("a hold needs a reason, which is shown wherever it stands. Give one")
        found, now = self._all()
        until = now + int(seconds * 1000)
        hold = Hold(secrets.token_hex(3), kind, target, scope, by, reason.strip(), now, until, cluster)
        over = [old.id for old in found if old.until + _FORGET_AFTER < now]
        self._write([hold], over, found)
        return hold

    def lift(self, hold_id: str) -> Hold | None:
        """The hold that was lifted; None when there is none of this id (any more)."""
        found, now = self._all()
        hold = next((one for one in found if one.id == hold_id and one.stands(now)), None)
        if hold is not None:
            self._write([], [hold_id], found)
        return hold

    def restore(self, found: Iterable[Hold]) -> None:
        """Put back what the cluster remembers, after Redis has lost it."""
        self._write(list(found), [], self._all()[0])

    def _write(self, new: list[Hold], gone: list[str], before: list[Hold]) -> None:
        after = {hold.id: hold for hold in (*before, *new) if hold.id not in gone}
        changed = [*new, *(hold for hold in before if hold.id in gone)]
        apps = {hold.target for hold in changed if hold.kind == "app"}
        with errors():
            pipe = self._store.redis.pipeline()
            for hold in new:
                pipe.hset(keys.HOLDS, hold.id, orjson.dumps(hold.to_json()))
            if gone:
                pipe.hdel(keys.HOLDS, *gone)
            for app in apps:
                mine = [hold for hold in after.values() if (hold.kind, hold.target) == ("app", app)]
                pipe.hset(keys.orders(app), "holds", holds.mark(mine))
            pipe.execute()

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
