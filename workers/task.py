"""How every step runs: take the turn, keep the lock, work, advance the record, let the chain go on."""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from celery import Task

from fleetbeat.clients.locks import Lease, held
from fleetbeat.clients.runs import Fields, Refusal, Turn
from fleetbeat.decisions.choice import suspension
from fleetbeat.decisions.events import is_asked_again, stopped_or_goes_on
from fleetbeat.decisions.lifecycle import MAX_TRIES, STOPPED, cure
from fleetbeat.errors import FleetbeatError, LostLock, StoreUnavailable, Transient
from fleetbeat.wire import Doorbell
from workers import cluster_events
from workers.chain import links
from workers.departing import BACK, is_removal
from workers.parts import Parts, parts

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Next:
    """The step is done; ``step`` follows."""

    step: str
    fields: Fields = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """Nothing to do for so many seconds; then ``step`` again. Holds no worker."""

    step: str
    seconds: float
    message: str
    fields: Fields = field(default_factory=dict)
    until: int = 0  #: ms since epoch by Redis' clock, where the moment is known: it stands, however slow we are
    blocked: str = ""  #: a word of ``decisions.events.BLOCKS`` when a rule or a person makes it wait, not the cluster


@dataclass(frozen=True)
class Ended:
    """The run is over; ``say`` is what Flower shows."""

    say: str


@dataclass(frozen=True)
class Work:
    """What a step is given."""

    turn: Turn
    lease: Lease
    parts: Parts

    @property
    def record(self) -> dict[str, str]:
        return self.turn.record


Outcome = Next | Wait | Ended


def carry_out(task: Task[Any, Any], bell: Doorbell, work: Callable[[Work], Outcome]) -> str:
    """Run ``work`` if it is this message's turn; the returned words are what Flower shows as the result.

    Nothing that goes wrong escapes: what concerns the run is written into it, and what concerns Redis is left to the
    lease, which rings again.
    """
    task.request.chain = None  # nothing follows unless the record says so below
    shared = parts()
    asked_at = time.monotonic()
    token = uuid.uuid4().hex
    try:
        turn = shared.runs.begin(bell.app, bell.run, bell.step, bell.fence, token)
        if isinstance(turn, Refusal):
            return turn.why
        lease = Lease(shared.settings.lock, asked_at, shared.settings.steps.timeout)
        with held(shared.runs, turn, lease, shared.settings.lock):
            outcome = _guarded(Work(turn, lease, shared), work)
            if isinstance(outcome, Ended):
                return outcome.say
            return _advance(task, shared, turn, outcome, time.monotonic() - asked_at)
    except LostLock as error:
        log.warning("%s run %s %s: %s", bell.app, bell.run, bell.step, error)
        _look_at_once(shared, bell.app)
        return "lost its lock; another worker goes on"
    except StoreUnavailable as error:
        log.warning("%s run %s %s: %s; the lease rings again", bell.app, bell.run, bell.step, error)
        return "Redis unavailable; rung again later"


def _look_at_once(shared: Parts, app: str) -> None:
    """A process that stood still between the guard and the send may have written after all: whoever is in charge looks.

    Preconditions stop it nearly always. Not when it creates what its successor has created and pruned meanwhile.
    """
    with contextlib.suppress(StoreUnavailable):
        shared.runs.remember(app, {"ended": shared.runs.now()})  # no look at the cluster from before this will do
        shared.runs.look_again(app, 0)


