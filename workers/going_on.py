"""A run is under way and its application is rung: end its wait for what is newer, ring its step again, or let it be."""

from __future__ import annotations

import contextlib
import logging

from celery import Celery

from fleetbeat.clients import applyset
from fleetbeat.clients.observe import UnderWay
from fleetbeat.clients.runs import Look
from fleetbeat.errors import FleetbeatError, Refused, StoreUnavailable
from fleetbeat.model import Application
from workers import chain, departing, dependencies, hand_holds, holds, windows
from workers.choice import wanted
from workers.movement import moved
from workers.parts import Parts
from workers.target import connected

log = logging.getLogger(__name__)


def go_on(celery: Celery, shared: Parts, app: str, look: Look) -> str:
    """A run is under way: end its wait for what is newer, ring its step again if it got lost, or leave it alone."""
    waiting = look.run.get("state") == "waiting"
    newer = _newer(shared, app, look) if waiting else ""
    if newer:
        shared.runs.note(app, look.run["run"], {"next": newer})
    newer_first = bool(newer) and not look.run.get("hooking")
    # Whoever asks about a deletion that waits has said what it waits for (`fleetbeat delete`).
    said = bool(look.run.get("stop")) or (departing.is_removal(look.run) and bool(look.request))
    held = waiting and bool(look.run.get("window") or look.run.get("others"))
    asks_again, put_off = False, None
    try:
        asks_again = held and _look_while_held(shared, app, look)
    except UnderWay as error:
        put_off = error
    ready = said or asks_again or _others_are_ready(shared, app, look)
    found = shared.runs.resume(app, now=newer_first or ready)
    if isinstance(found, str):
        if put_off is not None:  # the next look on the way may be an hour off
            shared.runs.look_again(app, put_off.retry_after or 1.0, at_the_latest=True)
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
    plan is made anew then. What the run needs at the opening is kept from expiring. Raises UnderWay.
    """
    record = look.run
    for blob in ("plan", "rendered"):
        shared.blobs.keep(record.get(blob, ""))
    try:
        entry = shared.catalogs.application(app)
        if holds.waits(record):
            departure = shared.departures.get(app) if departing.is_removal(record) else None
            there = (departure.application, departure.cluster, departure.spec) if departure else entry
            if there is None:
                return False
            if look.state.get("hand_hold"):  # it ends when the annotation is taken away
                where = connected(shared.settings, *there, digest=record["digest"])
                with contextlib.suppress(Refused):  # the step meets it too, and ends the run with it
                    parent = applyset.read(where.cluster, shared.settings.namespace, app)
                    hand_holds.meet(shared, app, look.state, parent)
            if holds.have_changed(shared, there, record, look.state.get("home", "")):
                return True
        if entry is None or departing.is_removal(record):
            return False
        at_window = bool(record.get("window")) and not holds.waits(record)
        if at_window and windows.mark(entry[0]) != record["window"]:
            return True
        if record.get("opened") or not (record.get("window") or _time_for_a_look(shared, app, record, entry[0])):
            return False
        where = connected(shared.settings, *entry, digest=record["digest"])
        sight = windows.sight(moved(shared, where, look))
    except (StoreUnavailable, UnderWay):
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
