"""The ledger of writes: what an entry says, how entries are chained, and whether a chain is whole. Pure.

One entry is what one execution of a step wrote since its last entry: a batch of objects, so that a large sync does not
say who and why five thousand times. Each is kept as one line::

    <number> <ms since epoch> <writes> <mac> <JSON>

The JSON names the MAC of the entry before it, and its own MAC is made with the installation's key: whoever may write to
Redis, but does not have the key, can neither alter an entry nor make one. Values of objects are in no entry: names of
fields, and hashes under the same key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, NamedTuple

import orjson

from fleetbeat.decisions.changes import normalise
from fleetbeat.model import Body, ObjectId

#: What was sent. An apply is a PATCH in the API server's audit log, a replace an update.
Verb = Literal["create", "apply", "replace", "patch", "delete"]
#: MAC of some bytes under the installation's key, in hex
Mac = Callable[[bytes], str]


@dataclass(frozen=True)
class Execution:
    """Who wrote, and why: one execution of one step of a run."""

    app: str
    cluster: str
    run: str
    fence: int  #: grows with every execution; in the User-Agent too
    stage: str  #: "wave 0", "prune", "report", …
    trigger: str = ""  #: what began the run
    by: str = ""  #: who asked, "" = nobody did
    reason: str = ""
    digest: str = ""  #: "sha256:…" of the bundle
    tag: str = ""
    source: str = ""  #: URL of the sources, as the bundle says
    revision: str = ""  #: the commit, as the bundle says
    overrode: str = ""  #: sync windows that were shut, and gone past for that reason


class Place(NamedTuple):
    """An object with the plural its kind has in URLs, which is what an audit log calls it."""

    id: ObjectId
    resource: str  #: "" when the kind is not served any more


@dataclass(frozen=True)
class Write:
    """One write that the API server has carried out, or (without an Audit-Id) that must have been ours."""

    at: int  #: ms since epoch by Redis' clock, when it had been answered
    verb: Verb
    place: Place
    audit_id: str = ""  #: "" = found done by the execution after one that was killed: its answer was never read
    before: str | None = None  #: keyed hash of the object, "" = it was not there, None = not known
    after: str | None = None  #: the same after the write; "" = deleted, or about to go
    what: str = ""  #: why it was written: the fields that differed, and who had changed them


@dataclass(frozen=True)
class Entry:
    """What one execution wrote, and what it may have written."""

    number: int  #: from 1
    previous: str  #: MAC of the entry before, "" of the first
    at: int  #: ms since epoch by Redis' clock
    execution: Execution
    writes: tuple[Write, ...] = ()
    possible: tuple[Place, ...] = ()  #: perhaps written: the answer was lost with the worker or with the connection
    note: str = ""

    def text(self) -> bytes:
        """The JSON that is kept, always the same for the same entry."""
        data: dict[str, Any] = {"n": self.number, "prev": self.previous, "at": self.at, "by": asdict(self.execution)}
        data["writes"] = [_write_to_list(write) for write in self.writes]
        if self.possible:
            data["possible"] = [[place.id.key, place.resource] for place in self.possible]
        if self.note:
            data["note"] = self.note
        return orjson.dumps(data, option=orjson.OPT_SORT_KEYS)

    @classmethod
    def from_text(cls, text: bytes) -> Entry:
        """Raises ValueError, KeyError or TypeError for what ``text`` never made."""
        data = orjson.loads(text)
        known = {field.name for field in fields(Execution)}  # a later version may say more
        return cls(
            number=data["n"],
            previous=data["prev"],
            at=data["at"],
            execution=Execution(**{key: value for key, value in data["by"].items() if key in known}),
            writes=tuple(_write_from_list(*write) for write in data["writes"]),
            possible=tuple(Place(ObjectId.from_key(key), resource) for key, resource in data.get("possible", ())),
            note=data.get("note", ""),
        )


def _write_to_list(write: Write) -> list[Any]:
    key = write.place.id.key
    return [write.at, write.verb, key, write.place.resource, write.audit_id, write.before, write.after, write.what]


def _write_from_list(
    at: int, verb: Verb, key: str, resource: str, audit_id: str, before: str | None, after: str | None, what: str
) -> Write:
    return Write(at, verb, Place(ObjectId.from_key(key), resource), audit_id, before, after, what)


def object_hash(body: Body | None) -> str:
    """SHA-256 of an object without what every write changes, "" of none. Key it before it is kept anywhere in clear."""
    if body is None:
        return ""
    return hashlib.sha256(orjson.dumps(normalise(body), option=orjson.OPT_SORT_KEYS)).hexdigest()


# ── the chain ────────────────────────────────────────────────────────────────────────────────────────────────────


class Link(NamedTuple):
    """The end of a chain, or the entry before its beginning: what the next entry follows."""

    number: int
    mac: str


START = Link(0, "")


def line(entry: Entry, mac: Mac) -> tuple[bytes, Link]:
    """The entry as it is kept, and the link that the next one follows."""
    text = entry.text()
    link = Link(entry.number, mac(text))
    weight = max(len(entry.writes), 1)
    return b" ".join([f"{entry.number} {entry.at} {weight} {link.mac}".encode(), text]), link


def read(kept: bytes) -> Entry | None:
    """The entry of a line; None when nobody could have written it so."""
    try:
        return Entry.from_text(kept.split(b" ", 4)[4])
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def faults(lines: Sequence[bytes], anchor: Link, head: Link, mac: Mac) -> list[str]:
    """What is wrong with a chain, in words; nothing = whole.

    ``anchor``: the last entry that was trimmed, ``START`` when none was; ``head``: the newest entry. What cannot be
    found is that the newest entries were removed and the head set back to an earlier one: compare with an export.
    """
    found: list[str] = []
    before = anchor
    for kept in lines:
        entry = read(kept)
        head_words, _, text = kept.partition(b" {")
        words = head_words.decode(errors="replace").split(" ")
        if entry is None or mac(b"{" + text) != words[-1] or words[:2] != [str(entry.number), str(entry.at)]:
            found.append(f"the entry after {before.number} was altered, or was never Fleetbeat's")
            before = Link(before.number + 1, words[-1])
            continue
        if entry.number != before.number + 1:
            found.append(_gap(before.number, entry.number))
        elif entry.previous != before.mac:
            found.append(f"entry {entry.number} does not follow the one before it: one of the two was put in its place")
        before = Link(entry.number, words[-1])
    if before.number < head.number:
        found.append(_gap(before.number, head.number + 1))
    elif before != head:
        found.append(f"the chain ends with entry {before.number}, which is not the one that was added last")
    return found


def _gap(before: int, after: int) -> str:
    if after <= before:
        return f"entry {after} stands after entry {before}: they were reordered"
    first, last = before + 1, after - 1
    return f"entry {first} was removed" if first == last else f"entries {first} to {last} were removed"


def unrecorded(places: Sequence[Place], entries: Sequence[Entry], run: str, fence: int) -> tuple[Place, ...]:
    """What an execution that never ended may have written beside the writes it has told of."""
    told = {
        write.place.id
        for entry in entries
        if (entry.execution.run, entry.execution.fence) == (run, fence)
        for write in entry.writes
    }
    return tuple(place for place in places if place.id not in told)


def execution_from(data: Mapping[str, Any]) -> Execution:
    """As ``asdict`` wrote it, by this version or another."""
    return Execution(**{field.name: data[field.name] for field in fields(Execution) if field.name in data})
