"""Which holds hit what, for which kind of write, at which instant, and until when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleetbeat.decisions.bypasses import Bypasses
from fleetbeat.decisions.holds import (
    LONGEST,
    Held,
    Hold,
    Scope,
    Subject,
    hits,
    hits_object,
    mark,
    standing,
    told,
    warning,
    warns_at,
)
from fleetbeat.decisions.self_heal import SELF_HEAL, SELF_HEAL_UNTIL
from fleetbeat.model import Application, Destination, ObjectId, Source, SyncPolicy

NOON = 1_796_040_000_000  # 2026-11-30T12:00:00Z
HOUR = 3_600_000
SHOP = Application(
    "shop", Source("registry.example.com/shop"), Destination("prod", "shop"), labels={"team": "web", "tier": "1"}
)
SUBJECT = Subject.of(SHOP)
WEB = ObjectId("apps", "Deployment", "shop", "web")
ELSEWHERE = ObjectId("", "ConfigMap", "monitoring", "rules")


def hold(kind: Any, target: str, scope: Scope = "sync", *, cluster: str = "", until: int = NOON + HOUR) -> Hold:
    return Hold("3fa9c1", kind, target, scope, "ada@ops", "draining", NOON, until, cluster)


@pytest.mark.parametrize(
    ("one", "application", "objects"),
    [
        (hold("app", "shop"), True, ()),
        (hold("app", "shop-2"), False, ()),
        (hold("cluster", "prod"), True, ()),
        (hold("cluster", "test"), False, ()),
        (hold("namespace", "shop"), True, ()),
        (hold("namespace", "shop", cluster="prod"), True, ()),
        (hold("namespace", "shop", cluster="test"), False, ()),
        (hold("namespace", "monitoring"), False, (ELSEWHERE,)),
        (hold("namespace", "monitoring", cluster="prod"), False, (ELSEWHERE,)),
        (hold("namespace", "monitoring", cluster="test"), False, ()),
        (hold("object", "apps/Deployment/shop/web"), False, (WEB,)),
        (hold("object", "*/Deployment/shop/web"), False, (WEB,)),
        (hold("object", "/Deployment/shop/web"), False, ()),
        (hold("object", "apps/Deployment/other/web"), False, ()),
        (hold("object", "apps/Deployment/shop/web", cluster="prod"), False, (WEB,)),
        (hold("object", "apps/Deployment/shop/web", cluster="test"), False, ()),
        (hold("label", "team=web"), True, ()),
        (hold("label", "team=db"), False, ()),
        (hold("label", "stage="), False, ()),
    ],
    ids=str,
)
def test_whom_a_hold_hits(one: Hold, application: bool, objects: tuple[ObjectId, ...]) -> None:
    assert hits(one, SUBJECT) is application
    assert tuple(key for key in (WEB, ELSEWHERE) if hits_object(one, SUBJECT, key)) == objects


@pytest.mark.parametrize(
    ("scope", "sync", "self_heal", "prune"),
    [("sync", True, True, True), ("self-heal", False, True, False), ("prune", False, False, True)],
)
def test_what_a_scope_keeps_from_being_written(scope: Scope, sync: bool, self_heal: bool, prune: bool) -> None:
    writes: tuple[Scope, ...] = ("sync", "self-heal", "prune")
    found = [bool(standing([hold("app", "shop", scope)], SUBJECT, write, NOON)) for write in writes]
    assert found == [sync, self_heal, prune]


@pytest.mark.parametrize(
    ("now", "stands"), [(NOON, True), (NOON + HOUR - 1, True), (NOON + HOUR, False), (NOON - HOUR, True)]
)
def test_a_hold_is_over_at_its_end(now: int, stands: bool) -> None:
    """By the store's clock; one that went back makes it longer, never shorter."""
    assert bool(standing([hold("app", "shop")], SUBJECT, "sync", now)) is stands


def test_the_longest_says_until_when() -> None:
    both = [hold("app", "shop"), replace(hold("cluster", "prod", until=NOON + 2 * HOUR), id="ffffff")]
    held = told(standing(both, SUBJECT, "sync", NOON))
    assert held == Held(
        "hold ffffff of cluster prod by ada@ops until 2026-11-30T14:00:00Z: draining (and 1 more)",
        NOON + 2 * HOUR,
        "hold",
    )
    assert told([]) is None


def test_a_mark_changes_with_every_change() -> None:
    one, two = hold("app", "shop"), replace(hold("app", "shop"), id="000000")
    marks = {mark(found) for found in ([], [one], [two], [one, two], [replace(one, until=NOON)])}
    assert len(marks) == 5
    assert mark([one, two]) == mark([two, one])


@pytest.mark.parametrize(
    ("now", "before", "at"),
    [
        pytest.param(NOON - 600_001, "", NOON - 600_000, id="it is to come"),
        pytest.param(NOON - 600_000, "", "", id="met when it is near, or shorter than that: told where it is met"),
        pytest.param(NOON - 1, str(NOON - 600_000), NOON - 600_000, id="not told yet"),
        pytest.param(NOON - 1, str(NOON), "", id="what was to be told is of another end"),
    ],
)
def test_when_an_end_is_told(now: int, before: str, at: int | str) -> None:
    assert warns_at(NOON, now, before) == at


