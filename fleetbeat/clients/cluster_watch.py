"""Following one kind in one cluster: a list, then every event, for ever. What breaks is taken up again where it was.

A watch that ends or breaks off goes on from the last resourceVersion seen (bookmarks keep that recent); where the
server no longer has it (410), the kind is listed anew. Metadata only: an event costs its object's labels, annotations
and field owners, never its content.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.clients.cluster_transport import Expired
from fleetbeat.errors import ClusterUnavailable
from fleetbeat.model import ApiResource, Body

log = logging.getLogger(__name__)

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before the next try, ± half; the last one repeats
_ENDS_AFTER = (240, 480)  # seconds; the server ends a watch then, not all of them at one moment


@dataclass(frozen=True)
class Listed:
    """Everything there is now."""

    bodies: list[Body]


@dataclass(frozen=True)
class Event:
    """ADDED, MODIFIED or DELETED, and the object's metadata."""

    word: str
    body: Body


def follow(
    connect: Callable[[], KubernetesCluster],
    resource: ApiResource,
    *,
    selector: str,
    namespace: str,
    stop: threading.Event,
    silence: float,
) -> Iterator[Listed | Event]:
    """Until ``stop``. ``connect`` is asked before each request, since credentials change.

    Raises the errors that waiting does not mend: Unauthorized, ConfigurationError, a kind that is not served (NotYet).
    """
    since, failures = "", 0
    where = f"{resource.plural} in {namespace}" if namespace else resource.plural
    while not stop.is_set():
        try:
            if not since:
                bodies, since = connect().listing(resource, selector=selector, namespace=namespace, metadata_only=True)
                yield Listed(bodies)
            seconds, silent = random.randint(*_ENDS_AFTER), True
            with connect().events(
                resource, selector=selector, namespace=namespace, since=since, seconds=seconds, silence=silence
            ) as lines:
                for line in lines:
                    failures, silent = 0, False
                    word, body = _read(line)
                    since = body["metadata"]["resourceVersion"]
                    if stop.is_set():
                        return
                    if word != "BOOKMARK":
                        yield Event(word, body)
            if silent:
                stop.wait(_PAUSES[0])  # ended without a word: something in between cuts watches off
        except Expired:
            log.info("watch of %s: the cluster has dropped the events since; listing anew", where)
            since = ""
        except ClusterUnavailable as error:
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)] * random.uniform(0.5, 1.5)
            failures += 1
            log.log(logging.WARNING if failures > 2 else logging.INFO, "%s; again in %.1f s", error, pause)
            stop.wait(max(pause, getattr(error, "retry_after", None) or 0.0))


def _read(line: bytes) -> tuple[str, Body]:
    """Raises Expired, or ClusterUnavailable for anything that is no event."""
    try:
        event: Any = orjson.loads(line)
        word, body = event["type"], event["object"]
        if word != "ERROR":
            body["metadata"]["resourceVersion"]
            return word, body
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise ClusterUnavailable("a watch brought something that is no event") from None
    if body.get("code") == 410:
        raise Expired("the server has dropped the events since")
    raise ClusterUnavailable(f"the watch ended: {str(body.get('message', ''))[:300]}")
