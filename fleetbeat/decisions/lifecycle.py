"""The life of a run: its steps, what starts one, what its end means for the application. Pure.

::

    pull ─► render ─► diff ─► apply:0 ─► … ─► apply:n ─► report
      │        │        │        │  ▲                       ▲
      │        │        │        └──┘ waits for health      │
      └────────┴────────┴── nothing to write, or it failed ─┘

When a stage fails and the bundle has hooks for that, they are further stages, ``apply:n+1``…, before the report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fleetbeat.decisions.schedule import backoff
from fleetbeat.errors import FleetbeatError
from fleetbeat.model import Retry, Revision
from fleetbeat.model_results import HealthStatus, ObjectResult, Outcome, Phase, SyncStatus

#: What started a run, as history tells it.
Trigger = Literal["First", "Revision", "Spec", "Drift", "Request", "Retry", "Removed", "Hold"]

#: Of these a run that puts back what was changed by hand, or leaves it, and brings nothing new.
HEALING: tuple[Trigger, ...] = ("Drift", "Hold")

#: A step that began this often and never ended is killing its workers (field case j5).
MAX_TRIES = 5


#: Why a run ended that a person has stopped.
STOPPED = "Stopped"
#: Reasons after which the same input is not tried again by itself (``given_up``).
FOR_GOOD = ("WorkerLost", STOPPED)

#: seconds; a proxy's ``Retry-After`` of a year must not silence an application for a year
LONGEST_RETRY_AFTER = 3600.0


def first_step() -> str:
    return "pull"


def stage_of(step: str) -> int:
    """``apply:3`` → 3."""
    return int(step.partition(":")[2])


def after(step: str, stages: int) -> str:
    """The step that follows one that went well. ``stages`` matters from diff on."""
    if step == "pull":
        return "render"
    if step == "render":
        return "diff"
    if step == "report":
        raise ValueError("nothing follows the report")
    following = 0 if step == "diff" else stage_of(step) + 1
    return f"apply:{following}" if following < stages else "report"


def remaining(step: str, stages: int | None) -> list[str]:
    """This step and all that will follow, for the Celery chain. ``stages`` None = not known yet: one is assumed."""
    steps = [step]
    while steps[-1] != "report":
        steps.append(after(steps[-1], 1 if stages is None else stages))
    return steps


def wants_run(
    *,
    state: Mapping[str, str],
    requested: bool,
    spec: str,
    digest: str,
    drifted: bool,
) -> Trigger | None:
    """Why a run has to start, None when everything is as it was left.

    ``state`` is the application's state hash; ``spec`` and ``digest`` are those of now. The order is the order in
    which reasons are told: a request beats everything, since the one who asked waits for it.
    """
    if requested:
        return "Request"
    if not state.get("attempted"):
        return "First"
    if state["attempted"] != digest:
        return "Revision"
    if state.get("spec") != spec:
        return "Spec"
    if state.get("phase") == "Superseded":
        return "Revision"  # broken off for a digest that has gone again: what stands there is neither of the two
    if given_up(state):
        return None
    if state.get("phase") == "Failed":
        return "Retry"
    if drifted:
        return "Drift"
    return None


def origin(run: Mapping[str, Any]) -> str:
    """The trigger that says what kind of sync this is: of a retry, that of the run it repeats.

    ``run``: a record or a history entry.
    """
    return str(run.get("repeats") or run.get("trigger", ""))


def given_up(state: Mapping[str, str]) -> bool:
    """Does this input kill its workers, or has a person stopped it? Then only another digest or catalog entry, or a
    request, tries it again."""
    return bool(state.get("given_up"))


#: Can the same input go well next time? "" = nothing went wrong.
Cure = Literal["", "time", "change"]


def cure(error: BaseException) -> Cure:
    """What may mend an error: time (outages, rights that a person grants), or only a change of digest or catalog."""
    return "change" if isinstance(error, FleetbeatError) and error.lasting else "time"


def cure_of(results: Sequence[ObjectResult]) -> Cure:
    """The same of what failed of a run: one right that may be granted is reason enough to try again soon."""
    failed = [result for result in results if result.outcome == "failed" and result.phase != "SyncFail"]
    return "change" if failed and all(result.lasting for result in failed) else "time"


def next_look(
    what: Cure, failures: int, retry: Retry, retry_after: float = 0.0, *, spread: float = 0.0
) -> float | None:
    """Seconds until the application is looked at again after a run; None = at its next regular slot.

    What time may mend is retried with growing delays, up to ``retry.limit`` times in a row, and not before the
    ``retry_after`` seconds the other side asked for (within reason). What only a change can mend waits for the
    regular slot, as does everything past the limit. ``spread`` (0 to 1, ``schedule.spread`` of the application's name)
    keeps a fleet that failed together from coming back together.
    """
    if what != "time" or failures > retry.limit:
        return None
    asked = min(retry_after, LONGEST_RETRY_AFTER) * (1 + spread / 10)
    return max(asked, backoff(max(failures - 1, 0), retry, spread))


def rest(what: Cure, failures: int, retry: Retry, retry_after: float = 0.0, *, spread: float = 0.0) -> float:
    """Seconds for which nothing that a watch sees begins another try of a run that failed.

    As long as the next look is away, or, where that waits for the regular slot, as long as a retry would wait: so a
    storm of edits costs no more tries than time does (case f3).
    """
    asked = next_look(what, failures, retry, retry_after, spread=spread)
    return asked if asked is not None else backoff(max(failures - 1, 0), retry, spread)


def failures(state: Mapping[str, str], phase: str, digest: str, spec: str) -> int:
    """How often in a row this input has failed, after a run of it that ended with ``phase``.

    Another digest or catalog entry begins anew: what went wrong before is no reason to let it wait (case f2).
    """
    if phase in ("Succeeded", "Superseded"):
        return 0
    same = (state.get("attempted"), state.get("spec")) == (digest, spec)
    return (int(state.get("failures") or 0) if same else 0) + 1


def health_pause(looks: int, first: float, longest: float) -> float:
    """Seconds until the next look at a wave that is not healthy yet."""
    return float(min(first * 1.6 ** min(looks, 32), longest))


def sync_status(results: Iterable[ObjectResult], *, compared: bool, conflicts: bool = False) -> SyncStatus:
    """Synced when everything wanted is live as wanted, healthy or not. Kept and skipped objects differ.

    ``compared`` False: the run ended before it knew what is wanted, or how that differs. ``conflicts``: some fields
    were left as somebody else wants them, for a while.
    """
    if not compared:
        return "Unknown"
    members = (r for r in results if not r.phase)  # hooks are no part of what is wanted
    return "OutOfSync" if conflicts or any(r.outcome in ("failed", "kept", "skipped") for r in members) else "Synced"


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    phase: Phase
    message: str
    reason: str = ""  #: the error's word, "" when it went well


def ending(results: Sequence[ObjectResult], word: str = "", text: str = "") -> Ending:
    """The phase and one sentence for status and history. ``word`` and ``text``: the error that ended the run."""
    counts = Counter(r.outcome for r in results if not r.phase)
    # What hooks for a failed sync do is told beside the failure, never instead of it.
    failed = [r for r in results if r.outcome == "failed" and r.phase != "SyncFail"]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return Ending("Failed", f"{failed[0].reason}{more}", word or "ObjectsFailed")
    if word:
        return Ending("Failed", text, word)
    said = [f"{counts[word]} {word}" for word in WORDS if counts[word]]
    if ran := sum(bool(r.phase) for r in results):
        said.append(f"{ran} {'hook' if ran == 1 else 'hooks'} run")
    return Ending("Succeeded", ", ".join(said) or "no objects")


#: Outcomes in the order they are told.
WORDS: tuple[Outcome, ...] = (
    *("created", "configured", "pruned", "handed-over", "kept", "skipped", "failed", "unchanged"),
)


def history_entry(
    *,
    run: Mapping[str, str],
    revision: Revision,
    end: Ending,
    results: Sequence[ObjectResult],
    finished: int,
    durations: Mapping[str, float],
    health: HealthStatus,
    warnings: Sequence[str] = (),
    count: int = 1,
) -> dict[str, Any]:
    """One entry of ``fleetbeat history``. Times in ms since epoch, durations in seconds."""
    return {
        "run": run.get("run", ""),
        "trigger": run.get("trigger", ""),
        **{word: run[word] for word in ("repeats", "retry_of") if run.get(word)},
        "by": run.get("by", ""),
        "reason": run.get("reason", ""),
        "request": run.get("request", ""),
        "overrode": run.get("overrode", ""),
        "waited": run.get("waited", ""),
        "phase": end.phase,
        "message": end.message,
        "error": end.reason,
        "health": health,
        "revision": {
            "digest": revision.digest,
            "tag": revision.tag,
            "source": revision.source,
            "revision": revision.revision,
            "created": revision.created,
        },
        "started": int(run.get("created", finished)),
        "finished": finished,
        "warnings": list(warnings),
        "count": count,
        "durations": dict(durations),
        "counts": dict(Counter(r.outcome for r in results if not r.phase)),
        "hooks": sum(bool(r.phase) and r.outcome in ("created", "configured") for r in results),
        # Of the unchanged ones only those that have something to tell: what was left to others, and to whom.
        "results": [r.to_json() for r in results if r.outcome != "unchanged" or r.reason],
    }


def repeats(newest: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> bool:
    """Is this the same failure, or the same drift, again? Then history counts it instead of filling up (case f3)."""
    if newest is None or entry["request"] or newest.get("phase") != entry["phase"]:
        return False
    if newest.get("revision", {}).get("digest") != entry["revision"]["digest"]:
        return False
    if entry["phase"] == "Failed":
        return bool(newest.get("message") == entry["message"])
    if not newest.get("trigger") == entry["trigger"] == "Drift":
        return False
    if newest.get("spaced") and entry.get("spaced"):  # by turns left alone for a time and put back
        return {one["id"] for one in newest["results"]} == {one["id"] for one in entry["results"]}
    return _deeds(newest) == _deeds(entry)


def _deeds(entry: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What a run did to which fields. Reasons do not count: they tell when others wrote, which differs each time."""
    told = ("id", "outcome", "fields", "managers")
    return sorted([tuple(str(result.get(word, "")) for word in told) for result in entry["results"]])
