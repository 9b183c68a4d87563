"""The run record and its lock: who may do which step of which application, decided by Lua in one place.

One application has at most one run. ``run:<app>`` holds it:

=========  ==============================================================================================
run        id, ``20261130T114512Z-3fa9c1``
step       whose turn it is: pull, render, diff, apply:<n>, report
state      queued (a message is out), working (an execution holds the lock), waiting (until ``wake``)
fence      grows with every execution; a message must carry the present one
queued     ms since epoch when the step was queued; ``wake``: when a waiting one goes on
tries      executions of this step that began and never ended: a step that kills its worker is given up
rung       how often a lost message was rung again
last       token of the execution that advanced last
next       a newer digest seen meanwhile: the run ends between two stages
window     the run waits for a sync window: a mark of the windows it asked (workers/windows.py); or for a hold: "hold "
           and a mark of those (workers/holds.py), which ``waited`` tells in words
sight      what had moved in the cluster when a run that waits was looked at; ``stale``: the plan is older
blocked    why a waiting run is held up by a rule or a person: a word of ``decisions.events.BLOCKS``
others     "1": the run waits for other applications; ``looked``: ms since epoch of the last look at it meanwhile
stop       a person has asked for its end between two stages: who and why, in words
stands_in  the run puts back what is in force: the newer digest that fails, or why nobody knows what the source means
retry_of   the first of the runs that a retry repeats; ``repeats``: what began that one (``decisions/retries.py``)
rang       "1": somebody rang while a step was on its way; should it wait, that is looked at at once
look       ms after which a waiting run is looked at on the way, for what is newer; ``warn``: ms since epoch when it is
           told that a hold ends soon (workers/hold_ends.py)
opened     ms since epoch when sync windows first let the run write; ``overrode``: what it was let past on request
…          what the steps found out (``lifecycle.RunFields``)
=========  ==============================================================================================

A step is: ``begin`` (turn, lock, fence) → work, renewing the lock → ``advance`` or ``finish``, which check the fence
again and let go. Whatever is lost in between, message or worker, the lease in the due set rings again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetbeat import keys
from fleetbeat.clients import fleet_orders
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions import confirmation
from fleetbeat.decisions.events import Event
from fleetbeat.settings import Settings

_RECORD_TTL = 7 * 86_400_000  # ms; a record older than a week belongs to an application nobody rings any more
_REQUEST_TTL = 7 * 86_400_000

#: Of the orders for the whole fleet: their mark, "" = there are none, and the one that is noted in the application's
#: cluster, None = that cluster is not known (clients/fleet_orders.py).
Marks = tuple[str, str | None]

#: Redis hash fields; keys are words, values are written as text
Fields = Mapping[str, str | int | float]


@dataclass(frozen=True)
class Look:
    """What Redis knows of an application, read in one round trip."""

    run: dict[str, str]  #: the active run's record, empty when there is none
    state: dict[str, str]  #: between runs: status, digest, inventory, … (``lifecycle.StateFields``)
    request: dict[str, str]  #: a sync asked for and not begun
    orders: dict[str, str] = field(default_factory=dict)  #: what people have ordered for it (clients/orders.py)
    fleet: Marks = ("", "")  #: where the look was at a cluster too


@dataclass(frozen=True)
class Turn:
    """The right of one execution to do one step, until its lock ends."""

    app: str
    run: str
    step: str
    fence: int
    token: str
    record: dict[str, str]
    at: int = field(compare=False)  #: ms since epoch by the server's clock when the turn was given
    since: float = field(default_factory=time.monotonic, compare=False)

    def now(self) -> float:
        """s since epoch by the server's clock. Hosts' clocks differ; what one noted another may go on with."""
        return self.at / 1000 + time.monotonic() - self.since


@dataclass(frozen=True)
class Refusal:
    """Not this message's turn: ``busy`` (another execution has it) or ``stale`` (it is over)."""

    why: str


