"""What of people's orders is noted in which cluster, and what is believed of a note when nothing else is left."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.fleet_orders import LARGEST, FleetOrders, read, to_note, written
from fleetbeat.decisions.holds import MOST, Hold

NOON = 1_796_040_000_000  # 2026-11-30T12:00:00Z
HOUR = 3_600_000
VETO = Order("sha256:" + "a" * 64, "ada@ops", "loses orders", NOON - HOUR)
DRAIN = Hold("3fa9c1", "cluster", "prod", "sync", "ada@ops", "drain", NOON - HOUR, NOON + HOUR)


def hold(kind: Any, target: str, cluster: str = "") -> Hold:
    return Hold("0a", kind, target, "sync", "ada", "x", NOON, NOON + HOUR, cluster)


@pytest.mark.parametrize(
    ("order", "noted"),
    [
        (hold("app", "shop"), False),
        (hold("cluster", "prod"), True),
        (hold("cluster", "test"), False),
        (hold("namespace", "shop"), True),
        (hold("namespace", "shop", "prod"), True),
        (hold("namespace", "shop", "test"), False),
        (hold("object", "apps/Deployment/shop/web"), True),
        (hold("object", "apps/Deployment/shop/web", "test"), False),
        (hold("label", "team=web"), True),
        (replace(hold("cluster", "prod"), until=NOON), False),
    ],
    ids=lambda value: f"{value.about}, until {value.until - NOON}" if isinstance(value, Hold) else str(value),
)
def test_a_cluster_has_a_note_of_what_concerns_it_and_stands(order: Hold, noted: bool) -> None:
    assert to_note(FleetOrders(holds=(order,)), "prod", NOON).holds == ((order,) if noted else ())


def test_a_cluster_with_two_names_keeps_the_holds_of_both() -> None:
    other = hold("cluster", "prod-admin")
    orders = FleetOrders((VETO,), (DRAIN, other))
    assert set(to_note(orders, "prod", NOON, {other.id}).holds) == {DRAIN, other}
    assert to_note(FleetOrders((VETO,), (DRAIN,)), "prod", NOON, {other.id}).holds == (DRAIN,)


def test_what_is_written_is_read_again_and_says_what_it_means() -> None:
    orders = FleetOrders((VETO,), (DRAIN,))
    data, left = written(orders)
    assert (read(data, NOON), left) == ((orders, []), 0)
    assert json.loads(data["holds"])["says"] == "cluster prod is held (sync) until 2026-11-30T13:00:00Z"
    assert (
        json.loads(data["vetoes"])["says"] == "sha256:aaaaaaaaaaaa is kept out of the fleet since 2026-11-30T11:00:00Z"
    )
    assert read(data, DRAIN.until)[0] == FleetOrders((VETO,), ())
    assert read(written(FleetOrders())[0], NOON) == (FleetOrders(), [])


def test_no_more_is_noted_than_a_config_map_takes() -> None:
    long = "\u00e4" * 1000
    vetoes = tuple(Order(f"sha256:{n:064x}", long, long, NOON - n) for n in range(1200))
    data, left = written(FleetOrders(vetoes, (DRAIN,)))
    kept, faults = read(data, NOON)
    assert sum(len(data[name].encode()) for name in ("vetoes", "holds")) <= LARGEST
    assert kept.holds == (DRAIN,)
    assert kept.vetoes == vetoes[: len(kept.vetoes)]
    assert (len(kept.vetoes) + left, faults) == (1200, [])

    short = tuple(Order(f"sha256:{n:064x}", "", "", NOON) for n in range(MOST + 1))
    assert written(FleetOrders(short, ()))[1] == 1


GOOD = json.loads(written(FleetOrders((VETO,), (DRAIN,)))[0]["holds"])
HOSTILE: dict[str, Any] = {
    "no JSON": "{garbage",
    "a list": "[]",
    "a number": "7",
    "deep": "[" * 5000 + "]" * 5000,
    "a hundred years": {"until": NOON + 100 * 365 * 24 * HOUR},
    "a hundred years, from then on": {
        "since": NOON + 100 * 365 * 24 * HOUR,
        "until": NOON + 100 * 365 * 24 * HOUR + HOUR,
    },
    "of an application": {"kind": "app", "target": "shop"},
    "of no kind": {"kind": "fleet"},
    "of a list of kinds": {"kind": ["cluster"]},
    "an id of other letters": {"id": "\u001b[2J"},
    "words that move a cursor": {"reason": "\u001b[2J"},
    "endless words": {"by": "a" * 1001},
    "a field that is none": {"colour": "red"},
    "beyond all calendars": {"since": 10**20, "until": 10**20 + 1},
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hold_that_nobody_could_have_made_is_not_taken_over_and_told(text: Any) -> None:
    line = text if isinstance(text, str) else json.dumps(GOOD | text)
    found, faults = read({"vetoes": "", "holds": f"{line}\n{json.dumps(GOOD)}\n"}, NOON)
    assert found == FleetOrders((), (DRAIN,))
    assert len(faults) == 1


@pytest.mark.parametrize(
    "fields",
    [{"digest": "latest"}, {"digest": 5}, {"at": "noon"}, {"at": -1}, {"at": True}, {"by": 5}, {"reason": "a\nb"}],
    ids=str,
)
def test_a_veto_that_nobody_could_have_made_is_not_taken_over_and_told(fields: dict[str, Any]) -> None:
    good = json.loads(written(FleetOrders((VETO,)))[0]["vetoes"])
    lines = f"{json.dumps(good | fields)}\n{json.dumps(good)}\n"
    assert read({"vetoes": lines, "holds": ""}, NOON) == (
        FleetOrders((VETO,)),
        ["vetoes: line 1 is none of ours"],
    )


def test_of_a_note_without_end_so_much_is_read_as_could_be_noted() -> None:
    found, faults = read({"vetoes": "", "holds": f"{json.dumps(GOOD)}\n" * (MOST + 500)}, NOON)
    assert len(found.holds) == MOST
    assert faults == ["holds: 1,500 lines, of which 1,000 are read"]


def test_a_list_that_was_taken_away_is_told() -> None:
    assert read({}, NOON) == (FleetOrders(), ["vetoes: is missing", "holds: is missing"])
