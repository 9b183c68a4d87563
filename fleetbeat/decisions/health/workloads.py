"""Deployment, StatefulSet, DaemonSet, ReplicaSet, ReplicationController, Pod, Job."""

from __future__ import annotations

from collections.abc import Callable

from fleetbeat.decisions.health.conditions import not_yet_seen
from fleetbeat.decisions.health.live import Live, mapping, mappings, whole
from fleetbeat.model_results import Health

_NO_DEADLINE = 2_147_483_647
#: kstatus: an unschedulable Pod is a failure after this many seconds
_UNSCHEDULABLE_GRACE = 15.0
#: Argo CD's key for a Pod that runs on although it is not meant to be restarted
_IGNORE_RESTART_POLICY = "argocd.argoproj.io/ignore-restart-policy"
#: a hook is done when it has ended, whatever that annotation says
_HOOKS = {"argocd.argoproj.io/hook", "helm.sh/hook"}


def _first_short(*checks: tuple[int, int, str]) -> Health | None:
    """Progressing for the first check (have, want, what) with fewer than wanted."""
    for have, want, what in checks:
        if have < want:
            return Health("Progressing", f"{have} of {want} {what}")
    return None


def deployment(live: Live) -> Health:
    """kstatus' checks in its order; paused is Argo CD's Suspended (field case h10)."""
    progress = live.condition("Progressing")
    if progress and progress.reason == "ProgressDeadlineExceeded":
        return Health("Degraded", progress.text)
    if live.spec.get("paused") is True:
        return Health("Suspended", "the rollout is paused")
    if unseen := not_yet_seen(live):
        return unseen
    want, total, updated = live.wanted("replicas", 1), live.count("replicas"), live.count("updatedReplicas")
    failure = live.condition("ReplicaFailure")
    if failure and failure.status == "True" and live.count("availableReplicas") < want:
        return Health("Progressing", failure.text)
    if short := _first_short((total, want, "replicas exist"), (updated, want, "replicas are of the new version")):
        return short
    if total > updated:
        return Health("Progressing", f"{total - updated} replicas of the old version are still there")
    if short := _first_short(
        (live.count("availableReplicas"), updated, "replicas are available"),
        (live.count("readyReplicas"), want, "replicas are ready"),
    ):
        return short
    deadline = live.spec.get("progressDeadlineSeconds")
    if deadline not in (None, _NO_DEADLINE) and not (
        progress and progress.status == "True" and progress.reason == "NewReplicaSetAvailable"
    ):
        return Health("Progressing", progress.text if progress else "the rollout has not been reported as complete")
    available = live.condition("Available")
    if available is None or available.status != "True":
        return Health("Progressing", available.text if available else "not reported as available")
    return Health("Healthy", f"{want} replicas are ready")


def stateful_set(live: Live) -> Health:
    if unseen := not_yet_seen(live):
        return unseen
    want, total = live.wanted("replicas", 1), live.count("replicas")
    if short := _first_short(
        (total, want, "replicas exist"), (live.count("readyReplicas"), want, "replicas are ready")
    ):
        return short
    if total > want:
        return Health("Progressing", f"{total - want} surplus replicas are still there")
    strategy = mapping(live.spec.get("updateStrategy"))
    if strategy.get("type") == "OnDelete":
        return Health("Healthy", f"{want} replicas are ready (updateStrategy OnDelete)")
    partition = whole(mapping(strategy.get("rollingUpdate")).get("partition"), 0)
    if short := _first_short((live.count("updatedReplicas"), want - partition, "replicas are of the new version")):
        return short
    if partition <= 0 and live.status.get("currentRevision") != live.status.get("updateRevision"):
        return Health("Progressing", "the rollout has not been reported as complete")
    return Health("Healthy", f"{want} replicas are ready")


def daemon_set(live: Live) -> Health:
    """Wanting no Pod at all is Healthy, but only once the controller has said so (field case h6)."""
    if unseen := not_yet_seen(live):
        return unseen
    want = live.count("desiredNumberScheduled")
    on_delete = mapping(live.spec.get("updateStrategy")).get("type") == "OnDelete"
    if short := _first_short(
        (live.count("currentNumberScheduled"), want, "Pods are scheduled"),
        (want if on_delete else live.count("updatedNumberScheduled"), want, "Pods are of the new version"),
        (live.count("numberAvailable"), want, "Pods are available"),
        (live.count("numberReady"), want, "Pods are ready"),
    ):
        return short
    return Health("Healthy", f"{want} Pods are ready")


