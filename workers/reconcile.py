"""The cheap look at one application: is there anything to do? Rung by beat, by people, by other services.

Nothing to do costs no write, neither in Redis nor in the cluster: the next look is already in the due set.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import Any

from celery import Celery

from fleetbeat.clients import applyset
from fleetbeat.clients.observe import UnderWay
from fleetbeat.clients.runs import Look, new_run_id
from fleetbeat.decisions import events, overrides, stand_in
from fleetbeat.decisions.changes import Fingerprint, moved
from fleetbeat.decisions.choice import suspension
from fleetbeat.decisions.health import custom, worst
from fleetbeat.decisions.lifecycle import cure, first_step, given_up, next_look, wants_run
from fleetbeat.decisions.schedule import spread
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.kinds import api_set_for
from fleetbeat.engine.plan import Known
from fleetbeat.engine.settle import judge, read
from fleetbeat.errors import FleetbeatError, StoreUnavailable
from fleetbeat.model import Application, Cluster, ObjectId, Revision
from fleetbeat.model_results import Health
from workers import chain, departing, dependencies, disputes, hand_holds, holds, memory, refusals, windows
from workers.choice import in_force, wanted
from workers.parts import Parts, parts
from workers.standing import noted
from workers.target import Target, connected

log = logging.getLogger(__name__)

#: What a look that failed covers up in the state, and the next good one brings back.
_CALM = ("sync", "message", "reason")


def reconcile(celery: Celery, app: str) -> str:
    """Look, and begin a run or go on with one. The returned words are what Flower shows."""
    shared = parts()
    try:
        return _reconcile(celery, shared, app)
    except StoreUnavailable as error:
        log.warning("%s: %s; beat rings again", app, error)
        return "Redis unavailable; rung again later"
    except UnderWay as error:
        return _later(shared, app, error)
    except FleetbeatError as error:
        return _trouble(shared, app, error)
    except Exception as error:
        # Raised on, it would cost the tick, and Celery would send its text to every monitor: it may hold anything.
        log.exception("%s: a fault in Fleetbeat", app)
        return _trouble(shared, app, Fault(f"reconcile: {type(error).__name__} (details in the worker's log)"))


class Fault(FleetbeatError):
    """A mistake of ours. Time may mend it: most are about a moment."""

    @property
    def reason(self) -> str:
        return "InternalError"


def _reconcile(celery: Celery, shared: Parts, app: str) -> str:
    entry = shared.catalogs.application(app)
    look = refusals.admit(shared, app, shared.runs.look(app))
    if look.run.get("run"):  # even one whose application has left the catalog: it has to end
        return _go_on(celery, shared, app, look)
    if entry is None:
        return departing.look_at(celery, shared, app, look)
    application, cluster, spec = entry
    if application.suspended:
        return _suspended(shared, app, look, application.suspended)

    request = look.request.get("id", "")
    try:
        choice = wanted(shared, application, look, fresh=bool(request))
    except StoreUnavailable:
        raise
    except FleetbeatError as error:
        if begun := _heal_in_force(celery, shared, look, entry, offline=error.reason):
            return begun
        raise
    if look.state.get("held_back", "") != choice.held_back:
        shared.runs.remember(app, {"held_back": choice.held_back}, events.held_back(choice.held_back))
    revision = choice.revision
    if revision is None:
        return choice.held_back
    where = connected(shared.settings, application, cluster, spec, digest=revision.digest)
    why = wants_run(state=look.state, requested=bool(request), spec=spec, digest=revision.digest, drifted=False)
    stuck = why == "Retry" or (why is None and given_up(look.state))
    if stuck and stand_in.failed_beside(look.state) and (begun := _heal_in_force(celery, shared, look, entry)):
        return begun
    if why is None and given_up(look.state):
        return f"not tried again: {look.state.get('message', '')}"
    if why is None and disputes.is_over(shared, app, look.state):
        why = "Drift"
    if why is None and look.orders.get("holds", "") != look.state.get("holds_noted", ""):
        why = "Hold"  # a person has made or lifted one, which is noted in the cluster
    if why is None and holds.are_over(shared, where, look):
        why = "Drift"
    drifted: list[str] = []
    if why is None and (moved_ids := _moved(shared, where, look, disputes.waiting(shared, app, look.state))):
        why = "Drift"
        drifted = [str(key) for key in sorted(moved_ids)]
        log.info("%s: moved: %s", app, ", ".join(drifted[:5]))
    if why is None:
        if look.state.get("trouble"):
            calm = {word: look.state.get(f"calm_{word}", "") for word in _CALM}
            over = f"{look.state['trouble']} is over"
            fields = noted(shared, look.state, {**calm, "trouble": "", "failures": 0})
            shared.runs.remember(app, fields, events.over(over))
        return "nothing to do"
    return _begin(celery, shared, app, look, why, spec, revision, drifted)


def _heal_in_force(
    celery: Celery, shared: Parts, look: Look, entry: tuple[Application, Cluster, str], *, offline: str = ""
) -> str:
    """Begin a run that puts back what is in force, though something newer cannot be had; "" = nothing of it has moved.

    ``offline``: why nobody knows what the source means, "" when that is known and fails.
    """
    application, cluster, spec = entry
    app, force = application.name, in_force(look)
    if force is None or not stand_in.stands_in(look.state, spec):
        return ""
    if offline and not memory.is_pulled(shared, application.source, force):
        return ""
    try:
        where = connected(shared.settings, application, cluster, spec, digest=force.digest)
        found = _moved(shared, where, look, disputes.waiting(shared, app, look.state))
    except (StoreUnavailable, UnderWay):
        raise
    except FleetbeatError as error:
        log.info("%s: is what is in force as it was? %s", app, error)
        return ""
    if not found or found == _NOT_REMEMBERED:
        return ""
    drifted, instead = [str(key) for key in sorted(found)], offline or look.state["attempted"]
    log.info("%s: moved: %s; %s is in force, %s cannot be had", app, ", ".join(drifted[:5]), force.short, instead)
    return _begin(celery, shared, app, look, "Drift", spec, force, drifted, stands_in=instead)


def _suspended(shared: Parts, app: str, look: Look, why: str) -> str:
    """It is neither looked at nor synced. A sync that was asked for meanwhile begins when it is so no more."""
    told = suspension(why)
    if look.state.get("held_back", "") != told:
        shared.runs.remember(app, {"held_back": told}, events.held_back(told))
    return told


def _begin(
    celery: Celery,
    shared: Parts,
    app: str,
    look: Look,
    why: str,
    spec: str,
    revision: Revision,
    drifted: Sequence[str],
    stands_in: str = "",
) -> str:
    run = new_run_id(shared.runs.now())
    request = {} if stands_in else look.request  # which is for what the source means
    step = first_step()
    fields = {
        "step": step,
        "trigger": why,
        "by": request.get("by", ""),
        "reason": request.get("reason", ""),
        "confirm_prune": request.get("confirm_prune", ""),
        "override_windows": overrides.admitted(shared.settings.signing_key(), app, run, revision.digest, request),
        "promise": request.get("promise", ""),
        "request": request.get("id", ""),
        "spec": spec,
        "digest": revision.digest,
        "tag": revision.tag,
        "pin": look.orders.get("pin", ""),
        "stands_in": stands_in,
    }
    event = events.began({**fields, "run": run}, drifted)
    fence = shared.runs.start(app, run, fields, event=event, request=request.get("id", ""))
    if fence is None:
        return "another run has begun"
    chain.publish(celery, app, run, step, fence, None)
    return f"run {run} began: {why}"


def _go_on(celery: Celery, shared: Parts, app: str, look: Look) -> str:
    """A run is under way: end its wait for what is newer, ring its step again if it got lost, or leave it alone."""
    waiting = look.run.get("state") == "waiting"
    newer = _newer(shared, app, look) if waiting else ""
    if newer:
        shared.runs.note(app, look.run["run"], {"next": newer})
    newer_first = bool(newer) and not look.run.get("hooking")
    # Whoever asks about a deletion that waits has said what it waits for (`fleetbeat delete`).
    said = bool(look.run.get("stop")) or (departing.is_removal(look.run) and bool(look.request))
    held = waiting and bool(look.run.get("window") or look.run.get("others"))
    asks_again = held and _look_while_held(shared, app, look)
    ready = said or asks_again or _others_are_ready(shared, app, look)
    found = shared.runs.resume(app, now=newer_first or ready)
    if isinstance(found, str):
        return f"run {look.run.get('run')} is {found}"
    run, step, fence = found
    stages = look.run.get("stages")
    chain.publish(celery, app, run, step, fence, int(stages) if stages else None)
    return f"run {run} goes on with {step}"


def _others_are_ready(shared: Parts, app: str, look: Look) -> bool:
    """Does the run wait for applications that are all well by now?"""
    if look.run.get("state") != "waiting" or not look.run.get("others"):
        return False
    entry = shared.catalogs.application(app)
    return entry is not None and not dependencies.missing(shared, entry[0])


def _newer(shared: Parts, app: str, look: Look) -> str:
    """What a run that waits is superseded by: another digest, another catalog entry; "" = it is still wanted.

    One that waits for a sync window or a hold is also by a sync that was asked for: what holds up the one may let that
    through.
    """
    if look.run.get("window") and look.request.get("id") and not departing.is_removal(look.run):
        return f"a sync that {look.request.get('by') or 'somebody'} asked for"
    try:
        if departing.is_removal(look.run):
            return departing.interruption(shared, app)
        entry = shared.catalogs.application(app)
        if entry is None or entry[2] != look.run.get("spec"):
            return "a changed catalog"
        revision = wanted(shared, entry[0], look, fresh=bool(look.request)).revision
    except FleetbeatError as error:
        log.info("%s: while waiting: %s", app, error)
        return ""
    if revision is None:
        return "a veto"
    return revision.digest if revision.digest not in (look.run.get("digest"), look.run.get("stands_in")) else ""


def _look_while_held(shared: Parts, app: str, look: Look) -> bool:
    """A run waits for a sync window or for others: shall its step go on before that? A look, health included.

    It shall when the windows have been edited, and, before anything is written, when the cluster is not as it was: the
    plan is made anew then. What the run needs at the opening is kept from expiring.
    """
    record = look.run
    for blob in ("plan", "rendered"):
        shared.blobs.keep(record.get(blob, ""))
    try:
        entry = shared.catalogs.application(app)
        if holds.waits(record):
            if entry and look.state.get("hand_hold"):  # it ends when the annotation is taken away
                where = connected(shared.settings, *entry, digest=record["digest"])
                hand_holds.meet(shared, app, look.state, applyset.read(where.cluster, shared.settings.namespace, app))
            departure = shared.departures.get(app) if departing.is_removal(record) else None
            application = departure.application if departure else entry[0] if entry else None
            if application is None or holds.have_changed(shared, application, record):
                return application is not None
        if entry is None or departing.is_removal(record):
            return False
        at_window = bool(record.get("window")) and not holds.waits(record)
        if at_window and windows.mark(entry[0]) != record["window"]:
            return True
        if record.get("opened") or not (record.get("window") or _time_for_a_look(shared, app, record, entry[0])):
            return False
        where = connected(shared.settings, *entry, digest=record["digest"])
        sight = windows.sight(_moved(shared, where, look))
    except StoreUnavailable:
        raise
    except FleetbeatError as error:
        log.info("%s: while waiting: %s", app, error)
        return False
    if sight == record.get("sight", windows.sight({})):
        return False
    shared.runs.note(app, record["run"], {"sight": sight, "stale": "1"})
    return True


def _time_for_a_look(shared: Parts, app: str, record: dict[str, str], application: Application) -> bool:
    """One that waits for others is rung more often than it would be looked at."""
    now, before = shared.runs.now(), int(record.get("looked") or record["created"])
    if now - before < application.sync.interval * 1000:
        return False
    shared.runs.note(app, record["run"], {"looked": now})
    return True


_NOT_REMEMBERED: dict[ObjectId, Fingerprint | None] = {
    ObjectId("", "everything", "", "(what was applied is not remembered)"): None
}


def _moved(
    shared: Parts, where: Target, look: Look, passed_over: Container[ObjectId] = ()
) -> dict[ObjectId, Fingerprint | None]:
    """Objects that are not as the last run left them, as they are. Health is refreshed where only a status moved.

    ``passed_over``: whose turn is still to come; nothing is to be done about them now.
    """
    known = memory.load_known(shared, look.state.get("inventory", ""))
    if known is None:
        return _NOT_REMEMBERED
    places: dict[tuple[str, str], set[str]] = {}
    for key in known:
        places.setdefault((key.group, key.kind), set()).add(key.namespace)
    limits, interval = shared.settings.observe, where.application.sync.interval
    apis = api_set_for(where.cluster, places)
    live = shared.observations.look(
        where.cluster,
        apis,
        where.applyset,
        places,
        age=min(interval * limits.share, limits.longest),
        since=max(int(look.state.get("ended") or 0), int(look.state.get("noticed") or 0)),
    )
    changed: dict[ObjectId, Fingerprint | None] = {}
    restless: list[ObjectId] = []
    other_rules = look.state.get("rules", "") != custom.mark(where.application.health_rules)
    for key in known.keys() | live.keys():
        if not apis.complete and apis.find(key.group, key.kind) is None:
            continue  # of a kind out of sight nobody can say that its objects have gone
        if key in passed_over:
            continue
        movement = moved(known[key].fingerprint if key in known else None, live.get(key))
        if movement in ("moved", "gone", "new"):
            changed[key] = live.get(key)
        elif other_rules or movement == "status" or not known[key].settled:
            restless.append(key)
    if restless and not changed:
        _refresh_health(shared, where, look, known, restless)
    return changed


def _refresh_health(
    shared: Parts, where: Target, look: Look, known: dict[ObjectId, Known], restless: list[ObjectId]
) -> None:
    """Only statuses moved, or the rules of the catalog: no run, but what people see shall be true."""
    now = shared.runs.now()
    apis = where.cluster.api_set()
    judged = judge(read(where.cluster, apis, where.applyset, restless), Judge(where.application, where.cluster, apis))
    for key, (_, seen) in judged.items():
        if seen is not None and key in known:
            known[key] = seen._replace(hash=known[key].hash)
    health = worst([Health(entry.health) for entry in known.values()])  # type: ignore[arg-type]
    rules = custom.mark(where.application.health_rules)
    found = {"inventory": memory.save_known(shared, known), "health": health, "rules": rules}
    if any(look.state.get(field, "") != value for field, value in found.items()):
        shared.runs.remember(where.application.name, noted(shared, look.state, {**found, "ended": now}))
    if look.state.get("health", "") != health:
        shared.runs.ring_waiters(where.application.name)


def _later(shared: Parts, app: str, error: UnderWay) -> str:
    """Nothing is wrong and nothing is known yet: give the worker's slot back (field case j9)."""
    try:
        shared.runs.look_again(app, error.retry_after or 1.0)
    except StoreUnavailable as second:
        log.warning("%s: %s", app, second)
    return str(error)


