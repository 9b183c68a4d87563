"""How an object is doing, in Argo CD's words, read off the object itself.

First what holds for every kind (gone, going, not observed yet, stalled), then a table kind → rule, and for kinds that
are not in it their conditions. The rules are those of kstatus (sigs.k8s.io/cli-utils) and of Argo CD; where the two
differ, the stricter reading counts. ``docs/engine.md`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from fleetbeat.decisions.health import (
    argo,
    certificates,
    cluster,
    conditions,
    cronjobs,
    custom,
    flux,
    network,
    storage,
    workloads,
)
from fleetbeat.decisions.health.conditions import reporting
from fleetbeat.decisions.health.live import Live
from fleetbeat.decisions.health.storage import binds_late
from fleetbeat.model import Body, HealthRule
from fleetbeat.model_results import Health, HealthStatus

__all__ = ["IGNORE", "RULES", "binds_late", "health", "is_ignored", "reporting", "worst"]

#: Argo CD's annotation: with ``"true"`` an object counts neither for its wave nor for its application.
IGNORE = "argocd.argoproj.io/ignore-healthcheck"

#: ``Kind.group`` → rule
RULES: dict[str, Callable[[Live], Health]] = {
    **workloads.RULES,
    **cronjobs.RULES,
    **network.RULES,
    **storage.RULES,
    **cluster.RULES,
    **argo.RULES,
    **flux.RULES,
    **certificates.RULES,
}

#: Their rules read observedGeneration themselves, as text.
_OWN_GENERATION = ("Rollout.argoproj.io",)

#: From best to worst. Suspended and Missing are special, see ``worst``.
_ORDER: tuple[HealthStatus, ...] = ("Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown")


def health(
    live: Body | None,
    *,
    rules: Mapping[str, HealthRule] | None = None,
    has_status: bool | None = None,
    now: datetime | None = None,
    late_binding: Collection[str] = frozenset(),
) -> Health:
    """The health of one live object. Never raises, whatever the object looks like.

    Args:
        live: the object as the API server has it, None when there is none.
        rules: the application's own, by ``Kind.group`` (``custom.by_kind``). For its kind such a rule replaces
            everything but Missing and being deleted.
        has_status: whether the kind has a status subresource (discovery says so), see ``conditions.without_status``.
        now: with time zone. Some failures count only after a grace time; without a clock they are Progressing.
        late_binding: StorageClasses with ``volumeBindingMode: WaitForFirstConsumer``.
    """
    if live is None:
        return Health("Missing", "not in the cluster")
    view = Live(live, now=now, late_binding=late_binding, has_status=has_status)
    if view.metadata.get("deletionTimestamp"):
        return Health("Progressing", "being deleted")
    if rules and (own := rules.get(view.group_kind)):
        return custom.judge(own, view)
    if suspended := flux.suspended(view):
        return suspended
    rule = RULES.get(view.group_kind)
    if view.group_kind not in _OWN_GENERATION and (waiting := conditions.for_every_kind(view)):
        return waiting
    return rule(view) if rule else conditions.for_other_kinds(view)


def is_ignored(live: Body) -> bool:
    """Whether the object asks to be left out of wave gates and of its application's health."""
    return Live(live).annotations.get(IGNORE) == "true"


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
