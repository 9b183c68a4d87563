"""Requests of one step in parallel: a bounded number at once, and none under way after the step has ended.

The threads are shared by all steps of a process, but each cluster has so many of them at most: one that hangs takes
none from another's requests. A step has at most ``at_once`` calls among its cluster's, so that an application of 5,000
objects lets one of five go first in between (field case j9).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from typing import Any, Protocol, TypeVar

from fleetbeat.errors import LostLock

T = TypeVar("T")
R = TypeVar("R")


class Threads(Protocol):
    """Where calls run: an executor, or a cluster's share of one."""

    def submit(self, call: Callable[[T], R], item: T, /) -> Future[R]: ...


class Lane:
    """At most ``width`` calls at once on threads that others use too, begun in the order they came. Thread-safe."""

    def __init__(self, threads: Executor, width: int) -> None:
        self._threads = threads
        self._width = width
        self._lock = threading.Lock()
        self._queue: deque[tuple[Future[Any], Callable[[Any], Any], Any]] = deque()
        self._running = 0

    def submit(self, call: Callable[[T], R], item: T, /) -> Future[R]:
        future: Future[R] = Future()
        with self._lock:
            self._queue.append((future, call, item))
            if self._running == self._width:
                return future
            self._running += 1
        self._threads.submit(self._work)
        return future

    def _work(self) -> None:
        """One thread's share: until nothing is left to begin."""
        while True:
            with self._lock:
                if not self._queue:
                    self._running -= 1
                    return
                future, call, item = self._queue.popleft()
            future.set_running_or_notify_cancel()
            try:
                result = call(item)
            except BaseException as error:  # noqa: BLE001 - it is the waiting step's to raise
                future.set_exception(error)
            else:
                future.set_result(result)


class Lanes:
    """For each cluster a lane of the same threads. Thread-safe: one for a process."""

    def __init__(self, threads: Executor, *, width: int, at_once: int) -> None:
        """``width``: calls of one cluster at once; ``at_once``: of one step, in the same lane.

        ``threads`` must be able to hold every call that the process' steps may have at once.
        """
        self._threads = threads
        self._width = width
        self._at_once = at_once
        self._lock = threading.Lock()
        self._lanes: dict[str, Requests] = {}

    def of(self, cluster: str) -> Requests:
        with self._lock:
            if cluster not in self._lanes:
                self._lanes[cluster] = Requests(Lane(self._threads, self._width), self._at_once)
            return self._lanes[cluster]


class Requests:
    """Thread-safe: one for a cluster in a process, used by many steps."""

    def __init__(self, threads: Threads, at_once: int) -> None:
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