def _trouble(shared: Parts, app: str, error: FleetbeatError) -> str:
    """The look itself failed: keep what is known, say why, look again soon."""
    log.warning("%s: %s: %s", app, error.reason, error)
    try:
        look = shared.runs.look(app)
        if look.run:  # begun meanwhile: it finds out for itself, and its wake-up must not be moved
            return f"{error.reason}: {error}"
        state = look.state
        failures = int(state.get("failures") or 0) + 1
        fields: dict[str, Any] = {"failures": failures, "reason": error.reason, "message": str(error), "stood_in": ""}
        told = None if state.get("trouble") == error.reason else events.trouble(error.reason, str(error))
        if not state.get("trouble"):
            fields |= {f"calm_{word}": state.get(word, "") for word in _CALM}
            fields |= {"sync": "Unknown"}
        fields |= {"trouble": error.reason, "trouble_cure": cure(error)}
        shared.runs.remember(app, noted(shared, state, fields), told)
        entry = shared.catalogs.application(app)
        if entry is not None:
            asked = getattr(error, "retry_after", None) or 0.0
            pause = next_look(cure(error), failures, entry[0].sync.retry, asked, spread=spread(app))
            if pause is not None:
                shared.runs.look_again(app, pause)
    except FleetbeatError as second:
        log.warning("%s: %s", app, second)
    return f"{error.reason}: {error}"
