"""Pins and vetoes: which bundle an application is to have."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.choice import Choice, Order, choose
from fleetbeat.model import Revision

ONE = Revision("sha256:" + "1" * 64, tag="v1", revision="abc")
TWO = Revision("sha256:" + "2" * 64, tag="v2")
PIN = Order(ONE.digest, "ada@ops", "v2 is slow", 1)
VETO = Order(TWO.digest, "ada@ops", "loses orders", 1)
BARE = Revision(ONE.digest)

CASES = [
    pytest.param(TWO, None, None, ONE, Choice(TWO), id="what the source means"),
    pytest.param(TWO, None, None, None, Choice(TWO), id="the first"),
    pytest.param(None, PIN, None, TWO, Choice(BARE, "pinned to 111111111111 by ada@ops: v2 is slow"), id="rolled back"),
    pytest.param(
        None, PIN, None, ONE, Choice(ONE, "pinned to 111111111111 by ada@ops: v2 is slow"), id="rolled back and there"
    ),
    pytest.param(
        TWO,
        None,
        VETO,
        ONE,
        Choice(ONE, "222222222222 is vetoed by ada@ops: loses orders; 111111111111 stays in force"),
        id="vetoed",
    ),
    pytest.param(
        TWO,
        None,
        VETO,
        TWO,
        Choice(TWO, "222222222222 is vetoed by ada@ops: loses orders; it is in force already and stays"),
        id="vetoed while running",
    ),
    pytest.param(
        TWO,
        None,
        VETO,
        None,
        Choice(None, "222222222222 is vetoed by ada@ops: loses orders; nothing else was ever synced"),
        id="vetoed before the first",
    ),
    pytest.param(
        None,
        PIN,
        Order(ONE.digest, "eve"),
        TWO,
        Choice(TWO, "111111111111 is vetoed by eve; 222222222222 stays in force"),
        id="a veto beats a pin",
    ),
]


@pytest.mark.parametrize(("newest", "pin", "veto", "in_force", "choice"), CASES)
def test_choice(
    newest: Revision | None, pin: Order | None, veto: Order | None, in_force: Revision | None, choice: Choice
) -> None:
    assert choose(newest, pin, veto, in_force) == choice


def test_a_pin_is_read_back() -> None:
    orders = {"pin": ONE.digest, "pin_by": "ada@ops", "pin_reason": "v2 is slow", "pin_at": "1"}
    assert Order.of_pin(orders) == PIN
    assert Order.of_pin({}) is None
