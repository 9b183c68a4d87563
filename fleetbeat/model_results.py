"""What syncs find out and do: outcomes, health, who wrote what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from fleetbeat.errors import FleetbeatError
from fleetbeat.model import ObjectId

#: What happened to one object (see docs/architecture.md "Words").
Outcome = Literal["created", "configured", "unchanged", "pruned", "handed-over", "kept", "failed", "skipped"]
SyncStatus = Literal["Synced", "OutOfSync", "Unknown"]
HealthStatus = Literal["Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"]
#: Nothing to wait for: as it should be, or paused because somebody wants that.
WELL: tuple[HealthStatus, ...] = ("Healthy", "Suspended")
#: Argo CD's operation phases without Error, which is Failed with its reason, and Superseded: a newer digest took over.
Phase = Literal["Running", "Succeeded", "Failed", "Superseded"]


@dataclass(frozen=True)
class Manager:
    """One entry of ``metadata.managedFields``: who wrote fields of an object, how and when."""

    name: str
    operation: str  #: "Apply" or "Update"
    time: str  #: RFC 3339, of the entry's last change
    subresource: str = ""  #: "scale", "status", "" = the object itself

    def __str__(self) -> str:
        """``kubectl-edit (Update, 2026-11-30T14:03:11Z)``; with a subresource ``(Update of scale, …)``."""
        how = f"{self.operation} of {self.subresource}" if self.subresource else self.operation
        return f"{self.name} ({how}{f', {self.time}' if self.time else ''})"

    def to_json(self) -> dict[str, str]:
        """Leaves out what is empty; ``from_json`` restores it."""
        data = {"manager": self.name, "operation": self.operation}
        data |= {"subresource": self.subresource} if self.subresource else {}
        return {**data, "time": self.time} if self.time else data

    @classmethod
    def from_json(cls, data: Mapping[str, str]) -> Manager:
        return cls(data["manager"], data.get("operation", ""), data.get("time", ""), data.get("subresource", ""))


class Drifted(NamedTuple):
    """A field that is not as the bundle has it, although that bundle has been applied."""

    field: str  #: ``data.greeting``; "" = the object as a whole
    by: Manager | None = None  #: who set it last; None = nobody knows: it was removed, or the object deleted

    @property
    def party(self) -> str:
        """The field manager's name, "" when it is not known."""
        return self.by.name if self.by else ""

    def to_json(self) -> list[Any]:
        return [self.field, self.by.to_json() if self.by else None]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Drifted:
        """Reads the form of an earlier version as well, which knew the name alone."""
        field, by = data
        if isinstance(by, str):
            return cls(field, Manager(by, "", "") if by else None)
        return cls(field, Manager.from_json(by) if by else None)


@dataclass(frozen=True)
class ObjectResult:
    """The outcome for one object of one run, with the reason in words."""

    id: ObjectId
    outcome: Outcome
    reason: str = ""
    wave: int = 0
    health: HealthStatus | None = None
    managers: tuple[str, ...] = ()  #: who had changed it by hand, where the API server recorded it
    audit_id: str = ""  #: Audit-Id of the write
    editors: tuple[Manager, ...] = ()  #: the same managers with operation, subresource and time
    fields: tuple[str, ...] = ()  #: what was put back, "" = the object as a whole: of drift only
    phase: str = ""  #: of a hook the phase it ran in, "PreSync"; "" = no hook
    lasting: bool = False  #: failed, and the same would fail again: time alone does not mend it

    @classmethod
    def failure(cls, key: ObjectId, error: FleetbeatError, wave: int = 0) -> ObjectResult:
        return cls(key, "failed", str(error), wave, lasting=error.lasting)

    def to_json(self) -> dict[str, Any]:
        """Leaves out what is empty; ``from_json`` restores it."""
        data: dict[str, Any] = {"id": self.id.key, "outcome": self.outcome, "wave": self.wave}
        if self.reason:
            data["reason"] = self.reason
        if self.health:
            data["health"] = self.health
        if self.managers:
            data["managers"] = list(self.managers)
        if self.editors:
            data["editors"] = [editor.to_json() for editor in self.editors]
        if self.audit_id:
            data["auditId"] = self.audit_id
        if self.fields:
            data["fields"] = list(self.fields)
        if self.phase:
            data["phase"] = self.phase
        if self.lasting:
            data["lasting"] = True
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ObjectResult:
        return cls(
            id=ObjectId.from_key(data["id"]),
            outcome=data["outcome"],
            reason=data.get("reason", ""),
            wave=data.get("wave", 0),
            health=data.get("health"),
            managers=tuple(data.get("managers", ())),
            audit_id=data.get("auditId", ""),
            editors=tuple(Manager.from_json(editor) for editor in data.get("editors", ())),
            fields=tuple(data.get("fields", ())),
            phase=data.get("phase", ""),
            lasting=data.get("lasting", False),
        )


@dataclass(frozen=True)
class Health:
    status: HealthStatus
    message: str = ""
