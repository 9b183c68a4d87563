"""What people have ordered: pins of single applications, vetoes for the whole fleet, plans that are to be kept to."""

from __future__ import annotations

import re
import secrets
from typing import Any

import orjson

from fleetbeat import keys
from fleetbeat.clients import fleet_orders
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.promise import Promise
from fleetbeat.decisions.spoken import spoken

_PLAN = re.compile(r"[0-9a-f]{12}")
_PIN = ("pin", "pin_by", "pin_reason", "pin_at")


class Orders:
    """Thread-safe. Every method raises StoreUnavailable, those with a reason ConfigurationError for one that no
    terminal should show. Times are of the server's clock.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def pin(self, app: str, digest: str, *, by: str, reason: str) -> None:
        """Keep ``app`` at ``digest`` until ``unpin``. The pin is in what ``Runs.look`` reads."""
        values = dict(zip(_PIN, (digest, spoken(by, "name"), spoken(reason), self._store.now()), strict=True))
        with errors():
            self._store.redis.hset(keys.orders(app), mapping=values)  # type: ignore[arg-type]

    def unpin(self, app: str) -> bool:
        """False when there was no pin."""
        with errors():
            return bool(self._store.redis.hdel(keys.orders(app), *_PIN))

    def pins(self, app: str) -> Order | None:
        with errors():
            found: Any = self._store.redis.hgetall(keys.orders(app))
        return Order.of_pin({key.decode(): value.decode() for key, value in found.items()})

    def veto(self, digest: str, *, by: str, reason: str) -> None:
        """Keep ``digest`` out of every application until ``lift``."""
        entry = orjson.dumps({"by": spoken(by, "name"), "reason": spoken(reason), "at": self._store.now()})
        with errors():
            pipe = self._store.redis.pipeline()
            pipe.hset(keys.VETOES, digest, entry)
            fleet_orders.changed(pipe)
            pipe.execute()

    def lift(self, digest: str) -> bool:
        """False when it was not vetoed."""
        now = self._store.now()
        with errors():
            pipe = self._store.redis.pipeline()
            pipe.hdel(keys.VETOES, digest)
            fleet_orders.changed(pipe, digest, now)
            answers: list[Any] = pipe.execute()
        return bool(answers[0])

    def vetoed(self, digest: str) -> Order | None:
        with errors():
            entry: Any = self._store.redis.hget(keys.VETOES, digest)
        return _order(digest, entry) if entry is not None else None

    def vetoes(self) -> list[Order]:
        """All, newest first."""
        with errors():
            found: Any = self._store.redis.hgetall(keys.VETOES)
        orders = [_order(digest.decode(), entry) for digest, entry in found.items()]
        return sorted(orders, key=lambda order: (-order.at, order.digest))

    def promise(self, promise: Promise) -> str:
        """Save a plan for a day. Returns its id."""
        plan_id = secrets.token_hex(6)
        with errors():
            self._store.redis.set(keys.promise(plan_id), promise.to_json(), ex=86_400)
        return plan_id

    def promised(self, plan_id: str) -> Promise | None:
        """None when it has expired, or never was."""
        if not _PLAN.fullmatch(plan_id):
            return None
        with errors():
            text: Any = self._store.redis.get(keys.promise(plan_id))
        return Promise.from_json(text) if text is not None else None


def _order(digest: str, entry: bytes) -> Order:
    return Order(digest, **orjson.loads(entry))
