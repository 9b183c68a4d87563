"""Step 4, once per stage: write what the plan says, then wait until it is healthy, without holding a worker.

Sync windows are asked before a stage begins (windows.py). Its first execution takes the ApplySet parent by
compare-and-set, which makes this run the writer in the cluster too, then writes. When something is not healthy yet the
step waits in the due set; the executions that follow only look, until all is well or the wave's time is over.
"""

from __future__ import annotations

from dataclasses import replace

from fleetbeat.decisions.lifecycle import stage_of
from fleetbeat.engine.plan import Plan, manifests_from_json
from workers import dependencies, holds, tally, waiting, windows
from workers.departing import is_removal
from workers.stage import Stage
from workers.target import target
from workers.task import Next, Outcome, Work, start_over


def apply(work: Work) -> Outcome:
    shared, record, turn = work.parts, work.record, work.turn
    plan_text, rendered = shared.blobs.get(record["plan"]), shared.blobs.get(record["rendered"])
    if plan_text is None or rendered is None:
        return Next("report") if record.get("error") else start_over()
    number = stage_of(turn.step)
    plan, manifests = Plan.from_json(plan_text), manifests_from_json(rendered)
    stage = (*plan.stages, *plan.failing)[number]
    pen = shared.ledger.pen(tally.execution(turn, stage.title))
    where = target(
        shared,
        turn.app,
        run=turn.run,
        fence=turn.fence,
        digest=record["digest"],
        guard=work.lease.check,
        witness=pen.saw,
        removal=is_removal(record),
    )
    if where.spec != record["spec"]:
        # The plan was made for the cluster and the rules of then: another cluster must never be written by it.
        return Next("report", {"superseded": "a changed catalog"})
    begins = record.get("written") != str(number) and record.get("stage") != str(number)
    if begins and (waits := holds.hold_up(work, where.application, plan, number)):
        return waits
    if begins and not is_removal(record):  # windows do not hold up a deletion
        if windows.is_stale(record):
            return Next("diff", windows.AFRESH)
        waits = dependencies.hold_up(work, where.application, number)
        if waits := waits or windows.shut(work, where.application, plan, number):
            return waits
    pen.execution = replace(pen.execution, overrode=record.get("overrode", ""))  # it may have begun just now
    begun = float(record["stage_began"]) if record.get("stage") == str(number) else turn.now()
    this = Stage(work, where, plan, stage, manifests, number, begun, pen)
    if stage.part == "cleanup":
        return this.clean_up()
    outcome = this.write() if record.get("written") != str(number) else this.look(waiting.pending(record))
    if isinstance(outcome, Next) and outcome.fields.get("error"):
        return this.after_failure(outcome)
    return outcome
