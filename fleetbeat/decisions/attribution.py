"""Where a live object comes from: which kind a word means, who owns which field, and who wrote since we did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from fleetbeat.decisions.fieldsets import HERE, leaves, text
from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.decisions.ledger import Entry, Write
from fleetbeat.errors import SourceNotFound
from fleetbeat.model import ApiResource, ApiSet, Body, ObjectId
from fleetbeat.model_results import Manager


def kind_of(apis: ApiSet, word: str) -> ApiResource:
    """The kind that ``deployment``, ``Deployment.apps``, ``deployments.apps`` or ``deploy`` means, as kubectl has it.

    Raises SourceNotFound when the cluster serves no such kind, or several and none of them is in the core group.
    """
    name, _, group = word.lower().partition(".")
    found = [
        resource
        for resource in apis.resources
        if resource.preferred
        and name in (resource.kind.lower(), resource.plural, *resource.short_names)
        and group in ("", resource.group)
    ]
    if len(found) > 1 and not group:
        found = [resource for resource in found if not resource.group] or found
    if not found:
        raise SourceNotFound(f"the cluster serves no kind {word!r}; see: kubectl api-resources")
    if len(found) > 1:
        names = ", ".join(sorted(f"{resource.kind}.{resource.group}" for resource in found))
        raise SourceNotFound(f"{word!r} may be any of {names}: name one of them")
    return found[0]


@dataclass(frozen=True)
class Fields:
    """What one field manager owns of an object."""

    manager: Manager
    paths: tuple[str, ...]  #: ``spec.replicas``, in the order of the object's own record

    @property
    def ours(self) -> bool:
        return self.manager.name == FIELD_MANAGER


def owners(live: Body) -> tuple[Fields, ...]:
    """Every field manager with the fields it owns, ours first, then the last to write."""
    found = []
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        manager = Manager(
            entry.get("manager", ""), entry.get("operation", ""), entry.get("time", ""), entry.get("subresource", "")
        )
        paths = tuple(text(steps) for steps in leaves(entry.get("fieldsV1") or {}) if steps[-1] != HERE)
        found.append(Fields(manager, paths))
    found.sort(key=lambda one: one.manager.time, reverse=True)
    return tuple(sorted(found, key=lambda one: not one.ours))


def controller_of(live: Body) -> str:
    """``ReplicaSet web-7d4b``: the object that made this one and looks after it, "" = none."""
    found = (live.get("metadata") or {}).get("ownerReferences") or ()
    return next((f"{one['kind']} {one['name']}" for one in found if one.get("controller")), "")


def applied_at(live: Body) -> str:
    """The API version of our last apply, "" when there was none: hashes can be compared at this one only."""
    for entry in (live.get("metadata") or {}).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation")) == (FIELD_MANAGER, "Apply"):
            return str(entry.get("apiVersion", "")).rpartition("/")[2]
    return ""


def since(found: Iterable[Fields], at: int) -> tuple[Fields, ...]:
    """Who else has written since a moment (ms since epoch), as far as the server tells; status does not count.

    The server notes whole seconds: a write in the same second counts as later. One through a subresource may have no
    time at all, and counts.
    """
    return tuple(
        one
        for one in found
        if not one.ours
        and one.manager.subresource != "status"
        and (not one.manager.time or _seconds(one.manager.time) >= at // 1000)
    )


def newest(entries: Iterable[Entry], cluster: str, key: ObjectId) -> tuple[Entry, Write] | None:
    """The last write to an object; of writes that were only found done the one that found them."""
    best: tuple[Entry, Write] | None = None
    for entry in entries:
        if entry.execution.cluster == cluster:
            for write in entry.writes:
                if write.place.id == key and (best is None or write.at >= best[1].at):
                    best = entry, write
    return best


def doubtful(entries: Iterable[Entry], cluster: str, key: ObjectId, after: int) -> Entry | None:
    """The last execution after a moment (ms) of which nobody knows whether it wrote the object."""
    found = [
        entry
        for entry in entries
        if entry.execution.cluster == cluster and entry.at > after and any(p.id == key for p in entry.possible)
    ]
    return found[-1] if found else None


def fields_to_json(found: Iterable[Fields]) -> list[Mapping[str, object]]:
    return [{**one.manager.to_json(), "fields": list(one.paths)} for one in found]


def _seconds(text_: str) -> int:
    try:
        at = datetime.fromisoformat(text_)
    except ValueError:
        return 0
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
