"""Many who want to know the same at once: one asks, and nobody depends on whether that one lives."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from waiting import wait_for

from fleetbeat.clients.single_flight import single_flight
from fleetbeat.clients.store import Store

KEPT, ASKING = "kept", "asking"


@pytest.fixture
def store(redis_url: str) -> Store:
    return Store(redis_url, bytes(32))


def fly(
    store: Store,
    ask: Callable[[int], str],
    *,
    accept: Callable[[bytes], str | None] = bytes.decode,
    wait: float = 30.0,
) -> str:
    return single_flight(store, KEPT, ASKING, accept=accept, ask=ask, wait=wait)


def never(_: int) -> str:
    raise AssertionError("asked although somebody knew")


def turns(store: Store) -> int:
    """How often somebody has tried to be the one who asks, one SET each."""
    return int(store.redis.info("commandstats").get("cmdstat_set", {"calls": 0})["calls"])


def test_one_asks_and_all_hear(store: Store) -> None:
    """Field case g5. The answer comes only when all have come."""
    asked: list[int] = []

    def ask(now: int) -> str:
        asked.append(now)
        wait_for(lambda: turns(store) >= 12, timeout=30, what="all to come")
        store.redis.set(KEPT, "v1")
        return "v1"

    heard: list[str] = []
    threads = [threading.Thread(target=lambda: heard.append(fly(store, ask))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert heard == ["v1"] * 12
    assert len(asked) == 1
    assert not store.redis.exists(ASKING)


def test_what_is_known_is_read_with_one_command(store: Store) -> None:
    store.redis.set(KEPT, "v1")
    before = turns(store)
    assert fly(store, never) == "v1"
    assert turns(store) == before


def test_the_server_says_when_it_was_asked(store: Store) -> None:
    before = store.now()
    times: list[int] = []
    assert fly(store, lambda now: times.append(now) or "v1") == "v1"
    assert before <= times[0] <= store.now()


def test_what_is_not_good_enough_is_asked_for(store: Store) -> None:
    store.redis.set(KEPT, "old")
    assert fly(store, lambda _: "new", accept=lambda _: None) == "new"


def test_who_was_killed_while_asking_holds_nobody_up(store: Store) -> None:
    store.redis.set(ASKING, "somebody who is no more")
    assert fly(store, lambda _: "v1", wait=0.1) == "v1"
    assert store.redis.get(ASKING) == b"somebody who is no more", "it is theirs, should they live after all"


def test_an_error_is_the_askers_own_and_the_next_one_asks(store: Store) -> None:
    with pytest.raises(OSError, match="registry"):
        fly(store, lambda _: (_ for _ in ()).throw(OSError("registry")))
    assert not store.redis.exists(ASKING)
    assert fly(store, lambda _: "v1") == "v1"


def test_an_answer_that_is_an_error_is_heard_by_those_who_waited(store: Store) -> None:
    """Field case g5: a registry's 429 is for all."""
    store.redis.set(ASKING, "another", px=60_000)

    def accept(found: bytes) -> str | None:
        raise OSError(found.decode())

    errors: list[str] = []

    def come() -> None:
        try:
            fly(store, never, accept=accept)
        except OSError as error:
            errors.append(str(error))

    thread = threading.Thread(target=come)
    thread.start()
    wait_for(lambda: turns(store) >= 2, timeout=30, what="it to wait")
    store.redis.set(KEPT, "not so fast")
    thread.join(60)
    assert errors == ["not so fast"]
