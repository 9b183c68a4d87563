"""Somebody who edits a few objects of one application again and again, at a rate that is measured by the API server.

The edits are prepared bytes on connections that stay open, one object for each: what a storm costs is the API server's
work, and no two edits are in each other's way.
"""

from __future__ import annotations

import http.client
import itertools
import json
import ssl
import threading
import time
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from fleetbeat.local.cluster import Cluster


def received(event: dict[str, Any]) -> float:
    """When the API server got this request, seconds since the epoch."""
    return datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp()


class Storm:
    """``with Storm(cluster, paths, rate=200) as storm``: that many edits a second of them together, until the end.

    Edits that are late are caught up on. ``rate`` None: as many as there can be. ``field``: of a ConfigMap's data.
    """

    def __init__(self, cluster: Cluster, paths: Sequence[str], *, rate: float | None = None, field: str) -> None:
        self._cluster, self._paths, self._rate, self._field = cluster, paths, rate, field
        self._agent = f"storm-{uuid.uuid4().hex}"
        self._since = cluster.audit_position()
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._blow, args=(number,), daemon=True) for number in range(len(paths))
        ]
        self._errors: list[BaseException] = []
        self._began = self._ended = 0.0

    @property
    def seconds(self) -> float:
        """How long it has lasted."""
        return (self._ended or time.monotonic()) - self._began

    def edits(self) -> list[float]:
        """When each edit came to the API server, by its log, in order; seconds since the epoch."""
        if self._errors:
            raise self._errors[0]
        events = self._cluster.audit(self._since)
        return sorted(received(event) for event in events if event.get("userAgent") == self._agent)

    def _blow(self, number: int) -> None:
        try:
            context = ssl.create_default_context(cadata=self._cluster.ca_pem)
            wire = http.client.HTTPSConnection("127.0.0.1", self._cluster.port, timeout=60, context=context)
            headers = {
                "Authorization": f"Bearer {self._cluster.admin_token}",
                "Content-Type": "application/merge-patch+json",
                "User-Agent": self._agent,
            }
            bodies = [json.dumps({"data": {self._field: f"hacked {word}"}}).encode() for word in ("once", "again")]
            step = len(self._paths) / self._rate if self._rate else 0.0
            for edit in itertools.count():
                if self._over.wait(self._began + edit * step - time.monotonic() if step else 0):
                    break
                wire.request("PATCH", f"{self._paths[number]}?fieldManager=kubectl-edit", bodies[edit % 2], headers)
                answer = wire.getresponse()
                text = answer.read()
                assert answer.status == 200, text
            wire.close()
        except (AssertionError, OSError, http.client.HTTPException) as error:
            self._errors.append(error)

    def __enter__(self) -> Storm:
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._ended = time.monotonic()
        if self._errors and kind is None:
            raise self._errors[0]
