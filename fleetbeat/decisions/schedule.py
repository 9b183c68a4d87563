"""When an application is looked at: its slot in the period, the spread at start, the pause after a failure.

All times are milliseconds since the epoch (the store's clock, passed in), all delays of ``backoff`` are seconds.
"""

from __future__ import annotations

import hashlib
import math

from fleetbeat.model import Retry


def name_hash(name: str) -> int:
    """64 bits of the name, the same in every process and version (unlike ``hash``)."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def spread(name: str) -> float:
    """Where between 0 and 1 the application stands among all others: the same in every process."""
    return name_hash(name) / 2**64


def slot_offset(name: str, period_ms: int) -> int:
    """Where in its period the application's slot lies: 0 ≤ offset < ``period_ms``.

    A hash instead of a random number: restarts and further beats agree without talking, and two looks are always
    exactly one period apart.
    """
    return name_hash(name) % period_ms


def next_slot(now_ms: int, period_ms: int, offset_ms: int) -> int:
    """The first t > ``now_ms`` with t ≡ ``offset_ms`` modulo ``period_ms``.

    Depends on nothing but the present, so slots missed while nobody ran are skipped, never caught up (field case j4).
    """
    return now_ms + period_ms - (now_ms - offset_ms) % period_ms


def start_spread(index_hash: int, count: int, rate: float) -> int:
    """Milliseconds after now at which one of ``count`` new applications is first looked at.

    Args:
        index_hash: ``name_hash`` of the application.
        count: how many are new together.
        rate: how many of them may start per second, on average.
    """
    window = math.ceil(count * 1000 / rate)
    return index_hash % window if window > 0 else 0


def backoff(attempt: int, retry: Retry, jitter: float = 0.0) -> float:
    """Seconds to wait after failed attempt number ``attempt`` (from 0), at most ``retry.max_duration``.

    ``jitter`` (0 ≤ jitter ≤ 1) moves the delay that part of the way towards the next one. So whatever is drawn, a
    later attempt never waits less than an earlier one, nor more than the cap (field case f2).
    """
    delay = _delay(attempt, retry)
    return delay + jitter * (_delay(attempt + 1, retry) - delay)


def _delay(attempt: int, retry: Retry) -> float:
    base, cap = retry.duration, retry.max_duration
    factor = max(retry.factor, 1.0)
    if base >= cap:
        return cap
    if base <= 0 or factor == 1.0:
        return base
    # Compared as logarithms: factor ** 1000 is no longer a float.
    if attempt * math.log(factor) >= math.log(cap / base):
        return cap
    return min(base * factor**attempt, cap)
