"""A plan: what one sync will write, in which order, decided on which state of which object.

It travels between steps as JSON in a sealed blob, so it holds no manifest: a change names its manifest by position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any, Literal, NamedTuple

import orjson

from fleetbeat.decisions import fights
from fleetbeat.decisions.changes import GONE, Fingerprint
from fleetbeat.decisions.fieldsets import Edit
from fleetbeat.decisions.fights import Dispute, Disputes
from fleetbeat.decisions.holds import Held
from fleetbeat.decisions.hooks import SyncPhase
from fleetbeat.model import Manifest, ObjectId, Origin
from fleetbeat.model_results import WELL, Drifted, Manager, ObjectResult
from fleetbeat.ports import Seen

#: "apply" server-side, "replace" by PUT, "recreate" = delete, wait until it is gone, create
How = Literal["apply", "replace", "recreate"]


@dataclass(frozen=True)
class Change:
    """One object to create or configure."""

    id: ObjectId
    index: int  #: position of its manifest in the rendered list
    wave: int
    seen: Seen | None  #: the state it was decided on; None = it was absent
    reason: str = ""  #: what differs, in words
    managers: tuple[str, ...] = ()  #: who had changed it, where the API server recorded it
    how: How = "apply"
    edits: tuple[Edit, ...] = ()  #: to the manifest before it is sent: what is left to others
    patch: tuple[dict[str, Any], ...] = field(default=(), repr=False)  #: JSON patch that goes before the apply
    before: str = ""  #: ledger.object_hash of the object as it was seen, "" = it was absent
    editors: tuple[Manager, ...] = ()  #: what the API server recorded of those managers' writes
    healed: tuple[Drifted, ...] = ()  #: of drift: the fields that are put back, and who had set each


@dataclass(frozen=True)
class HookRun:
    """One hook in one phase: an object to be made, and to be healthy, once in this run."""

    id: ObjectId  #: of the object; its name may be generated, and is then another one in each phase
    index: int  #: position of its manifest in the rendered list
    phase: SyncPhase
    wave: int


@dataclass(frozen=True)
class Removal:
    """One object of ours that is to go."""

    id: ObjectId
    seen: Seen
    wave: int
    confirmed: str = ""  #: who has agreed, in words, where the object asks for that
    because: str = "not in the bundle any more"


@dataclass(frozen=True)
class StagePlan:
    """What is written before the next health gate. Tiers one after another, the members of a tier in parallel."""

    wave: int
    #: cleanup: what a phase's delete policies ask for. Of a deletion: release (what stays is let go of), unhook (all
    #: objects of hooks go), farewell (the record goes).
    part: Literal["prerequisites", "objects", "prune", "cleanup", "release", "unhook", "farewell"]
    tiers: tuple[tuple[ObjectId, ...], ...]
    #: unchanged objects that were not healthy when last seen: the wave waits for them too
    unsettled: tuple[ObjectId, ...] = ()
    #: whose hooks are among the objects, or are cleaned up; "" = those of the phase that failed
    phase: SyncPhase | Literal[""] = "Sync"

    @property
    def ids(self) -> frozenset[ObjectId]:
        return frozenset(key for tier in self.tiers for key in tier)

    @property
    def title(self) -> str:
        if self.part in _OF_A_DELETION:
            return _OF_A_DELETION[self.part]
        if self.part == "prune":
            return f"prune of wave {self.wave}"
        if self.part == "cleanup":
            return f"deleting hooks of {self.phase or 'the phase that failed'}"
        where = f"wave {self.wave}" + (" prerequisites" if self.part == "prerequisites" else "")
        return where if self.phase == "Sync" else f"{self.phase} {where}"


#: Follows the hash of a manifest whose object differs and was left so: compared each time, and still no new manifest.
LEFT = " left"


_OF_A_DELETION = {
    "release": "letting go of what stays",
    "unhook": "deleting objects of hooks",
    "farewell": "the record of the application",
}


class Known(NamedTuple):
    """What is remembered of an object after a sync: enough to tell without a request that nothing moved."""

    hash: str  #: digest of the manifest as rendered
    fingerprint: Fingerprint
    health: str  #: HealthStatus when last seen

    @property
    def settled(self) -> bool:
        """Is nothing waited for? It is well, or not there and known to be left so."""
        return self.fingerprint == GONE or self.health in WELL


@dataclass(frozen=True)
class Plan:
    changes: tuple[Change, ...] = ()
    removals: tuple[Removal, ...] = ()
    stages: tuple[StagePlan, ...] = ()
    hooks: tuple[HookRun, ...] = ()  #: those of this run; () when none are due
    failing: tuple[StagePlan, ...] = ()  #: what follows when a stage has failed
    settled: tuple[ObjectResult, ...] = ()  #: decided without a write: unchanged, kept, skipped, failed
    known: dict[ObjectId, Known] = field(default_factory=dict)  #: of the settled objects
    create_namespace: str = ""  #: the destination namespace, when it is to be made without being owned
    refusal: str = ""  #: why something was left undone as a whole, e.g. nothing pruned
    would_empty: bool = False  #: that is why nothing was pruned: every object would have gone
    truces: Disputes = field(default_factory=dict)  #: fields that differ and are left alone for now
    left: Mapping[ObjectId, Sequence[Drifted]] = field(default_factory=dict)  #: all drift that is left, for any reason
    held: Mapping[ObjectId, Held] = field(default_factory=dict)  #: what differs, or has left, and stays for a time
    complete: bool = True  #: False: some kinds could not be seen, so what is known of them is not forgotten
    claims: tuple[ObjectId, ...] = ()  #: wanted objects that another application of this installation owns
    yielded: dict[ObjectId, str] = field(default_factory=dict)  #: of the compared objects: what is left to whom

    def truce(self, key: ObjectId, name: str, _party: str) -> Dispute | None:
        """Is this field left alone in this run? As ``weigh.Truces``, for whoever weighs an object once more."""
        return self.truces.get(key, {}).get(name)

    def hooks_of(self, phase: str) -> dict[ObjectId, HookRun]:
        return {hook.id: hook for hook in self.hooks if hook.phase == phase}

    @property
    def failed(self) -> tuple[ObjectResult, ...]:
        return tuple(result for result in self.settled if result.outcome == "failed")

    def to_json(self) -> bytes:
        return orjson.dumps(
            {
                "changes": [_change(change) for change in self.changes],
                "removals": [[r.id.key, _seen(r.seen), r.wave, r.confirmed, r.because] for r in self.removals],
                "stages": [_stage(stage) for stage in self.stages],
                "hooks": [[h.id.key, h.index, h.phase, h.wave] for h in self.hooks],
                "failing": [_stage(stage) for stage in self.failing],
                "settled": [result.to_json() for result in self.settled],
                "known": known_to_json(self.known),
                "createNamespace": self.create_namespace,
                "refusal": self.refusal,
                "wouldEmpty": self.would_empty,
                "truces": fights.to_json(self.truces),
                "left": {key.key: [one.to_json() for one in drift] for key, drift in self.left.items()},
                "held": {key.key: list(astuple(held)) for key, held in self.held.items()},
                "complete": self.complete,
                "claims": [key.key for key in self.claims],
                "yielded": {key.key: told for key, told in self.yielded.items()},
            }
        )

    @classmethod
    def from_json(cls, text: bytes) -> Plan:
        data = orjson.loads(text)
        of = ObjectId.from_key
        return cls(
            changes=tuple(_change_from(change) for change in data["changes"]),
            removals=tuple(Removal(of(key), Seen(*seen), *rest) for key, seen, *rest in data["removals"]),
            stages=tuple(_stage_from(stage) for stage in data["stages"]),
            hooks=tuple(HookRun(of(key), *rest) for key, *rest in data.get("hooks", ())),
            failing=tuple(_stage_from(stage) for stage in data.get("failing", ())),
            settled=tuple(ObjectResult.from_json(result) for result in data["settled"]),
            known=known_from_json(data["known"]),
            create_namespace=data["createNamespace"],
            refusal=data["refusal"],
            would_empty=data.get("wouldEmpty", False),
            truces=fights.from_json(data["truces"]),
            left={of(key): tuple(map(Drifted.from_json, drift)) for key, drift in data.get("left", {}).items()},
            held={of(key): Held(*held) for key, held in data.get("held", {}).items()},
            complete=data.get("complete", True),
            claims=tuple(of(key) for key in data.get("claims", ())),
            yielded={of(key): told for key, told in data.get("yielded", {}).items()},
        )


def _change(change: Change) -> list[Any]:
    seen, edits = _seen(change.seen), [edit.to_json() for edit in change.edits]
    about = [change.id.key, change.index, change.wave, seen, change.reason, change.managers]
    editors = [editor.to_json() for editor in change.editors]
    return [*about, change.how, edits, change.patch, change.before, editors, [one.to_json() for one in change.healed]]


def _change_from(data: list[Any]) -> Change:
    key, index, wave, seen, reason, managers, how, edits, patch, before, editors, healed = data
    return Change(
        ObjectId.from_key(key),
        index,
        wave,
        Seen(*seen) if seen else None,
        reason,
        tuple(managers),
        how,
        tuple(Edit.from_json(edit) for edit in edits),
        tuple(patch),
        before,
        tuple(Manager.from_json(editor) for editor in editors),
        tuple(Drifted.from_json(one) for one in healed),
    )


def _stage(stage: StagePlan) -> list[Any]:
    tiers = [[key.key for key in tier] for tier in stage.tiers]
    return [stage.wave, stage.part, tiers, [key.key for key in stage.unsettled], stage.phase]


def _stage_from(data: list[Any]) -> StagePlan:
    """``phase`` is missing in a plan that an earlier version left."""
    wave, part, tiers, rest, *phase = data
    of = ObjectId.from_key
    return StagePlan(wave, part, tuple(tuple(map(of, tier)) for tier in tiers), tuple(map(of, rest)), *phase)


def known_to_json(known: dict[ObjectId, Known]) -> dict[str, Any]:
    return {key.key: [entry.hash, list(astuple(entry.fingerprint)), entry.health] for key, entry in known.items()}


def known_from_json(data: dict[str, Any]) -> dict[ObjectId, Known]:
    return {
        ObjectId.from_key(key): Known(digest, Fingerprint(*mark), health)
        for key, (digest, mark, health) in data.items()
    }


def manifests_to_json(manifests: list[Manifest] | tuple[Manifest, ...]) -> bytes:
    """The rendered list, as the blob between render and apply."""
    return orjson.dumps(
        [[m.id.key, m.version, m.body, [m.origin.file, m.origin.document, m.origin.line]] for m in manifests]
    )


def manifests_from_json(text: bytes) -> list[Manifest]:
    return [
        Manifest(ObjectId.from_key(key), version, body, Origin(*origin))
        for key, version, body, origin in orjson.loads(text)
    ]


def _seen(seen: Seen | None) -> list[str] | None:
    return [seen.uid, seen.resource_version] if seen else None
