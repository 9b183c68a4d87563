"""Tell the end of a run in its cluster as well, as a Kubernetes Event. It never fails a run; nothing rests on it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fleetbeat.decisions.cluster_events import body, is_worth_telling
from fleetbeat.decisions.events import Event
from fleetbeat.decisions.inventory import parent_name
from fleetbeat.errors import FleetbeatError, LostLock, StoreUnavailable, Unauthorized
from workers.departing import is_removal
from workers.target import target
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
    namespace, where = shared.settings.namespace, None
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
        where.tell(body(event, entry, parent=parent_name(turn.app), namespace=namespace, uid=home))
    except (LostLock, StoreUnavailable):
        raise
    except Unauthorized as error:
        name = where.name if where is not None else ""
        if name not in _refusing:
            _refusing.add(name)
            log.warning("%s; runs go on without Events, which FLEETBEAT_EVENTS_IN_CLUSTERS=false turns off", error)
    except FleetbeatError as error:
        log.info("%s: no Event of run %s: %s", turn.app, turn.run, error)
