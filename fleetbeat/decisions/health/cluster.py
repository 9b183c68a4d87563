"""What the API itself is made of (CRD, APIService, Namespace), policies (HPA, PDB), and kinds that are just data."""

from __future__ import annotations

import json
from collections.abc import Callable

from fleetbeat.decisions.health.conditions import not_yet_seen
from fleetbeat.decisions.health.live import Live, read_conditions
from fleetbeat.model_results import Health

#: Seconds for which metrics may be missing: Pods of the same sync have to start, and be measured, first.
_METRICS_GRACE = 120.0
#: Seconds for which an aggregated API may be unreachable: its Pods are often in the same wave.
_API_GRACE = 60.0

_HPA_ERRORS = ("FailedGet", "FailedUpdate", "FailedRescale", "FailedCompute", "Invalid", "Ambiguous")


def definition(live: Live) -> Health:
    names, established = live.condition("NamesAccepted"), live.condition("Established")
    if names and names.status == "False":
        return Health("Degraded", names.text)
    if live.is_true("Terminating"):
        return Health("Progressing", "being deleted")
    if (violated := live.condition("NonStructuralSchema")) and violated.status == "True":
        return Health("Degraded", violated.text)  # served, but without pruning, defaulting and validation
    if established is None:
        return Health("Progressing", "not established yet")
    if established.status == "True":
        return Health("Healthy", "established")
    return Health("Progressing" if established.reason == "Installing" else "Degraded", established.text)


def namespace(live: Live) -> Health:
    phase = live.status.get("phase")
    if phase == "Active":
        return Health("Healthy", "Active")
    return Health("Progressing", "being deleted" if phase == "Terminating" else "not Active yet")


def api_service(live: Live) -> Health:
    available = live.condition("Available")
    if available is None:
        return Health("Progressing", "not reported as available yet")
    if available.status == "True":
        return Health("Healthy", available.text)
    return Health("Degraded" if live.lasts(available.since, _API_GRACE) else "Progressing", available.text)


def autoscaler(live: Live) -> Health:
    """HorizontalPodAutoscaler: limits and a target scaled to nothing are no faults, missing metrics are (h8)."""
    conditions = live.conditions
    if not conditions:
        # autoscaling/v1 has them as JSON in an annotation
        text = live.annotations.get("autoscaling.alpha.kubernetes.io/conditions")
        try:
            conditions = read_conditions(json.loads(text)) if isinstance(text, str) else ()
        except (ValueError, RecursionError):
            conditions = ()
    if not conditions:
        return Health("Progressing", "no conditions reported yet")
    for condition in conditions:
        if condition.status != "True" and condition.reason.startswith(_HPA_ERRORS):
            late = live.lasts(condition.since, _METRICS_GRACE)
            return Health("Degraded" if late else "Progressing", condition.text)
    disabled = any(c.type == "ScalingActive" and c.reason == "ScalingDisabled" for c in conditions)
    if disabled or any(c.type == "AbleToScale" and c.status == "True" for c in conditions):
        return Health("Healthy", "scaling is disabled: the target has no replicas" if disabled else "able to scale")
    return Health("Progressing", conditions[0].text)


def disruption_budget(live: Live) -> Health:
    """Too few Pods is what a budget is for. Any other no of its controller means that it protects nothing it knows of.

    The controller does not write observedGeneration when it has failed, so that comes second.
    """
    for condition in live.conditions:
        if condition.status == "False" and condition.reason != "InsufficientPods":
            return Health("Degraded", condition.text)
    if unseen := not_yet_seen(live):
        return unseen
    return Health("Healthy") if live.conditions else Health("Progressing", "no conditions reported yet")


def data(_live: Live) -> Health:
    """Nobody reports on it: it is there, so it is fine."""
    return Health("Healthy")


_DATA = (
    "ConfigMap",
    "Secret",
    "ServiceAccount",
    "LimitRange",
    "ResourceQuota",
    "Endpoints",
    "Event",
    "PodTemplate",
    "EndpointSlice.discovery.k8s.io",
    "Lease.coordination.k8s.io",
    "ControllerRevision.apps",
    "IngressClass.networking.k8s.io",
    "NetworkPolicy.networking.k8s.io",
    "PriorityClass.scheduling.k8s.io",
    "RuntimeClass.node.k8s.io",
    "StorageClass.storage.k8s.io",
    "CSIDriver.storage.k8s.io",
    "ClusterRole.rbac.authorization.k8s.io",
    "ClusterRoleBinding.rbac.authorization.k8s.io",
    "Role.rbac.authorization.k8s.io",
    "RoleBinding.rbac.authorization.k8s.io",
    "MutatingWebhookConfiguration.admissionregistration.k8s.io",
    "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
    "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
)

RULES: dict[str, Callable[[Live], Health]] = {
    "CustomResourceDefinition.apiextensions.k8s.io": definition,
    "Namespace": namespace,
    "APIService.apiregistration.k8s.io": api_service,
    "HorizontalPodAutoscaler.autoscaling": autoscaler,
    "PodDisruptionBudget.policy": disruption_budget,
    **dict.fromkeys(_DATA, data),
}
