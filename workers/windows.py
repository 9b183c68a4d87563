"""Before a stage writes: do the application's sync windows let it? If not, the run waits; that is no failure.

Everything up to the plan has been done by then, so that at the opening only the writing is left. A stage that has begun
is finished; between two stages a window that has shut meanwhile stops the run, unless it has syncOverrun.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from fleetbeat.decisions.changes import Fingerprint
from fleetbeat.decisions.health import worst
from fleetbeat.decisions.lifecycle import HEALING, origin
from fleetbeat.decisions.windows import How, Kind, Verdict, ask, stamp
from fleetbeat.engine.plan import Plan
from fleetbeat.model import Application, ObjectId
from fleetbeat.model_results import Health
from workers import memory, refusals
from workers.standing import noted
from workers.task import Wait, Work

log = logging.getLogger(__name__)

#: seconds; a run that waits for a window is looked at as often as its application, and at least this often, for a newer
#: digest or an edit of the catalog, and to keep its plan from expiring.
LONGEST_LOOK = 3600.0


def shut(work: Work, application: Application, plan: Plan, number: int) -> Wait | None:
    """The wait until stage ``number`` may be written, None when it may now. Without windows it costs nothing."""
    record, shared, turn = work.record, work.parts, work.turn
    if number >= len(plan.stages) or plan.stages[number].part == "cleanup":
        return None  # what a failure or the end of a phase asks for belongs to what was begun
    kinds = _kinds(plan, number)
    if not application.windows or not kinds:
        return None
    now = shared.runs.now()
    at, started = _moment(now), record.get("opened")
    verdict = ask(
        application.windows, how(origin(record)), at, kinds=kinds, started=_moment(int(started)) if started else None
    )
    over = not verdict.open and refusals.may_override(shared, turn.app, record)
    if verdict.open or over:
        if over and not record.get("overrode"):
            log.warning("%s run %s: %s overrides: %s", turn.app, turn.run, record.get("by"), verdict)
        fields = {"opened": started or str(now), "window": "", "look": "", "overrode": _told(record, verdict, over)}
        if any(record.get(name, "") != value for name, value in fields.items()):
            shared.runs.note(turn.app, turn.run, fields)
            record.update(fields)  # the ledger tells it with this execution's writes
        return None
    remember(work, plan)
    every = min(application.sync.interval, LONGEST_LOOK)
    ahead = ((verdict.until or verdict.sure) - at).total_seconds() + 0.001
    # Of thousands of windows only the near future is looked at: the wait ends with that, and it is asked again.
    seconds, until = (ahead, _ms(verdict.until)) if verdict.until else (min(every, ahead), 0)
    fields = {"window": mark(application), "look": str(int(every * 1000)), "others": ""}
    return Wait(turn.step, seconds, _message(plan, number, verdict), fields, until=until, blocked="SyncWindow")


def remember(work: Work, plan: Plan) -> None:
    """What the plan says, for those who look at the state: something differs, and how healthy the rest is."""
    shared, app = work.parts, work.turn.app
    state = shared.runs.look(app).state
    known = memory.load_known(shared, state.get("inventory", ""))
    fields: dict[str, str | int | float] = {"sync": "OutOfSync"}
    if known:
        fields["health"] = worst([Health(one.health) for one in {**known, **plan.known}.values()])  # type: ignore[arg-type]
    shared.runs.remember(app, noted(shared, state, fields))


def how(trigger: str) -> How:
    """Whether somebody asked, by what started the run, or the one that it repeats."""
    if trigger == "Request":
        return "manual"
    return "self-heal" if trigger in HEALING else "automated"


def mark(application: Application) -> str:
    """Another one when the windows are edited: a run that waits for one of them asks again then."""
    return hashlib.sha256(repr(application.windows).encode()).hexdigest()[:16]


def sight(moved: Mapping[ObjectId, Fingerprint | None]) -> str:
    """Another one when what has moved in the cluster is another, or has moved on."""
    seen = sorted((key.key, repr(mark)) for key, mark in moved.items())
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def is_stale(record: Mapping[str, str]) -> bool:
    """Has the cluster moved since the plan was made? Asked only before anything is written."""
    return bool(record.get("stale")) and not record.get("opened")


#: What a run compares anew with.
AFRESH: Mapping[str, str] = {"stale": "", "window": "", "look": "", "others": ""}


def _kinds(plan: Plan, number: int) -> set[Kind]:
    """Of everything that is still to be written, so that no run begins what it may not finish."""
    found: set[Kind] = {
        (key.group, key.kind) for stage in plan.stages[number:] if stage.part != "cleanup" for key in stage.ids
    }
    return found | ({("", "Namespace")} if number == 0 and plan.create_namespace else set())


def _told(record: dict[str, str], verdict: Verdict, over: bool) -> str:
    """What the run has overridden, for history: once it has, it stays so."""
    return str(verdict) if over else record.get("overrode", "")


def _message(plan: Plan, number: int, verdict: Verdict) -> str:
    until = f"until {stamp(verdict.until)}" if verdict.until else "with no opening in sight"
    until = until if verdict.settled else f"at least until {stamp(verdict.sure)}"
    by = "; ".join(str(window) for window in verdict.by[:3])
    before = ". What came before it is written" if number else ""
    return f"{plan.stages[number].title} waits for a sync window: shut {until} by {by}{before}"


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def _ms(moment: datetime) -> int:
    """ms since epoch, up: not before the moment."""
    return -((datetime.fromtimestamp(0, UTC) - moment) // timedelta(milliseconds=1))
