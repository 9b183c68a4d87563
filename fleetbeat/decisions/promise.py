"""A saved plan: exactly what a sync may do, and what has moved when it would do something else. Pure.

``fleetbeat plan`` saves one, a sync asked for with it compares the plan it makes itself, and is refused where the two
differ. What is compared is what would be done to which state of which object, not why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import orjson

from fleetbeat.model import ObjectId

#: Differences that are named; of the others the number.
_MOST = 5


@dataclass(frozen=True)
class Promise:
    """Which writes were looked at, by object: what is done, and the state it is done to ("" = absent)."""

    app: str
    digest: str
    spec: str  #: digest of the catalog entry it was made under
    writes: Mapping[ObjectId, tuple[str, str]] = field(default_factory=dict)

    def to_json(self) -> bytes:
        writes = {key.key: list(write) for key, write in sorted(self.writes.items())}
        return orjson.dumps({"app": self.app, "digest": self.digest, "spec": self.spec, "writes": writes})

    @classmethod
    def from_json(cls, text: bytes) -> Promise:
        data: dict[str, Any] = orjson.loads(text)
        writes = {ObjectId.from_key(key): (word, state) for key, (word, state) in data["writes"].items()}
        return cls(data["app"], data["digest"], data["spec"], writes)


def broken(promise: Promise, now: Promise, left: Mapping[ObjectId, str] = MappingProxyType({})) -> str:
    """What is not as it was when the plan was saved, "" when all is. ``now``: the plan as it would be carried out.

    ``left``: objects that differ and are not written, and why: they do not go without the write, as those do that
    somebody else has seen to.
    """
    if promise.app != now.app:
        return f"it was made for {promise.app}"
    if promise.digest != now.digest:
        return f"it was made for {_short(promise.digest)}, and the application is to have {_short(now.digest)} now"
    if promise.spec != now.spec:
        return "the application's catalog entry, or its cluster's, was edited since"
    told = []
    for key in sorted(promise.writes.keys() | now.writes.keys()):
        before, after = promise.writes.get(key), now.writes.get(key)
        if before == after:
            continue
        if after is None and before is not None and key in left:
            told.append(f"{key} would not be {_WORDS[before[0]]}: {left[key]}")
        elif after is None and before is not None:
            told.append(f"{key} need not be {_WORDS[before[0]]} any more")
        elif before is None and after is not None:
            told.append(f"{key} would be {_WORDS[after[0]]}")
        elif before is not None and after is not None and before[0] != after[0]:
            told.append(f"{key} would be {_WORDS[after[0]]}, not {_WORDS[before[0]]}")
        else:
            told.append(f"{key} was changed")
    more = f" and {len(told) - _MOST} more" if len(told) > _MOST else ""
    return "; ".join(told[:_MOST]) + more


_WORDS = {
    "create": "created",
    "apply": "configured",
    "replace": "replaced",
    "recreate": "deleted and created anew",
    "prune": "pruned",
    "hook": "run",
}


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]
