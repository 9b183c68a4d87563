"""The kinds Kubernetes itself serves, and what to make of others, for looking at a bundle without a cluster.

The table is the discovery of kube-apiserver v1.36.1 with ``--runtime-config=api/all=true``: alpha and beta versions are
in it although a cluster serves few of them unasked. Kinds behind feature gates are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetbeat.decisions import manifest_body
from fleetbeat.decisions.manifests import RawManifest, bundle_kinds
from fleetbeat.decisions.problems import Problem, nearest
from fleetbeat.model import ApiResource, ApiSet

VERSION = "v1.36.1"

#: apiVersion, scope, kinds; versions of a group in the server's order of preference.
_TABLE = """
v1 namespaced Binding ConfigMap Endpoints Event LimitRange PersistentVolumeClaim Pod PodTemplate ReplicationController
v1 namespaced ResourceQuota Secret Service ServiceAccount
v1 cluster ComponentStatus Namespace Node PersistentVolume
admissionregistration.k8s.io/v1 cluster MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1 cluster MutatingWebhookConfiguration ValidatingWebhookConfiguration
admissionregistration.k8s.io/v1 cluster ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1beta1 cluster MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
admissionregistration.k8s.io/v1alpha1 cluster MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
apiextensions.k8s.io/v1 cluster CustomResourceDefinition
apiregistration.k8s.io/v1 cluster APIService
apps/v1 namespaced ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet
authentication.k8s.io/v1 cluster SelfSubjectReview TokenReview
authorization.k8s.io/v1 namespaced LocalSubjectAccessReview
authorization.k8s.io/v1 cluster SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
autoscaling/v2 namespaced HorizontalPodAutoscaler
autoscaling/v1 namespaced HorizontalPodAutoscaler
batch/v1 namespaced CronJob Job
certificates.k8s.io/v1 cluster CertificateSigningRequest
coordination.k8s.io/v1 namespaced Lease
coordination.k8s.io/v1beta1 namespaced LeaseCandidate
coordination.k8s.io/v1alpha2 namespaced LeaseCandidate
discovery.k8s.io/v1 namespaced EndpointSlice
events.k8s.io/v1 namespaced Event
flowcontrol.apiserver.k8s.io/v1 cluster FlowSchema PriorityLevelConfiguration
internal.apiserver.k8s.io/v1alpha1 cluster StorageVersion
networking.k8s.io/v1 namespaced Ingress NetworkPolicy
networking.k8s.io/v1 cluster IPAddress IngressClass ServiceCIDR
networking.k8s.io/v1beta1 cluster IPAddress ServiceCIDR
node.k8s.io/v1 cluster RuntimeClass
policy/v1 namespaced PodDisruptionBudget
rbac.authorization.k8s.io/v1 namespaced Role RoleBinding
rbac.authorization.k8s.io/v1 cluster ClusterRole ClusterRoleBinding
resource.k8s.io/v1 namespaced ResourceClaim ResourceClaimTemplate
resource.k8s.io/v1 cluster DeviceClass ResourceSlice
resource.k8s.io/v1beta2 namespaced ResourceClaim ResourceClaimTemplate
resource.k8s.io/v1beta2 cluster DeviceClass DeviceTaintRule ResourceSlice
resource.k8s.io/v1beta1 namespaced ResourceClaim ResourceClaimTemplate
resource.k8s.io/v1beta1 cluster DeviceClass ResourceSlice
resource.k8s.io/v1alpha3 cluster DeviceTaintRule ResourcePoolStatusRequest
scheduling.k8s.io/v1 cluster PriorityClass
storage.k8s.io/v1 namespaced CSIStorageCapacity
storage.k8s.io/v1 cluster CSIDriver CSINode StorageClass VolumeAttachment VolumeAttributesClass
storage.k8s.io/v1beta1 cluster VolumeAttributesClass
"""


#: As kubectl takes them.
_SHORT = {
    "CertificateSigningRequest": "csr",
    "ComponentStatus": "cs",
    "ConfigMap": "cm",
    "CronJob": "cj",
    "CustomResourceDefinition": "crd crds",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "Endpoints": "ep",
    "Event": "ev",
    "HorizontalPodAutoscaler": "hpa",
    "Ingress": "ing",
    "LimitRange": "limits",
    "Namespace": "ns",
    "NetworkPolicy": "netpol",
    "Node": "no",
    "PersistentVolume": "pv",
    "PersistentVolumeClaim": "pvc",
    "Pod": "po",
    "PodDisruptionBudget": "pdb",
    "PriorityClass": "pc",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "ResourceQuota": "quota",
    "Service": "svc",
    "ServiceAccount": "sa",
    "StatefulSet": "sts",
    "StorageClass": "sc",
    "VolumeAttributesClass": "vac",
}


def _spoken(kind: str) -> tuple[str, ...]:
    """``cm`` and ``configmaps``: what people say for a kind in place of its name."""
    name = kind.lower()
    if name == "endpoints":
        plural = name
    elif name.endswith("y"):
        plural = f"{name[:-1]}ies"
    else:
        plural = f"{name}es" if name.endswith("s") else f"{name}s"
    return (*_SHORT.get(kind, "").split(), plural)


def _resources() -> tuple[ApiResource, ...]:
    found = []
    preferred: dict[str, str] = {}
    for line in _TABLE.strip().splitlines():
        api_version, scope, *kinds = line.split()
        group, _, version = api_version.rpartition("/")
        first = preferred.setdefault(group, version) == version
        # No plural for URLs: whoever has one to ask asks the cluster for its kinds.
        found += [
            ApiResource(group, version, kind, "", scope == "namespaced", first, short_names=_spoken(kind))
            for kind in kinds
        ]
    return tuple(found)


BUILTIN = ApiSet(_resources(), complete=True, version=VERSION)
_GROUPS = frozenset(resource.group for resource in BUILTIN.resources)


@dataclass(frozen=True)
class Assumed:
    """What a cluster is taken to serve for a bundle."""

    apis: ApiSet
    known: tuple[RawManifest, ...]  #: the documents without those that have problems
    problems: tuple[Problem, ...]  #: kinds that no cluster serves
    notes: tuple[str, ...]  #: what was taken for granted, full sentences


def assume(raw: Sequence[RawManifest]) -> Assumed:
    """Kubernetes' own kinds, and every custom kind the bundle uses without defining it, taken for namespaced.

    A kind in a group of Kubernetes that is not in the table is a mistake, unless its version is alpha or beta: older
    and newer clusters serve other ones of those.
    """
    ours = {(kind.group, kind.kind) for kind in bundle_kinds(raw)}
    known: list[RawManifest] = []
    problems: list[Problem] = []
    assumed: dict[ApiResource, str] = {}
    for document in raw:
        api_version, kind = document.body["apiVersion"], document.body["kind"]
        group, _, version = api_version.rpartition("/")
        if BUILTIN.find(group, kind, version) or (group, kind) in ours:
            known.append(document)
            continue
        builtin = BUILTIN.find(group, kind)
        passing = group in _GROUPS and ("alpha" in version or "beta" in version)
        if (group in _GROUPS or "." not in group) and not passing:
            problems.append(
                Problem.at(
                    document.origin, _no_such(group, version, kind), subject=manifest_body.label_of(document.body)
                )
            )
            continue
        known.append(document)
        scope = builtin.namespaced if builtin else True
        text = (
            f"kind {kind} in {api_version} is not served by Kubernetes {VERSION} as it comes; clusters differ in this"
            if group in _GROUPS
            else f"kind {kind} in {api_version} is not defined by the bundle; taken for a namespaced kind that is there"
        )
        assumed.setdefault(ApiResource(group, version, kind, "", scope), text)
    apis = ApiSet((*BUILTIN.resources, *assumed), complete=True, version=VERSION)
    return Assumed(apis, tuple(known), tuple(problems), tuple(assumed.values()))


def _no_such(group: str, version: str, kind: str) -> str:
    written = f"{group}/{version}" if group else version
    if versions := BUILTIN.versions(group, kind):
        served = ", ".join(f"{group}/{v}" if group else v for v in versions)
        return f"kind {kind} is not served in version {written}, only in {served} (Kubernetes {VERSION})"
    elsewhere = [r for r in BUILTIN.resources if r.kind == kind and r.preferred]
    if elsewhere:
        home = elsewhere[0]
        hint = f" Did you mean apiVersion: {home.group}/{home.version}?" if home.group else " Did you mean v1?"
    else:
        kinds = {r.kind for r in BUILTIN.resources if r.group == group} or {r.kind for r in BUILTIN.resources}
        near = nearest(kind, kinds)
        hint = f" Did you mean {near}?" if near else ""
    return f"there is no kind {kind} in {written}.{hint}"
