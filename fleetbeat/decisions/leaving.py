"""In which order objects are deleted: the way back through ``waves.plan``.

Last wave first. Inside a wave what depends on other objects goes before them, level by level. A
CustomResourceDefinition goes after every object of its group and a Namespace after everything in it, whatever the waves
say. Each of these is a *stage*: all of it must be gone before the next begins, since an operator has to be there still
to run the finalizers of its objects. A *tier* is what is asked for in parallel, as when writing.

Everything is read off live objects, which anybody may have edited: what cannot be read, or goes in a ring, never
blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fleetbeat.decisions import depends
from fleetbeat.decisions.inventory import ObjectMeta
from fleetbeat.decisions.order import live_wave
from fleetbeat.decisions.tiers import PREREQUISITES, rank_of, tiers
from fleetbeat.model import ObjectId


@dataclass(frozen=True)
class Leaver:
    """One object that is to go, or is going."""

    id: ObjectId
    wave: int
    needs: tuple[ObjectId, ...] = ()  #: what its live copy says it depends on

    @classmethod
    def of(cls, meta: ObjectMeta) -> Leaver:
        needs, _ = depends.read(meta.annotations.get(depends.DEPENDS_ON, ""))
        return cls(meta.id, live_wave(meta.annotations), needs)


@dataclass(frozen=True)
class RemovalStage:
    wave: int
    tiers: tuple[tuple[ObjectId, ...], ...]  #: none is empty

    @property
    def ids(self) -> tuple[ObjectId, ...]:
        return tuple(obj for tier in self.tiers for obj in tier)


def removal_stages(leavers: Iterable[Leaver]) -> tuple[RemovalStage, ...]:
    """Every object once; the result does not depend on the order of ``leavers``."""
    found = {leaver.id: leaver for leaver in leavers}
    first = _first_waves(found.values())
    slots: dict[tuple[int, int], list[ObjectId]] = defaultdict(list)
    for obj, leaver in found.items():
        wave, part = leaver.wave, 0
        if obj.group_kind in PREREQUISITES:
            # Which kind a definition defines cannot be read off its name, so it waits for every object of its group.
            part = PREREQUISITES.index(obj.group_kind) + 1
            provides = ("Namespace", obj.name) if obj.kind == "Namespace" else ("group", obj.name.partition(".")[2])
            wave = min(wave, first.get(provides, wave))
        slots[-wave, part].append(obj)
    stages = []
    for (wave, _), members in sorted(slots.items()):
        levels: dict[int, list[ObjectId]] = defaultdict(list)
        for obj, level in depends.levels(members, _edges(members, found)).items():
            levels[level].append(obj)
        stages += [RemovalStage(-wave, _reversed_tiers(levels[level])) for level in sorted(levels, reverse=True)]
    return tuple(stages)


def blocked(stages: Iterable[RemovalStage], going: Collection[ObjectId]) -> dict[ObjectId, tuple[ObjectId, ...]]:
    """What has to wait because an object of an earlier stage, deleted in a run before this one, is not gone yet.

    ``going``: objects that are being deleted. Returns each object of a later stage with those it waits for.
    """
    found: dict[ObjectId, tuple[ObjectId, ...]] = {}
    before: tuple[ObjectId, ...] = ()
    for stage in stages:
        if before:
            found |= {obj: before for obj in stage.ids if obj not in going}
        before += tuple(sorted(obj for obj in stage.ids if obj in going))
    return found


def _first_waves(leavers: Iterable[Leaver]) -> dict[tuple[str, str], int]:
    """The earliest wave with an object that lives in a namespace, or is of a group."""
    first: dict[tuple[str, str], int] = {}
    for leaver in leavers:
        if leaver.id.group_kind not in PREREQUISITES:
            for need in (("Namespace", leaver.id.namespace), ("group", leaver.id.group)):
                first[need] = min(leaver.wave, first.get(need, leaver.wave))
    return first


def _edges(members: Collection[ObjectId], found: Mapping[ObjectId, Leaver]) -> dict[ObjectId, set[ObjectId]]:
    """Who of ``members`` depends on whom of them, without the rings: those go together.

    What goes at another time anyway makes no ring: a definition that depends on an object, and the other way round.
    """
    edges: dict[ObjectId, set[ObjectId]] = {}
    inside = set(members)
    for obj in members:
        needs = (depends.find(reference, found) for reference in found[obj].needs)
        edges[obj] = {need for need in needs if need in inside and need != obj}
    while rings := depends.cycles(edges):
        for ring in rings:
            for obj in ring:
                edges[obj] -= set(ring)
    return edges


def _reversed_tiers(members: Iterable[ObjectId]) -> tuple[tuple[ObjectId, ...], ...]:
    return tuple(tuple(sorted(tier, key=rank_of, reverse=True)) for tier in reversed(tiers(members)))
