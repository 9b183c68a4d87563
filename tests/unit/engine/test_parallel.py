"""Parallel requests: bounded, in order, and over when they are over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from fleetbeat.engine.parallel import Requests
from fleetbeat.errors import ClusterUnavailable, LostLock


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
        together.wait(5)  # passes only when three are in here
        with lock:
            now -= 1

    Requests(threads, 3).map(call, range(30))
    assert most == 3


def test_a_big_step_lets_a_small_one_go_first_in_between() -> None:
    """Field case j9: nobody waits behind 1,000 requests of another application."""
    with ThreadPoolExecutor(2) as pool:
        requests = Requests(pool, 2)
        gate, done = threading.Event(), []

        def slow(n: int) -> None:
            gate.wait(5)
            done.append(n)

        big = threading.Thread(target=requests.map, args=(slow, range(1000)))
        big.start()
        small = threading.Thread(target=requests.map, args=(lambda _: done.append("small"), [0]))
        small.start()
        gate.set()
        small.join(5)
        position = done.index("small")
        big.join(20)
    assert position < 900


def test_after_an_error_nothing_is_under_way_and_nothing_new_begins(threads: ThreadPoolExecutor) -> None:
    begun, ended = [], []
    failed = threading.Event()

    def call(n: int) -> int:
        begun.append(n)
        if n == 2:
            failed.set()
            raise ClusterUnavailable("gone")
        failed.wait(5)
        ended.append(n)
        return n

    done, error = Requests(threads, 4).finish(call, range(100))
    assert isinstance(error, ClusterUnavailable)
    assert sorted([*ended, 2]) == sorted(begun)
    assert done == sorted(ended)
    assert len(begun) <= 8


def test_a_lost_lock_is_the_error_that_counts(threads: ThreadPoolExecutor) -> None:
    together = threading.Barrier(2)

    def call(error: Exception) -> None:
        together.wait(5)
        raise error

    with pytest.raises(LostLock):
        Requests(threads, 2).map(call, [ClusterUnavailable("gone"), LostLock("taken over")])
