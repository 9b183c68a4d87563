"""What follows hooks: deleting their objects when a phase is over, and what a run does after a stage has failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleetbeat.clients.runs import Fields
from fleetbeat.engine.hooking import Hooks
from fleetbeat.engine.plan import HookRun, Plan, StagePlan
from fleetbeat.errors import FleetbeatError, LostLock, StoreUnavailable, Transient
from fleetbeat.model import ObjectId
from fleetbeat.model_results import ObjectResult
from workers.task import Next


def clean_up(runner: Hooks, going: Iterable[HookRun], *, succeeded: bool, last_try: bool) -> dict[ObjectId, str]:
    """Delete what asks for it, and say what was done. That one cannot be deleted is told, and fails nothing.

    Raises LostLock, StoreUnavailable and, unless it is the ``last_try``, Transient.
    """
    said: dict[ObjectId, str] = {}
    for one in going:
        try:
            said[one.id] = runner.clean_up(one, succeeded=succeeded)
        except (LostLock, StoreUnavailable):
            raise
        except FleetbeatError as error:
            if isinstance(error, Transient) and not last_try:
                raise
            said[one.id] = f"could not be deleted: {error}"
    return said


def after_failure(
    plan: Plan,
    stage: StagePlan,
    number: int,
    outcome: Next,
    hooks: Mapping[tuple[str, ObjectId], ObjectResult],
    afresh: Fields,
) -> Next:
    """A stage has failed: what follows deletes hooks of its phase and runs those for a failed sync, then reports.

    The first error stays the run's. A hook for a failed sync that fails itself ends this, and is told beside it.
    ``hooks``: what has become of them so far. ``afresh``: what the next stage begins with.
    """
    count, failing = len(plan.stages), len(plan.failing)
    if not failing:
        return outcome
    fields: dict[str, str | int | float] = {**afresh, "failed_in": stage.phase, "hooking": ""}
    if number < count:
        return Next(f"apply:{count}", {**fields, **outcome.fields, "stages": count + failing})
    refused = (
        result.reason for (phase, _), result in hooks.items() if phase == stage.phase and result.outcome == "failed"
    )
    fields["after_failure"] = str(outcome.fields.get("error_text") or "; ".join(refused))
    last = count + failing - 1
    cleans_up = plan.failing[-1].part == "cleanup" and number < last
    return Next(f"apply:{last}" if cleans_up else "report", fields)
