"""Whose object is it, and who changed it.

Ownership is read off the marks that deployment tools leave on their objects; authorship of a change off
``metadata.managedFields``, where the API server records which client last wrote each field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions.inventory import FIELD_MANAGER, HOOK_OF, PART_OF
from fleetbeat.model import Body
from fleetbeat.model_results import Manager

# ── owner ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Ours:
    """Carries our ApplySet label."""


@dataclass(frozen=True)
class Unowned:
    """No tool has marked it: made by hand, by ``kubectl apply`` or by a controller. It may be adopted."""


@dataclass(frozen=True)
class Foreign:
    """Another tool, or another application of this one, claims the object. It is refused, never shared."""

    tool: str  #: "Argo CD", "Flux Kustomization", "Fleetbeat", …
    name: str  #: the owner in that tool's own words
    mark: str  #: the label or annotation that says so, ``key: value``

    def __str__(self) -> str:
        return f"{self.tool} {self.name} ({self.mark})"


Ownership = Ours | Unowned | Foreign
_TRACKING = "argocd.argoproj.io/tracking-id"
_INSTALLATION = "argocd.argoproj.io/installation-id"
_Marks = Mapping[str, str]


def owner_of(live: Body, applyset: str, known: Mapping[str, str] | None = None) -> Ownership:
    """The owner a live object is marked with. Our own mark beats others: what was adopted may still carry old ones.

    Args:
        live: the object as the API server has it.
        applyset: our application's ApplySet id.
        known: ApplySet id → application, to name another application of ours instead of its id.
    """
    meta: dict[str, Any] = live.get("metadata") or {}
    labels: _Marks = meta.get("labels") or {}
    annotations: _Marks = meta.get("annotations") or {}
    if member := labels.get(PART_OF):
        return Ours() if member == applyset else _application(PART_OF, member, known or {})
    if runs_for := labels.get(HOOK_OF):
        # A hook of ours may become a member when a newer bundle has it as one.
        return Unowned() if runs_for == applyset else _application(HOOK_OF, runs_for, known or {})
    for find in _FOREIGN:
        if owner := find(live, labels, annotations):
            return owner
    return Unowned()


def _application(label: str, applyset: str, known: Mapping[str, str]) -> Foreign:
    name, mark = known.get(applyset), f"{label}: {applyset}"
    return Foreign("Fleetbeat application", name, mark) if name else Foreign("ApplySet", applyset, mark)


def _argocd_tracking(live: Body, _labels: _Marks, annotations: _Marks) -> Foreign | None:
    """``<app>:<group>/<Kind>:<namespace>/<name>``. Counts only when it names the very object it stands on: operators
    copy annotations to what they make. Argo CD writes its destination namespace on cluster-scoped objects."""
    key = _TRACKING
    app, _, rest = annotations.get(key, "").partition(":")
    kind_part, _, name_part = rest.partition(":")  # names of RBAC objects may have colons of their own
    namespace, _, name = name_part.partition("/")
    meta = live.get("metadata") or {}
    group = str(live.get("apiVersion", "")).rpartition("/")[0]
    own_namespace = meta.get("namespace", "")
    if (
        not app
        or (kind_part, name) != (f"{group}/{live.get('kind')}", meta.get("name"))
        or own_namespace not in ("", namespace)
    ):
        return None
    installation = annotations.get(_INSTALLATION)
    name = f"{app} of installation {installation}" if installation else app
    return Foreign("Argo CD application", name, f"{key}: {annotations[key]}")


def _argocd_installation(_live: Body, _labels: _Marks, annotations: _Marks) -> Foreign | None:
    """Written beside the tracking id, by Argo CDs that share a cluster. Beside one that names another object it was
    copied along; alone it still says that an Argo CD has the object."""
    if not (installation := annotations.get(_INSTALLATION)) or annotations.get(_TRACKING):
        return None
    return Foreign("Argo CD application", f"of installation {installation}", f"{_INSTALLATION}: {installation}")


def _label(tool: str, key: str) -> Callable[[Body, _Marks, _Marks], Foreign | None]:
    return lambda _live, labels, _annotations: (
        Foreign(tool, labels[key], f"{key}: {labels[key]}") if labels.get(key) else None
    )


def _annotation(tool: str, key: str) -> Callable[[Body, _Marks, _Marks], Foreign | None]:
    return lambda _live, _labels, annotations: (
        Foreign(tool, annotations[key], f"{key}: {annotations[key]}") if annotations.get(key) else None
    )


def _flux(tool: str, prefix: str) -> Callable[[Body, _Marks, _Marks], Foreign | None]:
    def find(_live: Body, labels: _Marks, _annotations: _Marks) -> Foreign | None:
        if not (name := labels.get(f"{prefix}/name")):
            return None
        namespace = labels.get(f"{prefix}/namespace", "")
        return Foreign(tool, f"{namespace}/{name}" if namespace else name, f"{prefix}/name: {name}")

    return find


def _helm(_live: Body, labels: _Marks, annotations: _Marks) -> Foreign | None:
    """Helm itself asks for both: charts set the label by hand, and templates copy annotations."""
    key = "meta.helm.sh/release-name"
    if not (name := annotations.get(key)) or labels.get("app.kubernetes.io/managed-by") != "Helm":
        return None
    namespace = annotations.get("meta.helm.sh/release-namespace", "")
    return Foreign("Helm release", f"{namespace}/{name}" if namespace else name, f"{key}: {name}")


#: ``app.kubernetes.io/instance`` is no mark: charts set it everywhere. Flux's helm-controller stands before Helm,
#: whose annotations its objects carry as well.
_FOREIGN: tuple[Callable[[Body, _Marks, _Marks], Foreign | None], ...] = (
    _annotation("Fleetbeat, as its record of application", "fleetbeat.dev/application"),
    _annotation("Fleetbeat, as its record of", "fleetbeat.dev/record"),
    _argocd_tracking,
    _label("Argo CD application", "argocd.argoproj.io/instance"),
    _argocd_installation,
    _flux("Flux Kustomization", "kustomize.toolkit.fluxcd.io"),
    _flux("Flux HelmRelease", "helm.toolkit.fluxcd.io"),
    _helm,
    _label("kapp application", "kapp.k14s.io/app"),
    _annotation("cli-utils inventory", "config.k8s.io/owning-inventory"),
)


# ── authors of a change ──────────────────────────────────────────────────────────────────────────────────────────


def changed_by(live: Body, paths: Iterable[tuple[str, ...]], *, own: str = FIELD_MANAGER) -> tuple[Manager, ...]:
    """Managers other than ``own`` that own any of ``paths`` (as ``changes.changed_paths`` gives them), newest first.

    Empty when nobody does: a field that was removed leaves no trace of who removed it. See ``latest_foreign``.
    """
    wanted = list(paths)
    found = [manager for manager, fields in _entries(live, own) if any(_owns(fields, live, path) for path in wanted)]
    return tuple(sorted(found, key=lambda m: m.time, reverse=True))


def latest_foreign(live: Body, *, own: str = FIELD_MANAGER) -> Manager | None:
    """The last writer other than ``own``; writes of status do not count, every controller makes them."""
    managers = [manager for manager, _ in _entries(live, own) if manager.subresource != "status"]
    return max(managers, key=lambda m: m.time, default=None)


def _entries(live: Body, own: str) -> Iterable[tuple[Manager, dict[str, Any]]]:
    for entry in (live.get("metadata") or {}).get("managedFields") or []:
        if entry.get("manager") != own:
            yield (
                Manager(
                    entry.get("manager", ""),
                    entry.get("operation", ""),
                    entry.get("time", ""),
                    entry.get("subresource", ""),
                ),
                entry.get("fieldsV1") or {},
            )


def _owns(fields: dict[str, Any], value: Any, path: tuple[str, ...]) -> bool:
    """Whether the field set has ``path``, something below it, or an atomic value around it."""
    if not path:
        return True
    if not fields:  # a leaf: owned as a whole
        return True
    step, rest = path[0], path[1:]
    if isinstance(value, list):
        index = _position(value, step)
        element = value[index] if index is not None else None
        return any(_owns(inner, element, rest) for key, inner in fields.items() if _is_element(key, index, element))
    inner = fields.get(f"f:{step}")
    return inner is not None and _owns(inner, value.get(step) if isinstance(value, dict) else None, rest)


def _position(items: list[Any], step: str) -> int | None:
    """Where in the list ``[3]`` or ``[name=web]`` points to, None when nowhere."""
    text = step[1:-1]
    if text.startswith("name="):
        name = text.removeprefix("name=")
        return next((n for n, item in enumerate(items) if isinstance(item, dict) and item.get("name") == name), None)
    return int(text) if text.isdecimal() and int(text) < len(items) else None


def _is_element(key: str, index: int | None, element: Any) -> bool:
    """Whether a step of a field set means this element: ``k:{…}`` by its keys, ``v:…`` by value, ``i:…`` by index."""
    kind, _, text = key.partition(":")
    if index is None or kind not in ("k", "v", "i"):
        return False
    try:
        means = json.loads(text)
    except ValueError:
        return False
    if kind == "i":
        return bool(means == index)
    if kind == "v":
        return bool(means == element)
    # Both come from the server, which has filled in defaults of keys (protocol: TCP) on either side.
    return isinstance(means, dict) and isinstance(element, dict) and all(element.get(k) == v for k, v in means.items())
