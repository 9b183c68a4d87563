"""Run records on a real server: every script done normally, repeated after a lost reply, stale, busy, lost.

A lost reply is played by doing the same call again with the same token, which is all a caller could do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fleetbeat import keys
from fleetbeat.clients.drift import Drifts, dump
from fleetbeat.clients.runs import Refusal, Runs, Turn
from fleetbeat.clients.store import Store
from fleetbeat.decisions.drift import DriftLedger, Row
from fleetbeat.decisions.events import Event
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Manager
from fleetbeat.settings import Beat, Lock, Settings

KEY = bytes(range(32))
TOLD = Event("Progressing", "told")
SETTINGS = Settings(lock=Lock(ttl=30.0, margin=2.0), beat=Beat(lease=20.0), history=3)


@pytest.fixture
def store(redis_url: str) -> Store:
    store = Store(redis_url, KEY)
    store.redis.hset(keys.PERIODS, mapping={"shop": "60000:0"})
    store.redis.zadd(keys.DUE, {"shop": 0})
    return store


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store, SETTINGS)


def now_ms(store: Store) -> int:
    seconds, micros = store.redis.time()
    return seconds * 1000 + micros // 1000


def due_at(store: Store) -> int:
    """When beat rings shop, ms since epoch."""
    score = store.redis.zscore(keys.DUE, "shop")
    assert score is not None
    return int(score)


def rings_in(store: Store, seconds: float, since: int) -> bool:
    """Does beat ring shop so long after some moment from ``since`` until now? However long a call took."""
    return since <= due_at(store) - seconds * 1000 <= now_ms(store)


def started(runs: Runs, run: str = "r1", step: str = "pull") -> int:
    fence = runs.start("shop", run, {"step": step, "digest": "sha256:1"}, event=TOLD)
    assert fence is not None
    return fence


def begun(runs: Runs, run: str = "r1", step: str = "pull", token: str = "t1") -> Turn:  # noqa: S107
    turn = runs.begin("shop", run, step, int(runs.look("shop").run["fence"]), token)
    assert isinstance(turn, Turn)
    return turn


def test_a_turn_knows_the_time_by_the_servers_clock(runs: Runs, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one host notes another goes on with, and their clocks differ."""
    started(runs)
    monkeypatch.setattr("time.time", lambda: 0.0)
    turn = begun(runs)
    assert turn.now() * 1000 == pytest.approx(now_ms(store), abs=600_000)


def expire_lock(store: Store) -> None:
    store.redis.delete(keys.lock("shop"))


# ── start ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_start_writes_the_record_and_a_lease(runs: Runs, store: Store) -> None:
    before, fence = now_ms(store), started(runs)
    record = runs.look("shop").run
    assert record["run"] == "r1"
    assert (record["step"], record["state"], record["tries"]) == ("pull", "queued", "0")
    assert record["fence"] == str(fence)
    assert rings_in(store, 20, before)
    assert 0 < store.redis.pttl(keys.run("shop")) <= 7 * 86_400_000


def test_start_repeated_gives_the_same_fence(runs: Runs) -> None:
    assert started(runs) == started(runs)


def test_start_beside_another_run_is_refused(runs: Runs) -> None:
    """Field case j12."""
    started(runs)
    assert runs.start("shop", "r2", {"step": "pull"}, event=TOLD) is None
    assert runs.look("shop").run["run"] == "r1"


