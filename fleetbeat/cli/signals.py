"""Ending on Ctrl-C and SIGTERM, for commands that have processes to stop."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import NoReturn

_ENDINGS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def stopping() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, for a loop to end on; a second Ctrl-C interrupts at once."""
    stop = threading.Event()

    def ask(number: int, frame: object) -> None:  # noqa: ARG001
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    with _handled(ask):
        yield stop


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Both raise KeyboardInterrupt, even where a shell started us with Ctrl-C ignored."""

    def interrupt(number: int, frame: object) -> NoReturn:  # noqa: ARG001
        raise KeyboardInterrupt

    with _handled(interrupt):
        yield


@contextlib.contextmanager
def _handled(handler: Callable[[int, object], None]) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
