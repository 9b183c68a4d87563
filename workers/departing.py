"""An application that has left the catalog with ``deletionPolicy: Delete``: is it time, and is it still so?

A deletion is a run like any other, with the trigger ``Removed``; ``removal.py`` has its steps.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from celery import Celery

from fleetbeat.clients.runs import Look, new_run_id
from fleetbeat.decisions.events import began
from fleetbeat.decisions.lifecycle import first_step, given_up
from workers import chain, suspension
from workers.parts import Parts

TRIGGER = "Removed"
BACK = "a change of mind: it is in the catalog again, or its objects are to stay"  #: what supersedes a deletion


def is_removal(record: Mapping[str, str]) -> bool:
    """Is this run's record one of a deletion?"""
    return record.get("trigger") == TRIGGER


def look_at(celery: Celery, shared: Parts, app: str, look: Look) -> str:
    """Begin the deletion of an application that has no run and is not in the catalog, if it is to be deleted."""
    departure = shared.departures.get(app)
    if departure is None:
        return "not in the catalog"
    if departure.held:
        return f"held: {departure.held}"
    if departure.cluster.suspended:
        return suspension.note(shared, app, look, departure.cluster.suspended)
    left = departure.since / 1000 + shared.settings.beat.removal_grace - shared.runs.now() / 1000
    if left > 0 and not departure.go:
        shared.runs.look_again(app, left)
        return f"has left the catalog; deleted in {left:.0f} s unless it comes back"
    since = str(departure.since)
    if given_up(look.state) and look.state.get("removing") == since and not look.request:
        return f"not tried again: {look.state.get('message', '')}"
    # Should it come back, then everything that is missing is missing because of this, and is made anew.
    shared.runs.remember(app, {"attempted": "", "home": "", "removing": since, "given_up": ""})
    run, step, request = new_run_id(shared.runs.now()), first_step(), look.request.get("id", "")
    fields = {
        "step": step,
        "trigger": TRIGGER,
        "by": look.request.get("by", ""),
        "reason": look.request.get("reason", ""),
        "request": request,
        "since": since,
        "spec": departure.spec,
        "digest": look.state.get("digest", ""),
        "tag": look.state.get("tag", ""),
    }
    told = began({**fields, "run": run})
    fence = shared.runs.start(app, run, fields, event=told, request=request, seen=look)
    if fence is None:
        return "another run has begun"
    chain.publish(celery, app, run, step, fence, None)
    return f"run {run} began: {TRIGGER} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(departure.since / 1000))}"


def interruption(shared: Parts, app: str) -> str:
    """What ends a deletion that waits; "" = it is still wanted."""
    return BACK if shared.departures.get(app) is None else ""
