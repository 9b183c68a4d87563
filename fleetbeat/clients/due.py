"""The due set: every application and the moment beat shall ring it. One sorted set, the server's clock, no leader.

A score is the next regular slot (``period`` and ``offset`` of the application, so that missed slots are skipped and
a fleet is spread over its period), or earlier: a ring, a run's wake-up, or a lease that rings again what got lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from fleetbeat import keys, wire
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.schedule import slot_offset
from fleetbeat.settings import Beat

_FORGET_BEAT = 86_400_000  # ms
_LONGEST_WAIT = 5.0  # seconds; below the connection's read time-out, which must not end a quiet wait


@dataclass(frozen=True)
class Claimed:
    """What one call took. Times are ms since epoch by the server's clock."""

    ticks: list[str]  #: applications whose regular look is due
    urgent: list[str]  #: applications with a run under way or a request waiting
    looked: int  #: members looked at; as many as asked for = there may be more
    now_ms: int
    lease_ms: int  #: until then ``ticks`` must be settled, or they are due again
    next_due_ms: int | None  #: None when the set is empty

    @property
    def apps(self) -> list[str]:
        return self.urgent + self.ticks

    @property
    def idle(self) -> float:
        """Seconds until something is due, infinity when nothing ever is."""
        if self.next_due_ms is None:
            return float("inf")
        return max(0, self.next_due_ms - self.now_ms) / 1000


@dataclass(frozen=True)
class Registered:
    added: int
    removed: int


class DueSet:
    """Every method raises only StoreUnavailable, and may be repeated after it."""

    def __init__(self, store: Store, settings: Beat) -> None:
        self._store = store
        self._lease = int(settings.lease * 1000)
        self._idle = int(settings.idle * 1000)
        self._start_rate = settings.start_rate

    def register(self, periods: Mapping[str, float]) -> Registered:
        """Make the set fit the catalog. ``periods``: application → seconds.

        New applications become due at ``start_rate`` per second in the order of their hash, changed ones at their
        next slot, vanished ones leave. One round trip when Redis has exactly this already.
        """
        rhythms = {app: _rhythm(app, period) for app, period in periods.items()}
        listing = "\n".join(f"{app} {rhythm}" for app, rhythm in sorted(rhythms.items()))
        digest = hashlib.sha256(listing.encode()).hexdigest()
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            pipe.hget(keys.CATALOG_STATUS, "periods")
            pipe.hlen(keys.PERIODS)
            pipe.zcard(keys.DUE)
            seen, registered, due = pipe.execute()
        if seen == digest.encode() and registered == len(rhythms) and due >= registered:
            return Registered(0, 0)
        order = sorted(rhythms, key=lambda app: hashlib.sha256(app.encode()).digest())
        added, removed = self._store.script(
            "register",
            [keys.PERIODS, keys.DUE, keys.CATALOG_STATUS, keys.BELL],
            [digest, self._start_rate, keys.run(""), *(part for app in order for part in (app, rhythms[app]))],
        )
        return Registered(added, removed)

    def claim(self, limit: int) -> Claimed:
        """Take up to ``limit`` due applications. Publish them, then ``settle``."""
        queues = [keys.PREFIX + wire.TICK_QUEUE, keys.PREFIX + wire.WORK_QUEUE]
        now, following, looked, lease, ticks, urgent = self._store.script(
            "claim",
            [keys.DUE, keys.PERIODS, *queues],
            [limit, self._lease, keys.run(""), keys.request("")],
        )
        return Claimed(
            ticks=[app.decode() for app in ticks],
            urgent=[app.decode() for app in urgent],
            looked=looked,
            now_ms=now,
            lease_ms=lease,
            next_due_ms=None if following < 0 else following,
        )

    def settle(self, claimed: Claimed) -> None:
        """The messages are out: the claimed ticks are due at their next slot. What moved since stays as it is."""
        if claimed.ticks:
            self._store.script(
                "settle",
                [keys.DUE, keys.PERIODS],
                [claimed.lease_ms, keys.run(""), keys.request(""), *claimed.ticks],
            )

    def ring(self, app: str, at_ms: int | None = None, *, only_earlier: bool = True) -> bool:
        """Make an application due at ``at_ms`` (ms since epoch; None = now) and wake a beat when that is soon.

        ``only_earlier`` False moves it later as well. False when the catalog has no such application.
        """
        at = "" if at_ms is None else at_ms
        names = [keys.DUE, keys.PERIODS, keys.BELL]
        return bool(self._store.script("ring", names, [app, at, int(only_earlier), self._idle]))

    def notice(self, app: str) -> Claimed | None:
        """Something of the application moved in its cluster: claim it, to be published and settled at once.

        None when there is nothing to publish: a run is under way, and the application is looked at again when that has
        ended well; the last one failed, and it is looked at when the pause is over; or the catalog has no such
        application.
        """
        names = [keys.run(app), keys.DUE, keys.PERIODS, keys.state(app)]
        said, *times = self._store.script("notice", names, [app, self._lease])
        if said != b"ring":
            return None
        return Claimed(ticks=[app], urgent=[], looked=1, now_ms=times[0], lease_ms=times[1], next_due_ms=None)

    def wait(self, timeout: float) -> bool:
        """Sleep up to ``timeout`` seconds (at most 5), or until the bell: True."""
        seconds = min(max(timeout, 0.001), _LONGEST_WAIT)  # 0 would mean for ever
        with errors():
            return self._store.redis.blpop([keys.BELL], timeout=seconds) is not None

    def heartbeat(self, beat: str) -> float:
        """Note that the beat of this id lives. Returns the seconds the server's clock went back since, 0 as a rule."""
        back: int = self._store.script("heartbeat", [keys.BEATS], [beat, _FORGET_BEAT])
        return back / 1000

    def realign(self) -> int:
        """Pull everything that lies further away than it may to its next slot or lease. Returns how many were moved.

        For a clock that went back (field case j4): without it a fleet would stand still until the clock is where it
        was. A longer pause of an application, such as a retry's, is cut short by it, which costs a look.
        """
        moved: int = self._store.script(
            "realign", [keys.DUE, keys.PERIODS], [self._lease, keys.run(""), keys.request("")]
        )
        return moved

    def leave(self, beat: str) -> None:
        """Forget the beat of this id: it stops in good order."""
        with errors():
            self._store.redis.zrem(keys.BEATS, beat)


def _rhythm(app: str, period: float) -> str:
    """``period:offset`` in ms, as the scripts read it."""
    ms = max(1, round(period * 1000))
    return f"{ms}:{slot_offset(app, ms)}"
