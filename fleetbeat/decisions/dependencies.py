"""``spec.dependsOn`` between applications: may one be written, as far as those it depends on go?

Of each of them what is wanted now must have been applied, and be healthy since. Source of the rule: Flux's dependsOn of
Kustomizations; there a dependency that has a newer revision to apply passes as ready, here it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fleetbeat.decisions import depends
from fleetbeat.model import Application, ObjectId
from fleetbeat.model_results import WELL


@dataclass(frozen=True)
class Standing:
    """What is known of an application that another one depends on."""

    state: Mapping[str, str]  #: its state between runs
    running: bool  #: a run is under way
    spec: str  #: digest of its catalog entry as it is now
    digest: str  #: what its source means now; "" = it cannot be asked


def unmet(name: str, standing: Standing | None) -> str:
    """Why what depends on ``name`` has to wait, "" when it has not; ``None`` = it has left the catalog."""
    if standing is None:
        return f"{name} is not in the catalog any more"
    state = standing.state
    if not state.get("attempted"):
        return f"{name} has not been synced yet"
    if standing.running:
        return f"{name} is being synced"
    if not standing.digest:
        return f"it is not known whether {name} has something newer to apply: its source does not answer"
    if standing.digest != state.get("digest") and standing.digest != state["attempted"]:
        return f"{name} has not applied {_short(standing.digest)} yet"
    if state.get("phase") != "Succeeded":
        return f"the last sync of {name} ended as {state.get('phase') or 'unknown'}: {state.get('message', '')}"
    if state.get("spec") != standing.spec:
        return f"{name} has not been synced since its catalog entry was edited"
    health = state.get("health") or "Unknown"
    return "" if health in WELL else f"{name} is {health}"


def cycles(applications: Mapping[str, Application]) -> list[tuple[str, ...]]:
    """Rings of applications that wait for each other, each beginning with its smallest name."""
    edges = {_id(name): [_id(need) for need in app.depends_on] for name, app in applications.items()}
    return [tuple(obj.name for obj in ring) for ring in depends.cycles(edges)]


def told(ring: Sequence[str]) -> str:
    """``a → b → a``."""
    return " → ".join((*ring, ring[0]))


def _id(name: str) -> ObjectId:
    return ObjectId("fleetbeat.dev", "Application", "", name)


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
