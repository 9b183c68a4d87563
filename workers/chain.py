"""One sync as a Celery chain, on one screen.

``reconcile`` looks whether anything is to be done; if so it writes the run record and publishes

    pull | render | diff | apply:0 | report

Each link is a doorbell ``(app, run, step, fence)``. A link begins by taking its turn (``Runs.begin``), works, and ends
by advancing the record; only then does Celery publish the next link. What follows is always derived from the record,
never from the message: after the advance the rest of the chain is set anew, so that it has as many applies as the plan
has stages, and none after a wait. A lost link is published again by the lease in the due set.
"""

from __future__ import annotations

from typing import Any

from celery import Celery, chain
from celery.canvas import Signature

from fleetbeat.clients.broker import errors
from fleetbeat.decisions.lifecycle import remaining
from fleetbeat.wire import WORK_QUEUE, Doorbell


def links(celery: Celery, app: str, run: str, step: str, fence: int, stages: int | None) -> list[Signature[Any]]:
    """``step`` and everything after it. The fence is the first link's; the others get theirs when they are sent."""
    bells = [Doorbell(app, run, each, fence) for each in remaining(step, stages)]
    return [celery.signature(bell.task, args=tuple(bell), immutable=True, queue=WORK_QUEUE) for bell in bells]


def publish(celery: Celery, app: str, run: str, step: str, fence: int, stages: int | None) -> None:
    """Send the first link, which carries the others. Raises StoreUnavailable; the lease then rings again."""
    with errors():
        chain(*links(celery, app, run, step, fence, stages)).apply_async()
