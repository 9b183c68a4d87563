"""Which application an event of a watch concerns."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.inventory import PART_OF
from fleetbeat.decisions.watching import Sights

MINE, OTHERS = "applyset-mine-v1", "applyset-others-v1"
NOBODY: frozenset[str] = frozenset()
US = ("fleetbeat", "Apply", "", "2026-01-01T10:00:05Z")
EDIT = ("kubectl-edit", "Update", "", "2026-01-01T10:00:03Z")


def thing(
    version: int,
    *managers: tuple[str, str, str, str],
    name: str = "web",
    owner: str = MINE,
    generation: int | None = None,
    **more: Any,
) -> dict[str, Any]:
    """An object as a metadata-only watch shows it."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "shop",
        "uid": "u-1",
        "resourceVersion": str(version),
        "labels": {PART_OF: owner},
        "managedFields": [
            dict(zip(("manager", "operation", "subresource", "time"), who, strict=True)) for who in managers
        ],
        **more,
    }
    if generation is not None:
        metadata["generation"] = generation
    return {"metadata": metadata}


def at(second: int, who: tuple[str, str, str, str]) -> tuple[str, str, str, str]:
    return (*who[:3], f"2026-01-01T10:00:{second:02}Z")


BEFORE = thing(1, US)

CASES = [
    pytest.param("MODIFIED", thing(2, US, at(6, EDIT)), {MINE}, id="edited later"),
    pytest.param("MODIFIED", thing(2, US, at(5, EDIT)), {MINE}, id="edited in the second of our write"),
    pytest.param("MODIFIED", thing(2, US), {MINE}, id="a field removed: nobody's entry is new"),
    pytest.param("MODIFIED", thing(2, at(7, US)), set(), id="written by us"),
    pytest.param("MODIFIED", thing(2, at(7, US), at(6, EDIT)), set(), id="written by us, over somebody older"),
    pytest.param("MODIFIED", thing(2, at(7, US), at(7, EDIT)), {MINE}, id="both in one second"),
    pytest.param("MODIFIED", thing(1, US), set(), id="the same again"),
    pytest.param("MODIFIED", thing(2, US, owner=OTHERS), {MINE, OTHERS}, id="given to another application"),
    pytest.param("MODIFIED", thing(2, US, deletionTimestamp="2026-01-01T10:00:09Z"), {MINE}, id="being deleted"),
    pytest.param("DELETED", thing(3, US), {MINE}, id="deleted, or the label removed"),
    pytest.param("DELETED", thing(3, US, owner=OTHERS), {MINE}, id="deleted: whose it was is what we saw"),
    pytest.param("ADDED", thing(9, at(8, US), name="new"), set(), id="created by us"),
    pytest.param("ADDED", thing(9, EDIT, name="new"), {MINE}, id="created by another with a copied label"),
]


@pytest.mark.parametrize(("word", "body", "ring"), CASES)
def test_one_event(word: str, body: dict[str, Any], ring: set[str]) -> None:
    sights = Sights("ConfigMap")
    assert sights.listed([BEFORE]) == NOBODY
    assert sights.event(word, body) == frozenset(ring)


def test_our_second_write_over_an_edit_of_the_same_second_is_ours() -> None:
    sights = Sights("ConfigMap")
    sights.listed([thing(1, US)])
    assert sights.event("MODIFIED", thing(2, US, at(9, EDIT))) == {MINE}
    assert sights.event("MODIFIED", thing(3, at(9, US), at(9, EDIT))) == NOBODY


def test_a_status_is_no_reason_to_ring() -> None:
    sights = Sights("Deployment.apps")
    sights.listed([thing(1, US, generation=3)])
    status = ("kube-controller-manager", "Update", "status", "2026-01-01T10:00:09Z")
    assert sights.event("MODIFIED", thing(2, US, status, generation=3)) == NOBODY
    assert sights.event("MODIFIED", thing(3, US, at(9, EDIT), generation=4)) == {MINE}


def test_a_later_list_rings_what_moved_in_between() -> None:
    """The server had dropped the events (410): what they would have told is told by comparing."""
    sights = Sights("ConfigMap")
    sights.listed([thing(1, US), thing(1, US, name="gone", owner=OTHERS), thing(1, US, name="still")])
    assert sights.listed([thing(2, US, at(9, EDIT)), thing(1, US, name="still")]) == {MINE, OTHERS}
    assert sights.listed([thing(2, US, at(9, EDIT)), thing(1, US, name="still")]) == NOBODY


@pytest.mark.parametrize(("late", "ring"), [(False, NOBODY), (True, frozenset({MINE}))])
def test_the_first_list_rings_only_for_a_kind_that_came_up_meanwhile(late: bool, ring: frozenset[str]) -> None:
    assert Sights("ConfigMap", rings_at_first=late).listed([BEFORE]) == ring


def test_an_empty_first_list_is_a_first_list() -> None:
    sights = Sights("ConfigMap")
    sights.listed([])
    assert sights.listed([BEFORE]) == {MINE}