def test_of_many_starts_at_once_one_wins(redis_url: str, store: Store) -> None:
    """Field case j12."""
    gate, won = threading.Barrier(8), []

    def start(name: str) -> None:
        mine = Runs(Store(redis_url, KEY), SETTINGS)
        mine.look("shop")  # connected
        gate.wait()
        if mine.start("shop", name, {"step": "pull"}, event=TOLD) is not None:
            won.append(name)

    threads = [threading.Thread(target=start, args=(f"r{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert Runs(store, SETTINGS).look("shop").run["run"] == won[0]


def test_start_takes_up_its_request_and_no_later_one(runs: Runs) -> None:
    runs.request("shop", "q1", by="ada", reason="")
    runs.request("shop", "q2", by="bob", reason="")
    runs.start("shop", "r1", {"step": "pull"}, event=TOLD, request="q1")
    assert runs.look("shop").request["id"] == "q2"


# ── begin ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_begin_takes_lock_and_a_higher_fence(runs: Runs, store: Store) -> None:
    first, before = started(runs), now_ms(store)
    turn = begun(runs)
    assert turn.fence > first
    assert turn.record["tries"] == "1"
    assert turn.record["digest"] == "sha256:1"
    assert store.redis.get(keys.lock("shop")) == b"t1"
    assert rings_in(store, 30.25, before), "looked at again just after the lock could have expired"


def test_begin_repeated_gives_the_same_turn(runs: Runs) -> None:
    fence = started(runs)
    first, second = (runs.begin("shop", "r1", "pull", fence, "t1") for _ in range(2))
    assert first == second
    assert isinstance(second, Turn)
    assert second.record["tries"] == "1"


@pytest.mark.parametrize(
    ("run", "step", "off", "why"),
    [
        pytest.param("r1", "pull", 0, "stale", id="a duplicate of the message that is being worked on"),
        pytest.param("r1", "pull", 1, "busy", id="a message rung again too early"),
        pytest.param("r1", "render", 0, "stale", id="another step"),
        pytest.param("r0", "pull", 0, "stale", id="an earlier run"),
        pytest.param("r1", "pull", 9, "stale", id="a fence from nowhere"),
    ],
)
def test_begin_while_another_works(runs: Runs, run: str, step: str, off: int, why: str) -> None:
    """Field case j1."""
    fence = started(runs)
    turn = begun(runs)
    assert runs.begin("shop", run, step, fence + off, "t2") == Refusal(why)
    assert runs.renew(turn), "the one at work keeps its lock"


def test_begin_without_a_run_is_stale(runs: Runs) -> None:
    assert runs.begin("shop", "r1", "pull", 1, "t1") == Refusal("stale")


def test_of_many_duplicates_at_once_one_works(redis_url: str, runs: Runs) -> None:
    fence, gate, turns = started(runs), threading.Barrier(8), []

    def begin(token: str) -> None:
        mine = Runs(Store(redis_url, KEY), SETTINGS)
        mine.look("shop")
        gate.wait()
        turns.append(mine.begin("shop", "r1", "pull", fence, token))

    threads = [threading.Thread(target=begin, args=(f"t{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(isinstance(turn, Turn) for turn in turns) == 1
    assert runs.look("shop").run["tries"] == "1"


def test_a_successor_of_a_killed_execution_counts_the_try(runs: Runs, store: Store) -> None:
    started(runs)
    first = begun(runs)
    expire_lock(store)
    second = begun(runs, token="t2")
    assert second.fence > first.fence
    assert second.record["tries"] == "2"


# ── advance and wait ─────────────────────────────────────────────────────────────────────────────────────────────


def test_advance_names_the_next_step_and_gives_the_lock_back(runs: Runs, store: Store) -> None:
    started(runs)
    turn, before = begun(runs), now_ms(store)
    assert runs.advance(turn, "render", {"layer": "sha256:2"})
    record = runs.look("shop").run
    assert (record["step"], record["state"], record["layer"], record["tries"]) == ("render", "queued", "sha256:2", "0")
    assert record["fence"] == str(turn.fence), "the next message carries it"
    assert not store.redis.exists(keys.lock("shop"))
    assert rings_in(store, 20, before)


def test_advance_repeated_writes_nothing_twice(runs: Runs) -> None:
    started(runs)
    turn = begun(runs)
    assert runs.advance(turn, "render", {})
    after = begun(runs, step="render", token="t2")
    assert runs.advance(turn, "render", {"layer": "late"}), "the reply was lost: it did happen"
    assert "layer" not in runs.look("shop").run
    assert runs.renew(after)


Deed = Callable[[Runs, Turn], bool]
DEEDS: dict[str, Deed] = {
    "advance": lambda runs, turn: runs.advance(turn, "render", {"layer": "x"}),
    "wait": lambda runs, turn: runs.wait(turn, "pull", 5, {"layer": "x"}),
    "finish": lambda runs, turn: (
        runs.finish(turn, entry="{}", event=TOLD, state={"phase": "Succeeded"}, next_look=None) not in ("lost",)
    ),
}


@pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS.keys())
@pytest.mark.parametrize("how", ["expired", "taken over", "flushed", "another run"])
def test_who_has_lost_the_lock_changes_nothing(runs: Runs, store: Store, deed: Deed, how: str) -> None:
    started(runs)
    turn = begun(runs)
    expire_lock(store)
    if how == "taken over":
        begun(runs, token="t2")
    elif how == "flushed":
        store.redis.flushall()
    elif how == "another run":
        store.redis.delete(keys.run("shop"))
        started(runs, "r2")
    before = runs.look("shop"), store.redis.zrange(keys.DUE, 0, -1), runs.history("shop")
    assert deed(runs, turn) is False
    assert (runs.look("shop"), store.redis.zrange(keys.DUE, 0, -1), runs.history("shop")) == before


def test_wait_wakes_beat_for_its_time(runs: Runs, store: Store) -> None:
    started(runs)
    turn, before = begun(runs), now_ms(store)
    assert runs.wait(turn, "apply:0", 1.5, {"looks": 1})
    record = runs.look("shop").run
    assert (record["state"], record["step"]) == ("waiting", "apply:0")
    assert rings_in(store, 1.5, before)
    assert store.redis.llen(keys.BELL) == 1


@pytest.mark.parametrize("ahead", [90_000, -5000], ids=["to-come", "past"])
def test_a_wait_for_a_moment_ends_then_however_late_it_begins(runs: Runs, store: Store, ahead: int) -> None:
    started(runs)
    turn, before = begun(runs), now_ms(store)
    assert runs.wait(turn, "apply:0", 1.5, {}, until=before + ahead)
    wake = int(runs.look("shop").run["wake"])
    assert wake == before + ahead if ahead > 0 else before <= wake <= now_ms(store)
    assert store.redis.zscore(keys.DUE, "shop") == wake


def test_a_long_wait_is_looked_at_on_the_way(runs: Runs, store: Store) -> None:
    """Until its time has come each look leaves it alone, sets the next one and keeps the record another week."""
    started(runs)
    turn, before = begun(runs), now_ms(store)
    assert runs.wait(turn, "apply:0", 900_000, {"window": "mark", "look": 60_000})
    assert rings_in(store, 60, before)
    store.redis.pexpire(keys.run("shop"), 600_000)
    store.redis.zadd(keys.DUE, {"shop": 0})
    before = now_ms(store)
    assert runs.resume("shop") == "waiting"
    assert rings_in(store, 60, before)
    assert store.redis.pttl(keys.run("shop")) > 6 * 86_400_000
    wake = now_ms(store) + 59_000
    store.redis.hset(keys.run("shop"), "wake", wake)
    assert runs.resume("shop") == "waiting"
    assert due_at(store) == wake, "never later than its time"


# ── resume ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_resume_leaves_a_run_alone_that_is_at_work(runs: Runs, store: Store) -> None:
    started(runs)
    before = now_ms(store)
    begun(runs)
    assert runs.resume("shop") == "working"
    assert rings_in(store, 30.25, before)


def test_resume_leaves_a_message_its_time(runs: Runs, store: Store) -> None:
    before = now_ms(store)
    started(runs)
    assert runs.resume("shop") == "queued"
    assert rings_in(store, 20, before)


@pytest.mark.parametrize(("warn", "seconds"), [(30, 30), (90, 60), (-5, 60)])
def test_a_wait_is_rung_when_its_end_is_to_be_told(runs: Runs, store: Store, warn: int, seconds: int) -> None:
    """Before the next look or after it; what is past rings nobody."""
    started(runs)
    turn = begun(runs)
    before = now_ms(store)
    at = before + warn * 1000
    assert runs.wait(turn, "apply:0", 900, {"window": "hold x", "look": 60_000, "warn": at})
    first = due_at(store)
    assert runs.resume("shop") == "waiting"
    for rung in (first, due_at(store)):
        assert rung == at if seconds == warn else before <= rung - 60_000 <= now_ms(store)


def test_what_is_due_is_told_once(runs: Runs, store: Store) -> None:
    started(runs)
    runs.note("shop", "r1", {"warn": 5})
    runs.remember("shop", {"held_warn": 7})
    told = store.redis.xlen(keys.EVENTS)
    assert [runs.say_once("shop", "warn", at, TOLD, of_run=True) for at in ("6", "5", "5")] == [False, True, False]
    assert [runs.say_once("shop", "held_warn", "7", TOLD, of_run=False) for _ in range(2)] == [True, False]
    assert store.redis.xlen(keys.EVENTS) == told + 2
    assert not runs.say_once("gone", "warn", "5", TOLD, of_run=True)
    assert not store.redis.exists(keys.run("gone"))


def test_resume_leaves_a_wait_its_time(runs: Runs) -> None:
    started(runs)
    runs.wait(begun(runs), "pull", 600, {})
    assert runs.resume("shop") == "waiting"


def test_resume_ends_a_wait_when_told_so(runs: Runs) -> None:
    started(runs)
    turn = begun(runs)
    runs.wait(turn, "pull", 600, {})
    assert runs.resume("shop", now=True) == ("r1", "pull", turn.fence)
    assert runs.resume("shop", now=True) == "queued", "and publishes it once"


def _asked(runs: Runs, store: Store) -> None:
    assert runs.request("shop", "q1", by="anna", reason="", confirm_prune=True) == "r1"


def _awaited(runs: Runs, store: Store) -> None:
    runs.wait_for_others("shop", ["database"])
    runs.ring_waiters("database")


def _claimed(runs: Runs, store: Store) -> None:
    assert runs.resume("shop") in ("working", "queued")


@pytest.mark.parametrize(
    ("at_work", "ring"),
    [
        (True, (_asked, _claimed)),
        (True, (_awaited,)),
        (True, (_awaited, _claimed)),
        (False, (_asked, _claimed)),
        (False, (_awaited, _claimed)),
    ],
)
def test_who_rings_while_a_step_is_on_its_way_is_heard_when_it_waits(
    runs: Runs, store: Store, at_work: bool, ring: tuple[Callable[[Runs, Store], None], ...]
) -> None:
    """A confirmation, the end of what is waited for: it may have come too late for the step to see it."""
    started(runs)
    turn = begun(runs) if at_work else None
    for act in ring:
        act(runs, store)
    assert runs.wait(turn or begun(runs), "pull", 60, {})
    assert due_at(store) <= now_ms(store)
    assert store.redis.llen(keys.BELL) == 1
    # Once: the look that follows finds what it finds, and the wait goes on.
    assert runs.resume("shop", now=True) == ("r1", "pull", int(runs.look("shop").run["fence"]))
    again, before = begun(runs, token="t2"), now_ms(store)
    assert runs.wait(again, "pull", 60, {})
    assert rings_in(store, 60, before)


def test_resume_goes_on_after_a_wait(runs: Runs) -> None:
    started(runs)
    turn = begun(runs)
    runs.wait(turn, "pull", 0, {})
    assert runs.resume("shop") == ("r1", "pull", turn.fence)


def test_resume_takes_up_the_step_of_a_killed_worker(runs: Runs, store: Store) -> None:
    """Field case j6."""
    started(runs)
    turn = begun(runs)
    expire_lock(store)
    assert runs.resume("shop") == ("r1", "pull", turn.fence)
    assert runs.resume("shop") == "queued", "one message, however often beat looks"


def test_resume_rings_a_lost_message_and_doubles_its_patience(runs: Runs, store: Store) -> None:
    fence = started(runs)
    for patience in (40, 80, 160):
        before = now_ms(store)
        store.redis.hset(keys.run("shop"), "queued", before - 2000 * patience)
        assert runs.resume("shop") == ("r1", "pull", fence)
        assert rings_in(store, patience, before)


@pytest.mark.parametrize("state", ["waiting", "queued"])
def test_resume_goes_on_when_the_clock_went_back(runs: Runs, store: Store, state: str) -> None:
    """Field case j4: what was noted an hour ahead is not waited for an hour."""
    started(runs)
    turn = begun(runs)
    runs.wait(turn, "pull", 600, {}) if state == "waiting" else runs.advance(turn, "pull", {})
    for name in ("queued", "wake"):
        store.redis.hincrby(keys.run("shop"), name, 3_600_000)
    assert runs.resume("shop") == ("r1", "pull", turn.fence)


def test_resume_cuts_a_lock_from_before_the_clock_went_back(runs: Runs, store: Store) -> None:
    """Field case j4: Redis keeps the end of a lock as a time of day."""
    started(runs)
    begun(runs)
    store.redis.pexpire(keys.lock("shop"), 3_600_000)
    before = now_ms(store)
    assert runs.resume("shop") == "working"
    assert rings_in(store, 30.25, before)
    assert 0 < store.redis.pttl(keys.lock("shop")) <= 30_000


def test_resume_without_a_run(runs: Runs) -> None:
    assert runs.resume("shop") == "no run"


# ── note ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_note_adds_to_its_run_only(runs: Runs, store: Store) -> None:
    runs.note("shop", "r1", {"next": "sha256:2"})
    assert not store.redis.exists(keys.run("shop")), "a record without a run would block the application for ever"
    started(runs)
    runs.note("shop", "r0", {"next": "sha256:2"})
    assert "next" not in runs.look("shop").run
    runs.note("shop", "r1", {"next": "sha256:2"})
    assert runs.look("shop").run["next"] == "sha256:2"


# ── finish ───────────────────────────────────────────────────────────────────────────────────────────────────────


def finish(runs: Runs, turn: Turn, *, next_look: float | None = None, entry: str = '{"run":"r1"}') -> str:
    return runs.finish(turn, entry=entry, event=TOLD, state={"phase": "Succeeded"}, next_look=next_look)


def test_finish_leaves_history_and_state_and_nothing_else(runs: Runs, store: Store) -> None:
    started(runs)
    turn, before = begun(runs), now_ms(store)
    assert finish(runs, turn) == "ok"
    assert not store.redis.exists(keys.run("shop"), keys.lock("shop"))
    assert runs.history("shop") == ['{"run":"r1"}']
    assert runs.look("shop").state["last_run"] == "r1"
    assert before < due_at(store) <= now_ms(store) + 60_000
    assert due_at(store) % 60_000 == 0, "the regular slot"


def slot_in_an_hour(runs: Runs, store: Store) -> int:
    """Make the next regular slot lie an hour ahead, whatever time it is; ms since epoch."""
    slot = runs.now() + 3_600_000
    store.redis.hset(keys.PERIODS, "shop", f"7200000:{slot % 7_200_000}")
    return slot


@pytest.mark.parametrize("minutes", [-5, 30, 90], ids=["over", "before", "after"])
def test_what_is_due_before_the_regular_slot_is_looked_at_then(runs: Runs, store: Store, minutes: int) -> None:
    """A hold ends: at the end of a run, and asked for by a look without one."""
    started(runs)
    turn = begun(runs)
    slot, before = slot_in_an_hour(runs, store), runs.now()
    at = before + minutes * 60_000
    runs.finish(turn, entry="{}", event=TOLD, state={"phase": "Succeeded"}, next_look=None, look_by=at)
    if minutes < 0:
        assert before <= due_at(store) <= runs.now()
    else:
        assert due_at(store) == min(at, slot)


def test_the_drift_ledger_is_written_with_the_end_of_a_run(runs: Runs, store: Store) -> None:
    """In the same call, once, and not at all when it is as it was."""
    key, drifts = keys.drift("shop"), Drifts(store)

    def end(run: str, **more: Any) -> str:
        started(runs, run)
        turn = begun(runs, run, token=run)
        runs.finish(turn, entry="{}", event=TOLD, state={}, next_look=None, **more)
        return runs.finish(turn, entry="{}", event=TOLD, state={}, next_look=None, drift="twice", drift_kept=1)

    assert end("r1") == "ok"
    assert store.redis.exists(key) == 0
    row = Row(1, 2, Manager("kubectl-edit", "Update", "t"), healed=1, healed_at=2, run="r2")
    ledger = DriftLedger({ObjectId("", "ConfigMap", "shop", "web"): {"data.k": row}}, cluster="prod")
    end("r2", drift=dump(ledger), drift_kept=60_000)
    assert drifts.read("shop") == ledger
    assert 0 < store.redis.pttl(key) <= 60_000
    end("r3")
    assert drifts.read("shop") == ledger
    end("r4", drift=dump(ledger))
    assert store.redis.pttl(key) == -1, "something stands"


_LATER = '{"rows": {"/ConfigMap/shop/web": {"data.k": %s}}, "often": {}, "about": [], "cluster": "prod", "cut": 0}'


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "{}", '{"rows": {"x": {}}}', '{"rows": 1, "often": 2}'),
        _LATER % '["2026-11-30", 2, null, 0, 0, 0, "r1", null]',
        _LATER % '[1, 2, null, 0, 0, 0, "r1", [["x"], 0, 0, 0, ""]]',
        _LATER % '[1, 2, null, {}, 0, 0, "r1", null]',
        _LATER % '[1, 2, null, 0, 0, 0, "r1", null, "a later version"]',
    ],
)
def test_a_drift_ledger_of_another_form_is_none(store: Store, text: str) -> None:
    store.redis.set(keys.drift("shop"), text)
    assert Drifts(store).read("shop") == DriftLedger()


def test_a_look_asks_for_the_next_one_by_a_moment_but_moves_no_ring(runs: Runs, store: Store) -> None:
    rung = runs.now() - 1
    slot = slot_in_an_hour(runs, store)
    store.redis.zadd(keys.DUE, {"shop": slot})
    at = slot - 1_800_000
    runs.look_by("shop", at)
    assert store.redis.zscore(keys.DUE, "shop") == at
    runs.look_by("shop", slot + 1)
    assert store.redis.zscore(keys.DUE, "shop") == at, "the regular slot comes first"
    store.redis.zadd(keys.DUE, {"shop": rung})
    runs.look_by("shop", at)
    assert store.redis.zscore(keys.DUE, "shop") == rung, "somebody has rung"
    runs.look_by("blog", at)
    assert store.redis.zscore(keys.DUE, "blog") is None, "it has left the catalog"


def test_a_look_at_the_latest_by_then_puts_nothing_off(runs: Runs, store: Store) -> None:
    for sooner in (0, runs.now() + 1_000_000):
        store.redis.zadd(keys.DUE, {"shop": sooner})
        runs.look_again("shop", 2000, at_the_latest=True)
        assert store.redis.zscore(keys.DUE, "shop") == sooner
    runs.look_again("shop", 500, at_the_latest=True)
    score = store.redis.zscore(keys.DUE, "shop")
    assert score is not None
    assert score <= runs.now() + 500_000
    runs.look_again("blog", 1, at_the_latest=True)
    assert store.redis.zscore(keys.DUE, "blog") is None, "it has left the catalog"


def test_no_run_begins_by_a_look_from_before_another_one(runs: Runs, store: Store) -> None:
    """Field case j12: two look at once, and one stands still while the other's run comes and goes."""
    looked = runs.look("shop")
    started(runs)
    finish(runs, begun(runs))
    store.redis.delete(keys.BELL)
    since = now_ms(store)
    assert runs.start("shop", "r2", {"step": "pull"}, event=TOLD, seen=looked) is None
    assert runs.look("shop").run == {}
    assert rings_in(store, 0, since), "it is looked at again: that run may not have seen what this look has"
    assert store.redis.llen(keys.BELL) == 1
    assert runs.start("shop", "r2", {"step": "pull"}, event=TOLD, seen=runs.look("shop")) is not None


@pytest.mark.parametrize("waits", [False, True], ids=["before it waits", "while it waits"])
def test_who_would_begin_a_run_beside_another_is_heard_when_that_one_waits(
    runs: Runs, store: Store, waits: bool
) -> None:
    """A request is looked at just as another look's run begins, which waits for a window that lets people through."""
    looked = runs.look("shop")
    started(runs)
    turn = begun(runs)
    if waits:
        assert runs.wait(turn, "pull", 600, {})
    since = now_ms(store)
    assert runs.start("shop", "r2", {"step": "pull"}, event=TOLD, seen=looked) is None
    if not waits:
        assert runs.wait(turn, "pull", 600, {})
    assert rings_in(store, 0, since)


def test_an_application_that_left_the_catalog_meanwhile_is_due_no_more(runs: Runs, store: Store) -> None:
    started(runs)
    turn = begun(runs)
    store.redis.hdel(keys.PERIODS, "shop")
    assert finish(runs, turn) == "ok"
    assert store.redis.zscore(keys.DUE, "shop") is None


def test_finish_repeated_is_told_once(runs: Runs) -> None:
    started(runs)
    turn = begun(runs)
    assert [finish(runs, turn) for _ in range(3)] == ["ok"] * 3
    assert len(runs.history("shop")) == 1


def test_a_run_that_repeats_the_last_one_takes_no_refusals_place(runs: Runs) -> None:
    """An override that is refused between reading history and writing it, told to whoever asked by that entry alone."""
    started(runs)
    finish(runs, begun(runs))

    def again(run: str, replaces: str) -> list[str]:
        started(runs, run)
        turn, entry = begun(runs, run, token=run), f'{{"run":"{run}"}}'
        runs.finish(turn, entry=entry, event=TOLD, state={}, next_look=None, replaces=replaces)
        return runs.history("shop")

    assert again("r2", "r1") == ['{"run":"r2"}']
    runs.request("shop", "q1", by="ada", reason="", override_windows="1")
    assert runs.refuse("shop", "q1", entry='{"run":"no","request":"q1"}', event=TOLD)
    assert not runs.refuse("shop", "q1", entry='{"run":"no","request":"q1"}', event=TOLD), "once"
    assert again("r3", "r2") == ['{"run":"r3"}', '{"run":"no","request":"q1"}', '{"run":"r2"}']


def test_finish_repeated_leaves_the_next_run_alone(runs: Runs) -> None:
    started(runs)
    turn = begun(runs)
    finish(runs, turn)
    started(runs, "r2")
    assert finish(runs, turn) == "ok"
    assert runs.look("shop").run["run"] == "r2"


def test_finish_looks_again_at_once_when_asked_meanwhile(runs: Runs, store: Store) -> None:
    started(runs)
    turn = begun(runs)
    assert runs.request("shop", "q1", by="ada", reason="") == "r1"
    assert finish(runs, turn) == "again"
    assert due_at(store) <= now_ms(store)
    assert store.redis.llen(keys.BELL) == 1
    assert runs.look("shop").request["id"] == "q1"


@pytest.mark.parametrize(("next_look", "again"), [(None, True), (60.0, False)], ids=["went well", "failed"])
def test_finish_looks_again_at_what_a_watch_noticed_unless_it_failed(
    runs: Runs, store: Store, next_look: float | None, again: bool
) -> None:
    """What fails a run may be the very thing that moves all the time."""
    started(runs)
    turn, before = begun(runs), now_ms(store)
    store.redis.hset(keys.run("shop"), "noticed", 1)
    assert finish(runs, turn, next_look=next_look) == ("again" if again else "ok")
    assert rings_in(store, 0 if again else 60, before)


def test_finish_looks_again_when_told(runs: Runs, store: Store) -> None:
    started(runs)
    turn, before = begun(runs), now_ms(store)
    finish(runs, turn, next_look=7.0)
    assert rings_in(store, 7, before)


def test_history_is_cut(runs: Runs) -> None:
    for number in range(5):
        started(runs, f"r{number}")
        finish(runs, begun(runs, f"r{number}"), entry=str(number))
    assert runs.history("shop") == ["4", "3", "2"]


# ── request ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_request_claims_and_the_last_one_counts(runs: Runs, store: Store) -> None:
    assert runs.request("shop", "q1", by="ada", reason="one") == ""
    assert runs.request("shop", "q2", by="bob", reason="two") == ""
    assert runs.look("shop").request.items() >= {"id": "q2", "by": "bob", "reason": "two"}.items()
    assert runs.request("shop", "q3", by="eve", reason="", confirm_prune=True) == ""
    assert runs.look("shop").request["confirm_prune"] == "1"
    store.redis.hset(keys.state("shop"), "would_empty", "sha256:ab")
    assert runs.request("shop", "q3", by="eve", reason="", confirm_prune=True) == ""
    assert runs.look("shop").request["confirm_prune"] == "sha256:ab", "what was told of when it was agreed to"
    before = now_ms(store)
    assert runs.request("shop", "q4", by="bob", reason="") == ""
    assert "confirm_prune" not in runs.look("shop").request, "who asks later has confirmed nothing"
    assert rings_in(store, 20, before)


def test_request_for_an_unknown_application(runs: Runs, store: Store) -> None:
    assert runs.request("nosuch", "q1", by="ada", reason="") is None
    assert not store.redis.exists(keys.request("nosuch"))


# ── fence ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_fence_is_never_lowered(runs: Runs) -> None:
    runs.raise_fence(50)
    runs.raise_fence(20)
    assert started(runs) == 51
