"""The pruning part of a plan: what is deleted in which stages, what stays and why. Asks nothing of the cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from fleetbeat.decisions.bypasses import Bypasses
from fleetbeat.decisions.holds import Held
from fleetbeat.decisions.inventory import ObjectMeta
from fleetbeat.decisions.leaving import Leaver, blocked, removal_stages
from fleetbeat.decisions.options import COMPARE_OPTIONS
from fleetbeat.decisions.pruning import going_reason, needs_confirmation, to_prune
from fleetbeat.decisions.treatment import ignores_extraneous
from fleetbeat.engine.plan import Removal, StagePlan
from fleetbeat.model import ApiSet, Application, Body, ObjectId
from fleetbeat.model_results import ObjectResult
from fleetbeat.ports import Seen


@dataclass(frozen=True)
class Pruning:
    removals: tuple[Removal, ...] = ()
    stages: tuple[StagePlan, ...] = ()
    kept: tuple[ObjectResult, ...] = ()  #: what has left the bundle and stays, for now or for good
    refusal: str = ""  #: why nothing is pruned at all
    empties: bool = False  #: that is why: nothing would be left
    held: Mapping[ObjectId, Held] = field(default_factory=dict)  #: of ``kept`` what is kept for a time


def plan_pruning(
    application: Application,
    apis: ApiSet,
    live: Mapping[ObjectId, Body],
    wanted: Collection[ObjectId],
    *,
    applyset: str,
    wanted_uids: Collection[str],
    confirmed: str = "",
    may_empty: bool = False,
    bypasses: Bypasses | None = None,
) -> Pruning:
    """``live``: metadata of everything that carries the label and may be pruned (``observe``).

    ``confirmed``: who has agreed to deleting what asks for a confirmation (``decisions/confirmation.py``);
    ``may_empty``: and to deleting everything, for a bundle without objects.
    ``bypasses``: as for ``make_plan``.
    """
    decision = to_prune(
        [ObjectMeta.of(key.group, key.kind, body) for key, body in live.items()],
        frozenset(wanted),
        applyset=applyset,
        allow_empty=application.sync.allow_empty or may_empty,
        complete=apis.complete,
        wanted_uids=wanted_uids,
        confirmed=bool(confirmed),
        usual=application.sync.prune_objects,
    )
    emptied = may_empty and not wanted and not application.sync.allow_empty
    kept = dict(decision.kept)
    if not application.sync.prune:
        kept |= {meta.id: "spec.sync.prune is false" for meta in decision.prune}
    bypasses = bypasses or Bypasses.of(application)
    held = {
        meta.id: why
        for meta in decision.prune
        if meta.id not in kept and (why := bypasses.prunes_not(meta.id, live[meta.id]))
    }
    kept |= {key: why.why for key, why in held.items()}
    leaving = {meta.id: meta for meta in decision.prune if meta.id not in kept}
    going = {meta.id: meta for meta in decision.going}
    order = removal_stages([Leaver.of(meta) for meta in (*leaving.values(), *going.values())])
    waiting = blocked(order, going)
    kept |= {key: f"waits until {_named(before)} has gone" for key, before in waiting.items()}
    removals = {
        key: Removal(
            key,
            Seen(meta.uid, meta.resource_version),
            stage.wave,
            confirmed=confirmed if emptied or needs_confirmation(meta, application.sync.prune_objects) else "",
        )
        for stage in order
        for key in stage.ids
        if (meta := leaving.get(key)) and key not in waiting
    }
    stages = [StagePlan(stage.wave, "prune", _cut(stage.tiers, removals)) for stage in order]
    results = [_kept(key, why, live[key]) for key, why in sorted(kept.items())]
    # Never quiet, whatever its annotations say: who waits for it to go has to see what holds it.
    results += [ObjectResult(key, "kept", going_reason(meta)) for key, meta in sorted(going.items())]
    filled = tuple(stage for stage in stages if stage.tiers)
    return Pruning(tuple(removals.values()), filled, tuple(results), decision.refusal or "", decision.empties, held)


def _kept(key: ObjectId, why: str, live: Body) -> ObjectResult:
    """An object that says so does not make the application OutOfSync by staying."""
    if ignores_extraneous(live):
        return ObjectResult(key, "unchanged", f"kept: {why}; {COMPARE_OPTIONS}: IgnoreExtraneous")
    return ObjectResult(key, "kept", why)


def _cut(tiers: Sequence[Sequence[ObjectId]], chosen: Collection[ObjectId]) -> tuple[tuple[ObjectId, ...], ...]:
    return tuple(cut for tier in tiers if (cut := tuple(key for key in tier if key in chosen)))


def _named(objects: Sequence[ObjectId]) -> str:
    more = f" and {len(objects) - 3} more" if len(objects) > 3 else ""
    return ", ".join(map(str, objects[:3])) + more
