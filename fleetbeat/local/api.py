"""Plain requests to the simulated cluster, for tests and the demo: what a person would do with kubectl.

Fleetbeat itself does not use this; its client is ``fleetbeat.clients.cluster``.
"""

from __future__ import annotations

import json
from typing import Any

import urllib3

from fleetbeat.errors import ClusterUnavailable

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


class Api:
    """One API server. Thread-safe."""

    def __init__(self, server: str, ca_pem: str, token: str) -> None:
        """``token`` is used for requests that bring none of their own."""
        self._server = server
        self._token = token
        self._pool = urllib3.PoolManager(
            maxsize=16, ca_cert_data=ca_pem, retries=False, timeout=urllib3.Timeout(connect=30.0, read=30.0)
        )

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str | None = None,
        user_agent: str = "fleetbeat-local",
        token: str | None = None,
    ) -> tuple[int, Any]:
        """(status, parsed JSON, or text where the answer is none). ``path`` includes the query.

        ``content_type`` None: a merge patch for PATCH, else plain JSON. ``token`` "" asks as nobody.
        Raises ClusterUnavailable when there is no answer.
        """
        token = self._token if token is None else token
        headers = {"Accept": "application/json", "User-Agent": user_agent}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        content = None
        if body is not None:
            content = json.dumps(body).encode()  # JSON is YAML too, so this serves apply patches
            headers["Content-Type"] = content_type or (MERGE if method == "PATCH" else "application/json")
        try:
            answer = self._pool.request(method, self._server + path, body=content, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise ClusterUnavailable(f"{method} {self._server}{path}: {error}") from error
        try:
            return answer.status, json.loads(answer.data)
        except ValueError:
            return answer.status, answer.data.decode(errors="replace")

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.clear()
