"""What the tests that break things share: what the audit log proves, and how a fleet comes to rest."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleet import Fleet, words
from nursery import Nursery
from waiting import wait_for

from fleetbeat.local.cluster import Cluster
from fleetbeat.local.redis import RedisServer
from fleetbeat.local.registry import Registry

_AGENT = re.compile(r" run/(?P<run>\S+)(?: fence/(?P<fence>\d+))?")


@contextmanager
def breakable(
    folder: Path, registry: Registry, cluster: Cluster, *, concurrency: int = 4, **options: Any
) -> Iterator[tuple[Fleet, Nursery]]:
    """An installation without workers, with short locks and leases, and a nursery for the workers to come."""
    options = {"workers": 0, "lock_ttl": 1.5, "lease": 2.0, "FLEETBEAT_HTTP_CONNECT": "30", **options}
    with RedisServer() as redis:
        folder = folder / f"fleet-{uuid.uuid4().hex[:6]}"
        with Fleet(folder, redis, registry, [cluster], concurrency=concurrency, **options) as fleet:
            nursery = Nursery(fleet.env, fleet.folder, concurrency=concurrency)
            try:
                yield fleet, nursery
            finally:
                nursery.end()


def new_namespace(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    status, answer = cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert status == 201, answer
    return name


def kept(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Those of the write events that the API server carried out."""
    return [event for event in events if event["responseStatus"]["code"] in (200, 201)]


def execution(event: Mapping[str, Any]) -> tuple[str, int]:
    """(run, fence) of the User-Agent; ("", 0) when it has none."""
    found = _AGENT.search(event["userAgent"])
    return (found["run"], int(found["fence"] or 0)) if found else ("", 0)


def stale_writes(fleet: Fleet, app: str, *, since: int = 0) -> list[str]:
    """Kept writes by an execution after a later one had taken the application's parent, in words.

    The parent is taken when its PUT or POST has been answered (``stageTimestamp``); a write counts as sent when the
    API server received it, so what was on its way at that moment is no fault.
    """
    events = kept(fleet.writes(app, since=since, parents=True))
    takings = [(event["stageTimestamp"], execution(event)[1]) for event in events if _is_parent(event)]
    found = []
    for event in events:
        run, fence = execution(event)
        later = max((taken for at, taken in takings if at < event["requestReceivedTimestamp"]), default=0)
        if fence < later:
            found.append(f"{words([event])[0]} by {run} with fence {fence}, after {later} had taken over")
    return found


def _is_parent(event: Mapping[str, Any]) -> bool:
    reference = event.get("objectRef", {})
    return reference.get("namespace") == "fleetbeat" and reference.get("resource") == "configmaps"


def created(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """What the API server made new, in words, sorted; an object made twice is there twice."""
    return sorted(words(event for event in events if event["responseStatus"]["code"] == 201))


def at_rest(fleet: Fleet, app: str, digest: str, *, timeout: float = 120) -> dict[str, str]:
    """Wait until the application is synced at ``digest`` and no run is left; returns its state."""

    def rests() -> dict[str, str] | None:
        look = fleet.runs.look(app)
        good = look.state.get("digest") == digest and look.state.get("sync") == "Synced"
        return look.state if good and not look.run else None

    try:
        return wait_for(rests, timeout=timeout, what=f"{app} at rest at {digest[:19]}")
    except AssertionError as error:
        look = fleet.runs.look(app)
        raise AssertionError(f"{error}\nrun: {look.run}\nstate: {look.state}\n{fleet.logs()[-6000:]}") from None


def versions(fleet: Fleet, namespace: str) -> dict[str, str]:
    """ConfigMap → resourceVersion of everything there that Fleetbeat applied."""
    label = "applyset.kubernetes.io%2Fpart-of"
    body = fleet.get(f"/api/v1/namespaces/{namespace}/configmaps?labelSelector={label}")
    assert body is not None
    return {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in body["items"]}
