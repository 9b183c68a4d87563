"""Which kinds are written before which inside one stage of a sync.

A tier boundary stands only where the API server itself, or a controller that deletes what it does not like, needs the
earlier object (reasons below). Fewer boundaries mean more requests in flight.

Kinds are matched with their API group: by kind alone, the ``Service`` of serving.knative.dev would pass for a Service.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fleetbeat.model import ObjectId

#: Tiers of kinds, each in the order its requests begin. The order merges Flux's and Argo CD's lists: both put access,
#: quotas and configuration before Service and Service before workloads, Flux puts admission webhooks last, Argo CD has
#: network policies and disruption budgets first, so that no Pod of the bundle ever runs without them. "*" = any other.
_TIERS: tuple[tuple[str, ...], ...] = (
    # What admission looks up or fills in from while later objects are created: classes (an unknown PriorityClass or
    # RuntimeClass rejects the Pod, the default StorageClass is written into the claim), quotas and limits, service
    # accounts (a Pod without its account is rejected, a token Secret without it is deleted), and roles, which a
    # binding made by anyone short of cluster-admin must find.
    (
        "PriorityClass.scheduling.k8s.io",
        "RuntimeClass.node.k8s.io",
        "StorageClass.storage.k8s.io",
        "VolumeSnapshotClass.snapshot.storage.k8s.io",
        "IngressClass.networking.k8s.io",
        "GatewayClass.gateway.networking.k8s.io",
        "NetworkPolicy.networking.k8s.io",
        "ResourceQuota",
        "LimitRange",
        "PodDisruptionBudget.policy",
        "ServiceAccount",
        "ClusterRole.rbac.authorization.k8s.io",
        "Role.rbac.authorization.k8s.io",
    ),
    # What Pods mount, read or are allowed by.
    (
        "ClusterRoleBinding.rbac.authorization.k8s.io",
        "RoleBinding.rbac.authorization.k8s.io",
        "ConfigMap",
        "Secret",
        "PersistentVolume",
        "PersistentVolumeClaim",
    ),
    # Services begin first: Pods get the addresses of the Services that exist when they start.
    (
        "Service",
        "DaemonSet.apps",
        "Pod",
        "ReplicationController",
        "ReplicaSet.apps",
        "Deployment.apps",
        "StatefulSet.apps",
        "HorizontalPodAutoscaler.autoscaling",
        "Job.batch",
        "CronJob.batch",
        "Ingress.networking.k8s.io",
        "*",
    ),
    # What puts itself in the path of other requests: it would judge, or block, the rest of its own bundle.
    (
        "ValidatingAdmissionPolicy.admissionregistration.k8s.io",
        "ValidatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        "MutatingAdmissionPolicy.admissionregistration.k8s.io",
        "MutatingAdmissionPolicyBinding.admissionregistration.k8s.io",
        "MutatingWebhookConfiguration.admissionregistration.k8s.io",
        "ValidatingWebhookConfiguration.admissionregistration.k8s.io",
        "APIService.apiregistration.k8s.io",
    ),
)

#: What a cluster must have before it accepts what lives in it, or is of its kind.
PREREQUISITES = ("CustomResourceDefinition.apiextensions.k8s.io", "Namespace")
_TIER = {kind: number for number, kinds in enumerate(_TIERS) for kind in kinds}
_RANK = {kind: number for number, kind in enumerate((*PREREQUISITES, *(k for tier in _TIERS for k in tier)))}


def tiers(ids: Iterable[ObjectId]) -> tuple[tuple[ObjectId, ...], ...]:
    """The objects by tier, each tier in the order its requests begin; none is empty."""
    found: dict[int, list[ObjectId]] = defaultdict(list)
    for obj in sorted(ids, key=rank_of):
        found[tier_of(obj)].append(obj)
    return tuple(tuple(found[number]) for number in sorted(found))


def tier_of(obj: ObjectId) -> int:
    """Number of the object's tier, from 0. Prerequisites, never mixed with others, need nothing of each other."""
    return _TIER.get(obj.group_kind, _TIER["*"])


def rank_of(obj: ObjectId) -> tuple[int, ObjectId]:
    """Sorts objects by kind, then by name."""
    return (_RANK.get(obj.group_kind, _RANK["*"]), obj)