class Runs:
    """All changes of run records. Every method raises only StoreUnavailable."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._ttl = int(settings.lock.ttl * 1000)
        self._lease = int(settings.beat.lease * 1000)
        self._kept = settings.history
        self._events = settings.events.kept

    def look(self, app: str, cluster: str = "") -> Look:
        """``cluster``: the application's, to know whether all orders are noted there."""
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            for key in (keys.run(app), keys.state(app), keys.request(app), keys.orders(app)):
                pipe.hgetall(key)
            if cluster:
                pipe.hmget(keys.FLEET_ORDERS, fleet_orders.MARK, fleet_orders.cluster_field(cluster))
            answers: list[Any] = pipe.execute()
        run, state, request, orders = (_text(answer) for answer in answers[:4])
        if not cluster:
            return Look(run, state, request, orders)
        mark, noted = answers[4]
        return Look(run, state, request, orders, ((mark or b"").decode(), None if noted is None else noted.decode()))

    def start(
        self, app: str, run: str, fields: Fields, *, event: Event, request: str = "", seen: Look | None = None
    ) -> int | None:
        """The first fence of a new run, or None when the application has another run already.

        ``seen``: the look that has shown it to be wanted. When a run has come and gone since, perhaps for the very same
        reason, none begins and the application is due at once. ``event`` is told with it, here and below: once, however
        often the call is repeated.
        """
        ended = "*" if seen is None else seen.state.get("last_run", "")
        reply = self._store.script(
            "run_start",
            [keys.run(app), keys.DUE, keys.FENCE, keys.request(app), keys.EVENTS, keys.state(app), keys.BELL],
            [app, run, self._lease, _RECORD_TTL, request, event.dump(), self._events, ended, *_pairs(fields)],
        )
        return int(reply[1]) if reply[0] == b"started" else None

    def begin(self, app: str, run: str, step: str, fence: int, token: str) -> Turn | Refusal:
        reply = self._store.script(
            "run_begin",
            [keys.run(app), keys.lock(app), keys.FENCE, keys.DUE],
            [app, run, step, fence, token, self._ttl],
        )
        if reply[0] != b"go":
            return Refusal(reply[0].decode())
        pairs = [item.decode() for item in reply[3:]]
        record = dict(zip(pairs[::2], pairs[1::2], strict=True))
        return Turn(app, run, step, int(reply[1]), token, record, int(reply[2]))

    def renew(self, turn: Turn) -> bool:
        """False: the lock is gone, for good."""
        return bool(self._store.script("lock_renew", [keys.lock(turn.app)], [turn.token, self._ttl]))

    def advance(self, turn: Turn, step: str, fields: Fields, event: Event | None = None) -> bool:
        """The next step is due and its message about to be published. False: taken over, nothing written."""
        return self._advance(turn, step, "queued", self._lease, False, fields, event)

    def wait(
        self, turn: Turn, step: str, seconds: float, fields: Fields, event: Event | None = None, *, until: int = 0
    ) -> bool:
        """Stop here; beat rings ``step`` in so many seconds, or at ``until`` (ms since epoch) where that is given.

        False: taken over, nothing written.
        """
        when = f"at:{until}" if until else int(seconds * 1000)
        return self._advance(turn, step, "waiting", when, True, fields, event)

    def _advance(
        self, turn: Turn, step: str, state: str, when: int | str, bell: bool, fields: Fields, event: Event | None
    ) -> bool:
        told: list[str | int] = [event.dump() if event is not None else "", self._events]
        reply = self._store.script(
            "run_advance",
            [keys.run(turn.app), keys.lock(turn.app), keys.DUE, keys.BELL, keys.EVENTS],
            [turn.app, turn.run, turn.fence, turn.token, step, state, when, int(bell), *told, *_pairs(fields)],
        )
        return bool(reply == b"ok")

    def finish(
        self,
        turn: Turn,
        *,
        entry: str,
        event: Event,
        state: Fields,
        next_look: float | None,
        replaces: str = "",
        look_by: int = 0,
        drift: str | None = None,
        drift_kept: int = 0,
    ) -> str:
        """End the run: "ok", "again" (asked for meanwhile, due at once) or "lost".

        ``next_look``: seconds from now, None = the application's next regular slot, or ``look_by`` (ms since epoch, 0 =
        whenever that is) if it comes first. ``replaces``: the run whose entry this one takes the place of, where that
        is the newest; it is added otherwise. ``drift``: the application's drift ledger, None = as it was, to be kept
        for ``drift_kept`` ms, 0 = without an end. A ``turn`` with an empty token ends a run that nobody works on.
        """
        app = turn.app
        names = [keys.run(app), keys.lock(app), keys.DUE, keys.BELL, keys.state(app), keys.history(app)]
        reply = self._store.script(
            "run_finish",
            [*names, keys.request(app), keys.PERIODS, keys.waiters(app), keys.EVENTS, keys.drift(app)],
            [
                app,
                turn.run,
                turn.fence,
                turn.token,
                (f"slot:{look_by or ''}" if next_look is None else int(next_look * 1000)),
                entry,
                self._kept,
                replaces,
                event.dump(),
                self._events,
                drift or "",
                drift_kept,
                *_pairs(state),
            ],
        )
        return str(reply.decode())

    def resume(self, app: str, *, now: bool = False) -> tuple[str, str, int] | str:
        """(run, step, fence) to publish, or why there is nothing to publish. ``now`` ends a wait early."""
        reply = self._store.script(
            "run_resume",
            [keys.run(app), keys.lock(app), keys.DUE],
            [app, self._ttl, self._lease, int(now), _RECORD_TTL],
        )
        if reply[0] == b"publish":
            return reply[1].decode(), reply[2].decode(), int(reply[3])
        return str(reply[1].decode())

    def request(
        self,
        app: str,
        request: str,
        *,
        by: str,
        reason: str,
        confirm_prune: bool = False,
        override_windows: str = "",
        promise: str = "",
    ) -> str | None:
        """Ask for a sync and claim the application: the caller publishes ``fleetbeat.reconcile``.

        ``confirm_prune``: whoever asks agrees to deleting what waits for a confirmation, and everything if the
        newest sync has said that its bundle takes it away (field ``confirm_prune``: as ``confirmation.asks``).
        ``override_windows``: it goes past sync windows that are shut; signed, or "1" (``decisions/overrides.py``).
        ``promise``: id of the saved plan that it is to carry out.
        Returns the id of a run under way or "", None when the catalog has no such application.
        """
        told = self.look(app).state.get("would_empty", "") if confirm_prune else ""
        reply = self._store.script(
            "run_request",
            [keys.request(app), keys.run(app), keys.DUE, keys.PERIODS],
            [
                app,
                request,
                by,
                reason,
                self._lease,
                _REQUEST_TTL,
                *_pairs({"confirm_prune": confirmation.asks(told)} if confirm_prune else {}),
                *_pairs({"override_windows": override_windows} if override_windows else {}),
                *_pairs({"promise": promise} if promise else {}),
            ],
        )
        return None if reply[0] == b"unknown" else str(reply[1].decode())

    def refuse(self, app: str, request: str, *, entry: str, event: Event) -> bool:
        """Answer a request that is not carried out. False: it is not there any more, nothing written."""
        names = [keys.request(app), keys.state(app), keys.history(app), keys.EVENTS]
        arguments: list[str | int] = [app, request, entry, self._kept, event.dump(), self._events]
        return bool(self._store.script("request_refuse", names, arguments))

    def wait_for_others(self, app: str, others: Iterable[str]) -> None:
        """Have ``app`` rung when a run of one of ``others`` ends, or ``ring_waiters`` says so."""
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            for other in others:
                pipe.sadd(keys.waiters(other), app)
                pipe.pexpire(keys.waiters(other), _RECORD_TTL)
            pipe.execute()

    def ring_waiters(self, app: str) -> None:
        """Make those that wait for ``app`` due now."""
        now = self.now()
        with errors():
            waiters: Any = self._store.redis.smembers(keys.waiters(app))
            if waiters:
                self._store.redis.zadd(keys.DUE, dict.fromkeys(waiters, now), xx=True)
                self._store.redis.delete(keys.waiters(app))

    def note(self, app: str, run: str, fields: Fields) -> bool:
        """Add to a record without taking a turn (a newer digest seen). False: the run is not there any more."""
        return bool(self._store.script("run_note", [keys.run(app)], [run, *_pairs(fields)]))

    def remember(self, app: str, fields: Fields, event: Event | None = None) -> None:
        """Write what was found out between runs, and tell of it in the same transaction."""
        with errors():
            if event is None:
                self._store.redis.hset(keys.state(app), mapping=_mapping(fields))
                return
            pipe = self._store.redis.pipeline(transaction=True)
            pipe.hset(keys.state(app), mapping=_mapping(fields))
            told: Any = {"app": app, "event": event.dump()}
            pipe.xadd(keys.EVENTS, told, maxlen=self._events, approximate=True)
            pipe.execute()

    def say_once(self, app: str, field: str, at: str, event: Event, *, of_run: bool) -> bool:
        """Tell what ``field`` of the record, or of the state, says is due. False = it has been told."""
        key = keys.run(app) if of_run else keys.state(app)
        return bool(self._store.script("say_once", [key, keys.EVENTS], [app, field, at, event.dump(), self._events]))

    def now(self) -> int:
        """ms since epoch by the server's clock."""
        return self._store.now()

    def look_again(self, app: str, seconds: float, *, at_the_latest: bool = False) -> None:
        """Make an application due in so many seconds, whatever its regular slot is.

        ``at_the_latest``: if it is due sooner it stays so, as it must where a run waits for its time.
        """
        at = self.now() + int(seconds * 1000)
        with errors():
            self._store.redis.zadd(keys.DUE, {app: at}, xx=True, lt=at_the_latest)

    def look_by(self, app: str, at: int) -> None:
        """Have an application without a run looked at by ``at`` (ms since epoch), if its regular slot is later."""
        self._store.script("look_by", [keys.DUE, keys.PERIODS], [app, at])

    def raise_fence(self, seen: int) -> None:
        """After a flush: no fence below one that a cluster has seen."""
        self._store.script("fence_raise", [keys.FENCE], [seen])

    def record(self, run: str, results: Mapping[str, str]) -> None:
        """Keep results of single objects (key → JSON) as they come, so that a killed wave is not told twice."""
        if not results:
            return
        with errors():
            pipe = self._store.redis.pipeline(transaction=False)
            pipe.hset(keys.results(run), mapping=_mapping(results))
            pipe.pexpire(keys.results(run), _RECORD_TTL)
            pipe.execute()

    def results(self, run: str) -> dict[str, str]:
        with errors():
            return _text(self._store.redis.hgetall(keys.results(run)))

    def history(self, app: str, most: int = 0) -> list[str]:
        """Newest first, JSON texts; ``most`` of them, 0 = all that are kept."""
        with errors():
            entries: Any = self._store.redis.lrange(keys.history(app), 0, most - 1)
        return [entry.decode() for entry in entries]


def new_run_id(now: int) -> str:
    """Sorts by time and can be read aloud: ``20261130T114512Z-3fa9c1``. ``now``: ms since epoch by Redis' clock."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now // 1000))
    return f"{stamp}-{secrets.token_hex(3)}"


def _pairs(fields: Fields) -> list[str]:
    return [str(part) for pair in fields.items() for part in pair]


def _mapping(fields: Fields) -> Any:
    return dict(fields)  # Any: redis-py types the mapping invariantly


def _text(answer: Mapping[bytes, bytes] | Any) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in answer.items()}
