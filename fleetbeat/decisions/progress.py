"""Does anything still move in a wave that is waited for? For ``spec.sync.noProgressTimeout``. Pure.

Model: a Deployment's ``progressDeadlineSeconds``. Here it is for all kinds, and for a wave as a whole: what stands
still may be waiting for what moves. Going back and forth is no progress, or a crash loop would go on for ever; so each
object's marks are kept, one for each state that it was seen in, and progress is

- a state that this object has not been in since the wave was written,
- an object that needs not be waited for any more,
- a Job or Pod that runs, as it says nothing until it ends; its own deadlines are for that.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from fleetbeat.model import Body

#: Parts of a status that change while nothing gets on: texts with counters and identifiers in them, and what every
#: restart of a container leaves. ``observedGeneration`` counts only as observed or not.
_NOISE = frozenset({"message", "observedGeneration", "resourceVersion", "restartCount", "lastState", "containerID"})
#: An RFC 3339 time, wherever it stands: heartbeats, transitions, probes.
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d")
#: hex digits of a mark: it has to differ from some dozens of marks of the same object
_MARK = 8
#: marks kept of one object; what is back after more than so many states counts as progress
_MOST = 100
#: levels of a status that count. A kind may have more of them than JSON can be written with.
_DEEP = 100


@dataclass(frozen=True)
class Progress:
    """What has been seen of a wave so far."""

    at: float  #: s since epoch, when something last got on
    limit: float  #: seconds without that after which the wave has failed
    seen: Mapping[str, str] = field(default_factory=dict)  #: ``ObjectId.key`` → its marks, the newest last

    def left(self, now: float) -> float:
        """Seconds until it has failed; 0 or less when it has."""
        return self.at + self.limit - now

    def to_json(self) -> str:
        return orjson.dumps({"at": self.at, "limit": self.limit, "seen": dict(self.seen)}).decode()

    @classmethod
    def from_json(cls, text: str) -> Progress | None:
        """None for "": nothing has been seen yet."""
        return cls(**orjson.loads(text)) if text else None


def follow(before: Progress | None, marks: Mapping[str, str], *, limit: float, working: bool, now: float) -> Progress:
    """After one more look at what is waited for. ``marks``: of each object now; ``working``: one of them runs."""
    known = before.seen if before else {}
    gets_on = before is None or working or bool(known.keys() - marks.keys())
    seen: dict[str, str] = {}
    for key, mark in marks.items():
        old = known.get(key, "")
        if mark in (old[start : start + _MARK] for start in range(0, len(old), _MARK)):
            seen[key] = old
        else:
            gets_on = True
            seen[key] = (old + mark)[-_MOST * _MARK :]
    # Something that got on in the future: the clock went back.
    return Progress(now if gets_on or before is None else min(before.at, now), limit, seen)


def mark_of(live: Body | None, health: str = "") -> str:
    """The same for the same state of one object. ``health``: what it was judged to be.

    Source of the signs: all of the status that is no time, text or count of restarts, so that kinds nobody here has
    heard of show theirs too; finalizers, which is how a deletion gets on.
    """
    body = live or {}
    meta = body.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    status = body.get("status")
    observed = isinstance(status, dict) and status.get("observedGeneration") == meta.get("generation")
    signs = [
        live is not None,
        health,
        bool(meta.get("deletionTimestamp")),
        meta.get("finalizers") or [],
        observed,
        _plain(status, _DEEP),
    ]
    text = orjson.dumps(signs, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str)
    return hashlib.sha256(text).hexdigest()[:_MARK]


def runs(live: Body | None) -> bool:
    """A Job with a Pod that is ready, or a Pod that is to end and runs: at work, and silent until it is done."""
    body = live or {}
    status, spec = body.get("status"), body.get("spec")
    if not isinstance(status, dict):
        return False
    if (body.get("apiVersion"), body.get("kind")) == ("batch/v1", "Job"):
        ready = status.get("ready")
        return isinstance(ready, int) and ready > 0
    if (body.get("apiVersion"), body.get("kind")) == ("v1", "Pod"):
        ends = isinstance(spec, dict) and spec.get("restartPolicy") in ("Never", "OnFailure")
        conditions = status.get("conditions")
        ready = any(
            isinstance(one, dict) and (one.get("type"), one.get("status")) == ("Ready", "True")
            for one in (conditions if isinstance(conditions, list) else ())
        )
        return ends and status.get("phase") == "Running" and ready
    return False


def told(run: Mapping[str, str], now: float) -> str:
    """``no progress for 40 s of 60 s`` of a run that waits; "" where nothing limits that, or something moved just now.

    ``run``: its record; ``now``: s since epoch by the server's clock.
    """
    seen = Progress.from_json(run.get("progress", "")) if run.get("state") == "waiting" else None
    if seen is None or now - seen.at < 1:
        return ""
    return f"no progress for {min(now - seen.at, seen.limit):.0f} s of {seen.limit:g} s"


def _plain(value: Any, deep: int) -> Any:
    """Without what is noise, and without what lies below ``deep`` levels."""
    if not deep and isinstance(value, (dict, list)):
        return None
    if isinstance(value, dict):
        return {
            key: _plain(inner, deep - 1) for key, inner in value.items() if key not in _NOISE and not _is_time(inner)
        }
    if isinstance(value, list):
        return [_plain(inner, deep - 1) for inner in value]
    return value


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME.match(value) is not None
