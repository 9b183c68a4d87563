"""Fields of the bundle that another field manager has set to another value, and who wins.

Conflicts are read off the live object's ``managedFields`` rather than off a refused apply: that says operation,
subresource and time as well, costs no request, and is known before anything is written. The policy decides, and then
the apply is forced: what is left to others is no longer part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from fleetbeat.decisions.changes import Path
from fleetbeat.decisions.fieldsets import Steps, named_step, owned_at, text
from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.decisions.selectors import fits, overlaps, pointer_steps
from fleetbeat.model import Body, ConflictPolicy, ConflictRule, ObjectId
from fleetbeat.model_results import Drifted, Manager


@dataclass(frozen=True)
class FieldConflict:
    """One field that we want otherwise than the manager who has it."""

    paths: tuple[Path, ...]  #: where the two states differ; several places may lie in one atomic value
    steps: Steps  #: what the manager owns there: the path, or an atomic value around it
    manager: Manager

    def __str__(self) -> str:
        """``spec.replicas: kube-controller-manager (Update of scale, 2026-11-30T12:00:00Z)``."""
        return f"{text(self.steps)}: {self.manager}"


def conflicts(live: Body, paths: Iterable[Path], *, own: str = FIELD_MANAGER) -> tuple[FieldConflict, ...]:
    """Who owns what would be changed. ``paths``: ``changes.changed_paths`` of the live object and the dry-run's answer.

    Both sides come from the server, so that another spelling of the same quantity is no conflict. Nobody owns a field
    that is not there: one that somebody has removed is no conflict either.
    """
    found: dict[tuple[Steps, Manager], list[Path]] = {}
    entries = (live.get("metadata") or {}).get("managedFields") or ()
    for path in paths:
        for entry in entries:
            if entry.get("manager") == own:
                continue
            steps = owned_at(entry.get("fieldsV1") or {}, live, path)
            if not steps:
                continue
            manager = Manager(
                entry.get("manager", ""),
                entry.get("operation", ""),
                entry.get("time", ""),
                entry.get("subresource", ""),
            )
            found.setdefault((steps, manager), []).append(path)
    return tuple(FieldConflict(tuple(places), steps, manager) for (steps, manager), places in found.items())


def policy(conflict: FieldConflict, key: ObjectId, live: Body, rules: Iterable[ConflictRule]) -> ConflictPolicy:
    """The first rule that fits, else the default.

    By default the bundle wins: over people, CI, earlier tools and controllers nobody has said anything about. It gives
    way to what scales through the ``scale`` subresource (autoscalers), unless that is a person with kubectl.
    """
    for rule in rules:
        if not fnmatchcase(conflict.manager.name, rule.manager) or not fits(rule.objects, key):
            continue
        places = [pointer_steps(pointer, live) for pointer in rule.fields]
        if not places or any(overlaps(place, conflict.steps, live) for place in places):
            return rule.policy
    if conflict.manager.subresource and not _is_person(conflict.manager.name):
        return "yield"
    return "takeOver"


@dataclass(frozen=True)
class Decided:
    """Conflicts by what happens to them. A field of several managers goes by the most careful of their policies."""

    taken: tuple[FieldConflict, ...] = ()
    left: tuple[FieldConflict, ...] = ()
    reported: tuple[FieldConflict, ...] = ()

    @property
    def left_paths(self) -> frozenset[Path]:
        return frozenset(path for conflict in self.left for path in conflict.paths)


def decide(found: Sequence[FieldConflict], key: ObjectId, live: Body, rules: Iterable[ConflictRule]) -> Decided:
    """Every conflict under its policy."""
    ordered = tuple(rules)
    by_path: dict[Path, list[tuple[FieldConflict, ConflictPolicy]]] = {}
    for conflict in found:
        chosen = policy(conflict, key, live, ordered)
        for path in conflict.paths:
            by_path.setdefault(path, []).append((conflict, chosen))
    # Keys of dicts: one conflict stands for all the places within its field.
    taken: dict[FieldConflict, None] = {}
    left: dict[FieldConflict, None] = {}
    reported: dict[FieldConflict, None] = {}
    for several in by_path.values():
        policies = {name for _, name in several}
        if "report" in policies:
            reported |= {conflict: None for conflict, name in several if name == "report"}
        elif "yield" in policies:
            left |= {conflict: None for conflict, name in several if name == "yield"}
        else:
            taken |= {conflict: None for conflict, _ in several}
    return Decided(tuple(taken), tuple(left), tuple(reported))


@dataclass(frozen=True)
class Field:
    """A field that a write would put back, as disputes over it are counted."""

    path: Path  #: where the two states differ
    steps: Steps  #: what another manager owns there, else the place itself or the list around it
    by: Manager | None = None  #: who set it last; None = it was removed, or is nobody's but ours

    @property
    def name(self) -> str:
        """``spec.template.spec.containers[name=web].image``."""
        return text(self.steps)

    @property
    def drifted(self) -> Drifted:
        return Drifted(self.name, self.by)


def fields(paths: Iterable[Path], found: Iterable[FieldConflict]) -> tuple[Field, ...]:
    """The places of a write with who had set them. ``found``: the conflicts over these paths.

    Differences inside one value that somebody owns as a whole (an atomic list) are one field.
    """
    owned: dict[Path, FieldConflict] = {}
    for conflict in found:
        for path in conflict.paths:
            before = owned.get(path)
            if before is None or before.manager.time < conflict.manager.time:
                owned[path] = conflict
    return tuple(
        Field(path, owned[path].steps, owned[path].manager) if path in owned else Field(path, _place(path))
        for path in paths
    )


def _place(path: Path) -> Steps:
    """Nobody else owns anything there. An index says nothing about other sides of the object: the whole list."""
    steps: list[str] = []
    for part in path:
        if part.startswith("[name=") and part.endswith("]"):
            steps.append(named_step(part[len("[name=") : -1]))
        elif part.startswith("["):
            break
        else:
            steps.append(f"f:{part}")
    return tuple(steps)


def told(conflicts: Sequence[FieldConflict]) -> str:
    """``spec.replicas is left to kube-controller-manager (Update of scale, …)``."""
    return "; ".join(f"{text(c.steps)} is left to {c.manager}" for c in conflicts)


def _is_person(manager: str) -> bool:
    return manager == "kubectl" or manager.startswith("kubectl-")
