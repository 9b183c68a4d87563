"""Holds: what people keep Fleetbeat from doing, for a time, and whom a hold is about. Pure.

=========  =====================================================  =====================================================
kind       target                                                 hits
=========  =====================================================  =====================================================
app        its name                                               the application
cluster    its name in the catalog                                every application there (a drain)
namespace  its name; ``cluster`` names one of several             applications whose destination it is, and single
                                                                  objects in it of all others
object     ``ObjectId.key``, group "*" = any; ``cluster`` too     that object
label      ``key=value``, of an application in the catalog        every application that carries it
=========  =====================================================  =====================================================

Scope ``sync``: nothing is written. ``self-heal``: what was changed by hand stays, new digests go on. ``prune``: what
has left the bundle stays. Times are ms since the epoch by the store's clock; a hold ends at ``until``, which is no
longer part of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from fleetbeat.decisions import hold_targets
from fleetbeat.decisions.events import stamp
from fleetbeat.model import Application, ObjectId

HoldKind = Literal["app", "cluster", "namespace", "object", "label"]
Scope = Literal["sync", "self-heal", "prune"]
KINDS: tuple[HoldKind, ...] = get_args(HoldKind)
SCOPES: tuple[Scope, ...] = get_args(Scope)

#: So many stand on one target at most, and so many in all: each run reads them, and those of an application are noted
#: in the cluster.
MOST_ON_ONE, MOST = 20, 1000
LONGEST = 30 * 86_400  #: seconds; what is to stay for longer belongs into the catalog, where others can review it
SHORTEST = 1  #: seconds
WARNING = 600_000  #: ms before its end from which on a hold says so

_END = 250_000_000_000_000  #: ms since epoch; beyond the year 9892 no time can be written

#: What keeps each kind of write from being made: a hold of everything does as well.
_COVERS: dict[Scope, tuple[Scope, ...]] = {
    "sync": ("sync",),
    "self-heal": ("self-heal", "sync"),
    "prune": ("prune", "sync"),
}


@dataclass(frozen=True)
class Held:
    """A reason to leave something as it is."""

    why: str
    until: int = 0  #: ms, 0 = until somebody ends it
    source: str = ""  #: hold, parent, catalog, object; "spec" = for good, and no news


@dataclass(frozen=True)
class Hold:
    id: str
    kind: HoldKind
    target: str
    scope: Scope
    by: str
    reason: str
    since: int
    until: int
    cluster: str = ""  #: of a namespace or object; "" = in every cluster

    def stands(self, now: int) -> bool:
        return now < self.until

    def ends_soon(self, now: int) -> bool:
        return self.stands(now) and self.until - now <= WARNING

    @property
    def about(self) -> str:
        """``cluster prod``, ``object Deployment.apps shop/web in prod``."""
        place = f" in {self.cluster}" if self.cluster else ""
        if self.kind != "object":
            return f"{self.kind} {self.target}{place}"
        key = ObjectId.from_key(self.target)
        group = f".{key.group}" if key.group not in ("", "*") else ""
        return f"object {key.kind}{group} {f'{key.namespace}/' if key.namespace else ''}{key.name}{place}"

    def __str__(self) -> str:
        what = {"sync": "hold", "self-heal": "self-heal hold", "prune": "prune hold"}[self.scope]
        return f"{what} {self.id} of {self.about} by {self.by} until {moment(self.until)}: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def for_programs(self) -> dict[str, Any]:
        """What ``-o json`` shows: ``to_json`` with times in RFC 3339, in UTC."""
        return {**self.to_json(), "since": stamp(self.since), "until": stamp(self.until)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Hold:
        """Raises ValueError or TypeError for what is none."""
        hold = cls(**data)
        if hold.kind not in KINDS or hold.scope not in SCOPES:
            raise ValueError(f"no hold of kind {hold.kind} and scope {hold.scope}")
        if any(type(text) is not str for text in (hold.id, hold.target, hold.by, hold.reason, hold.cluster)):
            raise ValueError("id, target, by, reason and cluster are text")
        if any(type(at) is not int for at in (hold.since, hold.until)) or not 0 <= hold.since < _END:
            raise ValueError("times are ms since the epoch")
        if hold.until - hold.since > LONGEST * 1000:
            raise ValueError("longer than any hold may be")
        if why := hold_targets.wrong(hold.kind, hold.target):
            raise ValueError(why)
        return hold


def moment(ms: int) -> str:
    """RFC 3339 to the second."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class Subject:
    """What of an application holds are matched with."""

    app: str
    cluster: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, application: Application) -> Subject:
        place = application.destination
        return cls(application.name, place.cluster, place.namespace, application.labels)


def hits(hold: Hold, subject: Subject) -> bool:
    """Is the hold about the application as a whole?"""
    if hold.kind == "app":
        return hold.target == subject.app
    if hold.kind == "cluster":
        return hold.target == subject.cluster
    if hold.kind == "namespace":
        return hold.target == subject.namespace and hold.cluster in ("", subject.cluster)
    if hold.kind == "label":
        key, _, value = hold.target.partition("=")
        return subject.labels.get(key) == value
    return False


def hits_object(hold: Hold, subject: Subject, key: ObjectId) -> bool:
    """Is it about this one object of an application that it does not hit as a whole?"""
    if hold.cluster not in ("", subject.cluster) or hits(hold, subject):
        return False
    if hold.kind == "namespace":
        return hold.target in (key.namespace, key.name if key.group_kind == "Namespace" else "")
    if hold.kind != "object":
        return False
    wanted = ObjectId.from_key(hold.target)
    same = (wanted.kind, wanted.namespace, wanted.name) == (key.kind, key.namespace, key.name)
    return same and wanted.group in ("*", key.group)


def standing(holds: Iterable[Hold], subject: Subject, write: Scope, now: int) -> list[Hold]:
    """Those that keep this kind of write of the whole application from being made, the longest first."""
    return _longest(hold for hold in holds if hold.scope in _COVERS[write] and hold.stands(now) and hits(hold, subject))


def standing_on(holds: Iterable[Hold], subject: Subject, key: ObjectId, write: Scope, now: int) -> list[Hold]:
    """Those that keep it from being made to this object alone, the longest first."""
    found = (hold for hold in holds if hold.scope in _COVERS[write] and hold.stands(now))
    return _longest(hold for hold in found if hits_object(hold, subject, key))


def _longest(holds: Iterable[Hold]) -> list[Hold]:
    return sorted(holds, key=lambda hold: (-hold.until, hold.id))


def told(holds: list[Hold]) -> Held | None:
    """All of them as one reason; None without any."""
    if not holds:
        return None
    more = f" (and {len(holds) - 1} more)" if len(holds) > 1 else ""
    return Held(f"{holds[0]}{more}", holds[0].until, "hold")


def mark(holds: Iterable[Hold]) -> str:
    """Another one when any of them comes, goes or is another; "" for none."""
    seen = sorted(f"{hold.id} {hold.until}" for hold in holds)
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16] if seen else ""


def warns_at(until: int, now: int, before: str = "") -> int | str:
    """When it is to be told that ``until`` is near (ms), "" = it is so already, or has been told.

    ``before``: what was to be told when this was asked last, which has not been yet.
    """
    at = until - WARNING
    return at if until and (at > now or before == str(at)) else ""


def warning(holds: Iterable[Hold], now: int) -> list[str]:
    """What is about to end, in words."""
    return [
        f"{hold} ends in {(hold.until - now) // 60_000} min {(hold.until - now) // 1000 % 60} s; what differs by then "
        "is written"
        for hold in holds
        if hold.ends_soon(now)
    ]
