"""One request to an API server: headers, guard, time-outs, and the few retries that are safe (field case k9).

There is no client-side rate limit: the API server's priority and fairness says 429 with ``Retry-After``, and that is
honoured. Retries bridge a blip; anything longer goes back to the caller, who waits without holding a worker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson
import urllib3
import urllib3.exceptions as http

from fleetbeat.clients import cluster_connect
from fleetbeat.clients.cluster_connect import Connection
from fleetbeat.clients.cluster_errors import Doing, from_api_server, is_timeout, refusal, retry_after, unreachable
from fleetbeat.errors import ClusterUnavailable, FleetbeatError, Rejected

ATTEMPTS = 3
PAUSE_BUDGET = 3.0  #: seconds one request may spend waiting between its attempts
FIRST_PAUSE = 0.1  #: seconds before the second attempt where the server named none; doubled after that, ± half

LONGEST_LINE = 16 * 2**20  #: bytes; an object is stored in 1.5 MiB at most

Lines = Iterator[bytes]

#: raised by the caller's guard, called right before a write leaves
Guard = Callable[[], None]


class Expired(ClusterUnavailable):
    """The server no longer has what a watch was to go on from: list anew."""


@dataclass(frozen=True)
class Answer:
    """An answer the caller wanted: 2xx, or a status it had named."""

    status: int
    headers: Any  # urllib3's HTTPHeaderDict: a mapping with getlist()
    content: bytes


class Transport:
    """Sends requests over shared connections under its own User-Agent and guard. Thread-safe."""

    def __init__(
        self,
        connection: Connection,
        user_agent: str,
        guard: Guard | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.connection = connection
        # A header may hold neither control characters nor anything beyond Latin-1.
        self._user_agent = "".join(c if c.isascii() and c.isprintable() else "?" for c in user_agent)
        self._guard = guard
        self._sleep = sleep

    def acting(self, user_agent: str, guard: Guard | None) -> Transport:
        return Transport(self.connection, user_agent, guard, sleep=self._sleep)

    def send(
        self,
        doing: Doing,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        guarded: bool = False,
        expected: tuple[int, ...] = (),
    ) -> Answer:
        """Raises ``fleetbeat.errors`` for anything but 2xx and the ``expected`` statuses.

        ``guarded``: call the guard before each attempt.

        Every write this client makes carries preconditions (absence, or uid and resourceVersion), so an attempt whose
        answer got lost may be repeated: the repetition is a Conflict at worst, and the caller looks again.
        """
        headers = self._headers(accept)
        content = None
        if body is not None:
            headers["Content-Type"] = content_type
            content = _encode(doing, body)
        target = self._target(path, query)
        paused = 0.0
        for attempt in range(1, ATTEMPTS + 1):
            outcome = self._in_turn(doing, method, target, headers, content, expected, self._guard if guarded else None)
            if isinstance(outcome, Answer):
                return outcome
            pause = outcome.pause(attempt)
            if pause is None or attempt == ATTEMPTS or paused + pause > PAUSE_BUDGET:
                raise outcome.error from outcome.cause
            paused += pause
            self._sleep(pause)
        raise AssertionError("unreachable")

    @contextmanager
    def stream(
        self, doing: Doing, path: str, *, query: Mapping[str, str], accept: str, silence: float
    ) -> Iterator[Lines]:
        """The lines of one long answer, as they come; the block's end closes it.

        It has a connection of its own beside the pool's slots. ``silence``: seconds without a byte after which it has
        broken off. Raises what ``send`` raises, ClusterUnavailable from the lines too; nothing is tried twice.
        """
        connection = self.connection
        timeout = urllib3.Timeout(connect=connection.timeout.connect_timeout, read=silence)
        response: Any = None
        try:
            response = connection.pool.urlopen(
                "GET",
                self._target(path, query),
                headers=self._headers(accept),
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            if response.status != 200:
                if response.status == 401:
                    cluster_connect.forget(connection)
                refused = refusal(doing, response.status, response.headers, response.data)
                raise Expired(str(refused)) if response.status == 410 else refused
            yield _lines(response)
        except (http.HTTPError, OSError) as error:
            raise unreachable(doing, connection.address, error) from error
        finally:
            if response is not None:
                response.close()  # not given back: what is left of the answer is not read

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"User-Agent": self._user_agent, "Accept": accept}
        authorization = self.connection.authorization()
        return {**headers, "Authorization": authorization} if authorization else headers

    def _target(self, path: str, query: Mapping[str, str] | None) -> str:
        return self.connection.prefix + path + (f"?{urlencode(query)}" if query else "")

    def _in_turn(
        self,
        doing: Doing,
        method: str,
        target: str,
        headers: dict[str, str],
        content: bytes | None,
        expected: tuple[int, ...],
        guard: Guard | None,
    ) -> Answer | _Failed:
        """Waits for a connection first and asks the guard then: between its yes and the request nothing may queue."""
        connection = self.connection
        if not connection.slots.acquire(timeout=connection.patience):
            return self._not_sent(doing, f"all connections of this process were busy for {connection.patience:g} s")
        try:
            if guard:
                guard()
            if why := connection.breaker.refusal():
                return self._not_sent(doing, why)
            return self._once(doing, method, target, headers, content, expected)
        finally:
            connection.slots.release()

    def _not_sent(self, doing: Doing, why: str) -> _Failed:
        where = f"cluster {self.connection.cluster} at {self.connection.address}"
        return _Failed(ClusterUnavailable(f"{doing.what}: {doing.verb}: {where}: {why}"), None, again=False)

    def _once(
        self,
        doing: Doing,
        method: str,
        target: str,
        headers: dict[str, str],
        content: bytes | None,
        expected: tuple[int, ...],
    ) -> Answer | _Failed:
        connection = self.connection
        began = connection.breaker.now()
        try:
            response = connection.pool.urlopen(
                method,
                target,
                body=content,
                headers=headers,
                timeout=connection.timeout,
                retries=False,
                redirect=False,  # a redirect would carry the token to another host
            )
        except (http.HTTPError, OSError) as error:
            if is_timeout(error):
                connection.breaker.silent(began)
            else:
                connection.breaker.heard()
            return _Failed(unreachable(doing, connection.address, error), error, again=not is_timeout(error))
        connection.breaker.heard()
        connection.clock.heard(response.headers.get("Date"))
        answer = Answer(response.status, response.headers, response.data)
        if 200 <= answer.status < 300 or (
            answer.status in expected and from_api_server(answer.headers, answer.content)
        ):
            return answer
        if answer.status == 401:
            cluster_connect.forget(connection)
        refused = refusal(doing, answer.status, answer.headers, answer.content)
        again = isinstance(refused, ClusterUnavailable) and _passing(doing, answer.status, str(refused))
        return _Failed(refused, None, again, retry_after(answer.headers))


def _lines(response: Any) -> Lines:
    """Whole lines; one that is cut off by the end of the answer is dropped."""
    rest = b""
    for chunk in response.stream(1 << 16):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > LONGEST_LINE:
            raise http.HTTPError("a line of more than 16 MiB")


@dataclass(frozen=True)
class _Failed:
    error: FleetbeatError
    cause: Exception | None
    again: bool
    asked: float | None = None  #: Retry-After, seconds

    def pause(self, attempt: int) -> float | None:
        """Seconds until the next attempt; None = do not repeat."""
        if not self.again:
            return None
        own: float = FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.5)
        return max(own, self.asked or 0.0)


def _passing(doing: Doing, status: int, message: str) -> bool:
    """Is this failure one of those that are over in a moment?"""
    if status in (429, 503) or "etcdserver:" in message:  # overload, start-up, a leader change
        return True
    return not doing.write and status in (500, 502)  # 504 has used up its time already


def _encode(doing: Doing, body: Any) -> bytes:
    try:
        return orjson.dumps(body)
    except (TypeError, ValueError):
        raise Rejected(
            f"{doing.what}: holds a value that JSON cannot carry (a number beyond 64 bits, a date)"
        ) from None
