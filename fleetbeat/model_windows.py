"""Sync windows as the catalog has them: times at which syncs may or may not write (docs/windows.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

WindowKind = Literal["allow", "deny"]
#: What a window is about: every sync, or only those that put back what was changed by hand.
WindowScope = Literal["all", "self-heal"]
#: Kubernetes' operators of label selectors.
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


@dataclass(frozen=True)
class LabelRequirement:
    key: str
    operator: Operator
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class SyncWindow:
    """One window. It opens at each time of its schedule, for ``duration`` seconds of real time."""

    kind: WindowKind
    schedule: str  #: five fields of cron, as decisions/cron.py reads them
    duration: float  #: seconds
    time_zone: str = "UTC"  #: IANA name
    applications: tuple[str, ...] = ()  #: globs over the application's name
    namespaces: tuple[str, ...] = ()  #: globs over its destination's namespace
    clusters: tuple[str, ...] = ()  #: globs over its cluster's name and server
    labels: tuple[LabelRequirement, ...] = ()  #: over its labels; all must hold
    and_operator: bool = False  #: all of the selectors above must hold, not any
    kinds: tuple[str, ...] = ()  #: ``Kind`` or ``Kind.group``: only syncs that write such objects; none = every sync
    scope: WindowScope = "all"
    manual_sync: bool = False  #: does not hold up who asks for a sync
    sync_overrun: bool = False  #: a sync that began while it was allowed to goes on to its end
    description: str = field(default="", compare=False)
    origin: str = ""  #: "Project web", "Application shop"

    def __str__(self) -> str:
        """``deny "0 9 * * *" for 8h in Europe/London (Project web: office hours)``, for a sentence."""
        where = "" if self.time_zone == "UTC" else f" in {self.time_zone}"
        kinds = f" of {', '.join(self.kinds)}" if self.kinds else ""
        scope = " of self-healing" if self.scope == "self-heal" else ""
        manual = ", manualSync" if self.manual_sync else ""
        said = ": ".join(part for part in (self.origin, self.description) if part)
        return f'{self.kind}{scope}{kinds} "{self.schedule}" for {_told(self.duration)}{where}{manual}' + (
            f" ({said})" if said else ""
        )


def _told(seconds: float) -> str:
    """``8h``, ``1h30m``, ``30s``."""
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{value:g}{unit}" for value, unit in ((hours, "h"), (minutes, "m"), (rest, "s")) if value]
    return "".join(parts) or "0s"
