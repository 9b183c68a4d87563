"""Waiting for a stage: what is waited for, as the record keeps it and as people read it, and how a wait goes wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from fleetbeat.errors import Rejected
from fleetbeat.model import ObjectId
from fleetbeat.model_results import Health
from workers import memory

#: Of an object that was written, and then waited for.
DELETED = Health("Missing", "deleted externally during the sync")

WHAT_TO_DO = (
    "Mend it and push, give it more time by spec.sync.timeout, or leave an object out of the wait by its annotation "
    "argocd.argoproj.io/ignore-healthcheck: 'true'"
)


class Timeout(Rejected):
    """A wave did not become ready in ``spec.sync.timeout``."""

    @property
    def reason(self) -> str:
        return "HealthCheckTimeout"


class Unhealthy(Rejected):
    """What was applied is broken, and says so itself."""

    @property
    def reason(self) -> str:
        return "HealthCheckFailed"


def pending(record: dict[str, str]) -> set[ObjectId]:
    return {ObjectId.from_key(key) for key in orjson.loads(record.get("pending") or "[]")}


def keys(ids: Iterable[ObjectId]) -> str:
    return orjson.dumps(sorted(key.key for key in ids)).decode()


def told(states: dict[ObjectId, Health]) -> str:
    return memory.joined([f"{key} is {s.status}: {s.message}" for key, s in sorted(states.items())], most=3)


def going(there: Mapping[ObjectId, str]) -> str:
    return memory.joined([f"{key} {why}" for key, why in sorted(there.items())], most=3)