def _guarded(work: Work, step: Callable[[Work], Outcome]) -> Outcome:
    """The step's outcome, or the report of the error that ended it."""
    turn = work.turn
    if int(turn.record.get("tries", 0)) > MAX_TRIES and turn.step != "report":
        text = f"{turn.step} was begun {MAX_TRIES} times and never ended: it seems to kill its worker"
        return _told(turn, _failed("WorkerLost", text, "change"))
    if (stop := turn.record.get("stop")) and turn.step != "report":
        return _told(turn, _failed(STOPPED, f"stopped by {stop}", "change"))
    newer = turn.record.get("next", "")
    at_work = turn.record.get("hooking")  # half a migration is worse than a late one
    if newer and newer != turn.record.get("digest") and turn.step not in ("pull", "report") and not at_work:
        return Next("report", {"superseded": newer})
    try:
        return (_no_removal(work) if is_removal(turn.record) and turn.step != "report" else None) or step(work)
    except (LostLock, StoreUnavailable):
        raise
    except FleetbeatError as error:
        log.info("%s run %s %s: %s: %s", turn.app, turn.run, turn.step, error.reason, error)
        return _told(turn, failed(error))
    except Exception as error:
        log.exception("%s run %s %s: a fault in Fleetbeat", turn.app, turn.run, turn.step)
        # The text of an unknown exception may hold anything, a Secret's value too: only its kind is kept.
        text = f"{turn.step}: {type(error).__name__} (details in the worker's log)"
        return _told(turn, _failed("InternalError", text, "time"))


def _told(turn: Turn, outcome: Next) -> Next:
    """The first error is the run's; what goes wrong afterwards, in hooks for a failed sync, is told beside it."""
    if not turn.record.get("error"):
        return outcome
    return Next("report", {"after_failure": str(outcome.fields["error_text"])})


def _no_removal(work: Work) -> Outcome | None:
    """Why this step of a deletion is not to be done: it is back, most of the catalog has gone too, or its cluster is
    suspended.
    """
    departure = work.parts.departures.get(work.turn.app)
    if departure is None:
        return Next("report", {"superseded": BACK})
    if departure.held:
        return Wait(work.turn.step, HELD_PAUSE, f"held: {departure.held}", blocked="ConfirmationNeeded")
    if why := departure.cluster.suspended:
        return Wait(work.turn.step, HELD_PAUSE, suspension(why), blocked="Suspended")
    return None


#: seconds; a person's word ends the wait at once
HELD_PAUSE = 60.0


def start_over() -> Next:
    """A blob has expired or was lost: pull again. How far the old plan got is cleared where the new one is made."""
    return Next("pull", {"stages": ""})


def failed(error: FleetbeatError) -> Next:
    """The run ends with this error."""
    wanted = error.retry_after if isinstance(error, Transient) else None
    return _failed(error.reason, str(error), cure(error), wanted or 0.0)


def _failed(word: str, text: str, what: str, retry_after: float = 0.0) -> Next:
    return Next("report", {"error": word, "error_text": text, "error_cure": what, "retry_after": retry_after})


def _advance(task: Task[Any, Any], shared: Parts, turn: Turn, outcome: Next | Wait, took: float) -> str:
    name = f"took:{turn.step.partition(':')[0]}"
    fields = {**outcome.fields, name: round(float(turn.record.get(name, 0)) + took, 4)}
    if isinstance(outcome, Wait):
        fields |= {"message": outcome.message, "blocked": outcome.blocked}
        event = stopped_or_goes_on(turn.record, outcome.blocked, outcome.message)
        if not shared.runs.wait(turn, outcome.step, outcome.seconds, fields, event, until=outcome.until):
            raise LostLock("taken over while working")
        if event is not None and outcome.blocked:
            cluster_events.held_up(shared, turn, event)
        return f"waits {outcome.seconds:.1f} s: {outcome.message}"
    event = None
    if not is_asked_again(turn.record.get("blocked", ""), turn.step, outcome.step):
        fields |= {"message": "", "blocked": ""}
        # One that is superseded or stopped does not go on: its end is told instead.
        ends = "superseded" in outcome.fields or outcome.fields.get("error") == STOPPED
        event = None if ends else stopped_or_goes_on(turn.record, "", "")
    if not shared.runs.advance(turn, outcome.step, fields, event):
        raise LostLock("taken over while working")
    count = fields.get("stages", turn.record.get("stages"))
    stages = int(count) if count else None
    tail = links(task.app, turn.app, turn.run, outcome.step, turn.fence, stages)
    # Celery publishes the last element next; the list is what its own chains carry (task.request.chain).
    setattr(task.request, "chain", [dict(link) for link in reversed(tail)])  # noqa: B010 - typed as a string
    return f"next is {outcome.step}"
