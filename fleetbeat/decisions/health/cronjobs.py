"""CronJob: Healthy whatever its last run did. That is told in the message, and must not flap with every run (h3).

While a run is under way, ``lastScheduleTime`` is its own: whether the one before it failed has to be found out by the
schedule. Nothing is told that does not follow: schedules and zones that cannot be read here, or that the time of the
run does not fit to (a schedule without zone goes by the controller's), leave the time of the last success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from fleetbeat.decisions import cron, cron_times, zones
from fleetbeat.decisions.health.live import Live, mappings
from fleetbeat.model_results import Health

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MOMENT = timedelta(seconds=1)


def cron_job(live: Live) -> Health:
    if live.spec.get("suspend") is True:
        return Health("Suspended", "the CronJob is suspended")
    started, succeeded = _time(live.status.get("lastScheduleTime")), _time(live.status.get("lastSuccessfulTime"))
    if not live.status.get("active"):
        return Health("Healthy", _failure(started, succeeded))
    if started is None:
        return Health("Healthy", "a run is under way")
    before = started if started not in _under_way(live) else _before(live, started)
    made = _made(live)
    if before is None:
        told = f"the last success was {_text(succeeded)}" if succeeded else "none has succeeded yet"
    else:
        told = "" if made and before < made else _failure(before, succeeded)
    return Health("Healthy", "; ".join(filter(None, ("a run is under way", told))))


def _failure(due: datetime | None, succeeded: datetime | None) -> str:
    if due is None or (succeeded is not None and succeeded >= due):
        return ""
    return f"the run of {_text(due)} did not succeed"


def _under_way(live: Live) -> set[datetime]:
    """For which times the runs under way are: the controller names Jobs after the minute, counted since 1970."""
    found = set()
    for job in mappings(live.status.get("active")):
        minute = str(job.get("name") or "").rpartition("-")[2]
        if minute.isascii() and minute.isdecimal() and len(minute) < 10:
            found.add(datetime.fromtimestamp(int(minute) * 60, UTC))
    return found


def _before(live: Live, started: datetime) -> datetime | None:
    """The latest time before that of a run whose own run is over; None when the schedule does not tell."""
    under_way = _under_way(live)
    return next((time for time in _times_before(live, started) if time not in under_way), None)


def _times_before(live: Live, started: datetime) -> Iterator[datetime]:
    """Latest first; none when ``started`` is no time of the schedule."""
    text = str(live.spec.get("schedule") or "").strip()
    try:
        schedule = cron.parse(_MACROS.get(text, text))
        zone = zones.zone(str(live.spec.get("timeZone") or "UTC"))
        time = cron_times.latest(schedule, zone, started)
        if time != started:
            return
        while time := cron_times.latest(schedule, zone, time - _MOMENT):
            yield time
    except (cron.CronProblem, zones.ZoneProblem, OverflowError, ValueError):
        return


def _made(live: Live) -> datetime | None:
    return _time(live.metadata.get("creationTimestamp"))


def _time(value: object) -> datetime | None:
    """RFC 3339 in UTC, as the API server writes it; None for anything else."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
        return found.astimezone(UTC) if found is not None and found.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


RULES: dict[str, Callable[[Live], Health]] = {"CronJob.batch": cron_job}
