"""What a person asks Redis about an installation: do beats live, when is what due, is the server set up as it must be.

Reads only. Everything that changes something is in the modules beside this one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fleetbeat import keys, wire
from fleetbeat.clients.store import Store, errors
from fleetbeat.errors import StoreUnavailable


@dataclass(frozen=True)
class Pulse:
    now_ms: int  #: the server's clock, ms since epoch
    ahead: float  #: seconds the server's clock is ahead of ours, half the round trip taken off
    beats: dict[str, float]  #: beat id → seconds since it last spoke


@dataclass(frozen=True)
class ServerFacts:
    """How the Redis server is set up. "" where it would not say, as managed services may not."""

    name: str  #: "valkey" or "redis"
    version: str
    eviction: str  #: maxmemory-policy
    appendonly: str  #: "yes" or "no"


def read_pulse(store: Store) -> Pulse:
    """Raises StoreUnavailable."""
    before = time.time()
    with errors():
        clock: Any = store.redis.time()
    after = time.time()
    now = int(clock[0]) * 1000 + int(clock[1]) // 1000
    with errors():
        beats: Any = store.redis.zrange(keys.BEATS, 0, -1, withscores=True)
    return Pulse(
        now_ms=now,
        ahead=now / 1000 - (before + after) / 2,
        beats={name.decode(): max(0.0, (now - score) / 1000) for name, score in beats},
    )


def due_times(store: Store, apps: Sequence[str]) -> dict[str, float | None]:
    """Application → ms since epoch when beat rings it, None when it never does. Raises StoreUnavailable."""
    if not apps:
        return {}
    with errors():
        scores: Any = store.redis.zmscore(keys.DUE, list(apps))
    return dict(zip(apps, scores, strict=True))


def messages(store: Store) -> int:
    """How many messages wait for a worker, ticks and work together. Raises StoreUnavailable."""
    with errors():
        pipe = store.redis.pipeline(transaction=False)
        for queue in (wire.TICK_QUEUE, wire.WORK_QUEUE):
            pipe.llen(keys.PREFIX + queue)
        return sum(pipe.execute())


def server_facts(store: Store) -> ServerFacts:
    """Raises StoreUnavailable when there is no server; a single refused question leaves "" behind."""
    with errors():
        info: Any = store.redis.info("server")
    return ServerFacts(
        name=str(info.get("server_name", "redis")),
        version=str(info.get("valkey_version") or info.get("redis_version", "")),
        eviction=_setting(store, "maxmemory-policy"),
        appendonly=_setting(store, "appendonly"),
    )


def ping_workers(app: Any, timeout: float = 1.0) -> list[str]:
    """Names of the workers that answer this Celery app within ``timeout`` seconds. Raises StoreUnavailable."""
    from fleetbeat.clients import broker  # imports Celery, which `fleetbeat status` need not wait for

    with broker.errors():
        answers = app.control.ping(timeout=timeout)
    return sorted(name for answer in answers for name in answer)


def override_marks(app: Any, timeout: float = 1.0, *, most: int | None = None) -> dict[str, str]:
    """Worker → mark of its FLEETBEAT_OVERRIDE_KEY, "" = it has none. Raises StoreUnavailable.

    Those that answer within ``timeout`` seconds and know the question; it returns when there are ``most`` of them.
    """
    from fleetbeat.clients import broker

    with broker.errors():
        answers: Any = app.control.broadcast(wire.OVERRIDE_MARK, reply=True, timeout=timeout, limit=most)
    return {name: said for answer in answers or () for name, said in answer.items() if isinstance(said, str)}


def _setting(store: Store, name: str) -> str:
    try:
        with errors():
            answer: Any = store.redis.config_get(name)
    except StoreUnavailable:
        return ""
    return str(answer.get(name, ""))
