"""Requests of one step in parallel: a bounded number at once, and none under way after the step has ended.

The threads are shared by all steps of a process. A step has at most ``at_once`` calls among them, so that an
application of 5,000 objects lets one of five go first in between (field case j9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import TypeVar

from fleetbeat.errors import LostLock

T = TypeVar("T")
R = TypeVar("R")


class Requests:
    """Thread-safe: one for a process, used by many steps."""

    def __init__(self, threads: Executor, at_once: int) -> None:
        self._threads = threads
        self._at_once = at_once

    def map(self, call: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Results in the order of ``items``. Raises the error that matters most, with nothing under way any more."""
        done, error = self.finish(call, items)
        if error is not None:
            raise error
        return done

    def finish(self, call: Callable[[T], R], items: Iterable[T]) -> tuple[list[R], BaseException | None]:
        """Results of what went well, in the order of ``items``, and the error that matters most.

        What has not begun when one fails is left out. Returns only when nothing is under way: who goes on after an
        error gives the lock back, and a request still on its way would then be the write of a stranger.
        """
        waiting = iter(enumerate(items))
        running: dict[Future[R], int] = {}
        results: dict[int, R] = {}
        errors: list[BaseException] = []
        while True:
            while len(running) < self._at_once and not errors:
                following = next(waiting, None)
                if following is None:
                    break
                running[self._threads.submit(call, following[1])] = following[0]
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                position = running.pop(future)
                error = future.exception()
                if error is None:
                    results[position] = future.result()
                else:
                    errors.append(error)
        errors.sort(key=lambda error: not isinstance(error, LostLock))
        return [results[position] for position in sorted(results)], next(iter(errors), None)
