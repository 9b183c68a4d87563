"""What a sync would do now, object by object, as text for people. Secrets are masked; nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fleetbeat.decisions.changes import changed_paths, format_path, unified
from fleetbeat.engine.compare import Comparison
from fleetbeat.engine.plan import Plan
from fleetbeat.engine.remove import why_pruned
from fleetbeat.model import Body, Manifest, ObjectId

#: replace = delete and create anew; run = a hook; leave = another application's; keep = not in the bundle, and stays
Action = Literal["create", "configure", "replace", "prune", "keep", "refuse", "run", "leave"]


@dataclass(frozen=True)
class Preview:
    """One object that differs."""

    id: ObjectId
    action: Action
    reason: str
    text: str  #: unified diff, "" for what is refused
    fields: tuple[str, ...] = ()  #: places that change, ``spec.template.spec.containers[name=web].image``

    def to_json(self) -> dict[str, Any]:
        """For programs; Secrets are masked as in the text."""
        key = self.id
        place = {"group": key.group, "kind": key.kind, "namespace": key.namespace, "name": key.name}
        told = {"action": self.action, **place, "reason": self.reason.removeprefix(f"{key}: ")}
        return {**told, "fields": list(self.fields), "diff": self.text}


def _compared(key: ObjectId, action: Action, reason: str, live: Body | None, after: Body | None) -> Preview:
    paths = changed_paths(live, after) if live is not None and after is not None else ()
    return Preview(key, action, reason, unified(live, after), tuple(map(format_path, paths)))


def previews(
    plan: Plan, comparison: Comparison, manifests: Iterable[Manifest], pruned: Mapping[ObjectId, Body | None]
) -> list[Preview]:
    """A namespace that an option makes, objects in the order of the manifests, then deletions, then hooks.

    ``pruned``: live bodies of what would be deleted.
    """
    bodies = {manifest.id: manifest.body for manifest in manifests}
    found: list[Preview] = []
    if plan.stages and plan.create_namespace:
        made = ObjectId("", "Namespace", "", plan.create_namespace)
        found.append(Preview(made, "create", "CreateNamespace=true", ""))
    for key, verdict in comparison.verdicts.items():
        change, result = verdict.change, verdict.result
        if change is not None:
            # Without a dry-run (the kind or namespace does not exist yet) the manifest is the best that is known.
            after = verdict.wanted if verdict.wanted is not None else bodies[key]
            action: Action = "create" if change.seen is None else "configure"
            if change.how == "recreate":
                action = "replace"
            found.append(_compared(key, action, change.reason, verdict.live, after))
        elif result is not None and result.outcome == "failed":
            found.append(Preview(key, "refuse", result.reason, ""))
        elif result is not None and verdict.shared:
            found.append(Preview(key, "leave", result.reason, ""))
        elif result is not None and result.outcome == "skipped":
            found.append(_compared(key, "configure", result.reason, verdict.live, verdict.wanted))
    found += [Preview(r.id, "prune", why_pruned(r), unified(pruned.get(r.id), None)) for r in plan.removals]
    found += [Preview(result.id, "keep", result.reason, "") for result in plan.settled if result.outcome == "kept"]
    found += [Preview(result.id, "refuse", result.reason, "") for result in plan.failed if result.phase]
    found += [
        Preview(hook.id, "run", f"{hook.phase} wave {hook.wave}", "") for hook in plan.hooks if hook.phase != "SyncFail"
    ]
    return found
