"""What of one application is left as it is now, object by object: holds, annotations, self-heal that is off. Pure.

Holds that stop all writes of an application are not here: its run waits for them (workers/holds.py), as for a window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions import self_heal
from fleetbeat.decisions.holds import Held, Hold, Scope, Subject, hits, standing, standing_on, told
from fleetbeat.model import Application, Body, ObjectId
from fleetbeat.model_results import Manager


@dataclass(frozen=True)
class Bypasses:
    subject: Subject
    now: int = 0  #: ms by the store's clock
    holds: Sequence[Hold] = ()
    #: of the whole application: why what was changed by hand stays, and why what has left the bundle does
    drift: Held | None = None
    prune: Held | None = None
    #: The bundle is the one that was synced last, as the cluster says. Redis may have lost what was applied of it.
    same_bundle: bool = False

    @classmethod
    def of(
        cls,
        application: Application,
        *,
        holds_there: Sequence[Hold] = (),
        now: int = 0,
        parent: Mapping[str, Any] | None = None,
        parent_set_by: Sequence[Manager] = (),
        same_bundle: bool = False,
        asked: bool = False,
    ) -> Bypasses:
        """``parent``: annotations of its ApplySet parent, as far as there is one; ``parent_set_by``: who set ours.

        ``asked``: somebody has asked for this sync. Self-heal that is off keeps drift from being put back by itself, as
        in Argo CD; annotations and holds are a person's word too, and keep it all the same.
        """
        subject = Subject.of(application)
        whole = [hold for hold in holds_there if hits(hold, subject)]

        def of_scope(scope: Scope) -> Held | None:
            return told(standing([hold for hold in whole if hold.scope == scope], subject, scope, now))

        return cls(
            subject,
            now,
            tuple(hold for hold in holds_there if hold not in whole),
            _longest(
                None if application.sync.self_heal or asked else Held("self-heal is off", 0, "spec"),
                self_heal.held(
                    self_heal.read(application.annotations), now, "the application in the catalog", "catalog"
                ),
                self_heal.held(self_heal.read(parent or {}), now, self_heal.the_parent(parent_set_by), "parent"),
                of_scope("self-heal"),
            ),
            of_scope("prune"),
            same_bundle,
        )

    def heals_not(self, key: ObjectId, annotations: Mapping[str, Any]) -> Held | None:
        """Why this object's drift stays; ``annotations`` are its manifest's."""
        asked = self_heal.held(self_heal.read(annotations), self.now, "the manifest", "object")
        return _longest(self.drift, asked, self._on(key, "self-heal"))

    def writes_not(self, key: ObjectId, live: Body | None) -> Held | None:
        """Why nothing at all is written to this object, a new manifest neither. ``live``: None = it is not there."""
        return _longest(self_heal.on_live(live, self.now) if live else None, self._on(key, "sync"))

    def prunes_not(self, key: ObjectId, live: Body) -> Held | None:
        """Why this object stays although it has left the bundle."""
        return _longest(self.prune, self_heal.on_live(live, self.now), self._on(key, "prune"))

    def _on(self, key: ObjectId, write: Scope) -> Held | None:
        return told(standing_on(self.holds, self.subject, key, write, self.now)) if self.holds else None


def _longest(*reasons: Held | None) -> Held | None:
    """The one that stands for longest, which is how long the object stays; what has no end before all others."""
    found = [held for held in reasons if held is not None]
    return max(found, key=lambda held: held.until or float("inf"), default=None)
