"""What `fleetbeat doctor` looks at on this machine and in Redis: one function per question."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fleetbeat.cli.output import age
from fleetbeat.cli.session import Session
from fleetbeat.cli.status import pulse_warnings
from fleetbeat.clients.pulse import Pulse, ServerFacts
from fleetbeat.decisions.overrides import VARIABLE, mark

State = Literal["ok", "warn", "fail"]
PACKAGES = ("fleetbeat", "workers", "scheduler")
_OLDEST_REDIS = (6, 2)  # ZMSCORE, float time-outs of BLPOP
_CLOCK = 2.0
"""Seconds two clocks may differ. Locks and schedules use Redis' clock alone; ages and certificates need the others."""


@dataclass(frozen=True)
class Check:
    """One line of the doctor's table. ``todo`` says what to do about a warning or failure."""

    name: str
    state: State
    detail: str
    todo: str = ""


def packages() -> Iterator[Check]:
    """Are our three package names ours alone, and found in one place?"""
    owners = importlib.metadata.packages_distributions()
    strangers = {
        package: sorted(set(owners.get(package, [])) - {"fleetbeat"})
        for package in PACKAGES
        if set(owners.get(package, [])) - {"fleetbeat"}
    }
    for package, names in strangers.items():
        yield Check(
            "packages",
            "fail",
            f"the package {package} is also installed by {', '.join(names)}",
            f"pip uninstall {' '.join(names)}, then reinstall fleetbeat: they overwrite each other's files",
        )
    places = {package: _place(package) for package in PACKAGES}
    if len(set(places.values())) > 1:
        found = ", ".join(f"{package} in {place}" for package, place in places.items())
        yield Check("packages", "fail", f"found in different places: {found}", "run from another folder, or reinstall")
    elif not strangers:
        yield Check("packages", "ok", ", ".join(PACKAGES))


def _place(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    return Path(spec.origin).parent.parent if spec and spec.origin else None


def server(facts: ServerFacts) -> Iterator[Check]:
    """Is Redis recent enough, and does it neither evict nor forget?"""
    parts = tuple(int(part) for part in facts.version.split(".")[:2] if part.isdigit())
    said = f"{facts.name} {facts.version}"
    if facts.name == "redis" and parts and parts < _OLDEST_REDIS:
        yield Check("Redis version", "fail", said, "Fleetbeat needs Redis 6.2 or later, or Valkey")
    else:
        yield Check("Redis version", "ok", said)
    unknown = "not told by the server"
    if facts.eviction == "noeviction":
        yield Check("Redis eviction", "ok", facts.eviction)
    elif facts.eviction:
        todo = "set maxmemory-policy noeviction: it may drop locks and run records while they are in use"
        yield Check("Redis eviction", "fail", facts.eviction, todo)
    else:
        yield Check("Redis eviction", "warn", unknown, "make sure that maxmemory-policy is noeviction")
    if facts.appendonly == "yes":
        yield Check("Redis persistence", "ok", "appendonly yes")
    else:
        detail = f"appendonly {facts.appendonly}" if facts.appendonly else unknown
        todo = "set appendonly yes: without it a restart loses history, and every application is looked at anew"
        yield Check("Redis persistence", "warn", detail, todo)


def clock(name: str, ahead: float) -> Check:
    """``ahead``: seconds the other clock is ahead of ours."""
    if abs(ahead) <= _CLOCK:
        return Check(name, "ok", f"within {_CLOCK:g} s of this machine's")
    direction = "ahead of" if ahead > 0 else "behind"
    return Check(name, "warn", f"{age(abs(ahead))} {direction} this machine's", "synchronise both by NTP")


def beats(pulse: Pulse) -> Iterator[Check]:
    """Does somebody ring?"""
    warnings = pulse_warnings(pulse.beats)
    for warning in warnings:
        yield Check("beat", "fail", *_halves(warning))
    if not warnings:
        alive = [name for name, silent in pulse.beats.items() if silent < 15]
        yield Check("beat", "ok", f"{len(alive)} alive, heard {age(min(pulse.beats.values()))} ago")


def workers(session: Session) -> Iterator[Check]:
    """Does somebody work? Asked over the broker, as Celery does."""
    names = session.ping_workers()
    if names:
        yield Check("workers", "ok", f"{len(names)} answer: {', '.join(names)}")
    else:
        todo = "start one: celery -A workers.app worker -P threads -c 8 -E"
        yield Check("workers", "fail", "none answers within a second", todo)


def overriding(session: Session) -> Iterator[Check]:
    """Who may override sync windows, and do all workers say the same?"""
    marks, own = session.override_marks(), mark(session.settings.signing_key())
    known, without = {one for one in marks.values() if one}, sorted(name for name, one in marks.items() if not one)
    name, todo = "overrides", f"start every worker with the same {VARIABLE}"
    if not marks:
        return  # no worker answers, which has been said
    if not known and own:
        yield Check(name, "warn", f"{VARIABLE} is set here, and no worker asks for it", todo)
    elif not known:
        yield Check(name, "ok", "whoever may ask for a sync may go past sync windows")
    elif without:
        yield Check(name, "fail", f"let pass without a signature by {', '.join(without)}", todo)
    elif len(known) > 1:
        yield Check(name, "fail", f"the workers have {len(known)} different keys for them", todo)
    elif own and own not in known:
        yield Check(name, "fail", f"{VARIABLE} is not that of the workers", "take theirs, or unset it")
    else:
        yield Check(
            name, "ok", f"past sync windows by signed requests only; the key is {'' if own else 'not '}set here"
        )


def watch(session: Session) -> Iterator[Check]:
    """Does somebody watch each cluster? Nobody has to."""
    held = session.watchers()
    alone = sorted(name for name, process in held.items() if not process)
    if not held:
        return
    if not alone:
        yield Check("watch", "ok", f"by {', '.join(sorted(set(held.values())))}")
    elif len(alone) == len(held):
        yield Check("watch", "ok", "none: drift is found at the regular ticks")
    else:
        todo = "look at the log of `fleetbeat watch`, or start another one: each watches up to FLEETBEAT_WATCH_CLUSTERS"
        yield Check("watch", "warn", f"nobody watches {', '.join(alone)}", todo)


def catalog(session: Session) -> Iterator[Check]:
    """Is a catalog in force, is the one on disk the same, and is it sealed with our key?"""
    status = session.catalogs.status()
    for problem in status.error.splitlines():
        yield Check("catalog", "fail", problem, "mend the file; until then the last good catalog stays in force")
    if not status.digest:
        todo = "start beat with FLEETBEAT_CATALOG, or wait some seconds if it has just started"
        yield Check("catalog", "fail", "none in force", todo)
        return
    names = session.catalogs.names()
    if names:
        session.catalogs.application(names[0])  # raises ConfigurationError when it is sealed with another key
        yield Check("key", "ok", "opens what beat has sealed")
    if not status.error:
        yield Check("catalog", "ok", f"{len(names)} application{'s' * (len(names) != 1)}")


def _halves(warning: str) -> tuple[str, str]:
    detail, _, todo = warning.partition(": ")
    return detail, todo
