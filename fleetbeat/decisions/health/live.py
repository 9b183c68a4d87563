"""A live object as the rules read it: missing and misshapen fields give empty values, never an exception."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from fleetbeat.model import Body


class Condition(NamedTuple):
    type: str
    status: str  #: "True", "False", "Unknown"
    reason: str = ""
    message: str = ""
    since: str = ""  #: lastTransitionTime
    generation: int | None = None  #: observedGeneration of the condition itself

    @property
    def text(self) -> str:
        """``reason: message``, whichever there is."""
        return ": ".join(part for part in (self.reason, self.message) if part) or f"{self.type} is {self.status}"


@dataclass(frozen=True)
class Live:
    """One object, with what the caller knows beside it."""

    body: Body
    now: datetime | None = None
    late_binding: Collection[str] = frozenset()
    has_status: bool | None = None  #: does the kind have a status subresource? None = not known

    @property
    def group_kind(self) -> str:
        """``Kind.group``, ``Kind`` alone for the core group; the version does not matter to any rule."""
        group = str(self.body.get("apiVersion", "")).rpartition("/")[0]
        kind = str(self.body.get("kind", ""))
        return f"{kind}.{group}" if group else kind

    @property
    def metadata(self) -> dict[str, Any]:
        return mapping(self.body.get("metadata"))

    @property
    def annotations(self) -> dict[str, Any]:
        return mapping(self.metadata.get("annotations"))

    @property
    def spec(self) -> dict[str, Any]:
        return mapping(self.body.get("spec"))

    @property
    def status(self) -> dict[str, Any]:
        return mapping(self.body.get("status"))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return read_conditions(self.status.get("conditions"))

    def condition(self, type: str) -> Condition | None:  # noqa: A002
        return next((c for c in self.conditions if c.type == type), None)

    def is_true(self, type: str) -> bool:  # noqa: A002
        condition = self.condition(type)
        return condition is not None and condition.status == "True"

    def wanted(self, field: str, default: int) -> int:
        """A whole number of ``spec``."""
        return whole(self.spec.get(field), default)

    def count(self, field: str) -> int:
        """A whole number of ``status``; the API leaves zeros out."""
        return whole(self.status.get(field), 0)

    def lasts(self, since: object, seconds: float) -> bool:
        """Whether something has been so for longer than ``seconds``. Without a clock, or a time, it has not."""
        if self.now is None or not isinstance(since, str):
            return False
        try:
            return (self.now - datetime.fromisoformat(since)).total_seconds() > seconds
        except (ValueError, TypeError):  # no time, or one without a zone
            return False


def mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> Iterator[dict[str, Any]]:
    """The maps in a list, what else there is left out."""
    yield from (item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict))


def whole(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def read_conditions(value: object) -> tuple[Condition, ...]:
    return tuple(
        Condition(
            type=str(item.get("type", "")),
            status=str(item.get("status", "")),
            reason=str(item.get("reason") or ""),
            message=str(item.get("message") or ""),
            since=str(item.get("lastTransitionTime") or ""),
            generation=item["observedGeneration"] if isinstance(item.get("observedGeneration"), int) else None,
        )
        for item in mappings(value)
    )
