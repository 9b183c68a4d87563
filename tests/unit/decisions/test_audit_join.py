"""Which writes of an audit log are ours, and how they are matched with the ledger."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fleetbeat.decisions.audit_join import SKEW, Joined, Log, join, moment
from fleetbeat.decisions.ledger import Entry, Execution, Place, Verb, Write
from fleetbeat.model import ObjectId

AT = 1_796_047_200_000  # 2026-11-30T14:00:00Z
BY = Execution("shop", "prod", "r1", 7, "wave 0", digest="sha256:" + "ab" * 32)
WEB = Place(ObjectId("", "ConfigMap", "shop", "web"), "configmaps")
API = Place(ObjectId("apps", "Deployment", "shop", "api"), "deployments")
SPACE = Place(ObjectId("", "Namespace", "", "shop"), "namespaces")
AGENT = "fleetbeat/0.1.0 app/shop run/r1 fence/7 rev/abababababab"


def event(audit_id: str = "a-1", *, at: int = AT, place: Place = WEB, **changed: Any) -> dict[str, Any]:
    key = place.id
    reference = {"resource": place.resource, "namespace": key.namespace, "name": key.name, "apiGroup": key.group}
    if key.kind == "Namespace":
        reference["namespace"] = key.name
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "stage": "ResponseComplete",
        "auditID": audit_id,
        "verb": "patch",
        "userAgent": AGENT,
        "requestURI": "/api/v1/namespaces/shop/configmaps/web?fieldManager=fleetbeat",
        "objectRef": {word: value for word, value in reference.items() if value},
        "responseStatus": {"code": 200},
        "stageTimestamp": moment(at).replace("Z", "000Z"),  # microseconds, as the API server writes them
        **changed,
    }


def log(*events: dict[str, Any]) -> Log:
    """Covers ten minutes on either side."""
    found = Log()
    for at in (AT - 600_000, AT + 600_000):
        found.add(event("edge", at=at, verb="list"))
    for one in events:
        found.add(one)
    return found


def entry(*audit_ids: str, place: Place = WEB, verb: Verb = "apply", by: Execution = BY, at: int = AT) -> Entry:
    return Entry(1, "", at, by, tuple(Write(at, verb, place, audit_id) for audit_id in audit_ids))


def counts(joined: Joined) -> dict[str, int]:
    found = {field.name: len(getattr(joined, field.name)) for field in dataclasses.fields(joined)}
    return {name: count for name, count in found.items() if count}


NO_WRITES = {
    "a read": {"verb": "get"},
    "a watch": {"verb": "watch"},
    "a dry-run": {"requestURI": "/api/v1/namespaces/shop/configmaps/web?dryRun=All&force=false"},
    "refused": {"responseStatus": {"code": 409}},
    "failed": {"responseStatus": {"code": 500}},
    "not answered yet": {"stage": "RequestReceived"},
    "somebody else's": {"userAgent": "kubectl/v1.36.1 app/shop"},
    "a Fleetbeat that acts for no application": {"userAgent": "fleetbeat/0.1.0"},
    "no user agent": {"userAgent": None},
}


@pytest.mark.parametrize("changed", NO_WRITES.values(), ids=NO_WRITES)
def test_what_is_no_write_of_ours(changed: dict[str, Any]) -> None:
    assert log(event(**changed)).writes == []


def test_what_an_event_says() -> None:
    (write,) = log(event(place=SPACE)).writes
    assert (write.app, write.run, write.fence, write.rev, write.at) == ("shop", "r1", 7, "abababababab", AT)
    assert str(write) == ("2026-11-30T14:00:00.000Z patch namespaces shop by app/shop run/r1 fence/7, Audit-Id a-1")


@pytest.mark.parametrize("text", [{}, {"kind": "Event"}, {"kind": "Pod", "apiVersion": "v1"}])
def test_what_is_no_audit_event_is_refused(text: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="audit"):
        Log().add(text)


VERBS: list[tuple[Verb, str]] = [
    ("apply", "patch"),
    ("patch", "patch"),
    ("create", "create"),
    ("replace", "update"),
    ("delete", "delete"),
]


@pytest.mark.parametrize(("ours", "theirs"), VERBS)
@pytest.mark.parametrize("place", [WEB, API, SPACE], ids=lambda place: place.resource)
def test_a_write_is_matched_by_its_audit_id(ours: Verb, theirs: str, place: Place) -> None:
    joined = join([entry("a-1", place=place, verb=ours)], [], log(event(place=place, verb=theirs)))
    assert counts(joined) == {"by_id": 1}
    assert joined.whole


OTHERWISE = {
    "another object": {"objectRef": {"resource": "configmaps", "namespace": "shop", "name": "other"}},
    "another group": {"objectRef": {"resource": "configmaps", "apiGroup": "x", "namespace": "shop", "name": "web"}},
    "a subresource": {
        "objectRef": {"resource": "configmaps", "subresource": "status", "namespace": "shop", "name": "web"}
    },
    "another verb": {"verb": "delete"},
    "another run": {"userAgent": AGENT.replace("r1", "r2")},
    "another bundle": {"userAgent": AGENT.replace("rev/ab", "rev/cd")},
}


@pytest.mark.parametrize("changed", OTHERWISE.values(), ids=OTHERWISE)
def test_one_audit_id_for_two_things_is_a_contradiction(changed: dict[str, Any]) -> None:
    joined = join([entry("a-1")], [], log(event(**changed)))
    assert counts(joined) == {"contradicting": 1}
    assert not joined.whole


def test_what_is_on_one_side_only() -> None:
    joined = join([entry("a-1", "a-2")], [], log(event("a-1"), event("a-3", place=API)))
    assert counts(joined) == {"by_id": 1, "not_in_ledger": 1, "not_in_log": 1}
    assert joined.not_in_log[0].write.audit_id == "a-2"
    assert joined.not_in_ledger[0].audit_id == "a-3"
    assert not joined.whole


LOST = {
    "it may have written the object": [Entry(1, "", AT, BY, possible=(WEB,))],
    "a later execution found it done": [
        Entry(1, "", AT, dataclasses.replace(BY, fence=9), (Write(AT, "apply", WEB),)),
    ],
    "the same execution wrote the object once more": [entry("a-9", at=AT - 900_000)],
}


@pytest.mark.parametrize("entries", LOST.values(), ids=LOST)
def test_a_write_whose_audit_id_was_lost_is_known_by_run_and_object(entries: list[Entry]) -> None:
    joined = join(entries, [], log(event("lost")))
    assert len(joined.by_agent) == 1
    assert joined.whole


def test_what_an_execution_under_way_may_write_is_known() -> None:
    assert counts(join([], [(BY, (WEB,))], log(event("lost")))) == {"by_agent": 1}


UNKNOWN = {
    "another object": [Entry(1, "", AT, BY, possible=(API,))],
    "another fence": [Entry(1, "", AT, dataclasses.replace(BY, fence=6), possible=(WEB,))],
    "another run": [Entry(1, "", AT, dataclasses.replace(BY, run="r0"), possible=(WEB,))],
    "another bundle": [Entry(1, "", AT, dataclasses.replace(BY, digest="sha256:cd"), possible=(WEB,))],
    "found done before it was written": [
        Entry(1, "", AT, dataclasses.replace(BY, fence=5), (Write(AT, "apply", WEB),)),
    ],
}


@pytest.mark.parametrize("entries", UNKNOWN.values(), ids=UNKNOWN)
def test_a_write_that_nothing_speaks_of_is_not_matched(entries: list[Entry]) -> None:
    joined = join(entries, [], log(event("unknown")))
    assert counts(joined) == {"not_in_ledger": 1}


def test_what_is_only_possible_claims_nothing() -> None:
    found = Write(AT, "apply", WEB)
    assert counts(join([Entry(1, "", AT, BY, (found,), (API,))], [], log())) == {}


@pytest.mark.parametrize("at", [AT - 601_000, AT - 600_000 + SKEW - 1, AT + 600_000 - SKEW + 1, AT + 601_000])
def test_what_the_log_does_not_reach_is_not_judged(at: int) -> None:
    joined = join([entry("a-1", at=at)], [], log())
    assert counts(joined) == {"outside": 1}
    assert joined.whole


def test_only_what_was_asked_for() -> None:
    other = event("a-2", userAgent=AGENT.replace("app/shop", "app/other"))
    old = event("a-3", at=AT - 1000)
    entries = [entry("a-1"), entry("a-4", at=AT - 1000)]
    joined = join(entries, [], log(event("a-1"), other, old), since=AT, apps=frozenset({"shop"}))
    assert counts(joined) == {"by_id": 1}
