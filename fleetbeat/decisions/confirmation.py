"""What may be deleted only after a person has agreed: ``Prune=confirm``, ``Delete=confirm``, and all that there is.

A person agrees with one sync that is asked for so, or in the catalog by Argo CD's annotation with the time of it, which
counts only for a bundle that was known by then: an old approval must not delete what a later bundle drops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

DELETION_APPROVED = "argocd.argoproj.io/deletion-approved"  #: annotation of an application in the catalog: RFC 3339
TIME_FORM = "an RFC 3339 time such as 2026-11-30T12:00:00Z"
HOW = (
    "waits for a confirmation: fleetbeat sync APP --confirm-prune, or the annotation "
    f"{DELETION_APPROVED} with the time of now on the application in the catalog"
)
_AHEAD = 60_000.0  #: ms that the clock of who approves may be ahead
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def approval(text: str) -> float | None:
    """ms since epoch; None when the text is no RFC 3339 time."""
    if not _RFC3339.fullmatch(text):
        return None
    try:
        # Python reads six digits of a second at most.
        return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text.upper())).astimezone(UTC).timestamp() * 1000
    except (ValueError, OverflowError):
        return None


def asks(would_empty: str) -> str:
    """What a request with a confirmation agrees to, for its record: the bundle that is known to empty the application.

    ``would_empty``: digest of the bundle whose last sync has said that it would delete everything, "" = none has.
    """
    return would_empty or "1"


def may_empty(agreed: str, digest: str) -> bool:
    """May a run delete every object of the application for a bundle without any (field case d4)?

    ``agreed``: as of ``asks``; ``digest``: of the run. Who agrees to what one bundle drops does not agree to an empty
    one that takes its place a moment later: it has to have been told first.
    """
    return agreed == digest != ""


def confirmed(asked: bool, by: str, annotations: Mapping[str, str], since: float, now: float) -> str:
    """Who has agreed to what this bundle drops, in words; "" = nobody.

    ``asked``: the run was asked for with a confirmation, ``by`` a person. ``annotations``: of the application;
    ``since``: ms since epoch when a sync of this bundle's digest was first tried; ``now``: the same of now. A time to
    come would agree to bundles that nobody has seen yet.
    """
    if asked:
        return f"confirmed by {by}"
    text = annotations.get(DELETION_APPROVED, "")
    at = approval(text)
    return f"approved at {text}" if at is not None and since <= at <= now + _AHEAD else ""
