"""``fleetbeat.dev/self-heal: disabled``: an annotation by which people keep what they have changed by hand. Pure.

It counts in a manifest, on a live object, on an application in the catalog and on its ApplySet parent, and for as long
as ``fleetbeat.dev/self-heal-until`` says, or until it is taken away. What cannot be read counts as disabled, since
somebody meant to keep something, and is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions.confirmation import TIME_FORM, approval
from fleetbeat.decisions.holds import Held, moment
from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.decisions.ownership import changed_by
from fleetbeat.decisions.problems import shown
from fleetbeat.model import Body
from fleetbeat.model_results import Manager

SELF_HEAL = "fleetbeat.dev/self-heal"  #: annotation: "disabled", or "enabled", which is what holds without it
SELF_HEAL_UNTIL = "fleetbeat.dev/self-heal-until"  #: annotation: RFC 3339 with a zone
KEYS = (SELF_HEAL, SELF_HEAL_UNTIL)

_WORDS = ("disabled", "enabled")


@dataclass(frozen=True)
class Word:
    """What the two annotations say together."""

    disabled: bool = False
    until: int = 0  #: ms since epoch, 0 = no end
    problems: tuple[tuple[str, str], ...] = ()  #: (key, what is wrong with its value); then it counts as disabled

    def stands(self, now: int) -> bool:
        """Half-open: at ``until`` it is over."""
        return self.disabled and (not self.until or now < self.until)


def read(annotations: Mapping[str, Any]) -> Word:
    """Never raises."""
    if not any(key in annotations for key in KEYS):
        return Word()
    problems: list[tuple[str, str]] = []
    said, text = annotations.get(SELF_HEAL), annotations.get(SELF_HEAL_UNTIL)
    if said is None:
        problems.append((SELF_HEAL_UNTIL, f"does nothing without {SELF_HEAL}: disabled"))
    elif said not in _WORDS:
        problems.append((SELF_HEAL, f"must be {' or '.join(_WORDS)}, not {shown(said)}"))
    at = approval(text) if isinstance(text, str) else None
    if text is not None and at is None:
        problems.append((SELF_HEAL_UNTIL, f"must be {TIME_FORM}, not {shown(text)}"))
    if problems:
        return Word(True, 0, tuple(problems))
    return Word(said == "disabled", int(at) if at is not None else 0)


def held(word: Word, now: int, where: str, source: str) -> Held | None:
    """As a reason to leave drift alone. ``where``: what carries the annotation, ``the application in the catalog``."""
    if not word.stands(now):
        return None
    if word.problems:
        wrong = "; ".join(f"annotation {key} on {where} {why}" for key, why in word.problems)
        return Held(f"{wrong}. Until that is mended it counts as disabled", 0, source)
    until = f" until {moment(word.until)}" if word.until else ""
    return Held(f"self-heal is disabled{until} by annotation {SELF_HEAL} on {where}", word.until, source)


def the_parent(setters: Sequence[Manager]) -> str:
    """``where`` of what is said on the ApplySet parent. ``setters``: who has set it there."""
    by = f" (set by {' and '.join(map(str, setters))})" if setters else ""
    return f"the application's ApplySet parent{by}"


def on_live(live: Body, now: int) -> Held | None:
    """What people have set on the live object itself, with who has, where the API server recorded it.

    An annotation that only we have applied is the manifest's: the manifest has the word on that.
    """
    annotations: Mapping[str, Any] = (live.get("metadata") or {}).get("annotations") or {}
    if not any(key in annotations for key in KEYS):
        return None
    by_others = setters(live)
    if not by_others and any(manager.name == FIELD_MANAGER for manager in changed_by(live, _places(live), own="")):
        return None
    by = f" (set by {' and '.join(map(str, by_others))})" if by_others else ""
    return held(read(annotations), now, f"the live object{by}", "object")


def setters(live: Body, keys: Sequence[str] = KEYS) -> tuple[Manager, ...]:
    """Who but us has set any of these annotations, newest first, where the API server recorded it."""
    return changed_by(live, _places(live, keys))


def _places(live: Body, keys: Sequence[str] = KEYS) -> list[tuple[str, ...]]:
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    return [("metadata", "annotations", key) for key in keys if key in annotations]
