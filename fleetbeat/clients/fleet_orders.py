"""The orders for the whole fleet and their notes in the clusters: which mark they have, and where that is noted.

``fleet-orders`` (hash) holds ``mark``, another one with each change of a veto or of a hold that is about no single
application, and for each cluster the mark that its note is of. A cluster without a field is not known: Redis is new or
has lost its data, and the cluster may remember orders that Redis does not.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import orjson

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.fleet_orders import FleetOrders
from fleetbeat.decisions.holds import LONGEST, MOST, Hold

MARK = "mark"
_TRY_AGAIN = 60_000  # ms after a note that failed, or whose writer was killed


def cluster_field(cluster: str) -> str:
    return f"cluster/{cluster}"


def changed(pipe: Any, lifted: str = "", now: int = 0) -> None:
    """Add to a transaction that changes orders: their next mark, and that one was ``lifted`` at ``now`` (ms).

    The mark says nothing of the orders: two people at once would each make it from what they have seen.
    """
    pipe.hset(keys.FLEET_ORDERS, MARK, secrets.token_hex(4))
    if lifted:
        pipe.zadd(keys.LIFTED, {lifted: now})
        pipe.zremrangebyscore(keys.LIFTED, 0, now - LONGEST * 1000)


@dataclass(frozen=True)
class Orders:
    """All that stand in Redis at ``now`` (ms), and their mark, "" = there never were any."""

    mark: str
    noted: str | None  #: the mark that the cluster's note is of, None = the cluster is not known
    orders: FleetOrders
    now: int


class FleetOrdersStore:
    """Thread-safe. Every method raises StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, cluster: str) -> Orders:
        """One round trip."""
        with errors():
            pipe = self._store.redis.pipeline()
            pipe.hmget(keys.FLEET_ORDERS, MARK, cluster_field(cluster))
            pipe.hgetall(keys.VETOES)
            pipe.hgetall(keys.HOLDS)
            pipe.time()
            answers: list[Any] = pipe.execute()
        (mark, noted), vetoes, holds, now = answers
        return Orders(
            (mark or b"").decode(),
            None if noted is None else noted.decode(),
            FleetOrders(
                tuple(Order(digest.decode(), **orjson.loads(text)) for digest, text in vetoes.items()),
                tuple(Hold.from_json(orjson.loads(text)) for text in holds.values()),
            ),
            int(now[0] * 1000 + now[1] // 1000),
        )

    def restore(self, cluster: str, found: FleetOrders, *, there: bool) -> frozenset[str]:
        """Put back what the cluster remembers; from now on it is known. ``there``: is there a note at all?

        Returns digests of vetoes and ids of holds that came back.
        """
        listed: list[str | int | bytes] = []
        for order in found.vetoes:
            entry = orjson.dumps({"by": order.by, "reason": order.reason, "at": order.at})
            listed += [order.digest, order.at, entry]
        for hold in found.holds:
            listed += [hold.id, hold.since, orjson.dumps(hold.to_json())]
        restored = self._store.script(
            "orders_restore",
            [keys.FLEET_ORDERS, keys.VETOES, keys.HOLDS, keys.LIFTED],
            [cluster_field(cluster), secrets.token_hex(4), int(there), MOST, len(found.vetoes), *listed],
        )
        return frozenset(one.decode() for one in restored)

    def begin_note(self, cluster: str) -> tuple[str, int] | None:
        """A token and a fence for who notes now; None = another does, or has failed to a moment ago."""
        token = secrets.token_hex(8)
        with errors():
            if not self._store.redis.set(keys.noting(cluster), token, px=_TRY_AGAIN, nx=True):
                return None
            fence: Any = self._store.redis.incr(keys.FENCE)
        return token, int(fence)

    def noted(self, cluster: str, mark: str, token: str) -> bool:
        """The note is of this mark, and another may note. False: the orders are others by now."""
        names = [keys.FLEET_ORDERS, keys.noting(cluster)]
        return bool(self._store.script("orders_noted", names, [cluster_field(cluster), mark, token]))

    def end_note(self, cluster: str, token: str) -> None:
        """Let another one try at once."""
        self._store.script("lock_release", [keys.noting(cluster)], [token])
