"""The annotations that keep what was changed by hand: what they say, and where they count."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.confirmation import TIME_FORM
from fleetbeat.decisions.self_heal import SELF_HEAL, SELF_HEAL_UNTIL, Word, on_live, read

NOON = 1_796_040_000_000  # 2026-11-30T12:00:00Z


def said(self_heal: object = None, until: object = None) -> dict[str, object]:
    pairs = ((SELF_HEAL, self_heal), (SELF_HEAL_UNTIL, until))
    return {key: value for key, value in pairs if value is not None}


def wrong(key: str, why: str) -> Word:
    return Word(True, 0, ((key, why),))


@pytest.mark.parametrize(
    ("annotations", "word"),
    [
        ({}, Word()),
        (said("disabled"), Word(True)),
        (said("enabled"), Word()),
        (said("disabled", "2026-11-30T12:00:00Z"), Word(True, NOON)),
        (said("disabled", "2026-11-30T13:00:00+01:00"), Word(True, NOON)),
        (said("enabled", "2026-11-30T12:00:00Z"), Word(False, NOON)),
        (said("off"), wrong(SELF_HEAL, "must be disabled or enabled, not 'off'")),
        (said("Disabled"), wrong(SELF_HEAL, "must be disabled or enabled, not 'Disabled'")),
        (said(""), wrong(SELF_HEAL, "must be disabled or enabled, not ''")),
        (said(True), wrong(SELF_HEAL, "must be disabled or enabled, not True")),
        (said("disabled", ""), wrong(SELF_HEAL_UNTIL, f"must be {TIME_FORM}, not ''")),
        (said("disabled", "2h"), wrong(SELF_HEAL_UNTIL, f"must be {TIME_FORM}, not '2h'")),
        (
            said("disabled", "2026-11-30T12:00:00"),
            wrong(SELF_HEAL_UNTIL, f"must be {TIME_FORM}, not '2026-11-30T12:00:00'"),
        ),
        (
            said("disabled", "2026-02-30T12:00:00Z"),
            wrong(SELF_HEAL_UNTIL, f"must be {TIME_FORM}, not '2026-02-30T12:00:00Z'"),
        ),
        (said("disabled", 5), wrong(SELF_HEAL_UNTIL, f"must be {TIME_FORM}, not 5")),
        (
            said(None, "2026-11-30T12:00:00Z"),
            wrong(SELF_HEAL_UNTIL, f"does nothing without {SELF_HEAL}: disabled"),
        ),
    ],
)
def test_reading(annotations: dict[str, object], word: Word) -> None:
    assert read(annotations) == word


@pytest.mark.parametrize(("now", "stands"), [(NOON - 1, True), (NOON, False), (NOON + 1, False)])
def test_it_is_over_at_its_end(now: int, stands: bool) -> None:
    assert Word(True, NOON).stands(now) is stands
    assert Word(True).stands(now)
    assert not Word(False, NOON).stands(now)


def live(*managers: str, **annotations: str) -> dict[str, Any]:
    fields = {"f:metadata": {"f:annotations": {f"f:{SELF_HEAL}": {}}}}
    entries = [
        {"manager": one, "operation": "Update", "time": "2026-11-30T11:00:00Z", "fieldsV1": fields} for one in managers
    ]
    return {"metadata": {"annotations": said(**annotations), "managedFields": entries}}


def test_on_a_live_object_it_counts_when_somebody_else_has_set_it() -> None:
    held = on_live(live("kubectl-annotate", self_heal="disabled"), NOON)
    assert held is not None
    assert held.why == (
        f"self-heal is disabled by annotation {SELF_HEAL} on the live object "
        "(set by kubectl-annotate (Update, 2026-11-30T11:00:00Z))"
    )
    assert on_live(live("kubectl-annotate", "fleetbeat", self_heal="disabled"), NOON) is not None


def test_one_that_we_have_applied_is_the_manifests() -> None:
    assert on_live(live("fleetbeat", self_heal="disabled"), NOON) is None
    assert on_live(live(self_heal="disabled"), NOON) is not None, "nobody knows whose: it is left alone"
    assert on_live(live("kubectl-annotate"), NOON) is None


def test_what_cannot_be_read_holds_and_says_so() -> None:
    held = on_live(live("kubectl-annotate", self_heal="off"), NOON)
    assert held is not None
    assert "must be disabled or enabled, not 'off'" in held.why
    assert held.why.endswith("Until that is mended it counts as disabled")
    assert held.until == 0
