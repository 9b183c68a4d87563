"""The cheap look at one application: is there anything to do? Rung by beat, by people, by other services.

Nothing to do costs no write, neither in Redis nor in the cluster: the next look is already in the due set.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from celery import Celery

from fleetbeat.clients.observe import UnderWay
from fleetbeat.clients.runs import Look, new_run_id
from fleetbeat.decisions import events, overrides, retries, stand_in
from fleetbeat.decisions.lifecycle import cure, first_step, given_up, next_look, wants_run
from fleetbeat.decisions.schedule import spread
from fleetbeat.errors import FleetbeatError, StoreUnavailable
from fleetbeat.model import Application, Cluster, Revision
from workers import chain, departing, disputes, fleet_orders, holds, memory, refusals, suspension
from workers.choice import in_force, wanted
from workers.going_on import go_on
from workers.movement import NOT_REMEMBERED, moved
from workers.parts import Parts, parts
from workers.standing import noted
from workers.target import connected

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
    look = refusals.admit(shared, app, shared.runs.look(app, entry[1].name if entry else ""))
    if entry is not None and not entry[0].suspended:
        fleet_orders.attend(shared, entry[1], look.fleet)
    if look.run.get("run"):  # even one whose application has left the catalog: it has to end
        return go_on(celery, shared, app, look)
    if entry is None:
        return departing.look_at(celery, shared, app, look)
    application, cluster, spec = entry
    if application.suspended:
        return suspension.note(shared, app, look, application.suspended)

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
    if why is None and (moved_ids := moved(shared, where, look, disputes.waiting(shared, app, look.state))):
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
    return _begin(celery, shared, look, why, application, spec, revision, drifted)


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
        found = moved(shared, where, look, disputes.waiting(shared, app, look.state))
    except (StoreUnavailable, UnderWay):
        raise
    except FleetbeatError as error:
        log.info("%s: is what is in force as it was? %s", app, error)
        return ""
    if not found or found == NOT_REMEMBERED:
        return ""
    drifted, instead = [str(key) for key in sorted(found)], offline or look.state["attempted"]
    log.info("%s: moved: %s; %s is in force, %s cannot be had", app, ", ".join(drifted[:5]), force.short, instead)
    return _begin(celery, shared, look, "Drift", application, spec, force, drifted, stands_in=instead)


def _begin(
    celery: Celery,
    shared: Parts,
    look: Look,
    why: str,
    application: Application,
    spec: str,
    revision: Revision,
    drifted: Sequence[str],
    stands_in: str = "",
) -> str:
    app, run = application.name, new_run_id(shared.runs.now())
    request = {} if stands_in else look.request  # which is for what the source means
    step, key = first_step(), shared.settings.signing_key()
    if why == "Retry":
        limit, now = application.sync.retry.limit, shared.runs.now()
        repeated = retries.of(look.state, key=key, app=app, digest=revision.digest, limit=limit, now=now)
        request = {**repeated.fields(), "override_windows": repeated.override_windows}
    fields = {
        "step": step,
        "trigger": why,
        "by": request.get("by", ""),
        "reason": request.get("reason", ""),
        "confirm_prune": request.get("confirm_prune", ""),
        "override_windows": overrides.admitted(key, app, run, revision.digest, request),
        "promise": request.get("promise", ""),
        "request": request.get("id", ""),
        "spec": spec,
        "digest": revision.digest,
        "tag": revision.tag,
        "pin": look.orders.get("pin", ""),
        "stands_in": stands_in,
        "retry_of": request.get("retry_of", ""),
        "repeats": request.get("repeats", ""),
    }
    event = events.began({**fields, "run": run}, drifted)
    fence = shared.runs.start(app, run, fields, event=event, request=request.get("id", ""), seen=look)
    if fence is None:
        return "another run has begun"
    chain.publish(celery, app, run, step, fence, None)
    return f"run {run} began: {why}"


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
