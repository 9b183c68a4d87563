"""In which order objects are written; ``leaving.py`` has the way back.

Order = phase, wave, then what the wave cannot do without (prerequisites), then what objects depend on, then tiers of
kinds, then kind, then name.

- A *stage* is what must be healthy before the next one begins. Namespaces and CustomResourceDefinitions are a stage of
  their own, pulled forward into the earliest phase and wave with an object that needs them: bundles without any wave
  annotation then work at the first sync (field case c2). Objects that depend on others of their stage follow in a stage
  of their own, one for each level of dependencies.
- A *tier* is what is written in parallel; tiers follow each other as soon as the writes are answered, without waiting
  for health (``tiers.py``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fleetbeat.decisions import depends
from fleetbeat.decisions.hooks import PHASES, SyncPhase
from fleetbeat.decisions.order import SYNC_WAVE, Order, live_wave, order_of, wave_of
from fleetbeat.decisions.problems import Problem
from fleetbeat.decisions.tiers import PREREQUISITES, tiers
from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId

__all__ = ["SYNC_WAVE", "Arranged", "Part", "Stage", "arrange", "live_wave", "plan", "render", "wave_of"]

Part = Literal["prerequisites", "objects"]
_PARTS: tuple[Part, ...] = ("prerequisites", "objects")

#: Phases every good sync goes through.
_EVERY_TIME: tuple[SyncPhase, ...] = ("PreSync", "Sync", "PostSync")


@dataclass(frozen=True)
class Stage:
    """One step of a sync: everything in it must be healthy before the next stage begins."""

    wave: int
    part: Part
    tiers: tuple[tuple[ObjectId, ...], ...]  #: none is empty
    phase: SyncPhase = "Sync"
    level: int = 0  #: n > 0: depends on objects of level n - 1 in the same phase, wave and part

    @property
    def ids(self) -> tuple[ObjectId, ...]:
        return tuple(obj for tier in self.tiers for obj in tier)


class Slot(NamedTuple):
    """A place in the order, before dependencies inside of it. Compares as it comes."""

    phase: int  #: index in ``PHASES``
    wave: int
    part: int  #: index in ``_PARTS``

    def __str__(self) -> str:
        return f"{PHASES[self.phase]}, wave {self.wave}, {_PARTS[self.part]}"


@dataclass(frozen=True)
class Arranged:
    stages: tuple[Stage, ...]  #: everything whose turn is known; an object of several phases stands in each
    problems: tuple[Problem, ...]  #: why it is not known of the rest


def plan(manifests: Sequence[Manifest]) -> tuple[Stage, ...]:
    """All objects in stages, without those that ask to be left out (``argocd.argoproj.io/hook: Skip``).

    The result does not depend on the order of ``manifests``. Raises ManifestError with every problem of every manifest
    whose turn cannot be told: a wave, hook or dependency that cannot be read, dependencies on what comes later, in a
    ring, or on nothing.
    """
    arranged = arrange(manifests)
    if arranged.problems:
        raise ManifestError(list(arranged.problems))
    return arranged.stages


def arrange(manifests: Sequence[Manifest], *, complete: bool = True) -> Arranged:
    """The plan as far as it can be told, and every problem in the order of ``plan``'s error. Never raises.

    ``complete`` False: some objects of the bundle could not be read; what depends on them is not blamed for it.
    """
    orders = {manifest.id: order_of(manifest) for manifest in manifests}
    problems = [problem for order in orders.values() for problem in order.problems]
    slots = _slots(manifests, orders)
    edges, more = _edges(manifests, orders, slots, complete)
    problems += more
    stuck = depends.knotted(edges)

    stages: dict[tuple[Slot, int], list[ObjectId]] = defaultdict(list)
    members: dict[Slot, list[ObjectId]] = defaultdict(list)
    for obj, places in slots.items():
        for slot in places:
            if obj not in stuck:
                members[slot].append(obj)
    for slot, inside in members.items():
        for obj, level in depends.levels(inside, edges).items():
            stages[slot, level].append(obj)
    return Arranged(
        tuple(
            Stage(slot.wave, _PARTS[slot.part], tiers(stages[slot, level]), PHASES[slot.phase], level)
            for slot, level in sorted(stages)
        ),
        tuple(sorted(problems)),
    )


def render(stages: Iterable[Stage]) -> str:
    """The plan as text: a heading per stage, a line per object; same number in a stage = written in parallel."""
    return "\n".join(_lines(stages))


def _lines(stages: Iterable[Stage]) -> Iterator[str]:
    for stage in stages:
        dependants = " that depend on them" if stage.level else ""
        yield f"{stage.phase}, wave {stage.wave}, {stage.part}{dependants}"
        for number, tier in enumerate(stage.tiers, 1):
            yield from (f"  {number}  {obj}" for obj in tier)


def _slots(manifests: Iterable[Manifest], orders: Mapping[ObjectId, Order]) -> dict[ObjectId, tuple[Slot, ...]]:
    """Where each object stands, first place first; nothing for what has problems or is left out.

    A prerequisite that is no hook moves forward to the first thing that needs it: a namespace to what lives in it, a
    definition to what is of its kind. Phases that a good sync never comes to are no reason to move.
    """
    slots: dict[ObjectId, tuple[Slot, ...]] = {}
    needed: dict[tuple[str, ...], tuple[int, int]] = {}
    for manifest in manifests:
        obj, order = manifest.id, orders[manifest.id]
        part = _PARTS.index("prerequisites" if obj.group_kind in PREREQUISITES else "objects")
        phases = () if order.problems else order.phases
        slots[obj] = tuple(Slot(PHASES.index(phase), order.wave, part) for phase in phases)
        if slots[obj] and phases[0] in _EVERY_TIME:
            first = slots[obj][0][:2]
            for need in (("Namespace", obj.namespace), ("kind", obj.group, obj.kind)):
                needed[need] = min(first, needed.get(need, first))
    for manifest in manifests:
        obj = manifest.id
        if obj.group_kind in PREREQUISITES and orders[obj].hook is None and slots[obj]:
            own = slots[obj][0]
            phase, wave = min(own[:2], needed.get(_provides(manifest), own[:2]))
            slots[obj] = (Slot(phase, wave, own.part),)
    return slots


def _edges(
    manifests: Iterable[Manifest],
    orders: Mapping[ObjectId, Order],
    slots: Mapping[ObjectId, tuple[Slot, ...]],
    complete: bool,
) -> tuple[dict[ObjectId, set[ObjectId]], list[Problem]]:
    """Who waits for whom, and the dependencies that can never be met."""
    edges: dict[ObjectId, set[ObjectId]] = {obj: set() for obj in slots}
    problems: list[Problem] = []
    origins = {manifest.id: manifest.origin for manifest in manifests}

    def problem(obj: ObjectId, text: str) -> None:
        problems.append(Problem.at(origins[obj], text, subject=str(obj)))

    for obj, order in orders.items():
        for reference in order.depends_on:
            need = depends.find(reference, slots)
            if need is None:
                if complete:
                    problem(obj, depends.absent(reference, slots))
            elif orders[need].left_out:
                problem(obj, f"annotation {depends.DEPENDS_ON}: {need} is not applied: {orders[need].left_out}")
            else:
                edges[obj].add(need)
    for ring in depends.cycles(edges):
        text = f"annotation {depends.DEPENDS_ON} goes in a ring: {depends.told(ring)}"
        problem(ring[0], text if len(ring) > 1 else f"annotation {depends.DEPENDS_ON}: it depends on itself")
    stuck = depends.knotted(edges)
    for obj, needs in edges.items():
        for need in sorted(needs):
            if obj not in stuck and slots[obj] and slots[need] and slots[need][0] > slots[obj][0]:
                problem(
                    obj,
                    f"annotation {depends.DEPENDS_ON}: {need} comes later ({slots[need][0]}) than the object itself "
                    f"({slots[obj][0]}); change their waves",
                )
    return edges, problems


def _provides(manifest: Manifest) -> tuple[str, ...]:
    """What a prerequisite makes possible, as a key of ``_needed_waves``."""
    if manifest.id.kind == "Namespace":
        return ("Namespace", manifest.id.name)
    spec = manifest.body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    names = spec.get("names")
    return ("kind", str(spec.get("group", "")), str(names.get("kind", "")) if isinstance(names, dict) else "")
