"""The ledger and an API server's own audit log, side by side: every write of ours in both, and none in one alone. Pure.

A write is matched by its Audit-Id. Where that is not in the ledger, because the worker was killed before it could tell,
by what its User-Agent says (application, run, fence) together with the object: the ledger has which execution was about
to write which objects. Reads, dry-runs, what the server refused and Kubernetes Events are no writes.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fleetbeat.decisions.inventory import event_prefix, parent_name
from fleetbeat.decisions.ledger import Entry, Execution, Place, Write

#: ms at either end of a log in which nothing is missed: the clocks of Redis and of an API server differ, and what was
#: written after the log had been read is in the ledger by now
SKEW = 5_000

_WRITES = {"create": "create", "apply": "patch", "patch": "patch", "replace": "update", "delete": "delete"}
_VERBS = frozenset({*_WRITES.values(), "deletecollection"})
_AGENT = re.compile(r"(?:^| )(app|run|fence|rev)/(\S+)")


class Target(NamedTuple):
    """An object in an audit log's own words; subresources are other targets."""

    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{kind} {self.namespace}/{self.name}" if self.namespace else f"{kind} {self.name}"


@dataclass(frozen=True)
class Event:
    """A write of a Fleetbeat that the API server has carried out."""

    audit_id: str
    at: int  #: ms since epoch by the API server's clock, when it was answered
    verb: str  #: "create", "update", "patch", "delete", "deletecollection"
    target: Target
    app: str
    run: str
    fence: int
    rev: str  #: first 12 digits of the bundle's digest

    def __str__(self) -> str:
        who = f"app/{self.app} run/{self.run or '?'} fence/{self.fence}"
        return f"{moment(self.at)} {self.verb} {self.target} by {who}, Audit-Id {self.audit_id}"


@dataclass(frozen=True)
class Claim:
    """A write the ledger says was made."""

    execution: Execution
    write: Write

    def __str__(self) -> str:
        return (
            f"{moment(self.write.at)} {self.write.verb} {self.write.place.id} by app/{self.execution.app} "
            f"run/{self.execution.run} fence/{self.execution.fence}, Audit-Id {self.write.audit_id}"
        )


@dataclass
class Joined:
    """How the two compare. ``whole``: nothing is left over on either side, and nothing says two things."""

    by_id: list[tuple[Event, Claim]] = field(default_factory=list)
    by_agent: list[tuple[Event, Execution]] = field(default_factory=list)  #: the Audit-Id was lost with the worker
    not_in_ledger: list[Event] = field(default_factory=list)
    not_in_log: list[Claim] = field(default_factory=list)
    contradicting: list[tuple[Event, Claim]] = field(default_factory=list)  #: one Audit-Id, two objects, verbs or runs
    outside: list[Claim] = field(default_factory=list)  #: not in the log, which does not reach that far

    @property
    def whole(self) -> bool:
        return not (self.not_in_ledger or self.not_in_log or self.contradicting)


class Log:
    """What is wanted of an audit log: our writes, and the time it covers. Fed event by event: logs are large."""

    def __init__(self) -> None:
        self.writes: list[Event] = []
        self.first = self.last = 0  #: ms since epoch; 0 = it is empty
        self.events = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """Raises ValueError for what is not an ``audit.k8s.io/v1`` event."""
        if event.get("kind") != "Event" or not str(event.get("apiVersion", "")).startswith("audit.k8s.io/"):
            raise ValueError("not an Event of audit.k8s.io")
        self.events += 1
        at = _ms(str(event.get("stageTimestamp") or event.get("requestReceivedTimestamp") or ""))
        if at:
            self.first = min(self.first or at, at)
            self.last = max(self.last, at)
        if (write := _write(event, at)) is not None:
            self.writes.append(write)


