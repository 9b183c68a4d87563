"""The due set on a real server: who is due when, who takes it, and what a lost reply or a flush does to it."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time

import pytest

from fleetbeat import keys, wire
from fleetbeat.clients.due import Claimed, DueSet, Registered
from fleetbeat.clients.store import Store
from fleetbeat.decisions.schedule import next_slot, slot_offset
from fleetbeat.errors import StoreUnavailable
from fleetbeat.settings import Beat

KEY = bytes(range(32))
SETTINGS = Beat(lease=30.0, start_rate=100.0, idle=1.0)


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, KEY)


@pytest.fixture
def due(store: Store) -> DueSet:
    return DueSet(store, SETTINGS)


def now_ms(store: Store) -> int:
    seconds, micros = store.redis.time()
    return seconds * 1000 + micros // 1000


def score(store: Store, app: str) -> int | None:
    value = store.redis.zscore(keys.DUE, app)
    return None if value is None else int(value)


def make_due(store: Store, *apps: str) -> None:
    store.redis.zadd(keys.DUE, {app: now_ms(store) - 5 for app in apps})


def slot(app: str, at: int, period: float) -> int:
    return next_slot(at, int(period * 1000), slot_offset(app, int(period * 1000)))


def is_next_slot(store: Store, app: str, period: float, since: int) -> bool:
    """Is it due at the slot that followed some moment from ``since`` until now?"""
    due = score(store, app)
    return due is not None and slot(app, since, period) <= due <= slot(app, now_ms(store), period)


# ── register ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_new_applications_are_spread_at_the_start_rate(due: DueSet, store: Store) -> None:
    """Field case j10."""
    before = now_ms(store)
    assert due.register({f"app-{i}": 60.0 for i in range(500)}) == Registered(added=500, removed=0)
    scores = sorted(int(value) for _, value in store.redis.zrange(keys.DUE, 0, -1, withscores=True))
    assert before <= scores[0] <= now_ms(store)
    assert scores[-1] - scores[0] == 4990
    assert all(later - earlier == 10 for earlier, later in itertools.pairwise(scores))


def test_names_alike_do_not_become_due_in_the_order_of_the_alphabet(due: DueSet, store: Store) -> None:
    due.register({f"app-{i:03}": 60.0 for i in range(100)})
    order = [app.decode() for app in store.redis.zrange(keys.DUE, 0, -1)]
    assert order != sorted(order)


def test_registering_the_same_again_changes_nothing(due: DueSet, store: Store) -> None:
    periods = {"shop": 60.0, "blog": 300.0}
    due.register(periods)
    make_due(store, "shop")
    held = store.redis.zrange(keys.DUE, 0, -1, withscores=True)
    assert due.register(periods) == Registered(0, 0)
    assert store.redis.zrange(keys.DUE, 0, -1, withscores=True) == held


def test_a_vanished_application_leaves_both(due: DueSet, store: Store) -> None:
    due.register({"shop": 60.0, "blog": 60.0})
    assert due.register({"shop": 60.0}) == Registered(added=0, removed=1)
    assert store.redis.hkeys(keys.PERIODS) == [b"shop"]
    assert score(store, "blog") is None


def test_a_vanished_application_with_a_run_is_rung_until_the_run_has_ended(due: DueSet, store: Store) -> None:
    due.register({"shop": 60.0, "blog": 60.0})
    store.redis.hset(keys.run("blog"), "run", "r1")
    due.register({"shop": 60.0})
    make_due(store, "blog")
    assert due.claim(10).urgent == ["blog"]
    store.redis.delete(keys.run("blog"))
    make_due(store, "blog")
    assert "blog" not in due.claim(10).apps
    assert score(store, "blog") is None


def test_the_last_application_may_vanish(due: DueSet, store: Store) -> None:
    due.register({"shop": 60.0})
    assert due.register({}) == Registered(added=0, removed=1)
    assert not store.redis.exists(keys.DUE, keys.PERIODS)
    assert due.register({}) == Registered(0, 0)


def test_a_shorter_period_pulls_the_next_look_forward(due: DueSet, store: Store) -> None:
    due.register({"shop": 86_400.0})
    before = now_ms(store)
    store.redis.zadd(keys.DUE, {"shop": before + 80_000_000})
    due.register({"shop": 60.0})
    assert is_next_slot(store, "shop", 60.0, before)


def test_a_longer_period_leaves_the_next_look_where_it_is(due: DueSet, store: Store) -> None:
    due.register({"shop": 60.0})
    soon = now_ms(store) + 1_000
    store.redis.zadd(keys.DUE, {"shop": soon})
    due.register({"shop": 86_400.0})
    assert score(store, "shop") == soon


@pytest.mark.parametrize("lost", ["everything", keys.DUE, keys.PERIODS, "one member", "one period"])
def test_what_redis_lost_is_restored(due: DueSet, store: Store, lost: str) -> None:
    periods = {f"app-{i}": 60.0 for i in range(50)}
    due.register(periods)
    if lost == "everything":
        store.redis.flushall()
    elif lost == "one member":
        store.redis.zrem(keys.DUE, "app-7")
    elif lost == "one period":
        store.redis.hdel(keys.PERIODS, "app-7")
    else:
        store.redis.delete(lost)
    due.register(periods)
    assert store.redis.zcard(keys.DUE) == store.redis.hlen(keys.PERIODS) == 50


def test_two_beats_registering_at_once_add_each_application_once(store: Store) -> None:
    """Field case j12."""
    periods = {f"app-{i}": 60.0 for i in range(300)}
    added: list[int] = []
    gate = threading.Barrier(2)

    def beat() -> None:
        gate.wait()
        added.append(DueSet(store, SETTINGS).register(periods).added)

    threads = [threading.Thread(target=beat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(added) == [0, 300]


# ── claim and settle ─────────────────────────────────────────────────────────────────────────────────────────────


def test_a_settled_claim_is_due_at_its_next_slot(due: DueSet, store: Store) -> None:
    due.register({"shop": 3600.0})
    claimed = due.claim(10)
    assert claimed.apps == claimed.ticks == ["shop"]
    due.settle(claimed)
    assert is_next_slot(store, "shop", 3600.0, claimed.now_ms)


def test_a_claim_never_settled_is_due_again_when_its_lease_ends(due: DueSet, store: Store) -> None:
    """A beat killed between claim and publish, or a lost reply, costs a lease and not a period."""
    due.register({"shop": 86_400.0})
    claimed = due.claim(10)
    assert score(store, "shop") == claimed.lease_ms == claimed.now_ms + 30_000
    assert due.claim(10).apps == []


def test_a_period_below_the_lease_needs_no_settling(due: DueSet, store: Store) -> None:
    due.register({"shop": 4.0})
    claimed = due.claim(10)
    expected = slot("shop", claimed.now_ms, 4.0)
    assert score(store, "shop") == expected
    due.settle(claimed)
    assert score(store, "shop") == expected


def test_missed_periods_are_skipped(due: DueSet, store: Store) -> None:
    """Field case j4: beat stopped for an hour, one emission: what is due next is yet to come."""
    due.register({"shop": 60.0})
    store.redis.zadd(keys.DUE, {"shop": now_ms(store) - 3_600_000})
    claimed = due.claim(10)
    due.settle(claimed)
    assert claimed.apps == ["shop"]
    assert is_next_slot(store, "shop", 60.0, claimed.now_ms)


def test_a_run_under_way_is_urgent_and_keeps_its_lease(due: DueSet, store: Store) -> None:
    due.register({"shop": 3600.0})
    store.redis.hset(keys.run("shop"), "run", "r1")
    claimed = due.claim(10)
    due.settle(claimed)
    assert claimed.urgent == ["shop"]
    assert score(store, "shop") == claimed.lease_ms


def test_a_request_waiting_is_urgent(due: DueSet, store: Store) -> None:
    due.register({"shop": 3600.0})
    store.redis.hset(keys.request("shop"), "id", "q1")
    assert due.claim(10).urgent == ["shop"]


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda store: store.redis.hset(keys.run("shop"), "run", "r1"), id="a run began"),
        pytest.param(lambda store: store.redis.hset(keys.request("shop"), "id", "q1"), id="a request came"),
        pytest.param(lambda store: store.redis.zadd(keys.DUE, {"shop": 123}), id="a wake-up was written"),
        pytest.param(lambda store: store.redis.zrem(keys.DUE, "shop"), id="it left the catalog"),
    ],
)
def test_settling_leaves_what_changed_since_the_claim(due: DueSet, store: Store, meanwhile) -> None:
    due.register({"shop": 3600.0})
    claimed = due.claim(10)
    meanwhile(store)
    held = score(store, "shop")
    due.settle(claimed)
    assert score(store, "shop") == held


def test_a_member_nobody_registered_is_dropped(due: DueSet, store: Store) -> None:
    make_due(store, "ghost")
    claimed = due.claim(10)
    assert (claimed.apps, claimed.next_due_ms, claimed.idle) == ([], None, float("inf"))


def test_the_next_due_time_is_told(due: DueSet, store: Store) -> None:
    due.register({"shop": 60.0, "blog": 60.0})
    now = now_ms(store)
    store.redis.zadd(keys.DUE, {"shop": now + 700_000, "blog": now + 900_000})
    claimed = due.claim(10)
    assert claimed.next_due_ms == now + 700_000
    assert claimed.idle == (now + 700_000 - claimed.now_ms) / 1000


def test_concurrent_claims_share_and_never_double(store: Store) -> None:
    """Field case j3: any number of beats, each application once."""
    due = DueSet(store, dataclasses.replace(SETTINGS, start_rate=1e9))
    due.register({f"app-{i}": 1e9 for i in range(2000)})  # so long that no slot comes while they are at it
    taken: list[str] = []

    def beat() -> None:
        own = DueSet(store, SETTINGS)
        while (claimed := own.claim(37)).looked:
            taken.extend(claimed.apps)
            own.settle(claimed)

    threads = [threading.Thread(target=beat) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == len(set(taken)) == 2000


def test_slots_spread_a_fleet_over_its_period(due: DueSet, store: Store) -> None:
    """Field case j10: no 100 ms of a minute rings more than 1 % of 2,000 applications."""
    due.register({f"team-{i % 40}-app-{i}": 60.0 for i in range(2000)})
    buckets: dict[int, int] = {}
    for rhythm in store.redis.hvals(keys.PERIODS):
        bucket = int(rhythm.split(b":")[1]) // 100
        buckets[bucket] = buckets.get(bucket, 0) + 1
    assert max(buckets.values()) <= 20


def test_ticks_never_outnumber_applications_in_the_queue(due: DueSet, store: Store) -> None:
    """With no worker the queue stays finite (field case j8), and what found no room is looked at again."""
    due.register({f"app-{i}": 3600.0 for i in range(5)})
    queue = keys.PREFIX + wire.TICK_QUEUE
    for _ in range(10):
        make_due(store, *(f"app-{i}" for i in range(5)))
        claimed = due.claim(10)
        assert claimed.looked == 5
        for app in claimed.ticks:
            store.redis.lpush(queue, app)
    assert store.redis.llen(queue) == 5
    assert store.redis.zcount(keys.DUE, f"({claimed.now_ms}", "+inf") == 5
    store.redis.rpop(queue)
    make_due(store, "app-3")
    assert due.claim(10).ticks == ["app-3"]


def test_a_full_tick_queue_does_not_hold_up_runs(due: DueSet, store: Store) -> None:
    due.register({"shop": 60.0})
    store.redis.lpush(keys.PREFIX + wire.TICK_QUEUE, *range(100))
    store.redis.hset(keys.run("shop"), "run", "r1")
    assert due.claim(10).urgent == ["shop"]


# ── ring, bell, heartbeat ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def sleeping(due: DueSet, store: Store) -> DueSet:
    """One application, due in an hour, nobody rung."""
    due.register({"shop": 3600.0})
    store.redis.zadd(keys.DUE, {"shop": now_ms(store) + 3_600_000})
    store.redis.delete(keys.BELL)
    return due


def test_a_ring_makes_due_now_and_wakes(sleeping: DueSet, store: Store) -> None:
    assert sleeping.ring("shop")
    assert sleeping.wait(0.01)
    assert sleeping.claim(10).apps == ["shop"]


def test_a_ring_for_later_does_not_wake(sleeping: DueSet, store: Store) -> None:
    at = now_ms(store) + 600_000
    assert sleeping.ring("shop", at)
    assert score(store, "shop") == at
    assert not sleeping.wait(0.01)


def test_a_ring_within_beats_longest_sleep_wakes(sleeping: DueSet, store: Store) -> None:
    assert sleeping.ring("shop", now_ms(store) + 900)
    assert sleeping.wait(0.01)


@pytest.mark.parametrize(("only_earlier", "moved"), [(True, False), (False, True)])
def test_a_later_ring(sleeping: DueSet, store: Store, only_earlier: bool, moved: bool) -> None:
    held, later = score(store, "shop"), now_ms(store) + 7_200_000
    assert sleeping.ring("shop", later, only_earlier=only_earlier)
    assert score(store, "shop") == (later if moved else held)


def test_ringing_an_unknown_application_writes_nothing(sleeping: DueSet, store: Store) -> None:
    assert not sleeping.ring("ghost")
    assert score(store, "ghost") is None
    assert not store.redis.exists(keys.BELL)


def test_a_hundred_rings_are_one_bell_that_expires(sleeping: DueSet, store: Store) -> None:
    for _ in range(100):
        sleeping.ring("shop", only_earlier=False)
    assert store.redis.llen(keys.BELL) == 1
    assert 0 < store.redis.pttl(keys.BELL) <= 60_000


def test_the_bell_ends_a_wait_at_once(sleeping: DueSet, store: Store) -> None:
    def is_ended_by_it() -> bool:
        ringing = threading.Timer(0.1, sleeping.ring, args=["shop"], kwargs={"only_earlier": False})
        began = time.monotonic()
        ringing.start()
        rung = sleeping.wait(5.0)
        took = time.monotonic() - began
        ringing.join()
        store.redis.delete(keys.BELL)
        return rung and took < 4

    assert any(is_ended_by_it() for _ in range(5)), "one that the machine slept through says nothing"


def test_a_wait_ends_after_its_time(due: DueSet) -> None:
    assert not due.wait(0.05)


def test_a_wait_of_nothing_is_not_for_ever(due: DueSet) -> None:
    assert not due.wait(0.0)


def test_heartbeats_name_living_beats_and_forget_old_ones(due: DueSet, store: Store) -> None:
    store.redis.zadd(keys.BEATS, {"old": now_ms(store) - 90_000_000})
    due.heartbeat("one")
    due.heartbeat("two")
    due.leave("two")
    assert store.redis.zrange(keys.BEATS, 0, -1) == [b"one"]


def test_a_clock_that_goes_back_is_noticed_once(due: DueSet, store: Store) -> None:
    store.redis.zadd(keys.BEATS, {"one": now_ms(store) + 3_600_000, "dead": now_ms(store) + 3_599_000})
    assert due.heartbeat("two") == pytest.approx(3600, abs=60)
    assert due.heartbeat("one") == 0
    assert due.heartbeat("two") == 0


def test_after_the_clock_went_back_nobody_waits_longer_than_a_slot_or_lease(due: DueSet, store: Store) -> None:
    """Field case j4: the clock of the server is set an hour back, played by scores an hour ahead."""
    due.register({f"app-{i}": 60.0 for i in range(20)} | {"soon": 60.0})
    far = now_ms(store) + 3_600_000
    store.redis.zadd(keys.DUE, {f"app-{i}": far for i in range(20)})
    soon = now_ms(store) - 50
    store.redis.zadd(keys.DUE, {"soon": soon})
    store.redis.hset(keys.run("app-3"), "run", "r1")
    before = now_ms(store)
    assert due.realign() == 20
    assert score(store, "soon") == soon
    assert before + 30_000 <= score(store, "app-3") <= now_ms(store) + 30_000
    assert all(is_next_slot(store, f"app-{i}", 60.0, before) for i in range(20) if i != 3)
    assert due.realign() == 0


# ── what holds for all ───────────────────────────────────────────────────────────────────────────────────────────


def test_every_call_but_the_claim_may_be_repeated(due: DueSet, store: Store) -> None:
    """A lost reply: the second call leaves what the first one left."""
    due.register({"shop": 3600.0, "blog": 3600.0})
    store.redis.zadd(keys.DUE, {"blog": now_ms(store) + 3_600_000})
    claimed = due.claim(10)
    for call in (
        lambda: due.settle(claimed),
        lambda: due.ring("blog", claimed.now_ms + 1000),
        lambda: due.register({"shop": 3600.0}),
        lambda: due.realign(),
    ):
        call()
        held = store.redis.zrange(keys.DUE, 0, -1, withscores=True)
        call()
        assert store.redis.zrange(keys.DUE, 0, -1, withscores=True) == held


def test_foreign_errors_stop_here() -> None:
    due = DueSet(Store("redis://user:hunter2@127.0.0.1:1/0", KEY), SETTINGS)
    claimed = Claimed(["shop"], [], 1, 0, 0, None)
    for call in (
        lambda: due.register({"shop": 1.0}),
        lambda: due.claim(1),
        lambda: due.settle(claimed),
        lambda: due.ring("shop"),
        lambda: due.wait(0.1),
        lambda: due.heartbeat("b"),
        lambda: due.realign(),
        lambda: due.leave("b"),
    ):
        with pytest.raises(StoreUnavailable) as caught:
            call()
        assert "hunter2" not in str(caught.value)


# ── what a watch noticed ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_notice_is_claimed_and_settled_like_a_tick(due: DueSet, store: Store) -> None:
    due.register({"shop": 3600.0})
    claimed = due.notice("shop")
    assert claimed is not None
    assert claimed.ticks == ["shop"]
    assert score(store, "shop") == claimed.lease_ms, "a lost message is rung again when the lease ends"
    assert int(store.redis.hget(keys.state("shop"), "noticed") or 0) == claimed.now_ms
    due.settle(claimed)
    assert is_next_slot(store, "shop", 3600.0, claimed.now_ms)


def test_a_notice_during_a_run_is_left_to_the_run(due: DueSet, store: Store) -> None:
    due.register({"shop": 3600.0})
    store.redis.hset(keys.run("shop"), "run", "r1")
    before = score(store, "shop")
    assert due.notice("shop") is None
    assert score(store, "shop") == before
    assert store.redis.hexists(keys.run("shop"), "noticed")


@pytest.mark.parametrize(
    ("interval", "left", "due_after"),
    [
        pytest.param(3600.0, 60_000, 60_000, id="the slot is further away: due when the pause is over"),
        pytest.param(3600.0, -1, None, id="the pause is over: rung"),
    ],
)
def test_a_notice_does_not_cut_the_pause_after_a_failure_short(
    due: DueSet, store: Store, interval: float, left: int, due_after: int | None
) -> None:
    """Field case f3: a storm of edits that fails each run would begin one after the other."""
    due.register({"shop": interval})
    now = now_ms(store)
    store.redis.zadd(keys.DUE, {"shop": now + 3_000_000})
    store.redis.hset(keys.state("shop"), "pause", now + left)
    claimed = due.notice("shop")
    assert (claimed is None) is (due_after is not None)
    if due_after is not None:
        assert score(store, "shop") == now + due_after
        store.redis.zadd(keys.DUE, {"shop": now + 5})
        assert due.notice("shop") is None
        assert score(store, "shop") == now + 5, "a look that comes earlier stays"
    assert int(store.redis.hget(keys.state("shop"), "noticed") or 0) >= now


def test_a_notice_of_an_unknown_application_writes_nothing(due: DueSet, store: Store) -> None:
    assert due.notice("nobody") is None
    assert not store.redis.exists(keys.state("nobody"))
