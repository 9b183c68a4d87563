"""One asks, the others wait for what it hears: for answers that are kept in Redis and shared by a whole fleet."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TypeVar

from fleetbeat.clients.store import Store, errors

_POLL = 0.02  # seconds

Answer = TypeVar("Answer")


def single_flight(
    store: Store,
    kept: str,
    asking: str,
    *,
    accept: Callable[[bytes], Answer | None],
    ask: Callable[[int], Answer],
    wait: float,
) -> Answer:
    """What ``accept`` makes of the string at key ``kept``, or else what ``ask`` finds out, and leaves there itself.

    ``accept``: None = not good enough, ask; it may raise, for an answer that is an error. ``ask``: is given the
    server's clock in ms, read before it asks. ``asking``: the key that says somebody does.

    Who comes while another is asking waits for its answer, at most ``wait`` seconds; then it asks too. Nobody fails,
    or waits longer, because somebody else was killed or hangs. Raises StoreUnavailable and what the two raise.
    """
    with errors():
        found = store.redis.get(kept)
    if isinstance(found, bytes) and (answer := accept(found)) is not None:
        return answer
    token, deadline = secrets.token_hex(8), time.monotonic() + wait
    while True:
        with errors():
            pipe = store.redis.pipeline(transaction=True)  # whoever gets the turn sees all answers of those before it
            pipe.set(asking, token, px=max(int(wait * 1000), 1), nx=True)
            pipe.get(kept)
            pipe.time()
            mine, found, (seconds, micros) = pipe.execute()
        try:
            if found is not None and (answer := accept(found)) is not None:
                return answer
            if mine or time.monotonic() >= deadline:
                return ask(seconds * 1000 + micros // 1000)
        finally:
            if mine:
                store.script("lock_release", [asking], [token])
        time.sleep(_POLL)
