"""The ledger on a real Redis: entries and results together, what a kill leaves behind, trimming, flushes, tampering."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from fleetbeat import keys
from fleetbeat.clients.ledger import LOST, NEW_CHAIN, Ledger, Pen
from fleetbeat.clients.runs import Runs
from fleetbeat.clients.store import Store
from fleetbeat.decisions.ledger import Execution, Place
from fleetbeat.model import CONFIG_MAP, ObjectId
from fleetbeat.ports import Kept, Written
from fleetbeat.settings import Ledger as Limits
from fleetbeat.settings import Settings

BY = Execution("shop", "", "r1", 17, "wave 0", "Request", "ann", "because", "sha256:ab", "v1", "https://git", "abc")
A, B, C = (ObjectId("", "ConfigMap", "shop", name) for name in "abc")


def places(*ids: ObjectId) -> list[Place]:
    return [Place(key, "configmaps") for key in ids]


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, bytes(range(32)))


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return Ledger(store, Limits())


def begun(ledger: Ledger, ids: Sequence[ObjectId] = (A, B), *, fence: int = 17, known_before: bool = False) -> Pen:
    return ledger.pen(dataclasses.replace(BY, fence=fence)).begin("prod", places(*ids), known_before=known_before)


def body(key: ObjectId, version: int, value: str) -> dict[str, object]:
    return {"kind": "ConfigMap", "metadata": {"name": key.name, "resourceVersion": str(version)}, "data": {"k": value}}


def applied(pen: Pen, key: ObjectId, *, audit: str, seen: int = 0, version: int = 1, value: str = "v") -> None:
    written = Written(body(key, version, value), created=not seen, audit_id=audit)
    pen.saw(Kept("apply", CONFIG_MAP, key, str(seen) if seen else "", written))


def audits(ledger: Ledger) -> list[str]:
    return [write.audit_id for entry in ledger.read("shop").entries for write in entry.writes]


def test_results_and_ledger_are_kept_together(ledger: Ledger, store: Store) -> None:
    with begun(ledger) as pen:
        applied(pen, A, audit="a-1")
        pen.explain(A, "new")
        pen.keep("r1", {A.key: '{"result": 1}', B.key: '{"result": 2}'})
    assert Runs(store, Settings()).results("r1") == {A.key: '{"result": 1}', B.key: '{"result": 2}'}
    assert 0 < store.redis.pttl(keys.results("r1")) <= 7 * 86_400_000
    (entry,) = ledger.read("shop").entries
    assert entry.execution == dataclasses.replace(BY, cluster="prod")
    (write,) = entry.writes
    assert (write.verb, write.place, write.audit_id, write.what) == ("apply", places(A)[0], "a-1", "new")
    assert (write.before, write.after) == ("", ledger.hash(body(A, 9, "v")))
    assert write.at == pytest.approx(Runs(store, Settings()).now(), abs=600_000)
    assert ledger.read("shop").open == ()


def test_the_state_before_is_told_where_it_is_known_and_only_there(ledger: Ledger) -> None:
    with begun(ledger) as pen:
        applied(pen, A, audit="a-1", seen=5, version=6, value="two")  # nobody has read what it was like
        applied(pen, A, audit="a-2", seen=6, version=7, value="three")
        pen.saw(Kept("delete", CONFIG_MAP, A, "7", Written({"kind": "Status"}, created=False, audit_id="a-3")))
    first, second, third = ledger.read("shop").entries[0].writes
    two, three = ledger.hash(body(A, 0, "two")), ledger.hash(body(A, 0, "three"))
    assert [(w.before, w.after) for w in (first, second, third)] == [(None, two), (two, three), (three, "")]


def test_a_killed_execution_leaves_behind_what_it_may_have_written(ledger: Ledger) -> None:
    dead = begun(ledger, [A, B, C])
    applied(dead, A, audit="a-1")
    dead.keep("r1", {A.key: "{}"})
    applied(dead, B, audit="lost")  # and here it is killed
    assert [(by.fence, [p.id for p in left]) for by, left in ledger.read("shop").open] == [(17, [A, B, C])]

    with begun(ledger, [A, B, C], fence=18) as pen:
        pen.found(B, "new")
        applied(pen, C, audit="c-1")
        pen.keep("r1", {})
    chain = ledger.read("shop")
    told, lost, last = chain.entries
    assert [write.audit_id for write in told.writes] == ["a-1"]
    assert (lost.execution.fence, lost.writes, lost.possible, lost.note) == (17, (), tuple(places(B, C)), LOST)
    assert last.execution.fence == 18
    assert sorted((w.place.id.name, w.audit_id) for w in last.writes) == [("b", ""), ("c", "c-1")]
    assert chain.open == ()
    assert ledger.faults(chain) == []


def test_one_that_stood_still_tells_what_it_wrote_all_the_same(ledger: Ledger) -> None:
    slow = begun(ledger, [A])
    applied(slow, A, audit="a-1")
    with begun(ledger, [A], fence=18) as pen:
        applied(pen, B, audit="b-1")
    with pytest.raises(RuntimeError), slow:
        raise RuntimeError("its lock is lost")
    assert audits(ledger) == ["b-1", "a-1"]
    assert ledger.faults(ledger.read("shop")) == []


def test_an_execution_that_broke_off_leaves_what_is_not_known(ledger: Ledger) -> None:
    """A write whose answer got lost may have been carried out."""
    pen = begun(ledger, [A, B])
    applied(pen, A, audit="a-1")
    with pytest.raises(RuntimeError), pen:
        raise RuntimeError("the connection broke")
    chain = ledger.read("shop")
    assert audits(ledger) == ["a-1"]
    assert [by.fence for by, _ in chain.open] == [17]


def test_a_lost_reply_adds_nothing_twice(ledger: Ledger, store: Store) -> None:
    original, calls = store.script, 0

    def twice(name: str, names: Sequence[str], args: Sequence[str | int | float | bytes]) -> object:
        nonlocal calls
        calls += 1
        original(name, names, args)
        return original(name, names, args)

    store.script = twice  # type: ignore[method-assign]
    with begun(ledger) as pen:
        applied(pen, A, audit="a-1")
    assert audits(ledger) == ["a-1"]
    assert calls == 2
    assert ledger.faults(ledger.read("shop")) == []


def test_trimming_keeps_the_chain_verifiable(store: Store) -> None:
    ledger = Ledger(store, Limits(writes=5))
    for number in range(9):
        with begun(ledger, fence=number + 1) as pen:
            applied(pen, A, audit=f"a-{number}")
            applied(pen, B, audit=f"b-{number}")
    chain = ledger.read("shop")
    assert [entry.number for entry in chain.entries] == [8, 9]
    assert chain.anchor.number == 7
    assert ledger.faults(chain) == []
    store.redis.lpop(keys.ledger("shop"))
    assert ledger.faults(ledger.read("shop")) == ["entry 8 was removed"]


def test_the_newest_entry_is_never_trimmed(store: Store) -> None:
    ledger = Ledger(store, Limits(writes=1, days=0.01))
    with begun(ledger) as pen:
        applied(pen, A, audit="a-1")
        applied(pen, B, audit="b-1")
    assert audits(ledger) == ["a-1", "b-1"]
    assert 0 < store.redis.pttl(keys.ledger("shop")) <= 864_000


def test_after_a_flush_a_new_chain_begins_and_says_so(ledger: Ledger, store: Store) -> None:
    with begun(ledger, known_before=False) as pen:
        applied(pen, A, audit="a-1")
    assert ledger.read("shop").entries[0].note == "", "a new application has no earlier ledger"
    store.redis.flushall()
    with begun(ledger, known_before=True) as pen:
        applied(pen, A, audit="a-2")
        pen.keep()
        store.redis.flushall()  # and once more while it works
        applied(pen, A, audit="a-3")
    chain = ledger.read("shop")
    assert [(entry.number, entry.note) for entry in chain.entries] == [(1, NEW_CHAIN)]
    assert audits(ledger) == ["a-3"]
    assert ledger.faults(chain) == []


def test_without_the_key_no_entry_can_be_made(redis_url: str, ledger: Ledger) -> None:
    with begun(ledger) as pen:
        applied(pen, A, audit="a-1")
    stranger = Ledger(Store(redis_url, bytes(32)), Limits())
    with begun(stranger, fence=18) as pen:
        applied(pen, A, audit="forged")
    assert any("entry after 1 was altered" in fault for fault in ledger.faults(ledger.read("shop")))
