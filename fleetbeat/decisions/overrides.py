"""Going past sync windows as a right of its own: how a request is signed, and what a worker says of one. Pure.

Where workers have a ``FLEETBEAT_OVERRIDE_KEY``, a request to override must carry a MAC made with it. The MAC is over
all that the request means (application, its own id, who, why) and until when it may be taken up, so that a copy of it
is worth nothing: not for another application, not with another reason, and not later.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

import orjson

from fleetbeat.decisions.events import stamp

#: ms for which a signature is good. A request is taken up at once, or when the run under way has ended.
LIFE = 600_000
#: digits of a time that somebody can mean
_LONGEST_TIME = 15
#: The word for a refusal, in history, events and ``Outcome.entry``.
REASON = "OverrideRefused"
#: What a request has instead of a signature where nobody asks for one.
UNSIGNED = "1"
VARIABLE = "FLEETBEAT_OVERRIDE_KEY"


def sign(key: bytes, *, app: str, request: str, by: str, reason: str, now: int) -> str:
    """What goes with a request made at ``now`` (ms since epoch, the server's clock): ``<until> <MAC in hex>``."""
    until = now + LIFE
    return f"{until} {_mac(key, app, request, by, reason, until)}"


def refusal(key: bytes | None, app: str, request: Mapping[str, str], now: int) -> str:
    """Why this request may not override the sync windows of ``app``, in words; "" when it may, or does not ask to.

    ``key``: the worker's, None = everybody may. ``request``: with the fields id, by, reason and override_windows.
    ``now``: ms since epoch when it is taken up.
    """
    signed = request.get("override_windows", "")
    if key is None or not signed:
        return ""
    until, _, mac = signed.partition(" ")
    if not mac or not until.isascii() or not until.isdigit() or len(until) > _LONGEST_TIME:
        return f"it is not signed. Whoever may override has {VARIABLE} set where he asks, as the workers have"
    asked = (request.get("id", ""), request.get("by", ""), request.get("reason", ""))
    if not hmac.compare_digest(_mac(key, app, *asked, int(until)), _ascii(mac)):
        return f"it was signed with another {VARIABLE} than that of the workers, or was altered since"
    if not request.get("reason", "").strip():
        return "it gives no reason"
    if now > int(until):
        return f"it was good until {stamp(int(until))}, and its turn came at {stamp(now)}. Ask again"
    if int(until) - now > 2 * LIFE:
        return f"it is signed until {stamp(int(until))}, which is too far ahead. Ask again"
    return ""


def admitted(key: bytes | None, app: str, run: str, digest: str, request: Mapping[str, str]) -> str:
    """What the run of an admitted request keeps in its record: good for this run of this bundle alone, as long as that
    takes. A copy of the record, put back when the run is over, gets no other bundle past a window.
    """
    if not request.get("override_windows"):
        return ""
    return _mac(key, app, f"{run} {digest}", request.get("by", ""), request.get("reason", ""), 0) if key else UNSIGNED


def stands(key: bytes | None, app: str, record: Mapping[str, str]) -> bool:
    """May the run of this record go past sync windows? A record that somebody has written by hand may not."""
    kept, about = record.get("override_windows", ""), (record.get("run", ""), record.get("digest", ""))
    return bool(kept) and (key is None or hmac.compare_digest(admitted(key, app, *about, record), _ascii(kept)))


def told(why: str) -> str:
    """The refusal as whoever asked reads it."""
    what_then = "The request is dropped; without the override a sync waits for its window"
    return f"sync windows are not overridden: {why}. {what_then}"


def _ascii(text: str) -> str:
    """All that may be compared in constant time."""
    return text.encode("ascii", "replace").decode()


def _mac(key: bytes, app: str, about: str, by: str, reason: str, until: int) -> str:
    return hmac.digest(key, orjson.dumps(["fleetbeat override 1", app, about, by, reason, until]), "sha256").hex()


def mark(key: bytes | None) -> str:
    """Tells keys apart without telling them; "" of none."""
    return hmac.digest(key, b"fleetbeat override key", "sha256").hex()[:16] if key else ""
