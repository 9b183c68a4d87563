"""A hold that somebody with only kubectl has put on an application's ApplySet parent. Pure.

    kubectl -n fleetbeat annotate configmap app-shop fleetbeat.dev/hold-until=2026-12-01T06:00:00Z \\
        fleetbeat.dev/hold-reason="moving the database"

It is a hold of the application like any other, with scope ``sync``, from when a run meets it until that time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from fleetbeat.decisions.confirmation import TIME_FORM, approval
from fleetbeat.decisions.holds import LONGEST, Hold
from fleetbeat.decisions.problems import shown
from fleetbeat.decisions.spoken import spoken
from fleetbeat.errors import ConfigurationError, Refused
from fleetbeat.model_results import Manager

HOLD_UNTIL = "fleetbeat.dev/hold-until"  #: annotation: RFC 3339 with a zone
HOLD_REASON = "fleetbeat.dev/hold-reason"  #: annotation: text
KEYS = (HOLD_UNTIL, HOLD_REASON)


def by_hand(app: str, annotations: Mapping[str, str], setters: Sequence[Manager], now: int) -> Hold | None:
    """The hold that the annotations of the parent mean at ``now`` (ms); None without one, or when it is over.

    The same annotations are the same hold (``id``). ``setters``: who has set them. Raises Refused for what cannot be
    meant: somebody wanted something kept, so nothing is written.
    """
    text = annotations.get(HOLD_UNTIL)
    if text is None:
        if HOLD_REASON in annotations:
            raise _refused(HOLD_REASON, f"does nothing without {HOLD_UNTIL}")
        return None
    at = approval(text)
    if at is None:
        raise _refused(HOLD_UNTIL, f"must be {TIME_FORM}, not {shown(text)}")
    until = int(at)
    if until <= now:
        return None
    if until - now > LONGEST * 1000:
        days = LONGEST // 86_400
        raise _refused(HOLD_UNTIL, f"is more than {days} days ahead; what stays for longer belongs into the catalog")
    try:
        reason = spoken(annotations.get(HOLD_REASON, "")) or "no reason given"
        by = spoken(" and ".join(manager.name for manager in setters), "name of who holds") or "somebody with kubectl"
    except ConfigurationError as error:
        raise _refused(HOLD_REASON, f"is not a line of text: {error}") from None
    name = hashlib.sha256(f"{app}\n{until}\n{reason}".encode()).hexdigest()[:6]
    return Hold(name, "app", app, "sync", by, reason, now, until)


def _refused(key: str, why: str) -> Refused:
    what_then = "Nothing is written until that is mended or taken away"
    return Refused(f"annotation {key} on the application's ApplySet parent {why}. {what_then}")
