"""Waiting for a stage: what is waited for, as the record keeps it and as people read it, and how a wait goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from fleetbeat.clients.runs import Fields
from fleetbeat.decisions.progress import Progress, follow, mark_of, runs
from fleetbeat.errors import Rejected
from fleetbeat.model import Body, ObjectId
from fleetbeat.model_results import Health
from workers import memory

#: What a stage keeps in the record while it waits, as the next one, or another plan, begins with it.
NOTHING_YET: Fields = {"stage": "", "pending": "", "looks": 0, "progress": ""}

#: Of an object that was written, and then waited for.
DELETED = Health("Missing", "deleted externally during the sync")


def advised(told: str, field: str = "timeout") -> str:
    """``told``, a controller's words at its end with or without a full stop, and what to do about it.

    ``field`` of spec.sync: the time that was up.
    """
    return (
        f"{told.rstrip('.')}. Mend it and push, give it more time by spec.sync.{field}, or leave an object out of the "
        "wait by its annotation argocd.argoproj.io/ignore-healthcheck: 'true'"
    )


class Timeout(Rejected):
    """A wave did not become ready in ``spec.sync.timeout``."""

    @property
    def reason(self) -> str:
        return "HealthCheckTimeout"


class NoProgress(Rejected):
    """Nothing that a wave waits for has got on for ``spec.sync.noProgressTimeout``."""

    @property
    def reason(self) -> str:
        return "NoProgress"


class Unhealthy(Rejected):
    """What was applied is broken, and says so itself."""

    @property
    def reason(self) -> str:
        return "HealthCheckFailed"


def look(
    record: Mapping[str, str], limit: float, live: Mapping[ObjectId, tuple[Body | None, str]], now: float
) -> Progress | None:
    """What ``live``, the objects waited for and their health, adds to what the record has. None without a ``limit``."""
    if not limit:
        return None
    marks = {key.key: mark_of(body, health) for key, (body, health) in live.items()}
    working = any(runs(body) for body, _ in live.values())
    return follow(Progress.from_json(record.get("progress", "")), marks, limit=limit, working=working, now=now)


def pending(record: dict[str, str]) -> set[ObjectId]:
    return {ObjectId.from_key(key) for key in orjson.loads(record.get("pending") or "[]")}


def keys(ids: Iterable[ObjectId]) -> str:
    return orjson.dumps(sorted(key.key for key in ids)).decode()


def told(states: dict[ObjectId, Health]) -> str:
    return memory.joined([f"{key} is {s.status}: {s.message}" for key, s in sorted(states.items())], most=3)


def going(there: Mapping[ObjectId, str]) -> str:
    return memory.joined([f"{key} {why}" for key, why in sorted(there.items())], most=3)
