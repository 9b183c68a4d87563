"""Why is an application not at what its source means, and healthy? The rules that stand in the way, in order.

Each rule is a function of what Redis knows (``Facts``) that finds something or does not. Their order is the order in
which they stand in each other's way: without a beat nothing is looked at, without a look no run begins, a run that
waits says what for, and only when none is under way does it matter how the last one ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fleetbeat.decisions import progress
from fleetbeat.decisions.choice import Order, is_suspension
from fleetbeat.decisions.events import stamp
from fleetbeat.decisions.lifecycle import STOPPED, given_up
from fleetbeat.decisions.windows import Verdict
from fleetbeat.model import ObjectId, Revision
from fleetbeat.model_results import WELL

#: seconds after which a beat that said nothing counts as gone; a healthy one speaks every second
SILENT = 15.0


@dataclass(frozen=True)
class Facts:
    """What Redis knows of one application. Times are ms since epoch by its clock."""

    app: str
    now: int
    state: Mapping[str, str] = field(default_factory=dict)
    run: Mapping[str, str] = field(default_factory=dict)
    request: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)
    vetoes: Sequence[str] = ()  #: digests that are kept out of the fleet
    due: float | None = None  #: when beat rings it
    beats: Mapping[str, float] = field(default_factory=dict)  #: id → seconds since it spoke
    messages: int = 0  #: that wait for a worker, of all applications
    workers: int | None = None  #: that answer; None = not asked, as nothing waits
    catalog_error: str = ""  #: what is wrong with the catalog on disk
    departing: str | None = None  #: it has left the catalog and is to be deleted; why that is held, "" = it is not
    unmet: Mapping[str, str] = field(default_factory=dict)  #: application it depends on → why that holds it up now
    automated: Verdict | None = None  #: what its sync windows say now of a sync nobody asked for
    results: Sequence[Mapping[str, Any]] = ()  #: of the newest history entry


@dataclass(frozen=True)
class Finding:
    """One rule and what it does."""

    rule: str  #: a word that stays the same: of ``decisions.events.REASONS``, of an error, or one of this module
    message: str
    blocks: bool = True  #: it keeps the application from being synced and healthy
    until: int | None = None  #: ms since epoch when that may end by itself, None = not known, or not by itself
    help: str = ""  #: a command, or what else to do

    def to_json(self) -> dict[str, Any]:
        until = stamp(self.until) if self.until else None
        return {
            "rule": self.rule,
            "blocks": self.blocks,
            "message": self.message,
            "until": until,
            "help": self.help,
        }


def why(facts: Facts) -> list[Finding]:
    """All that was found, never empty: what blocks comes first, in the order in which it does."""
    found = [finding for rule in _RULES for finding in rule(facts)]
    return sorted(found, key=lambda finding: not finding.blocks) or [_between(facts)]


Rule = Callable[[Facts], Iterator[Finding]]


# ── who looks at all ─────────────────────────────────────────────────────────────────────────────────────────────


def _beat(facts: Facts) -> Iterator[Finding]:
    start = "celery -A scheduler.app beat"
    if not facts.beats:
        yield Finding("NoBeat", "no beat has ever run here: nothing is looked at by itself", help=start)
    elif (silent := min(facts.beats.values())) > SILENT:
        yield Finding("NoBeat", f"beat has been silent for {silent:.0f} s: nothing is looked at by itself", help=start)


def _worker(facts: Facts) -> Iterator[Finding]:
    if facts.workers == 0:
        count = f"{facts.messages} message waits" if facts.messages == 1 else f"{facts.messages} messages wait"
        yield Finding("NoWorker", f"{count} and no worker answers", help="celery -A workers.app worker -P threads -E")


def _catalog(facts: Facts) -> Iterator[Finding]:
    lines = facts.catalog_error.splitlines()
    mine = [line for line in lines if f"Application {facts.app}:" in line]
    if lines:
        told = "the catalog on disk is broken, the last good one stays in force"
        yield Finding(
            "CatalogError", f"{told}: {(mine or lines)[0]}", blocks=bool(mine), help="mend the file: fleetbeat status"
        )


def _departure(facts: Facts) -> Iterator[Finding]:
    if facts.departing is None or facts.run:
        return
    if facts.departing:
        message, help_ = f"it has left the catalog; {facts.departing}", f"fleetbeat delete {facts.app}"
    else:
        message, help_ = "it has left the catalog; its objects are deleted", ""
    yield Finding("Departing", message, until=_due(facts) if not facts.departing else None, help=help_)


# ── what is under way ────────────────────────────────────────────────────────────────────────────────────────────


def _waiting(facts: Facts) -> Iterator[Finding]:
    run, app = facts.run, facts.app
    blocked = run.get("blocked", "")
    if run.get("state") != "waiting" or not blocked:
        return
    message = f"{run.get('step', '')}: {run.get('message', '')}"
    until: int | None = int(float(run.get("wake") or 0)) or None
    help_ = ""
    if blocked == "SyncWindow":
        until = until if "shut until" in message else None
        help_ = f"fleetbeat windows {app}; to go past it: fleetbeat sync {app} --override-windows --reason …"
    elif blocked == "DependencyNotReady":
        until = None  # the wake-up is only the next look
        if facts.unmet:  # what the run found may have changed since
            message = f"{run.get('step', '')}: waits for others (spec.dependsOn): {'; '.join(facts.unmet.values())}"
        help_ = "; ".join(f"fleetbeat why {name}" for name in list(facts.unmet)[:3])
    elif blocked == "Hold":
        help_ = f"fleetbeat hold lists them; to end it: {_lift(run.get('message', ''))}"
    elif blocked == "ConfirmationNeeded":
        until, help_ = None, f"fleetbeat delete {app} --confirm"
    yield Finding(blocked, message, until=until, help=help_)


def _running(facts: Facts) -> Iterator[Finding]:
    run = facts.run
    if not run or run.get("blocked"):
        return
    doing = run.get("message") or run.get("state", "")
    if standing := progress.told(run, facts.now / 1000):
        doing = f"{doing}; {standing}"
    message = f"run {run.get('run', '')} ({run.get('trigger', '')}) is at {run.get('step', '')}: {doing}"
    yield Finding("Progressing", message, blocks=False, help=f"fleetbeat sync {facts.app} --wait follows it")


def _asked(facts: Facts) -> Iterator[Finding]:
    if facts.request:
        waits = "begins when the run under way ends" if facts.run else "has not begun"
        message = f"a sync asked for by {facts.request.get('by') or 'somebody'} {waits}"
        yield Finding("Requested", message, blocks=False, until=_due(facts))


# ── how it ended ─────────────────────────────────────────────────────────────────────────────────────────────────


def _trouble(facts: Facts) -> Iterator[Finding]:
    state = facts.state
    if not state.get("trouble") or facts.run:
        return
    message = f"the look at it fails: {_error(state)}{_times(state)}"
    yield Finding(state["trouble"], message, until=_due(facts), help=f"looked at again by itself; {_doctor(state)}")


def _failed(facts: Facts) -> Iterator[Finding]:
    state, app = facts.state, facts.app
    again = facts.run.get("trigger") == "Retry"
    if state.get("trouble") or (facts.run and not again) or state.get("phase") != "Failed":
        return
    tried = _revision(state.get("attempted", ""), state)
    if given_up(state) and not again:
        word, told = (STOPPED, "not tried again") if state.get("reason") == STOPPED else ("GivenUp", "given up")
        help_ = f"push another bundle, edit the catalog, or: fleetbeat sync {app}"
        yield Finding(word, f"{told} at {tried}: {_error(state)}", help=help_)
        return
    message = f"the last sync, to {tried}, failed: {_error(state)}{_times(state)}"
    if again:
        help_ = "tried again at this moment" + ("; mend it and push" if state.get("cure") == "change" else "")
    elif state.get("cure") == "change":
        help_ = f"mend it and push, or edit the catalog; tried again at each interval, or by: fleetbeat sync {app}"
    else:
        help_ = f"tried again by itself, or now: fleetbeat sync {app}"
    until = None if again else _due(facts)
    yield Finding(state.get("reason") or "ReconciliationFailed", message, until=until, help=help_)


def _held_back(facts: Facts) -> Iterator[Finding]:
    app, told = facts.app, facts.state.get("held_back", "")
    pin = Order.of_pin(facts.orders)
    if is_suspension(told):
        yield Finding("Suspended", told, help="take that away in the catalog")
    elif "is vetoed" in told:
        short = told.partition(" ")[0]
        digest = next((one for one in facts.vetoes if Revision(one).short == short), "DIGEST")
        yield Finding("Vetoed", told, help=f"push another bundle, or lift it: fleetbeat veto --lift {digest}")
    elif pin is not None:
        yield Finding("Pinned", told or f"pinned to {Revision(pin.digest).short} {pin}", help=f"fleetbeat unpin {app}")


def _conflict(facts: Facts) -> Iterator[Finding]:
    state = facts.state
    told = json.loads(state.get("conflicts") or "[]")
    for rule in ("Conflict", "BackOff"):  # fought over; healed so often that the next heal has to wait
        mine = [condition for condition in told if condition["type"] == rule]
        if not mine:
            continue
        first = min(mine, key=lambda condition: datetime.fromisoformat(condition["until"]))
        more = f" (and {len(mine) - 1} more)" if len(mine) > 1 else ""
        message = first["message"].removeprefix(f"{rule}: ") + more
        until = int(datetime.fromisoformat(first["until"]).timestamp() * 1000)
        yield Finding(rule, message, until=until, help=f"put back now: fleetbeat sync {facts.app}")


def _held(facts: Facts) -> Iterator[Finding]:
    told = [condition["message"] for condition in json.loads(facts.state.get("held") or "[]")]
    if told:
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        until = int(facts.state["held_until"]) if facts.state.get("held_until") else None
        help_ = _lift(told[0]) if _HOLD.search(told[0]) else "take the annotation off, or wait for its end"
        yield Finding("Hold", told[0] + more, until=until, help=help_)


def _lift(told: str) -> str:
    """The command that ends the first hold which is told of; every text of a hold names its id before its reason."""
    found = _HOLD.search(told)
    return f"fleetbeat hold --lift {found[1] if found else 'ID'}"


_HOLD = re.compile(r"\bhold ([0-9a-f]{6}) of ")


def _refused_prune(facts: Facts) -> Iterator[Finding]:
    if facts.state.get("reason") == "PruneRefused" and not facts.run:
        empties = facts.state.get("would_empty")
        help_ = f"fleetbeat sync {facts.app} --confirm-prune" if empties else f"fleetbeat diff {facts.app}"
        yield Finding("PruneRefused", facts.state.get("message", ""), help=help_)


def _out_of_sync(facts: Facts) -> Iterator[Finding]:
    state = facts.state
    if facts.run or state.get("trouble") or state.get("phase") != "Succeeded" or state.get("sync") == "Synced":
        return
    if state.get("conflicts") or state.get("held") or state.get("reason") == "PruneRefused":
        return  # told already
    kept = [one for one in facts.results if one.get("outcome") in ("kept", "skipped", "failed")]
    told = [f"{ObjectId.from_key(one['id'])} is {one['outcome']}: {one.get('reason', '')}" for one in kept]
    more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
    message = told[0] + more if told else f"something differs: {state.get('message', '')}"
    confirm = any("confirm" in text.lower() for text in told)
    help_ = f"fleetbeat sync {facts.app} --confirm-prune" if confirm else f"fleetbeat diff {facts.app}"
    if told and told[0].endswith("self-heal is off"):
        help_ += f"; it stays until its manifest changes or somebody asks: fleetbeat sync {facts.app}"
    yield Finding("OutOfSync", message, help=help_)


def _health(facts: Facts) -> Iterator[Finding]:
    state = facts.state
    health = state.get("health") or "Unknown"
    if facts.run or state.get("trouble") or state.get("phase") != "Succeeded" or health in WELL:
        return
    bad = health in ("Degraded", "Missing")
    message = f"what is applied is {health}"
    help_ = f"fleetbeat history {facts.app}; fleetbeat explain KIND/NAME"
    yield Finding("HealthCheckFailed" if bad else "Progressing", message, blocks=bad, help=help_)


def _synced(facts: Facts) -> Iterator[Finding]:
    state = facts.state
    well = state.get("phase") == "Succeeded" and state.get("sync") == "Synced" and state.get("health") in WELL
    if well and not facts.run and not state.get("trouble"):
        since = state.get("ready_since") or state.get("finished")
        commit = state.get("revision") or "unknown"
        source = f" of {state['source']}" if state.get("source") else ""
        at = f"{_revision(state.get('digest', ''), state)}, commit {commit}{source}"
        when = f" since {stamp(int(since))}" if since else ""
        yield Finding("Synced", f"synced and {state['health'].lower()}{when} at {at}", blocks=False)


def _new(facts: Facts) -> Iterator[Finding]:
    if not (facts.state.get("phase") or facts.run or facts.state.get("trouble") or facts.departing is not None):
        told = facts.state.get("held_back") or "not looked at yet"
        yield Finding("NotSyncedYet", told, until=_due(facts), help=f"fleetbeat sync {facts.app}")


def _shut(facts: Facts) -> Iterator[Finding]:
    verdict = facts.automated
    if verdict is None or verdict.open or facts.run.get("blocked") == "SyncWindow":
        return
    until = int(verdict.until.timestamp() * 1000) if verdict.until else None
    message = f"a sync window is {verdict}; nothing is known to wait for it"
    yield Finding("SyncWindow", message, blocks=False, until=until, help=f"fleetbeat windows {facts.app}")


_RULES: tuple[Rule, ...] = (
    *(_beat, _worker, _catalog, _departure),
    *(_waiting, _running, _asked),
    *(_trouble, _failed, _held_back, _new, _conflict, _held, _refused_prune, _out_of_sync, _health, _synced, _shut),
)


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _between(facts: Facts) -> Finding:
    """A run was superseded and the next one has not begun."""
    return Finding("Progressing", facts.state.get("message", ""), blocks=False, until=_due(facts))


def _due(facts: Facts) -> int | None:
    return int(facts.due) if facts.due is not None else None


def _error(state: Mapping[str, str]) -> str:
    message = state.get("message", "").splitlines()
    more = f" (and {len(message) - 1} more)" if len(message) > 1 else ""
    return f"{state.get('reason') or state.get('phase', '')}: {message[0] if message else ''}{more}"


def _times(state: Mapping[str, str]) -> str:
    failures = int(state.get("failures") or 0)
    return f" ({failures} times in a row)" if failures > 1 else ""


def _revision(digest: str, state: Mapping[str, str]) -> str:
    tag = state.get("tag", "") if digest == state.get("digest") else ""
    short = Revision(digest).short or "nothing"
    return f"{tag}@{short}" if tag else short


def _doctor(state: Mapping[str, str]) -> str:
    return "fleetbeat doctor" if state.get("trouble_cure") != "change" else "only an edit of catalog or bundle helps"
