"""Waiting in tests: for a condition, with a deadline, never a sleep of a guessed length."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_for(condition: Callable[[], T], *, timeout: float = 60.0, what: str = "", every: float = 0.02) -> T:
    """Call ``condition`` until it returns something true and return that. Fails the test after ``timeout`` seconds.

    ``what`` completes "waited 60 s for …". The message ends with the last value, or the AssertionError ``condition``
    raised: an assertion inside it means "not yet". Any other exception ends the wait at once.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            value = condition()
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            name = what or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"waited {timeout:g} s for {name}; last: {last!r}")
        time.sleep(every)
