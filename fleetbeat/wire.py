"""The contract between scheduler, workers and other services: task names, queues, argument shapes.

Messages are doorbells. ``RECONCILE`` carries ``(app,)``; every step carries ``(app, run, step, fence)`` and nothing
else. A message that arrives twice, late or forged can at most make a worker look at the run record and leave.
"""

from __future__ import annotations

from typing import NamedTuple

RECONCILE = "fleetbeat.reconcile"
PULL = "fleetbeat.pull"
RENDER = "fleetbeat.render"
DIFF = "fleetbeat.diff"
APPLY = "fleetbeat.apply"
REPORT = "fleetbeat.report"

#: remote control command: which FLEETBEAT_OVERRIDE_KEY a worker has (``decisions/overrides.py``, ``mark``)
OVERRIDE_MARK = "fleetbeat_override_mark"

#: ticks of the clock: thousands may wait here
TICK_QUEUE = "fleetbeat.ticks"
#: requests of people and services, and the steps of runs that have begun; kombu serves both queues in turn
WORK_QUEUE = "fleetbeat.work"

#: step word → task that carries it out. A wave of the plan is the step ``apply:<n>``, n counting stages from 0.
TASK_OF_STEP = {"pull": PULL, "render": RENDER, "diff": DIFF, "apply": APPLY, "report": REPORT}


class Doorbell(NamedTuple):
    """Arguments of a step's message."""

    app: str
    run: str
    step: str  #: "pull", "render", "diff", "apply:<n>", "report"
    fence: int  #: must equal the run record's, else the message is stale

    @property
    def task(self) -> str:
        return TASK_OF_STEP[self.step.partition(":")[0]]