def _write(event: Mapping[str, Any], at: int) -> Event | None:
    agent = str(event.get("userAgent") or "")
    who = dict(_AGENT.findall(agent)) if agent.startswith("fleetbeat/") else {}
    if "app" not in who or event.get("verb") not in _VERBS or event.get("stage") != "ResponseComplete":
        return None
    status = (event.get("responseStatus") or {}).get("code") or 0
    if not 200 <= status < 300 or "dryRun=All" in str(event.get("requestURI") or ""):
        return None
    target = _target(event.get("objectRef") or {})
    if target.resource == "events" and target.name.startswith(event_prefix(parent_name(who["app"]))):
        return None  # a Kubernetes Event that tells of a run is nobody's state
    fence = who.get("fence", "0")
    return Event(
        audit_id=str(event.get("auditID") or ""),
        at=at,
        verb=str(event["verb"]),
        target=target,
        app=who["app"],
        run=who.get("run", ""),
        fence=int(fence) if fence.isdecimal() else 0,
        rev=who.get("rev", ""),
    )


def _target(reference: Mapping[str, Any]) -> Target:
    resource, sub = str(reference.get("resource") or ""), reference.get("subresource")
    # A Namespace's own events name it as its namespace too.
    namespace = "" if resource == "namespaces" else str(reference.get("namespace") or "")
    name = str(reference.get("name") or "")
    return Target(str(reference.get("apiGroup") or ""), f"{resource}/{sub}" if sub else resource, namespace, name)


def target_of(place: Place) -> Target:
    return Target(place.id.group, place.resource, place.id.namespace, place.id.name)


def join(
    entries: Iterable[Entry],
    left: Iterable[tuple[Execution, Sequence[Place]]],
    log: Log,
    *,
    since: int = 0,
    apps: frozenset[str] | None = None,
) -> Joined:
    """Match both sides.

    Args:
        entries: of the ledgers of all applications that are asked about, on the cluster whose log this is.
        left: executions that have not told everything: what they may have written (``clients.ledger.Chain.open``).
        log: the whole audit log; with several API servers, all of theirs. Read before the ledgers were.
        since: ms since epoch; what is older on either side is left out.
        apps: only these, None = all.
    """
    claims: dict[str, Claim] = {}
    found: list[Claim] = []
    about: dict[tuple[str, str, int], tuple[Execution, set[Target]]] = {}

    def execution(who: Execution) -> set[Target]:
        return about.setdefault((who.app, who.run, who.fence), (who, set()))[1]

    for who, places in left:
        execution(who).update(map(target_of, places))
    for entry in entries:
        known = execution(entry.execution)
        known.update(map(target_of, entry.possible))
        for write in entry.writes:
            claim = Claim(entry.execution, write)
            if write.audit_id:
                claims[write.audit_id] = claim
                known.add(target_of(write.place))
            else:
                found.append(claim)  # by an execution before this one
    joined, matched = Joined(), set[str]()
    earlier = {(c.execution.app, c.execution.run, target_of(c.write.place)): c for c in found}
    for event in log.writes:
        if event.at < since or (apps is not None and event.app not in apps):
            continue
        by_id = claims.get(event.audit_id)
        if by_id is not None:
            matched.add(event.audit_id)
            (joined.by_id if _agree(event, by_id) else joined.contradicting).append((event, by_id))
            continue
        mine = about.get((event.app, event.run, event.fence))
        if mine is not None and event.target in mine[1] and _same_bundle(event, mine[0]):
            joined.by_agent.append((event, mine[0]))
            continue
        done = earlier.get((event.app, event.run, event.target))
        if done is not None and event.fence < done.execution.fence and _same_bundle(event, done.execution):
            joined.by_agent.append((event, done.execution))
            continue
        joined.not_in_ledger.append(event)
    for audit_id, claim in claims.items():
        if audit_id in matched or claim.write.at < since:
            continue
        covered = log.first + SKEW <= claim.write.at <= log.last - SKEW
        (joined.not_in_log if covered else joined.outside).append(claim)
    return joined


def _agree(event: Event, claim: Claim) -> bool:
    who = claim.execution
    return (
        event.target == target_of(claim.write.place)
        and event.verb == _WRITES[claim.write.verb]
        and (event.app, event.run, event.fence) == (who.app, who.run, who.fence)
        and _same_bundle(event, who)
    )


def _same_bundle(event: Event, who: Execution) -> bool:
    return who.digest.removeprefix("sha256:").startswith(event.rev)


def moment(ms: int) -> str:
    """``2026-11-30T14:03:11.204Z``."""
    at = datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"


def _ms(text: str) -> int:
    """RFC 3339 → ms since epoch, 0 for what is none."""
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return 0
