"""The ledger's entries and their chain."""

from __future__ import annotations

import dataclasses
import hashlib
import hmac

import pytest

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
from fleetbeat.model import ObjectId

WEB = Place(ObjectId("", "ConfigMap", "shop", "web"), "configmaps")
API = Place(ObjectId("apps", "Deployment", "shop", "api"), "deployments")
BY = Execution("shop", "prod", "20261130T114512Z-3fa9c1", 17, "wave 0", "Request", "ann", "it is time", "sha256:ab")


def mac(text: bytes) -> str:
    return hmac.digest(b"key", text, "sha256").hex()


def entry(number: int, **fields: object) -> Entry:
    write = Write(1000 + number, "apply", WEB, f"audit-{number}", "", "h", "new")
    return Entry(number, "", 1000 + number, BY, (write,), **fields)  # type: ignore[arg-type]


def chain(count: int, anchor: Link = START) -> tuple[list[bytes], Link]:
    kept, link = [], anchor
    for _ in range(count):
        text, link = line(dataclasses.replace(entry(link.number + 1), previous=link.mac), mac)
        kept.append(text)
    return kept, link


def test_an_entry_is_read_as_it_was_written() -> None:
    whole = entry(3, possible=(API,), note="a note")
    kept, link = line(whole, mac)
    assert read(kept) == whole
    assert kept.startswith(b"3 1003 1 " + link.mac.encode() + b" {")


def test_what_a_later_version_says_more_of_an_execution_is_passed_over() -> None:
    assert execution_from(dataclasses.asdict(BY) | {"mood": "good"}) == BY


@pytest.mark.parametrize("kept", [b"", b"1 2 3", b"1 2 3 4 {}", b"1 2 3 4 [", b'1 2 3 4 {"n": 1}', b"\xff"])
def test_what_nobody_wrote_is_no_entry(kept: bytes) -> None:
    assert read(kept) is None
    assert faults([kept], START, Link(1, "x"), mac)


def test_a_whole_chain_has_no_faults() -> None:
    lines, head = chain(5)
    assert faults(lines, START, head, mac) == []
    assert faults([], START, START, mac) == []


def test_a_trimmed_chain_is_whole_from_its_anchor() -> None:
    lines, head = chain(5)
    third = read(lines[3])
    assert third is not None
    assert faults(lines[3:], Link(3, third.previous), head, mac) == []
    assert faults(lines[3:], START, head, mac) == ["entries 1 to 3 were removed"]


def tampered(what: str) -> tuple[list[bytes], Link]:
    lines, head = chain(5)
    match what:
        case "a word altered":
            lines[2] = lines[2].replace(b"it is time", b"it was not")
        case "a number in front altered":
            lines[2] = lines[2].replace(b"3 1003", b"3 9999", 1)
        case "made without the key":
            whole = dataclasses.replace(entry(3), previous=lines[1].split(b" ")[3].decode())
            lines[2] = line(whole, lambda text: hashlib.sha256(text).hexdigest())[0]
        case "one removed":
            del lines[2]
        case "the first removed":
            del lines[0]
        case "the newest removed":
            del lines[4]
        case "two swapped":
            lines[1], lines[2] = lines[2], lines[1]
        case "one twice":
            lines.insert(2, lines[1])
        case "all removed":
            lines = []
        case "an entry of another chain":
            other, _ = chain(3, Link(2, "00"))
            lines[2] = other[0]
    return lines, head


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("a word altered", "the entry after 2 was altered"),
        ("a number in front altered", "the entry after 2 was altered"),
        ("made without the key", "the entry after 2 was altered"),
        ("one removed", "entry 3 was removed"),
        ("the first removed", "entry 1 was removed"),
        ("the newest removed", "entry 5 was removed"),
        ("two swapped", "entry 2 was removed"),
        ("one twice", "reordered"),
        ("all removed", "entries 1 to 5 were removed"),
        ("an entry of another chain", "entry 3 does not follow"),
    ],
)
def test_what_was_done_to_a_chain_is_found(what: str, told: str) -> None:
    lines, head = tampered(what)
    found = faults(lines, START, head, mac)
    assert any(told in fault for fault in found), found


def test_a_hash_tells_what_people_write_and_nothing_that_every_write_changes() -> None:
    body = {"kind": "ConfigMap", "metadata": {"name": "a", "resourceVersion": "1", "managedFields": [1]}, "data": {}}
    again = {"data": {}, "metadata": {"name": "a", "resourceVersion": "2", "uid": "x"}, "kind": "ConfigMap"}
    assert object_hash(body) == object_hash({**again, "status": {"any": 1}})
    assert object_hash(body) != object_hash({**body, "data": {"k": "v"}})
    assert object_hash(None) == ""


def test_what_a_killed_execution_had_told_is_not_told_again() -> None:
    mine = entry(1)
    assert unrecorded([WEB, API], [mine], BY.run, BY.fence) == (API,)
    assert unrecorded([WEB, API], [mine], BY.run, BY.fence + 1) == (WEB, API), "another execution's are its own"