def test_what_has_no_end_is_not_told() -> None:
    assert warns_at(0, NOON) == ""


@pytest.mark.parametrize(("left", "warned"), [(600_001, False), (600_000, True), (1, True), (0, False)])
def test_the_last_ten_minutes_are_told(left: int, warned: bool) -> None:
    assert bool(warning([hold("app", "shop")], NOON + HOUR - left)) is warned


@pytest.mark.parametrize(
    "change",
    [
        *({"kind": "node"}, {"scope": "all"}, {"until": "soon"}, {"since": 0}, {"until": NOON + LONGEST * 1000 + 1}),
        *({"id": ["3fa9c1"]}, {"by": 5}, {"reason": {}}, {"cluster": None}, {"target": "*"}, {"target": 1}),
        # beyond all calendars, and yet no longer than a hold may be
        *({"since": 10**20, "until": 10**20 + 1}, {"since": -(10**20), "until": 1 - 10**20}, {"since": True}),
    ],
)
def test_what_the_cluster_remembers_is_checked(change: dict[str, Any]) -> None:
    data = hold("app", "shop").to_json()
    assert Hold.from_json(data) == hold("app", "shop")
    with pytest.raises((ValueError, TypeError)):
        Hold.from_json({**data, **change})


# ── bypasses ─────────────────────────────────────────────────────────────────────────────────────────────────────


def left(
    *there: Hold,
    application: Application = SHOP,
    parent: dict[str, str] | None = None,
    now: int = NOON,
    asked: bool = False,
) -> Bypasses:
    return Bypasses.of(application, holds_there=there, now=now, parent=parent, asked=asked)


def source(held: Held | None) -> str:
    return held.source if held else ""


OFF = replace(SHOP, sync=SyncPolicy(self_heal=False))
MARKED = replace(SHOP, annotations={SELF_HEAL: "disabled", SELF_HEAL_UNTIL: "2026-11-30T13:00:00Z"})
DISABLED = {SELF_HEAL: "disabled"}


@pytest.mark.parametrize(
    ("bypasses", "annotations", "heals_not", "writes_not", "prunes_not"),
    [
        pytest.param(left(), {}, "", "", "", id="nothing"),
        pytest.param(left(application=OFF), {}, "spec", "", "", id="selfHeal false"),
        pytest.param(left(application=OFF, asked=True), {}, "", "", "", id="selfHeal false, and somebody asks"),
        pytest.param(left(application=MARKED), {}, "catalog", "", "", id="catalog"),
        pytest.param(left(application=MARKED, asked=True), {}, "catalog", "", "", id="catalog, and somebody asks"),
        pytest.param(left(parent=DISABLED, asked=True), {}, "parent", "", "", id="parent, and somebody asks"),
        pytest.param(left(application=MARKED, now=NOON + HOUR), {}, "", "", "", id="catalog, over"),
        pytest.param(left(parent=DISABLED), {}, "parent", "", "", id="parent"),
        pytest.param(left(), DISABLED, "object", "", "", id="manifest"),
        pytest.param(left(hold("app", "shop", "self-heal")), {}, "hold", "", "", id="self-heal hold"),
        pytest.param(left(hold("app", "shop", "prune")), {}, "", "", "hold", id="prune hold"),
        pytest.param(left(hold("app", "shop", "sync")), {}, "", "", "", id="sync hold: its run waits"),
        pytest.param(left(hold("app", "blog", "self-heal")), {}, "", "", "", id="another's"),
        pytest.param(left(hold("object", WEB.key)), {}, "hold", "hold", "hold", id="object"),
        pytest.param(left(hold("object", WEB.key, "self-heal")), {}, "hold", "", "", id="object, self-heal"),
        pytest.param(left(hold("object", WEB.key, "prune")), {}, "", "", "hold", id="object, prune"),
        pytest.param(left(hold("object", ELSEWHERE.key)), {}, "", "", "", id="another object"),
    ],
)
def test_what_of_an_object_is_left(
    bypasses: Bypasses, annotations: dict[str, str], heals_not: str, writes_not: str, prunes_not: str
) -> None:
    live: dict[str, Any] = {"metadata": {}}
    assert source(bypasses.heals_not(WEB, annotations)) == heals_not
    assert source(bypasses.writes_not(WEB, live)) == writes_not
    assert source(bypasses.prunes_not(WEB, live)) == prunes_not


def test_what_stands_for_longest_says_until_when() -> None:
    one = left(hold("app", "shop", "self-heal", until=NOON + 2 * HOUR), application=MARKED)
    found = one.heals_not(WEB, {})
    assert found is not None
    assert (found.source, found.until) == ("hold", NOON + 2 * HOUR)
    found = one.heals_not(WEB, DISABLED)
    assert found is not None
    assert (found.source, found.until) == ("object", 0)


def test_what_people_have_set_on_the_live_object_is_about_every_write() -> None:
    live: dict[str, Any] = {"metadata": {"annotations": DISABLED}}
    assert source(left().writes_not(WEB, live)) == "object"
    assert source(left().prunes_not(WEB, live)) == "object"
