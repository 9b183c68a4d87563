"""Parallel requests: bounded, in order, and over when they are over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from waiting import wait_for

from fleetbeat.engine.parallel import Requests
from fleetbeat.errors import ClusterUnavailable, LostLock


class Pool(ThreadPoolExecutor):
    """Tells how many calls it was given, and when one of them has failed for everybody to see."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.submitted = 0
        self.failed = threading.Event()

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(*args, **kwargs)
        future.add_done_callback(lambda done: self.failed.set() if done.exception() else None)
        self.submitted += 1
        return future


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def test_results_come_in_order(threads: ThreadPoolExecutor) -> None:
    assert Requests(threads, 3).map(lambda n: n * n, range(50)) == [n * n for n in range(50)]
    assert Requests(threads, 3).map(lambda n: n, []) == []


def test_no_more_than_so_many_at_once(threads: ThreadPoolExecutor) -> None:
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(3)

    def call(_: int) -> None:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        together.wait(60)  # passes only when three are in here
        with lock:
            now -= 1

    Requests(threads, 3).map(call, range(30))
    assert most == 3


def test_a_big_step_lets_a_small_one_go_first_in_between() -> None:
    """Field case j9: nobody waits behind 1,000 requests of another application."""
    with Pool(2) as pool:
        requests = Requests(pool, 2)
        gate, passed, done = threading.Event(), threading.Event(), []

        def slow(n: int) -> None:
            (gate if n < 2 else passed).wait(60)  # two are under way when the small one comes; the rest let it by
            done.append(n)

        def quick(_: int) -> None:
            done.append("small")
            passed.set()

        big = threading.Thread(target=requests.map, args=(slow, range(1000)))
        big.start()
        wait_for(lambda: pool.submitted == 2, what="the big one to fill its share")
        small = threading.Thread(target=requests.map, args=(quick, [0]))
        small.start()
        wait_for(lambda: pool.submitted == 3, what="the small one to come")
        gate.set()
        small.join(60)
        big.join(60)
    assert done.index("small") <= 2


def test_after_an_error_nothing_is_under_way_and_nothing_new_begins() -> None:
    begun, ended = [], []
    with Pool(8) as pool:

        def call(n: int) -> int:
            begun.append(n)
            if n == 2:
                raise ClusterUnavailable("gone")
            pool.failed.wait(60)
            ended.append(n)
            return n

        done, error = Requests(pool, 4).finish(call, range(100))
    assert isinstance(error, ClusterUnavailable)
    assert sorted([*ended, 2]) == sorted(begun)
    assert done == sorted(ended)
    assert sorted(begun) == [0, 1, 2, 3]


def test_a_lost_lock_is_the_error_that_counts(threads: ThreadPoolExecutor) -> None:
    together = threading.Barrier(2)

    def call(error: Exception) -> None:
        together.wait(60)
        raise error

    with pytest.raises(LostLock):
        Requests(threads, 2).map(call, [ClusterUnavailable("gone"), LostLock("taken over")])
