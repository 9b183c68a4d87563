"""What people have set on the ApplySet parent since the plan was made, met where a stage takes the parent.

A run may wait for hours between its plan and its first write, or between two waves, and the parent is where people with
only kubectl say that nothing is to be written, or that drift is to stay. It is read there for its fence anyway, so
meeting what it says costs no request, and Redis is asked only where something is said.
"""

from __future__ import annotations

from dataclasses import replace

from fleetbeat.clients import applyset
from fleetbeat.decisions import hand_holds as words
from fleetbeat.decisions import self_heal
from fleetbeat.decisions.holds import Held
from fleetbeat.engine.plan import Plan
from fleetbeat.model import Application
from workers import hand_holds, holds, windows
from workers.departing import is_removal
from workers.task import Next, Wait, Work

#: A run that did not begin after all has opened no window and overridden none.
_NOT_BEGUN = {"opened": "", "overrode": ""}


class Instead(Exception):
    """What the step does instead of writing; no error, but the way out of `applyset.take`."""

    def __init__(self, outcome: Next | Wait) -> None:
        super().__init__()
        self.outcome = outcome


def before_stage(
    work: Work, application: Application, plan: Plan, number: int, parent: applyset.Parent, *, repeated: bool
) -> None:
    """Asked once, when stage ``number`` begins. Returns when it may be written.

    ``repeated``: an execution of this stage was killed, and may have written. Raises Instead, and Refused for a hold
    that cannot be meant (``decisions/hand_holds.py``).
    """
    if not holds.may_wait(plan, number):
        return
    app, shared = work.turn.app, work.parts
    annotations = parent.body["metadata"].get("annotations") or {}
    first, instead = number == 0 and not repeated, None
    if any(key in annotations for key in words.KEYS):
        new = hand_holds.meet(shared, app, shared.runs.look(app).state, parent)
        instead = holds.hold_up(work, application, plan, number) if new else None
    if instead is None and first and _says_something_else(work, parent):
        instead = Next("diff", windows.AFRESH)
    if instead is not None:
        raise Instead(replace(instead, fields={**instead.fields, **_NOT_BEGUN}) if first else instead)


def drift_stays(work: Work, parent: applyset.Parent) -> Held | None:
    """Why drift is left as it is in a stage of a plan that did not know of it; None = the parent says what it said."""
    if not _says_something_else(work, parent):
        return None
    said = self_heal.read(parent.body["metadata"].get("annotations") or {})
    return self_heal.held(said, work.parts.runs.now(), self_heal.the_parent(parent.setters), "parent")


def _says_something_else(work: Work, parent: applyset.Parent) -> bool:
    """About self-healing. What is deleted is deleted whatever is said of that."""
    annotations = parent.body["metadata"].get("annotations")
    return not is_removal(work.record) and holds.parent_mark(annotations) != work.record.get("held_parent", "")
