"""The lock of an application on a real server: renewed, lost, and known to be over without asking anybody."""

from __future__ import annotations

import time

import pytest
from waiting import wait_for

from fleetbeat import keys
from fleetbeat.clients.locks import Lease, held
from fleetbeat.clients.runs import Runs, Turn
from fleetbeat.clients.store import Store
from fleetbeat.decisions.events import Event
from fleetbeat.errors import LostLock
from fleetbeat.settings import Beat, Lock, Settings

SETTINGS = Settings(lock=Lock(ttl=30.0, margin=2.0), beat=Beat(lease=20.0))


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, bytes(range(32)))


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store, SETTINGS)


def begun(runs: Runs, token: str = "t1") -> Turn:  # noqa: S107
    runs.start("shop", "r1", {"step": "pull"}, event=Event("Progressing", "told"))
    turn = runs.begin("shop", "r1", "pull", int(runs.look("shop").run["fence"]), token)
    assert isinstance(turn, Turn)
    return turn


def test_renew(runs: Runs, store: Store) -> None:
    turn = begun(runs)
    store.redis.pexpire(keys.lock("shop"), 15_000)
    assert runs.renew(turn)
    assert runs.renew(turn)
    assert store.redis.pttl(keys.lock("shop")) > 15_000
    store.redis.delete(keys.lock("shop"))
    assert not runs.renew(turn), "an expired lock is not taken again"
    begun(runs, token="t2")
    assert not runs.renew(turn)


def test_a_lease_ends_by_its_own_clock() -> None:
    lease = Lease(Lock(ttl=15.0, margin=2.0), began=-1e9, longest=1e12)
    with pytest.raises(LostLock):
        lease.check()


def test_a_lease_is_over_when_the_step_is(runs: Runs) -> None:
    """A thread that is still at it, whatever held it up, must not pass the guard any more."""
    turn = begun(runs)
    lease = Lease(SETTINGS.lock, began=time.monotonic(), longest=60)
    with held(runs, turn, lease, SETTINGS.lock):
        lease.check()
    with pytest.raises(LostLock):
        lease.check()


def test_renewal_notices_a_takeover(store: Store) -> None:
    often = Lock(ttl=0.6, margin=0.1)  # of whoever renews; the lock in Redis lasts longer than any machine stands still
    runs = Runs(store, SETTINGS)
    turn = begun(runs)
    lease = Lease(SETTINGS.lock, began=time.monotonic(), longest=600)
    with held(runs, turn, lease, often):
        store.redis.pexpire(keys.lock("shop"), 15_000)
        wait_for(lambda: store.redis.pttl(keys.lock("shop")) > 15_000, what="a renewal")
        lease.check()
        store.redis.set(keys.lock("shop"), "somebody else")

        def lost() -> bool:
            try:
                lease.check()
            except LostLock:
                return True
            return False

        wait_for(lost, what="the renewal to notice")
