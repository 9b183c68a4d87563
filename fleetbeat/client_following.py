"""Following a sync that was asked for, from look to look at its run, to its end."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from fleetbeat.client_results import Outcome, Progress
from fleetbeat.clients.runs import Look, Runs
from fleetbeat.errors import StillRunning
from fleetbeat.model import Revision
from fleetbeat.model_results import ObjectResult

_POLL = 0.15
"""Seconds between two looks while following: one round trip of three small hashes each."""


def follow(runs: Runs, app: str, timeout: float, *, request: str = "", after: str = "") -> Iterator[Progress | Outcome]:
    """Progress as it comes, the Outcome last. Raises StillRunning after ``timeout`` seconds.

    Of what was asked for as ``request``; without one, of the next run to end that is not ``after``.
    """
    deadline = time.monotonic() + timeout
    told: set[str] = set()
    previous: Progress | None = None
    first: str | None = None  # the newest finished run when we began
    run, seen = "", None
    failures: str | None = None  # of looks in a row, when we began
    while True:
        look = runs.look(app)
        last = look.state.get("last_run", "")
        first = last if first is None else first
        failures = look.state.get("failures", "") if failures is None else failures
        pending = look.request.get("id", "")
        if request and pending and request not in (pending, look.run.get("request")):
            request = pending  # ours had not begun and was replaced
        ended = None
        if last != seen or look.state.get("handled") == request:
            ended, seen = _ended(runs, app, look, request, after, ran=last != first), last
        run = ended.run if ended else look.run.get("run", run)
        results = _new_results(runs, run, told)
        if ended is not None:
            if results:
                yield Progress(run, "", "", "", results)
            if ended.phase != "Superseded":
                yield ended
                return
            # A newer digest took over: whoever asked wants to know how that one ends.
            yield Progress(run, "", "", f"superseded {ended.message}; following the run that took over")
            request, after, first = "", ended.run, last
        now = _progress(look, pending == request if request else False, failures)
        if results or now != previous:
            previous = now
            yield replace(now, results=results)
        if time.monotonic() > deadline:
            doing = f"is at step {now.step} ({now.state})" if now.step else "has not begun"
            said = f": {now.message.removesuffix('.')}." if now.message else "." if now.step else ". Do workers run?"
            raise StillRunning(f"{app}: after {timeout:g} s the sync {doing}{said} It goes on.")
        time.sleep(_POLL)


def _ended(runs: Runs, app: str, look: Look, request: str, after: str, *, ran: bool) -> Outcome | None:
    """The outcome, None when it is not there yet. ``ran``: some run has ended since we began to follow."""
    state = look.state
    last = state.get("last_run", "")
    if not request and last == after:
        return None
    entries = [json.loads(text) for text in runs.history(app)]
    newest: dict[str, Any] = next((entry for entry in entries if entry.get("run") == last), {})
    if not request:
        return _outcome(app, state, newest)
    entry: dict[str, Any] = next((one for one in entries if one.get("request") == request), {})
    if entry or state.get("handled") == request:
        return _outcome(app, state, entry)
    if ran and request not in (look.request.get("id"), look.run.get("request")):
        return _outcome(app, state, newest)  # replaced by a later request, which has ended already
    return None


def _new_results(runs: Runs, run: str, told: set[str]) -> tuple[ObjectResult, ...]:
    if not run:
        return ()
    results = [ObjectResult.from_json(json.loads(text)["result"]) for text in runs.results(run).values()]
    # Health is written anew while a wave waits; what happened to the object is told once.
    new = [result for result in results if f"{run} {result.phase} {result.id.key} {result.outcome}" not in told]
    told.update(f"{run} {result.phase} {result.id.key} {result.outcome}" for result in new)
    return tuple(sorted(new, key=lambda result: (result.wave, result.id)))


def _outcome(app: str, state: Mapping[str, str], entry: dict[str, Any]) -> Outcome:
    revision = entry.get("revision") or {f.name: state.get(f.name, "") for f in fields(Revision)}
    return Outcome(
        app=app,
        run=entry.get("run", state.get("last_run", "")),
        phase=entry.get("phase", state.get("phase", "")),
        sync=state.get("sync", "Unknown"),
        health=entry.get("health") or state.get("health", "Unknown"),
        message=entry.get("message", state.get("message", "")),
        revision=Revision(**revision),
        entry=entry,
        held_back=state.get("held_back", ""),
    )


def _progress(look: Look, waiting: bool, failures: str) -> Progress:
    """``failures``: how many looks in a row had failed when the following began."""
    run, state = look.run, look.state
    if waiting and run:
        return Progress("", "", "queued", f"run {run.get('run', '')} ends first; it is at step {run.get('step', '')}")
    if not run:
        # No run begins where the registry or a credential is missing: the state alone tells that, and why.
        failed = state.get("reason") and state.get("failures", "") != failures
        told = f"{state['reason']}: {state.get('message', '')}" if failed else ""
        # Nor where a veto leaves nothing to be synced, or the application is suspended.
        nothing = state.get("held_back", "") if waiting and not state.get("digest") else ""
        return Progress("", "", "queued", told or nothing)
    return Progress(run.get("run", ""), run.get("step", ""), run.get("state", ""), run.get("message", ""))
