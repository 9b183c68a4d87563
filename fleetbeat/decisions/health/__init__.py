"""How an object is doing, in Argo CD's words, read off the object itself.

First what holds for every kind (gone, going, not observed yet, stalled), then a table kind → rule, and for kinds that
are not in it their conditions. The rules are those of kstatus (sigs.k8s.io/cli-utils) and of Argo CD; where the two
differ, the stricter reading counts. ``docs/engine.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Any

from fleetbeat.decisions.health import cluster, conditions, network, storage, workloads
from fleetbeat.decisions.health.live import Live
from fleetbeat.model import Body, Health, HealthStatus

__all__ = ["RULES", "health", "worst"]

#: ``Kind.group`` → rule
RULES: dict[str, Callable[[Live], Health]] = {
    **workloads.RULES,
    **network.RULES,
    **storage.RULES,
    **cluster.RULES,
}

#: From best to worst. Suspended and Missing are special, see ``worst``.
_ORDER: tuple[HealthStatus, ...] = ("Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown")


def health(
    live: Body | None,
    *,
    has_status: bool | None = None,
    now: datetime | None = None,
    late_binding: Collection[str] = frozenset(),
) -> Health:
    """The health of one live object. Never raises, whatever the object looks like.

    Args:
        live: the object as the API server has it, None when there is none.
        has_status: whether the kind has a status subresource (discovery says so). A custom resource without a status
            is Progressing when it has one: its controller has not looked yet. When it has none, or when nobody knows,
            it is Healthy, because waiting for something that may never come would block every later wave (field
            cases c4, h1).
        now: with time zone. Some failures count only after a grace time; without a clock they are Progressing.
        late_binding: StorageClasses with ``volumeBindingMode: WaitForFirstConsumer``.
    """
    if live is None:
        return Health("Missing", "not in the cluster")
    view = Live(live, now=now, late_binding=late_binding)
    if view.metadata.get("deletionTimestamp"):
        return Health("Progressing", "being deleted")
    if waiting := conditions.for_every_kind(view):
        return waiting
    rule = RULES.get(view.group_kind)
    return rule(view) if rule else conditions.for_other_kinds(view, has_status)


def worst(healths: Iterable[Health | HealthStatus]) -> HealthStatus:
    """The health of a group of objects: its worst, in Argo CD's order, with two exceptions.

    Suspended objects are meant to be so and count as Healthy (field case h3). Missing counts only when all are
    missing: one lost object is drift, and the application's health is that of what is there (field case h9).
    """
    statuses: set[Any] = {h.status if isinstance(h, Health) else h for h in healths}
    if statuses == {"Missing"}:
        return "Missing"
    counted = statuses - {"Missing", "Suspended"}
    return max(counted, key=_ORDER.index, default="Healthy")
