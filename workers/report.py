"""Last step: shrink what the ApplySet parent lists, remember the inventory, write history and status, end the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import orjson

from fleetbeat.clients import applyset
from fleetbeat.decisions import events, fights, retries
from fleetbeat.decisions.health import custom, worst
from fleetbeat.decisions.inventory import group_kinds, namespaces
from fleetbeat.decisions.lifecycle import (
    FOR_GOOD,
    Cure,
    Ending,
    cure_of,
    ending,
    failures,
    history_entry,
    next_look,
    repeats,
    rest,
    sync_status,
)
from fleetbeat.decisions.schedule import spread
from fleetbeat.decisions.stand_in import half_way
from fleetbeat.engine.plan import LEFT, Known, Plan
from fleetbeat.errors import FleetbeatError, LostLock, StoreUnavailable
from fleetbeat.model import Application, ObjectId, Retry, Revision
from fleetbeat.model_results import Health, HealthStatus, ObjectResult
from workers import cluster_events, disputes, holds, memory, refusals, removal, tally
from workers.departing import is_removal
from workers.standing import noted
from workers.target import target
from workers.task import Ended, Outcome, Work, start_over


def report(work: Work) -> Outcome:
    shared, record, turn = work.parts, work.record, work.turn
    if refusals.is_refused(record):
        return refusals.report(work)
    plan_text = shared.blobs.get(record["plan"]) if record.get("plan") else None
    broken_off = bool(record.get("error") or record.get("superseded"))
    if record.get("plan") and plan_text is None and not broken_off:
        return start_over()  # lost meanwhile: what this run did cannot be told without it
    plan = Plan.from_json(plan_text) if plan_text is not None else Plan()
    entries = tally.load(shared, turn.run)
    results = _results(plan, entries, tally.hooks(shared, turn.run), broken_off)
    end = _ending(record, results, plan)
    state = shared.runs.look(turn.app).state
    known = _known(plan, entries, memory.load_known(shared, state.get("inventory", "")) or {}, end)
    if end.phase == "Succeeded" and plan_text is not None and plan.complete and not is_removal(record):
        _shrink(work, known, plan.claims)

    # Objects that were not written have the health of the last look. Under other rules a tick has to look again: now.
    application = _application(work)
    rules, first = custom.mark(application.health_rules) if application else "", not state.get("inventory")
    judge_anew = not first and rules != state.get("rules", "")
    health = health_of((entry.health for entry in known.values()), end.phase, state.get("health", ""))
    revision = Revision(
        record["digest"],
        record.get("tag", ""),
        record.get("source", ""),
        record.get("revision", ""),
        record.get("revision_created", ""),
    )
    finished = int(turn.now() * 1000)
    times = failures(state, end.phase, record["digest"], record.get("spec", ""))
    what = _cure(record, end, results)
    pause, resting = _pause(turn.app, application, record, end, what, times)
    entry = history_entry(
        run=record,
        revision=revision,
        end=end,
        results=results,
        finished=finished,
        durations={key[5:]: float(value) for key, value in record.items() if key.startswith("took:")},
        health=health,
        warnings=orjson.loads(record.get("warnings") or "[]"),
    )
    compared = plan_text is not None and not is_removal(record)
    held = holds.after_run(state, record, plan, results, finished) if compared else {}
    drift = disputes.after_run(work, state, plan, entries, application) if compared else disputes.Told({})
    entry |= {"spaced": True} if drift.spaced else {}
    newest = next(iter(shared.runs.history(turn.app, most=1)), None)
    before = orjson.loads(newest) if newest else None
    again = repeats(before, entry)
    if again and before is not None:
        entry |= {"count": int(before.get("count", 1)) + 1, "since": before.get("since", before["started"])}
    verdict = _state(record, end, revision, results, state, finished=finished, conflicts=bool(plan.truces)) | {
        "cure": what,
        "given_up": "1" if end.reason in FOR_GOOD else "",
        "failures": times,
        "pause": finished + int(resting * 1000) if resting else "",
        "removing": record.get("since", ""),
        "would_empty": record["digest"] if plan.would_empty else "",
        "repeat": _repeat(work, end),
    }
    if record.get("stands_in"):
        verdict = {"stood_in": "1"}  # of what could not be had instead the status goes on telling
    fields = (
        verdict
        | {
            "fence": turn.fence,
            "health": health,
            "inventory": memory.save_known(shared, known),
            "rules": rules if first else state.get("rules", ""),
        }
        | dict(drift.state)
        | {"yielded": disputes.yielded(state.get("yielded", ""), plan, known)}
        | held
        | (removal.end(work, end) if is_removal(record) else {})
    )
    event = events.ended(record, entry)
    cluster_events.tell(work, event, entry, record.get("home") or state.get("home", ""))
    said = shared.runs.finish(
        turn,
        entry=orjson.dumps(entry).decode(),
        event=event,
        state=noted(shared, state, fields),
        next_look=0.0 if judge_anew and end.phase == "Succeeded" else pause,
        replaces=before["run"] if again and before is not None else "",
        look_by=min(filter(None, (holds.next_look(held), drift.look_by)), default=0),
        drift=drift.ledger,
        drift_kept=drift.kept,
    )
    if said == "lost":
        raise LostLock("taken over while reporting")
    return Ended(f"{end.phase}: {end.message}")


def _results(
    plan: Plan,
    entries: dict[ObjectId, tally.Entry],
    hooks: dict[tuple[str, ObjectId], ObjectResult],
    broken_off: bool,
) -> list[ObjectResult]:
    """What happened to each object, in the order of the plan."""
    # What was settled to stay may have to be let go of, which may fail, or turn out to be another application's too.
    told = {key: result for key, (result, _) in entries.items() if result.outcome in ("failed", "handed-over")}
    results = [told.get(result.id, result) for result in plan.settled]
    rest = "not tried: the sync ended before its turn"
    planned = [(c.id, c.wave) for c in plan.changes] + [(r.id, r.wave) for r in plan.removals]
    for key, wave in planned:
        if key in entries:
            results.append(entries[key][0])
        elif broken_off or plan.failed:
            results.append(ObjectResult(key, "skipped", rest, wave))
    for hook in plan.hooks:
        if result := hooks.get((hook.phase, hook.id)):
            results.append(result)
        elif hook.phase != "SyncFail" and (broken_off or plan.failed):
            results.append(ObjectResult(hook.id, "skipped", rest, hook.wave, phase=hook.phase))
    return results


def _ending(record: dict[str, str], results: Sequence[ObjectResult], plan: Plan) -> Ending:
    if record.get("superseded") and not record.get("error"):
        return Ending("Superseded", f"by {record['superseded']}", "Superseded")
    end = ending(results, record.get("error", ""), record.get("error_text", ""))
    if said := record.get("after_failure"):
        return Ending(end.phase, f"{end.message}\nSyncFail: {said}", end.reason)
    if end.phase == "Succeeded" and plan.refusal:
        return Ending(end.phase, f"{end.message}. {plan.refusal}", "PruneRefused")
    if end.phase == "Succeeded" and plan.truces:
        return Ending(end.phase, f"{end.message}. {_left_alone(plan)}", _why_left_alone(plan))
    if end.phase == "Succeeded" and (left := holds.news(plan)):
        first = next(iter(left))
        why = next((result.reason for result in results if result.id == first), left[first].why)
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        return Ending(end.phase, f"{end.message}. {first} is left as it is: {why}{more}", "Held")
    return end


def health_of(known: Iterable[str], phase: str, before: str) -> HealthStatus:
    """``known``: health of each object; ``before``: the application's health so far, "" = never known.

    Without an object it is Healthy when that is what was wanted, and else what it was: of a first sync that failed
    before it wrote anything nobody can say that it is well.
    """
    if found := [Health(one) for one in known]:  # type: ignore[arg-type]
        return worst(found)
    return "Healthy" if phase == "Succeeded" else before or "Unknown"  # type: ignore[return-value]


def _why_left_alone(plan: Plan) -> str:
    """A fight is told before an object that is healed later, which does not need anybody."""
    words = {fights.word(name) for left in plan.truces.values() for name in left}
    return "Conflict" if "Conflict" in words else "BackOff"


def _left_alone(plan: Plan) -> str:
    told = [fights.told(name, one, key) for key, left in plan.truces.items() for name, one in left.items()]
    return told[0] + (f" (and {len(told) - 1} more)" if len(told) > 1 else "")


def _known(
    plan: Plan, entries: dict[ObjectId, tally.Entry], before: dict[ObjectId, Known], end: Ending
) -> dict[ObjectId, Known]:
    """What the next look compares with. A run that did not get through keeps what was known of the rest."""
    known = dict(plan.known) if end.phase == "Succeeded" else {**before, **plan.known}
    for key, (result, entry) in entries.items():
        if result.outcome in ("pruned", "handed-over"):
            known.pop(key, None)
        elif entry is not None:
            # What it was left without is put back when the truce is over, although nothing moves then.
            known[key] = entry._replace(hash=entry.hash + LEFT) if key in plan.truces else entry
    return known


def _shrink(work: Work, known: dict[ObjectId, Known], claims: Sequence[ObjectId]) -> None:
    """After a whole sync the parent lists what is there and no more. Failing at it costs nothing but the next try."""
    shared, turn = work.parts, work.turn
    own, kinds, spaces = shared.settings.namespace, group_kinds(known), namespaces(known)
    hooks = work.record["digest"] if work.record.get("hooks") else ""
    pin = work.record.get("pin", "")
    other_pin = work.record.get("pin_noted", "") != pin
    listed = applyset.listing(kinds, spaces, own, claims)
    if work.record.get("owned") == listed and not hooks and not other_pin:
        return
    try:
        digest, guard = work.record["digest"], work.lease.check
        pen = shared.ledger.pen(tally.execution(turn, "report"))
        where = target(shared, turn.app, run=turn.run, fence=turn.fence, digest=digest, guard=guard, witness=pen.saw)
        parent = applyset.read(where.cluster, own, turn.app)
        if parent is not None and parent.run == turn.run:
            with pen.begin(where.cluster.name, applyset.places(own, turn.app), known_before=True):
                applyset.shrink(where.cluster, parent, kinds, spaces, digest, hooks, pin, claims)
        elif parent is not None and other_pin:
            # Nothing was to be written, so the parent was not taken; the pin shall outlive Redis all the same.
            with pen.begin(where.cluster.name, applyset.places(own, turn.app), known_before=True):
                applyset.note(where.cluster, parent, applyset.PINNED, pin)
    except (LostLock, StoreUnavailable):
        raise
    except FleetbeatError:
        return


def _state(
    record: dict[str, str],
    end: Ending,
    revision: Revision,
    results: Sequence[ObjectResult],
    before: dict[str, str],
    *,
    finished: int,
    conflicts: bool,
) -> dict[str, str | int | float]:
    """The application's status hash; ``finished`` is in ms since epoch.

    What is in force changes only when a sync went through.
    """
    fields: dict[str, str | int | float] = {
        "phase": end.phase,
        "message": end.message,
        "reason": end.reason,
        "attempted": revision.digest if end.phase != "Superseded" else before.get("attempted", ""),
        "attempted_since": memory.first_tried(record, before)
        if end.phase != "Superseded"
        else before.get("attempted_since", ""),
        "spec": record.get("spec", ""),
        "finished": finished,
        "trouble": "",
        "stood_in": "",
        "half_way": "1" if half_way(before, end.phase, results) else "",
    }
    if record.get("request"):
        fields["handled"] = record["request"]
    if record.get("hooks"):
        # Should the parent not be told, for an outage at the last moment, Redis knows.
        went_well = end.phase == "Succeeded"
        fields |= {"hooks_owed": "" if went_well else revision.digest}
        fields |= {"hooks": revision.digest} if went_well else {}
    if end.phase == "Superseded":
        return fields
    fields["sync"] = sync_status(results, compared=bool(record.get("plan")), conflicts=conflicts)
    if end.phase == "Succeeded":
        fields |= {
            "digest": revision.digest,
            "digest_spec": record.get("spec", ""),
            "home": record.get("home", ""),
            "tag": revision.tag,
            "source": revision.source,
            "revision": revision.revision,
            "created": revision.created,
            "deletion_hooks": record.get("deletion_hooks", ""),
            "objects": sum(result.outcome not in ("pruned", "handed-over") and not result.phase for result in results),
        }
    return fields


def _repeat(work: Work, end: Ending) -> str:
    """What a retry takes from this run; "" where there will be none."""
    if end.phase != "Failed" or is_removal(work.record):
        return ""
    return retries.kept(work.parts.settings.signing_key(), work.turn.app, work.record)


def _application(work: Work) -> Application | None:
    """As the catalog has it now; None also when that cannot be read at the moment."""
    try:
        entry = work.parts.catalogs.application(work.turn.app)
    except FleetbeatError:
        return None
    return entry[0] if entry is not None else None


def _cure(record: Mapping[str, str], end: Ending, results: Sequence[ObjectResult]) -> Cure | Literal[""]:
    """What may mend it; "" where nothing failed."""
    if said := record.get("error_cure"):
        return "change" if said == "change" else "time"
    return cure_of(results) if end.phase == "Failed" else ""


def _pause(
    app: str, application: Application | None, record: dict[str, str], end: Ending, what: Cure | Literal[""], times: int
) -> tuple[float | None, float]:
    """Seconds until the next look, None = at the regular slot; and for how long a watch rings in vain."""
    if record.get("stands_in"):
        return 0.0, 0.0  # what it stood in for is tried now
    if record.get("superseded") or record.get("next", "") not in ("", record.get("digest", "")):
        return 0.0, 0.0  # the other: something newer was seen, and had to wait for a hook
    if end.phase == "Succeeded":
        return None, 0.0
    retry = application.sync.retry if application is not None else Retry()
    asked = what or "time", times, retry, float(record.get("retry_after") or 0)
    return next_look(*asked, spread=spread(app)), rest(*asked, spread=spread(app))
