"""Parallel requests: bounded, in order, and over when they are over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from waiting import wait_for

from fleetbeat.engine.parallel import Lanes, Requests
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


def test_a_cluster_that_hangs_takes_no_threads_of_another() -> None:
    """Whatever is waited for there: each cluster has its own share, and no more than that in flight."""
    with ThreadPoolExecutor(64) as pool:
        lanes = Lanes(pool, width=4, at_once=3)
        gate, full, lock = threading.Event(), threading.Event(), threading.Lock()
        now = most = 0

        def hang(_: int) -> None:
            nonlocal now, most
            with lock:
                now += 1
                most = max(most, now)
                if now == 4:
                    full.set()
            gate.wait(30)
            with lock:
                now -= 1

        steps = [threading.Thread(target=lanes.of("hung").map, args=(hang, range(20))) for _ in range(3)]
        try:
            for step in steps:
                step.start()
            assert full.wait(30)
            assert lanes.of("well").map(lambda n: n + 1, range(100)) == list(range(1, 101))
            assert not gate.is_set()
        finally:
            gate.set()
            for step in steps:
                step.join(30)
        assert (now, most) == (0, 4)
        assert lanes.of("hung") is lanes.of("hung")


def test_calls_of_a_cluster_begin_in_the_order_they_came() -> None:
    with ThreadPoolExecutor(8) as pool:
        lanes = Lanes(pool, width=1, at_once=8)
        begun: list[int] = []
        lanes.of("prod").map(begun.append, range(50))
    assert begun == list(range(50))


def test_an_error_in_a_lane_is_the_steps_and_the_lane_goes_on() -> None:
    def fail(_: int) -> None:
        raise ClusterUnavailable("gone")

    with ThreadPoolExecutor(8) as pool:
        requests = Lanes(pool, width=2, at_once=2).of("prod")
        for _ in range(3):  # more often than the lane is wide
            with pytest.raises(ClusterUnavailable):
                requests.map(fail, range(5))
        assert requests.map(lambda n: n, range(5)) == [0, 1, 2, 3, 4]
