"""What is not as the last run left it, from the look that all applications of a cluster share. Writes nothing there."""

from __future__ import annotations

from collections.abc import Container

from fleetbeat.clients.runs import Look
from fleetbeat.decisions import changes
from fleetbeat.decisions.changes import Fingerprint
from fleetbeat.decisions.health import custom, worst
from fleetbeat.engine.judging import Judge
from fleetbeat.engine.kinds import api_set_for
from fleetbeat.engine.plan import Known
from fleetbeat.engine.settle import judge, read
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Health
from workers import memory
from workers.parts import Parts
from workers.standing import noted
from workers.target import Target

#: Instead of what has moved, where nothing is known to compare with.
NOT_REMEMBERED: dict[ObjectId, Fingerprint | None] = {
    ObjectId("", "everything", "", "(what was applied is not remembered)"): None
}


def moved(
    shared: Parts, where: Target, look: Look, passed_over: Container[ObjectId] = ()
) -> dict[ObjectId, Fingerprint | None]:
    """Objects that are not as the last run left them, as they are. Health is refreshed where only a status moved.

    ``passed_over``: whose turn is still to come; nothing is to be done about them now.
    """
    known = memory.load_known(shared, look.state.get("inventory", ""))
    if known is None:
        return NOT_REMEMBERED
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
        movement = changes.moved(known[key].fingerprint if key in known else None, live.get(key))
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
