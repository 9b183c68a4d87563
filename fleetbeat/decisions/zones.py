"""IANA time zones by name, the same on every host."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, tzinfo
from functools import lru_cache

from fleetbeat.decisions.problems import did_you_mean
from fleetbeat.errors import FleetbeatError

#: In the database's folder, but no place: what this host is set to.
_OF_THE_HOST = {"localtime", "Factory", "posixrules", "Local", "local"}


class ZoneProblem(FleetbeatError):
    """Not the name of a zone; the text says what to write."""


@lru_cache(maxsize=1024)
def zone(name: str) -> tzinfo:
    """Raises ZoneProblem. The name is matched with case, as it is on most file systems."""
    if name == "UTC":
        return UTC  # needs no database
    if name in _OF_THE_HOST:
        raise ZoneProblem(f"{name} would be another zone on another host. Write a place, e.g. Europe/London")
    if name not in _known():
        near = did_you_mean(name, sorted(_known())) if name else ""
        raise ZoneProblem(
            f"is no time zone of the IANA database.{near or ' Write a place, e.g. Europe/London, or UTC'}"
        )
    return zoneinfo.ZoneInfo(name)


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())
