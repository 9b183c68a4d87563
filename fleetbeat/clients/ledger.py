"""The ledger in Redis: every write to a cluster, by whom and why, chained so that nothing can be altered unseen.

``ledger:<app>`` is the list of entries (``decisions.ledger`` says what a line holds), ``ledger:<app>:head`` where the
chain begins and ends. An execution says what it may write before it writes (``Pen.begin``), and what it wrote together
with the results of those objects (``Pen.keep``), in one script. One that is killed in between has left behind what it
may have written; the next one turns that into an entry.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

import orjson

from fleetbeat import keys
from fleetbeat.clients.store import Store, errors
from fleetbeat.decisions.ledger import (
    START,
    Entry,
    Execution,
    Link,
    Place,
    Write,
    execution_from,
    faults,
    line,
    object_hash,
    read,
    unrecorded,
)
from fleetbeat.errors import StoreUnavailable
from fleetbeat.model import Body, ObjectId
from fleetbeat.ports import Kept
from fleetbeat.settings import Ledger as Limits

_RESULTS_TTL = 7 * 86_400_000  # ms, as clients/runs.py
_TRIES = 8  # entries of others in a row: only an execution that has lost its lock adds beside the one that holds it

NEW_CHAIN = (
    "the ledger was empty although the cluster has a record of this application: Redis has lost its data, or an "
    "earlier version kept none"
)
LOST = "its worker was killed, or lost its lock or its connection, before it could tell what it had written"


@dataclass(frozen=True)
class Chain:
    """The ledger of one application as it is kept."""

    app: str
    lines: tuple[bytes, ...]
    anchor: Link  #: the newest entry that was trimmed, ``START`` = none
    head: Link
    open: tuple[tuple[Execution, tuple[Place, ...]], ...] = ()  #: executions that have not told everything (yet)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Oldest first; lines that nobody could have written so are left out, ``Ledger.faults`` names them."""
        return tuple(entry for entry in map(read, self.lines) if entry is not None)


class Ledger:
    """Thread-safe. Raises only StoreUnavailable."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    def pen(self, execution: Execution) -> Pen:
        return Pen(self._store, self._limits, execution)

    def apps(self) -> list[str]:
        """Every application that has a ledger, also those that have left the catalog. Walks through all keys."""
        prefix, suffix = keys.ledger_head("|").split("|")
        with errors():
            heads: list[bytes] = list(self._store.redis.scan_iter(match=keys.ledger_head("*"), count=1000))
        return sorted(head.decode().removeprefix(prefix).removesuffix(suffix) for head in heads)

    def read(self, app: str) -> Chain:
        with errors():
            pipe = self._store.redis.pipeline()
            pipe.lrange(keys.ledger(app), 0, -1)
            pipe.hgetall(keys.ledger_head(app))
            lines, head = pipe.execute()
        held = {key.decode(): value for key, value in head.items()}
        left = [orjson.loads(value) for key, value in held.items() if key.startswith("open:")]
        return Chain(
            app,
            tuple(lines),
            Link(int(held.get("trimmed", 0)), held.get("trimmed_mac", b"").decode()),
            Link(int(held.get("number", 0)), held.get("mac", b"").decode()),
            tuple((execution_from(data["by"]), _places(data["places"])) for data in left),
        )

    def faults(self, chain: Chain) -> list[str]:
        """What is wrong with it, in words; nothing = no entry was altered, removed or reordered."""
        return faults(chain.lines, chain.anchor, chain.head, self._store.fingerprint)

    def hash(self, body: Body | None) -> str:
        """What the ledger keeps of an object's content: comparable, and nothing can be guessed from it."""
        return _keyed(self._store, object_hash(body))


