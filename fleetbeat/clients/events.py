"""The stream of events: written by the scripts that write the fact itself, read by whoever follows.

``events`` holds one entry for each, with the fields ``app`` and ``event`` (``decisions.events.Event.dump``). Its ids
grow with time and are what reading goes on from, so nothing is told twice or left out, whoever died in between. Of an
old position it is known whether something after it has been cut already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.events import Event

_PAGE = 500
_WAIT = 5000  #: ms of one blocking read; below the connection's read time-out, which must not end a quiet wait


class Events:
    """Thread-safe. Every method raises only StoreUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, app: str = "", *, since: str = "0") -> Iterator[Event]:
        """Everything after the id ``since`` that is there now, oldest first; of one application or of all."""
        while True:
            with errors():
                page: Any = self._store.redis.xrange(keys.EVENTS, min=f"({since}", count=_PAGE)
            for id_, fields in page:
                since = id_.decode()
                yield from _of(app, since, fields)
            if len(page) < _PAGE:
                return

    def follow(self, app: str = "", *, since: str) -> Iterator[Event | None]:
        """Everything after ``since``, then what comes. None now and then, so that the caller may stop."""
        while True:
            with errors():
                found: Any = self._store.redis.xread({keys.EVENTS: since}, count=_PAGE, block=_WAIT)
            # RESP2 answers with pairs, RESP3 with a mapping
            streams = list(found.values()) if isinstance(found, dict) else [pages for _, pages in found or ()]
            entries = [entry for pages in streams for entry in (pages[0] if isinstance(found, dict) else pages)]
            for id_, fields in entries:
                since = id_.decode()
                yield from _of(app, since, fields)
            if not entries:
                yield None

    def last(self) -> str:
        """Id of the newest event; following from it tells only what comes."""
        with errors():
            newest: Any = self._store.redis.xrevrange(keys.EVENTS, count=1)
        return newest[0][0].decode() if newest else "0-0"

    def is_whole(self, since: str) -> bool:
        """Is everything after ``since`` still there? False also when nobody can tell any more."""
        with errors():
            oldest: Any = self._store.redis.xrange(keys.EVENTS, count=1)
            if not oldest:
                return True
            info: Any = self._store.redis.xinfo_stream(keys.EVENTS)
        nothing_cut = info.get("entries-added") == info["length"]  # Redis 7, Valkey
        return nothing_cut or _order(oldest[0][0].decode()) <= _order(since)


def _of(app: str, id_: str, fields: dict[bytes, bytes]) -> Iterator[Event]:
    name = fields[b"app"].decode()
    if app in ("", name):
        yield Event.load(fields[b"event"], app=name, id_=id_)


def _order(id_: str) -> tuple[int, int]:
    ms, _, number = id_.partition("-")
    return int(ms), int(number or 0)
