"""From a plan to what can be promised of it: what is done to which state of which object (decisions/promise.py)."""

from __future__ import annotations

from collections.abc import Sequence

from fleetbeat.decisions.hook_runs import is_generated
from fleetbeat.decisions.promise import Promise
from fleetbeat.engine.plan import Plan
from fleetbeat.model import Manifest, ObjectId
from fleetbeat.ports import Seen


def promise(plan: Plan, manifests: Sequence[Manifest], *, app: str, digest: str, spec: str) -> Promise:
    """``manifests``: the rendered list that ``plan`` is about. SyncFail hooks are no part of it."""
    writes: dict[ObjectId, tuple[str, str]] = {}
    if plan.stages and plan.create_namespace:
        writes[ObjectId("", "Namespace", "", plan.create_namespace)] = ("create", "")
    for change in plan.changes:
        writes[change.id] = ("create" if change.seen is None else change.how, _state(change.seen))
    for removal in plan.removals:
        writes[removal.id] = ("prune", _state(removal.seen))
    for hook in plan.hooks:
        if hook.phase != "SyncFail":
            manifest = manifests[hook.index]
            # A generated name is another one in each run.
            name = f"{manifest.body['metadata']['generateName']}*" if is_generated(manifest) else hook.id.name
            writes[hook.id._replace(name=f"{name} ({hook.phase})")] = ("hook", "")
    return Promise(app, digest, spec, writes)


def left(plan: Plan) -> dict[ObjectId, str]:
    """What differs and is not written, and why: who holds it and until when, whose it is, what the server says."""
    refused = {one.id: one.reason for one in plan.settled if one.outcome in ("failed", "kept", "skipped")}
    return {**refused, **{key: held.why for key, held in plan.held.items()}}


def _state(seen: Seen | None) -> str:
    return f"{seen.uid}/{seen.resource_version}" if seen else ""