class Pen:
    """One execution's hand on its application's ledger. ``saw`` may be called by several threads."""

    def __init__(self, store: Store, limits: Limits, execution: Execution) -> None:
        self._store = store
        self._limits = limits
        self.execution = execution
        self._lock = threading.Lock()
        self._seen: list[tuple[float, Kept, str]] = []
        self._found: list[Write] = []
        self._possible: list[Place] = []
        self._hashes: dict[tuple[ObjectId, str], str] = {}  # (object, resourceVersion) → SHA-256
        self._reasons: dict[ObjectId, str] = {}
        self._places: dict[ObjectId, Place] = {}
        self._newest = START
        self._note = ""
        self._clock = (0, 0.0)  # ms by Redis, monotonic seconds
        self._done_with: list[str] = []  # fences of others whose leftovers are told with the next entry

    def begin(self, cluster: str, places: Iterable[Place], *, known_before: bool) -> Pen:
        """Say what this execution may write, before its first write, and tell what earlier ones have left untold.

        Goes into a ``with``: whatever was written in the block has been told when it ends. ``known_before``: the
        cluster has a record of the application, so a ledger without entries has been lost.
        """
        self.execution = replace(self.execution, cluster=cluster)
        self._places = {place.id: place for place in places}
        listed = [[place.id.key, place.resource] for place in self._places.values()]
        text = orjson.dumps({"by": asdict(self.execution), "places": listed})
        reply = self._store.script(
            "ledger_begin",
            [keys.ledger_head(self.execution.app)],
            [self.execution.fence, text, int(self._limits.days * 86_400_000)],
        )
        self._clock = (int(reply[0]), time.monotonic())
        self._newest = Link(int(reply[1]), reply[2].decode())
        self._note = NEW_CHAIN if known_before else ""
        left = reply[3:]
        for fence, kept in zip(left[::2], left[1::2], strict=True):
            self._tell_for(fence.decode(), orjson.loads(kept))
        return self

    def __enter__(self) -> Pen:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self._end()
            return
        with contextlib.suppress(StoreUnavailable):  # what is left behind says so to the next execution
            self.keep()

    def saw(self, kept: Kept) -> None:
        """A write was answered. The witness of ``KubernetesCluster.acting``."""
        after = "" if kept.verb == "delete" else object_hash(kept.written.body)
        with self._lock:
            self._seen.append((time.monotonic(), kept, after))
            version = (kept.written.body.get("metadata") or {}).get("resourceVersion", "")
            if after and version:
                self._hashes[kept.id, version] = after

    def know(self, key: ObjectId, version: str, sha256: str) -> None:
        """What the object was like at a resourceVersion (``object_hash``), read anyway when it was decided on."""
        if sha256:
            self._hashes[key, version] = sha256

    def explain(self, key: ObjectId, why: str) -> None:
        """Why the object is written; goes into its writes of the next entry."""
        self._reasons[key] = why

    def found(self, key: ObjectId, why: str) -> None:
        """It is as this execution was to write it, which an execution before this one must have done."""
        self._found.append(Write(self._now(time.monotonic()), "apply", self._place(key), what=why))

    def possible(self, key: ObjectId) -> None:
        """Perhaps written: somebody did, and an answer may have been lost."""
        self._possible.append(self._place(key))

    def keep(self, run: str = "", results: Mapping[str, str] | None = None) -> None:
        """Add what was seen since to the ledger, and the objects' ``results`` (key → JSON) of ``run`` with it."""
        with self._lock:
            seen, self._seen = self._seen, []
        writes = [self._write(*one) for one in seen] + self._found
        possible, self._found, self._possible = tuple(self._possible), [], []
        if not writes and not possible and not results:
            return
        at = self._now(time.monotonic())
        self._append(Entry(0, "", at, self.execution, tuple(writes), possible), run, results or {})

    def _end(self) -> None:
        """All has been told: nothing is left behind. Not for an execution that broke off."""
        self.keep()
        with errors():
            names = [f"open:{fence}" for fence in (self.execution.fence, *self._done_with)]
            self._store.redis.hdel(keys.ledger_head(self.execution.app), *names)

    def _tell_for(self, fence: str, left: Mapping[str, object]) -> None:
        """An entry for an execution that cannot tell any more."""
        execution = execution_from(left["by"])  # type: ignore[arg-type]
        with errors():
            tail: list[bytes] = self._store.redis.lrange(keys.ledger(execution.app), -_TAIL, -1)  # type: ignore[assignment]
        entries = [entry for entry in map(read, tail) if entry is not None]
        self._done_with.append(fence)
        if possible := unrecorded(_places(left["places"]), entries, execution.run, execution.fence):
            self._append(Entry(0, "", self._now(time.monotonic()), execution, possible=possible, note=LOST), "", {})

    def _append(self, entry: Entry, run: str, results: Mapping[str, str]) -> None:
        app, limits = entry.execution.app, self._limits
        pairs: list[str] = [part for pair in results.items() for part in pair]
        for _ in range(_TRIES):
            note = entry.note or (self._note if self._newest == START else "")
            numbered = replace(entry, number=self._newest.number + 1, previous=self._newest.mac, note=note)
            kept, link = line(numbered, self._store.fingerprint)
            arguments: list[str | int | float | bytes] = [self._newest.mac, link.number, link.mac, kept]
            arguments += [max(len(entry.writes), 1), limits.writes, int(limits.days * 86_400_000), _RESULTS_TTL]
            arguments += [len(self._done_with), *self._done_with, *pairs]
            names = [keys.ledger(app), keys.ledger_head(app), keys.results(run)]
            reply = self._store.script("ledger_append", names, arguments)
            if reply[0] == b"ok":
                self._newest, self._done_with = link, []
                return
            self._newest = Link(int(reply[1]), reply[2].decode())
            self._note = NEW_CHAIN  # empty only now: it was lost while this execution worked
        raise StoreUnavailable(f"the ledger of {app} was written by others {_TRIES} times over")

    def _write(self, moment: float, kept: Kept, after: str) -> Write:
        created = kept.verb == "create" or kept.written.created
        before = "" if created else self._hashes.get((kept.id, kept.seen))
        return Write(
            at=self._now(moment),
            verb=kept.verb,
            place=Place(kept.id, kept.resource.plural),
            audit_id=kept.written.audit_id,
            before=None if before is None else _keyed(self._store, before),
            after=_keyed(self._store, after),
            what=self._reasons.get(kept.id, ""),
        )

    def _place(self, key: ObjectId) -> Place:
        return self._places.get(key, Place(key, ""))

    def _now(self, moment: float) -> int:
        """Redis' clock at a moment of this process's monotonic one."""
        at, begun = self._clock
        return at + int((moment - begun) * 1000)


#: Entries looked through for what an execution that was killed had told: more than any step adds.
_TAIL = 200

_HASH = 32  # hex digits kept of a hash: 128 bits tell two states apart


def _keyed(store: Store, sha256: str) -> str:
    return store.fingerprint(b"object " + sha256.encode())[:_HASH] if sha256 else ""


def _places(data: object) -> tuple[Place, ...]:
    pairs: list[list[str]] = data  # type: ignore[assignment]
    return tuple(Place(ObjectId.from_key(key), resource) for key, resource in pairs)
