"""What people have ordered for the whole fleet, as noted in each cluster: vetoes, and holds of no one application.

The note is the data of one ConfigMap (``NAME``): ``vetoes`` and ``holds``, one line of JSON each, whose ``says`` tells
people with only kubectl what it means. It is read again only when the store has lost its data. What cannot be read was
not written by Fleetbeat. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from fleetbeat.decisions.choice import Order
from fleetbeat.decisions.holds import LONGEST, MOST, Hold, moment
from fleetbeat.decisions.spoken import spoken
from fleetbeat.errors import ConfigurationError

NAME = "fleetbeat-orders"  #: of the ConfigMap, in ``settings.namespace``
ABOUT = (
    "What people have ordered with fleetbeat veto and fleetbeat hold, noted by Fleetbeat. Lift it there: this is read "
    "only when Redis has lost its data, and overwritten with the next order. A hold ends at its time by itself."
)
LARGEST = 900_000  #: bytes of both lists; the API server takes 1 MiB of data

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f]{1,32}")
_END = 250_000_000_000_000  # ms since epoch; no time beyond the year 9892 can be written
T = TypeVar("T")


@dataclass(frozen=True)
class FleetOrders:
    vetoes: tuple[Order, ...] = ()
    holds: tuple[Hold, ...] = ()


def concerns(hold: Hold, cluster: str) -> bool:
    """Is it to be noted in this cluster? Those of one application are noted on its ApplySet parent."""
    if hold.kind == "app":
        return False
    return (hold.target if hold.kind == "cluster" else hold.cluster) in ("", cluster) or hold.kind == "label"


def to_note(orders: FleetOrders, cluster: str, now: int, noted: Collection[str] = ()) -> FleetOrders:
    """What of all orders is to be noted in ``cluster`` at ``now`` (ms), newest first.

    ``noted``: ids of holds in the note as it is. Those that stand stay: the cluster may be in the catalog under two
    names.
    """
    standing = (one for one in orders.holds if one.stands(now) and one.kind != "app")
    mine = [one for one in standing if concerns(one, cluster) or one.id in noted]
    return FleetOrders(
        tuple(sorted(orders.vetoes, key=lambda one: (-one.at, one.digest))),
        tuple(sorted(mine, key=lambda one: (-one.since, one.id))),
    )


def written(orders: FleetOrders) -> tuple[dict[str, str], int]:
    """The data of the ConfigMap, and how many orders are too many for it: the oldest, vetoes before holds."""
    room, left = LARGEST, 0
    lists: dict[str, list[str]] = {"holds": [_hold_line(one) for one in orders.holds]}
    lists["vetoes"] = [_veto_line(one) for one in orders.vetoes]
    data = {"about": ABOUT}
    for name, lines in lists.items():
        kept: list[str] = []
        for line in lines[:MOST]:
            room -= len(line.encode()) + 1
            if room < 0:
                break
            kept.append(line)
        left += len(lines) - len(kept)
        data[name] = "".join(f"{line}\n" for line in kept)
    return data, left


def read(data: Mapping[str, str], now: int) -> tuple[FleetOrders, list[str]]:
    """What a note says that may still stand at ``now`` (ms), and what is wrong with the rest of it."""
    faults: list[str] = []
    vetoes = _lines(data, "vetoes", _veto, faults)
    holds = [one for one in _lines(data, "holds", _hold, faults) if one.stands(now)]
    for one in [one for one in holds if one.until - now > LONGEST * 1000]:
        faults.append(f"holds: {one.id} would last longer than any hold may")
        holds.remove(one)
    return FleetOrders(tuple(vetoes), tuple(holds)), faults


def _lines(data: Mapping[str, str], name: str, parse: Callable[[Any], T], faults: list[str]) -> list[T]:
    found: list[T] = []
    if name not in data:
        faults.append(f"{name}: is missing")
    lines = [line for line in data.get(name, "").split("\n") if line.strip()]
    if len(lines) > MOST:
        faults.append(f"{name}: {len(lines):,} lines, of which {MOST:,} are read")
    for number, line in enumerate(lines[:MOST], 1):
        try:
            found.append(parse(orjson.loads(line)))
        except (ValueError, TypeError, AttributeError, ConfigurationError):
            faults.append(f"{name}: line {number} is none of ours")
    return found


def _veto_line(order: Order) -> str:
    says = f"{order.digest[:19]} is kept out of the fleet since {moment(order.at)}"
    fields = {"digest": order.digest, "by": order.by, "reason": order.reason, "at": order.at}
    return orjson.dumps({"says": says, **fields}).decode()


def _veto(fields: Any) -> Order:
    fields.pop("says", None)
    order = Order(**fields)
    if not (type(order.at) is int and 0 <= order.at < _END and _DIGEST.fullmatch(order.digest)):
        raise ValueError("no veto")
    _check_words(order.by, order.reason)
    return order


def _hold_line(hold: Hold) -> str:
    says = f"{hold.about} is held ({hold.scope}) until {moment(hold.until)}"
    return orjson.dumps({"says": says, **hold.to_json()}).decode()


def _hold(fields: Any) -> Hold:
    fields.pop("says", None)
    hold = Hold.from_json(fields)
    if hold.kind == "app" or not _ID.fullmatch(hold.id):
        raise ValueError("not of the fleet")
    _check_words(hold.by, hold.reason)
    return hold


def _check_words(*words: str) -> None:
    if any(spoken(text) != text for text in words):
        raise ValueError("not as it was said")


def ids(orders: Iterable[Hold]) -> frozenset[str]:
    return frozenset(one.id for one in orders)
