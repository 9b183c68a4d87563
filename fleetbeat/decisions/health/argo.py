"""What the Argo projects' controllers say of their own kinds."""

from __future__ import annotations

from collections.abc import Callable

from fleetbeat.decisions.health.live import Live, mapping
from fleetbeat.model_results import Health, HealthStatus

_ROLLOUT: dict[str, HealthStatus] = {
    "Healthy": "Healthy",
    "Progressing": "Progressing",
    "Paused": "Suspended",  # a canary's pause: a person or an analysis decides, as for Argo CD
    "Degraded": "Degraded",
}
_WORKFLOW: dict[str, HealthStatus] = {
    "": "Progressing",
    "Pending": "Progressing",
    "Running": "Progressing",
    "Succeeded": "Healthy",
    "Failed": "Degraded",
    "Error": "Degraded",
}
_WORKS = ("", "Pending", "Running")
#: the controller notes here the generation of the Deployment that a Rollout's ``workloadRef`` names
_WORKLOAD_GENERATION = "rollout.argoproj.io/workload-generation"
_ANALYSIS: dict[str, HealthStatus] = {
    "Successful": "Healthy",
    "Failed": "Degraded",
    "Error": "Degraded",
    "Inconclusive": "Unknown",
}
_APPLICATION: dict[str, HealthStatus] = {
    "Healthy": "Healthy",
    "Progressing": "Progressing",
    "Degraded": "Degraded",
    "Suspended": "Suspended",
    "Missing": "Degraded",  # of what that application manages; it itself is there
    "Unknown": "Unknown",
}


def rollout(live: Live) -> Health:
    """Its phase, once it speaks of this generation. Rollouts write their observedGeneration as text."""
    if (invalid := live.condition("InvalidSpec")) and invalid.status == "True":
        return Health("Degraded", invalid.text)
    if str(live.status.get("observedGeneration", "")) != str(live.metadata.get("generation", "")):
        return Health("Progressing", "the controller has not observed this generation yet")
    if live.spec.get("workloadRef") and not _workload_observed(live):
        return Health("Progressing", "the controller has not observed this generation of its workload yet")
    if live.spec.get("paused") is True and not live.status.get("phase"):
        return Health("Suspended", "the rollout is paused")
    return _by_phase(live, _ROLLOUT)


def _workload_observed(live: Live) -> bool:
    wanted, seen = live.annotations.get(_WORKLOAD_GENERATION), live.status.get("workloadObservedGeneration")
    return str(wanted or "") == str(seen or "")


def workflow(live: Live) -> Health:
    """Healthy when it has succeeded, like a Job; a phase that nobody here knows is Unknown."""
    if live.spec.get("suspend") is True and str(live.status.get("phase") or "") in _WORKS:
        return Health("Suspended", "the workflow is suspended")
    return _by_phase(live, _WORKFLOW, "Unknown")


def cron_workflow(live: Live) -> Health:
    for type_ in ("SpecError", "SubmissionError"):
        if (broken := live.condition(type_)) and broken.status == "True":
            return Health("Degraded", broken.text)
    if live.spec.get("suspend") is True:
        return Health("Suspended", "the CronWorkflow is suspended")
    return Health("Healthy")


def analysis(live: Live) -> Health:
    return _by_phase(live, _ANALYSIS)


def application(live: Live) -> Health:
    """An application of Argo CD: what Argo CD has found out about its objects."""
    if mapping(live.status.get("operationState")).get("phase") == "Running":
        return Health("Progressing", "Argo CD is syncing it")
    found = mapping(live.status.get("health"))
    status, message = str(found.get("status") or ""), str(found.get("message") or "")
    if status not in _APPLICATION:
        return Health("Progressing", "Argo CD has not judged it yet")
    return Health(_APPLICATION[status], message or f"Argo CD says {status}")


def application_set(live: Live) -> Health:
    if (error := live.condition("ErrorOccurred")) and error.status == "True":
        return Health("Degraded", error.text)
    done, rolling = live.condition("ResourcesUpToDate"), live.condition("RolloutProgressing")
    if done and done.status == "False":
        return Health("Degraded", done.text)
    if rolling and rolling.status == "True":
        return Health("Progressing", rolling.text)
    if done is None:
        return Health("Progressing", "not reported as up to date yet")
    return Health("Healthy" if done.status == "True" else "Progressing", done.text)


def _by_phase(live: Live, phases: dict[str, HealthStatus], other: HealthStatus = "Progressing") -> Health:
    phase, message = str(live.status.get("phase") or ""), str(live.status.get("message") or "")
    return Health(phases.get(phase, other), message or (f"phase {phase}" if phase else "no phase reported yet"))


RULES: dict[str, Callable[[Live], Health]] = {
    "Rollout.argoproj.io": rollout,
    "Workflow.argoproj.io": workflow,
    "CronWorkflow.argoproj.io": cron_workflow,
    "AnalysisRun.argoproj.io": analysis,
    "Experiment.argoproj.io": analysis,
    "Application.argoproj.io": application,
    "ApplicationSet.argoproj.io": application_set,
    "AppProject.argoproj.io": lambda _live: Health("Healthy"),
}