def replica_set(live: Live) -> Health:
    """Also ReplicationController."""
    if (failure := live.condition("ReplicaFailure")) and failure.status == "True":
        return Health("Degraded", failure.text)
    if unseen := not_yet_seen(live):
        return unseen
    want, total = live.wanted("replicas", 1), live.count("replicas")
    if short := _first_short(
        (live.count("fullyLabeledReplicas"), want, "replicas carry all labels"),
        (live.count("availableReplicas"), want, "replicas are available"),
        (live.count("readyReplicas"), want, "replicas are ready"),
    ):
        return short
    if total > want:
        return Health("Progressing", f"{total - want} surplus replicas are still there")
    return Health("Healthy", f"{want} replicas are ready")


def pod(live: Live) -> Health:
    """Argo CD's rule, and kstatus' for Pods that cannot be scheduled."""
    phase, message = live.status.get("phase"), str(live.status.get("message") or live.status.get("reason") or "")
    if phase == "Succeeded":
        return Health("Healthy", message or "finished")
    if phase == "Failed":
        return Health("Degraded", message or _exit_text(live) or "the Pod failed")
    if phase == "Unknown":
        return Health("Unknown", message or "its node does not answer")
    keeps_running = live.spec.get("restartPolicy", "Always") == "Always" or (
        live.annotations.get(_IGNORE_RESTART_POLICY) == "true" and not live.annotations.keys() & _HOOKS
    )
    if stuck := _stuck_container(live):
        return Health("Degraded" if keeps_running or phase != "Running" else "Progressing", stuck)
    scheduled = live.condition("PodScheduled")
    if scheduled and scheduled.status == "False" and scheduled.reason == "Unschedulable":
        late = live.lasts(scheduled.since, _UNSCHEDULABLE_GRACE)
        return Health("Degraded" if late else "Progressing", scheduled.text)
    if phase != "Running":
        return Health("Progressing", message or f"phase {phase or 'not reported yet'}")
    if not keeps_running:
        return Health("Progressing", "running; it is healthy when it has finished")
    if live.is_true("Ready"):
        return Health("Healthy", "ready")
    if exited := _exit_text(live) or _ended_before(live):
        return Health("Degraded", exited)
    ready = live.condition("Ready")
    return Health("Progressing", ready.text if ready else "not ready")


def _stuck_container(live: Live) -> str:
    """Why a container does not start, by the reasons the kubelet gives when it keeps trying."""
    for field in ("initContainerStatuses", "containerStatuses"):
        for container in mappings(live.status.get(field)):
            waiting = mapping(mapping(container.get("state")).get("waiting"))
            reason = str(waiting.get("reason") or "")
            if reason.startswith("Err") or reason.endswith(("Error", "BackOff", "InvalidImageName")):
                parts = (f"container {container.get('name')}", reason, str(waiting.get("message") or ""))
                return ": ".join(part for part in parts if part)
    return ""


def _exit_text(live: Live) -> str:
    for container in mappings(live.status.get("containerStatuses")):
        for moment in ("state", "lastState"):
            ended = mapping(mapping(container.get(moment)).get("terminated"))
            if ended and ended.get("exitCode") != 0:
                reason = ended.get("reason") or "exited"
                return f"container {container.get('name')}: {reason} with exit code {ended.get('exitCode')}"
    return ""


def _ended_before(live: Live) -> str:
    """Of a Pod that is not ready: a container that has ended and was started again, with whichever exit code."""
    for container in mappings(live.status.get("containerStatuses")):
        if ended := mapping(mapping(container.get("lastState")).get("terminated")):
            return f"container {container.get('name')}: ended before with exit code {ended.get('exitCode', 0)}"
    return ""


def job(live: Live) -> Health:
    """Healthy when finished. kstatus is content with a started Job; a wave that runs a migration is not (h2)."""
    if (failed := live.condition("Failed")) and failed.status == "True":
        return Health("Degraded", failed.text)
    if live.is_true("Complete"):
        return Health("Healthy", "finished")
    if live.spec.get("suspend") is True:
        return Health("Suspended", "the Job is suspended")
    return Health("Progressing", f"{live.count('active')} Pods running, {live.count('failed')} failed")


RULES: dict[str, Callable[[Live], Health]] = {
    "Deployment.apps": deployment,
    "StatefulSet.apps": stateful_set,
    "DaemonSet.apps": daemon_set,
    "ReplicaSet.apps": replica_set,
    "ReplicationController": replica_set,
    "Pod": pod,
    "Job.batch": job,
}
