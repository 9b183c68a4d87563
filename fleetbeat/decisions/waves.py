"""In which order objects are written and deleted.

Order = wave, then what the wave cannot do without (prerequisites), then tiers of kinds, then kind, then name.

- A *stage* is what must be healthy before the next one begins. Namespaces and CustomResourceDefinitions are a stage of
  their own, pulled forward into the earliest wave with an object that needs them: bundles without any wave annotation
  then work at the first sync (field case c2).
- A *tier* is what is written in parallel; tiers follow each other as soon as the writes are answered, without waiting
  for health. A tier boundary stands only where the API server itself, or a controller that deletes what it does not
  like, needs the earlier object (reasons below). Fewer boundaries mean more requests in flight.

Kinds are matched with their API group: by kind alone, the ``Service`` of serving.knative.dev would pass for a Service.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId

SYNC_WAVE = "argocd.argoproj.io/sync-wave"

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

_PREREQUISITES = ("CustomResourceDefinition.apiextensions.k8s.io", "Namespace")
_TIER = {kind: number for number, kinds in enumerate(_TIERS) for kind in kinds}
_RANK = {kind: number for number, kind in enumerate((*_PREREQUISITES, *(k for tier in _TIERS for k in tier)))}

#: Go's strconv.Atoi, which is how Argo CD reads the annotation
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")

Part = Literal["prerequisites", "objects"]


@dataclass(frozen=True)
class Stage:
    """One step of a sync: everything in it must be healthy before the next stage begins."""

    wave: int
    part: Part
    tiers: tuple[tuple[ObjectId, ...], ...]  #: none is empty

    @property
    def ids(self) -> tuple[ObjectId, ...]:
        return tuple(obj for tier in self.tiers for obj in tier)


def wave_of(manifest: Manifest) -> int:
    """The wave the manifest asks for, 0 when it does not.

    Raises ManifestError for a value that is not a whole number: a guess would change the order in silence.
    """
    text = manifest.annotations.get(SYNC_WAVE, "0")
    if not _is_wave(text):
        raise ManifestError(
            [
                f'{manifest.origin}: {manifest.id}: annotation {SYNC_WAVE} must be a whole number in quotes like "-5", '
                f"not {text!r}"
            ]
        )
    return int(text)


def live_wave(annotations: Mapping[str, str]) -> int:
    """The wave a live object names, for ``prune_order``; 0 when somebody made it unreadable since it was applied."""
    text = annotations.get(SYNC_WAVE, "0")
    return int(text) if _is_wave(text) else 0


def _is_wave(text: object) -> bool:
    return isinstance(text, str) and _INTEGER.fullmatch(text) is not None


def plan(manifests: Sequence[Manifest]) -> tuple[Stage, ...]:
    """All objects in stages. The result does not depend on the order of ``manifests``.

    Raises ManifestError with one problem per manifest whose wave cannot be read.
    """
    waves = _own_waves(manifests)
    needed = _needed_waves(manifests, waves)
    stages: dict[tuple[int, Part], list[ObjectId]] = defaultdict(list)
    for manifest in manifests:
        obj, wave = manifest.id, waves[manifest.id]
        if obj.group_kind in _PREREQUISITES:
            stages[min(wave, needed.get(_provides(manifest), wave)), "prerequisites"].append(obj)
        else:
            stages[wave, "objects"].append(obj)
    in_order = sorted(stages, key=lambda key: (key[0], key[1] == "objects"))
    return tuple(Stage(wave, part, _tiers(stages[wave, part])) for wave, part in in_order)


def prune_order(objects: Iterable[tuple[ObjectId, int]]) -> tuple[tuple[ObjectId, ...], ...]:
    """Tiers of deletion for objects and the waves their live copies name: the way back through ``plan``.

    A Namespace and a CustomResourceDefinition come after everything that lives by them, whatever the waves say. Which
    kind a definition defines cannot be read off its name, so it waits for every object of its group.
    """
    waves = dict(objects)
    contents: dict[tuple[str, ...], int] = {}
    for obj, wave in waves.items():
        if obj.group_kind not in _PREREQUISITES:
            for need in (("Namespace", obj.namespace), ("group", obj.group)):
                contents[need] = min(wave, contents.get(need, wave))
    steps: dict[tuple[int, int], list[ObjectId]] = defaultdict(list)
    for obj, wave in waves.items():
        if obj.group_kind == "Namespace":
            steps[-min(wave, contents.get(("Namespace", obj.name), wave)), 2].append(obj)
        elif obj.group_kind in _PREREQUISITES:
            group = obj.name.partition(".")[2]
            steps[-min(wave, contents.get(("group", group), wave)), 1].append(obj)
        else:
            steps[-wave, -_tier(obj)].append(obj)
    return tuple(tuple(sorted(steps[step], key=_rank, reverse=True)) for step in sorted(steps))


def render(stages: Iterable[Stage]) -> str:
    """The plan as text: a heading per stage, a line per object; same number in a stage = written in parallel."""
    return "\n".join(_lines(stages))


def _lines(stages: Iterable[Stage]) -> Iterator[str]:
    for stage in stages:
        yield f"wave {stage.wave}, {stage.part}"
        for number, tier in enumerate(stage.tiers, 1):
            yield from (f"  {number}  {obj}" for obj in tier)


def _own_waves(manifests: Iterable[Manifest]) -> dict[ObjectId, int]:
    waves: dict[ObjectId, int] = {}
    problems: list[str] = []
    for manifest in manifests:
        try:
            waves[manifest.id] = wave_of(manifest)
        except ManifestError as error:
            problems += error.problems
    if problems:
        raise ManifestError(sorted(problems))
    return waves


def _needed_waves(manifests: Iterable[Manifest], waves: dict[ObjectId, int]) -> dict[tuple[str, ...], int]:
    """The earliest wave in which a namespace is lived in, or a kind is used."""
    needed: dict[tuple[str, ...], int] = {}
    for manifest in manifests:
        obj, wave = manifest.id, waves[manifest.id]
        for need in (("Namespace", obj.namespace), ("kind", obj.group, obj.kind)):
            needed[need] = min(wave, needed.get(need, wave))
    return needed


def _provides(manifest: Manifest) -> tuple[str, ...]:
    """What a prerequisite makes possible, as a key of ``_needed_waves``."""
    if manifest.id.kind == "Namespace":
        return ("Namespace", manifest.id.name)
    spec = manifest.body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    names = spec.get("names")
    return ("kind", str(spec.get("group", "")), str(names.get("kind", "")) if isinstance(names, dict) else "")


def _tiers(ids: Iterable[ObjectId]) -> tuple[tuple[ObjectId, ...], ...]:
    tiers: dict[int, list[ObjectId]] = defaultdict(list)
    for obj in sorted(ids, key=_rank):
        tiers[_tier(obj)].append(obj)
    return tuple(tuple(tiers[number]) for number in sorted(tiers))


def _tier(obj: ObjectId) -> int:
    # Prerequisites are never mixed with others and need nothing of each other: one tier.
    return _TIER.get(obj.group_kind, _TIER["*"])


def _rank(obj: ObjectId) -> tuple[int, ObjectId]:
    return (_RANK.get(obj.group_kind, _RANK["*"]), obj)
