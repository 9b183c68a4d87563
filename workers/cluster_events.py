"""Tell in its cluster as well, as a Kubernetes Event, how a run ended and what it waits for. Nothing rests on it."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.runs import Turn
from fleetbeat.decisions.cluster_events import body, is_worth_telling
from fleetbeat.decisions.events import Event
from fleetbeat.decisions.inventory import parent_name
from fleetbeat.errors import FleetbeatError, LostLock, StoreUnavailable, Unauthorized
from fleetbeat.model import Body
from workers.departing import is_removal
from workers.parts import Parts
from workers.target import Target, target

if TYPE_CHECKING:
    from workers.task import Work

log = logging.getLogger(__name__)

#: clusters that have been said to refuse it, by this process
_refusing: set[str] = set()


def tell(work: Work, event: Event, entry: Mapping[str, Any], home: str) -> None:
    """One request, for a run that changed something or failed. ``home``: uid of the ApplySet parent, "" without one.

    Raises LostLock and StoreUnavailable as every step does.
    """
    shared, turn = work.parts, work.turn
    if not shared.settings.events.in_clusters or not home or not is_worth_telling(entry):
        return
    if is_removal(work.record) and entry["phase"] == "Succeeded":
        return  # the parent has gone
    try:
        where = target(
            shared,
            turn.app,
            run=turn.run,
            fence=turn.fence,
            digest=work.record.get("digest", ""),
            guard=work.lease.check,
            removal=is_removal(work.record),
        ).cluster
    except StoreUnavailable:
        raise
    except FleetbeatError as error:
        log.info("%s: no Event of run %s: %s", turn.app, turn.run, error)
        return
    namespace = shared.settings.namespace
    _send(where, turn.app, body(event, entry, parent=parent_name(turn.app), namespace=namespace, uid=home))


def held_up(shared: Parts, turn: Turn, event: Event) -> None:
    """One request, for a run that begins to wait for a rule or a person. None where nothing was ever written."""
    app, now = turn.app, shared.runs.now()
    home = shared.runs.look(app).state.get("home", "") if shared.settings.events.in_clusters else ""
    digest, removal = turn.record.get("digest", ""), is_removal(turn.record)
    connect = functools.partial(target, shared, app, digest=digest, removal=removal)
    warn(shared, app, connect, event, home, at=now, run=turn.run)


def warn(shared: Parts, app: str, connect: Callable[[], Target], event: Event, home: str, *, at: int, run: str) -> None:
    """One request, for something that goes on or is about to happen. ``at``: ms since epoch."""
    if not shared.settings.events.in_clusters or not home:
        return
    try:
        cluster = connect().cluster
    except FleetbeatError as error:
        log.info("%s: no Event %s: %s", app, event.reason, error)
        return
    entry = {"started": at, "finished": at, "count": 1, "run": run}
    namespace = shared.settings.namespace
    _send(cluster, app, body(event, entry, parent=parent_name(app), namespace=namespace, uid=home))


def _send(cluster: KubernetesCluster, app: str, event: Body) -> None:
    try:
        cluster.tell(event)
    except (LostLock, StoreUnavailable):
        raise
    except Unauthorized as error:
        if cluster.name not in _refusing:
            _refusing.add(cluster.name)
            log.warning("%s; runs go on without Events, which FLEETBEAT_EVENTS_IN_CLUSTERS=false turns off", error)
    except FleetbeatError as error:
        log.info("%s: no Event %s: %s", app, event["reason"], error)
