"""Before the first stage of a run: have the applications it depends on been synced, and are they healthy? If not, wait.

Everything up to the plan has been done by then, so that it is known what is waiting. Who has to wait is put down with
each of those it waits for, and rung when one of their runs ends or their health changes; it looks by itself too.
A heal of drift is never held up: what it puts back has been let through before.
"""

from __future__ import annotations

import logging

from fleetbeat.decisions.dependencies import Standing, unmet
from fleetbeat.decisions.lifecycle import HEALING, origin
from fleetbeat.errors import FleetbeatError, StoreUnavailable
from fleetbeat.model import Application
from workers.choice import wanted
from workers.parts import Parts
from workers.standing import noted
from workers.task import Wait, Work

log = logging.getLogger(__name__)

#: seconds between looks of one that waits, as in Flux; being rung makes most of them needless
_AGAIN = 30.0


def hold_up(work: Work, application: Application, number: int) -> Wait | None:
    """The wait before stage ``number``, None when it may begin. Costs nothing without ``spec.dependsOn``."""
    if number or not application.depends_on or origin(work.record) in HEALING:
        return None
    # First put down, then looked at: what ends in between rings.
    work.parts.runs.wait_for_others(work.turn.app, application.depends_on)
    reasons = missing(work.parts, application)
    if not reasons:
        if work.record.get("others"):
            work.parts.runs.note(work.turn.app, work.turn.run, {"others": ""})
        return None
    state = work.parts.runs.look(work.turn.app).state
    if state.get("sync") != "OutOfSync":
        work.parts.runs.remember(work.turn.app, noted(work.parts, state, {"sync": "OutOfSync"}))
    message = f"waits for others (spec.dependsOn): {'; '.join(reasons)}"
    return Wait(work.turn.step, _AGAIN, message, {"others": "1"}, blocked="DependencyNotReady")


def missing(shared: Parts, application: Application) -> list[str]:
    """Why the application has to wait, one sentence for each it depends on. Raises StoreUnavailable."""
    found = ((name, _standing(shared, name)) for name in application.depends_on)
    return [why for name, standing in found if (why := unmet(name, standing))]


def _standing(shared: Parts, name: str) -> Standing | None:
    entry = shared.catalogs.application(name)
    if entry is None:
        return None
    look = shared.runs.look(name)
    try:
        revision = wanted(shared, entry[0], look).revision
        digest = revision.digest if revision else ""
    except StoreUnavailable:
        raise
    except FleetbeatError as error:
        log.info("%s: %s", name, error)
        digest = ""
    return Standing(look.state, bool(look.run), entry[2], digest)
