"""Taking over from earlier tools: their hold on fields, and their marks, so that what leaves the bundle really goes.

With server-side apply a field goes only when the last manager that applied it lets go. An object that was made by
``kubectl apply`` has an entry of ``kubectl-client-side-apply`` that nobody will ever shrink again: fields dropped from
the bundle would stay for ever (field case b1, kubernetes/kubernetes#99003). client-go's answer (``csaupgrade``) is to
merge such entries into that of the new manager; here only fields that the manifest has, or our own entry has had, are
merged. Taking over therefore never deletes a field by itself: what the earlier tool had and the bundle never has stays.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import escape
from typing import Any

from fleetbeat.decisions.fieldsets import ABSENT, HERE, Fields, Steps, get, is_leaf, leaves, within
from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.model import Body

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

#: annotation of an application: one more field manager whose fields become ours, as Argo CD's
MANAGER = "argocd.argoproj.io/client-side-apply-migration-manager"
LONGEST_MANAGER = 128  #: characters; apimachinery allows a field manager no more

#: Field managers of people with kubectl, and the one the API server gives to fields from before it kept books.
PEOPLE = ("kubectl", "kubectl-*", "before-first-apply")


@dataclass(frozen=True)
class Tool:
    """A deployment tool whose objects ``spec.adopt`` may take over."""

    owner: tuple[str, ...]  #: as ``ownership.Foreign.tool`` has it
    managers: tuple[str, ...]  #: its field managers, globs
    labels: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


#: By the word in ``spec.adopt``. Marks go because they are how these tools find what to delete: without them, removing
#: the old Application or Kustomization later does not take the objects with it.
TOOLS: Mapping[str, Tool] = {
    "argocd": Tool(
        ("Argo CD application",),
        ("argocd-controller", "argocd-application-controller", "argocd-*"),
        ("argocd.argoproj.io/instance",),
        ("argocd.argoproj.io/tracking-id", "argocd.argoproj.io/installation-id"),
    ),
    "flux": Tool(
        ("Flux Kustomization", "Flux HelmRelease"),
        ("kustomize-controller", "helm-controller", "flux-client-side-apply", "flux"),
        (
            "kustomize.toolkit.fluxcd.io/name",
            "kustomize.toolkit.fluxcd.io/namespace",
            "helm.toolkit.fluxcd.io/name",
            "helm.toolkit.fluxcd.io/namespace",
        ),
        ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace"),
    ),
    "helm": Tool(
        ("Helm release",),
        ("helm", "Helm"),
        ("app.kubernetes.io/managed-by",),
        ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace"),
    ),
    "kapp": Tool(
        ("kapp application",),
        ("kapp", "kapp-server-side-apply"),
        ("kapp.k14s.io/app", "kapp.k14s.io/association"),
        ("kapp.k14s.io/identity", "kapp.k14s.io/original", "kapp.k14s.io/original-diff-md5", "kapp.k14s.io/nonce"),
    ),
    "cli-utils": Tool(("cli-utils inventory",), ("kpt", "cli-utils"), (), ("config.k8s.io/owning-inventory",)),
}


def tool_of(owner: str) -> str:
    """The word in ``spec.adopt`` for ``ownership.Foreign.tool``, "" for what can never be adopted."""
    return next((word for word, tool in TOOLS.items() if owner in tool.owner), "")


@dataclass(frozen=True)
class Takeover:
    """One write to ``metadata`` before the object is applied, and what it leads to."""

    patch: tuple[dict[str, Any], ...]  #: JSON patch (RFC 6902); its resourceVersion makes a moved object a 409
    managers: tuple[str, ...]  #: whose fields become ours
    released: tuple[Steps, ...]  #: fields that the apply after it removes: ours once, in the manifest no more
    marks: tuple[str, ...] = ()  #: labels and annotations of other tools that go

    @property
    def reason(self) -> str:
        """``takes over from kubectl-client-side-apply``."""
        said = f"takes over from {' and '.join(self.managers)}" if self.managers else "takes over"
        return said + (f", removes {', '.join(self.marks)}" if self.marks else "")


def takeover(
    live: Body,
    wanted: Body,
    *,
    adopt: Collection[str] = (),
    manager: str = "",
    keep: bool = False,
    given_up: Collection[Steps] = (),
    forced: Collection[Steps] = (),
) -> Takeover | None:
    """What has to be written before ``wanted`` is applied; None when nobody holds our fields.

    Args:
        live: the object as read at the manifest's own version.
        wanted: what will be applied.
        adopt: words of ``TOOLS`` whose objects are taken over.
        manager: the one that the application's annotation ``MANAGER`` names, "" = none.
        given_up: places that are left to others: what we have had there is not ours to take, or to remove.
        keep: leave the fields with everybody who has them (``kustomize.toolkit.fluxcd.io/ssa: Merge``).
        forced: places where the apply sets another value. By force it takes those from everybody, so they alone are
            no reason for a write before it: what ``kubectl edit`` has changed is healed by the apply.
    """
    tools = [TOOLS[word] for word in adopt]
    people = (*PEOPLE, *([escape(manager)] if manager else []))
    globs = (FIELD_MANAGER, *people, *(glob for tool in tools for glob in tool.managers))
    metadata: Body = live.get("metadata") or {}
    entries: list[dict[str, Any]] = metadata.get("managedFields") or []
    own = _own_entry(entries)
    held = any(entry is not own and _merges(entry, globs, live.get("apiVersion")) for entry in entries)
    if not tools and (keep or not held):  # nearly always
        return None
    had: Fields = {}
    for entry in entries:
        # What a replace (PUT) of ours wrote stands in an entry of its own: ours all the same, and merged as a whole.
        if entry is own or (entry.get("manager") == FIELD_MANAGER and _merges(entry, globs, live.get("apiVersion"))):
            _merge(had, entry.get("fieldsV1") or {})
    for steps in given_up:
        _cut(had, steps)
    mine: Fields = {}
    _merge(mine, (own or {}).get("fieldsV1") or {})
    managers: list[str] = []
    left: list[dict[str, Any]] = []
    by_force = True
    for entry in entries:
        name = entry.get("manager", "")
        if keep or entry is own or not _merges(entry, globs, live.get("apiVersion")):
            left.append(entry)
            continue
        taken, rest = _split(entry.get("fieldsV1") or {}, wanted, had)
        if not any(leaves(taken)):
            left.append(entry)
            continue
        _merge(mine, taken)
        by_force = by_force and name != FIELD_MANAGER and all(steps in forced for steps in leaves(taken))
        if name != FIELD_MANAGER and name not in managers:
            managers.append(name)
        if any(leaves(rest)):
            left.append({**entry, "fieldsV1": rest})
    annotations, labels = _marks(metadata, wanted, tools, bool(managers))
    if (left == entries or by_force) and not annotations and not labels:
        return None
    for kind, keys in (("annotations", annotations), ("labels", labels)):
        for key in keys:
            left = [_without(entry, ("f:metadata", f"f:{kind}", f"f:{key}")) for entry in left]
    left = [entry for entry in left if any(leaves(entry.get("fieldsV1") or {}))]
    patch = list(_remove("annotations", annotations)) + list(_remove("labels", labels))
    released: tuple[Steps, ...] = ()
    if left != entries:
        own = own or {"manager": FIELD_MANAGER, "operation": "Apply", "apiVersion": live.get("apiVersion")}
        others = [entry for entry in left if not _is_own(entry)]
        whole = [{**own, "fieldsType": "FieldsV1", "fieldsV1": mine}, *others]
        patch.append({"op": "replace", "path": "/metadata/managedFields", "value": whole})
        released = tuple(_released(had, wanted, live, others))
    # Setting both to what was read makes the server compare them: a moved object is a conflict, not overwritten.
    seen = [
        {"op": "replace", "path": f"/metadata/{name}", "value": metadata.get(name)}
        for name in ("uid", "resourceVersion")
    ]
    marks = tuple(key for key in (*annotations, *labels) if key != LAST_APPLIED)
    return Takeover((*seen, *patch), tuple(managers), released, marks)


def _own_entry(entries: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    return next((entry for entry in entries if _is_own(entry)), None)


def _is_own(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == FIELD_MANAGER and entry.get("operation") == "Apply" and not entry.get("subresource")


def _merges(entry: Mapping[str, Any], globs: Iterable[str], version: Any) -> bool:
    # Field sets of another API version describe an object of another shape.
    same_shape = entry.get("apiVersion") == version and not entry.get("subresource")
    return same_shape and any(fnmatchcase(entry.get("manager", ""), g) for g in globs)


def _split(fields: Fields, wanted: Any, had: Fields, at: Steps = ()) -> tuple[Fields, Fields]:
    """(what becomes ours, what stays): ours is what the manifest has and what our own entry has had."""
    taken: Fields = {}
    rest: Fields = {}
    for key, inner in fields.items():
        if key == HERE:
            rest[key] = inner
            continue
        there = get(wanted, (key,)) if wanted is not ABSENT else ABSENT
        mine = had.get(key)
        if is_leaf(inner):
            (taken if there is not ABSENT or mine is not None else rest)[key] = inner
            continue
        below_taken, below_rest = _split(inner, there, mine or {}, (*at, key))
        if below_taken:
            taken[key] = below_taken
        if any(k != HERE for k in below_rest):
            rest[key] = below_rest
    return taken, rest


def _merge(into: Fields, more: Fields) -> None:
    for key, inner in more.items():
        _merge(into.setdefault(key, {}), inner)


def _without(entry: dict[str, Any], steps: Steps) -> dict[str, Any]:
    if within(entry.get("fieldsV1") or {}, steps) is None:
        return entry
    fields = copy.deepcopy(entry["fieldsV1"])
    _cut(fields, steps)
    return {**entry, "fieldsV1": fields}


def _cut(fields: Fields, steps: Steps) -> None:
    """Take a place out, and what holds nothing but itself after that."""
    while steps:
        around = within(fields, steps[:-1])
        if around is None or around.pop(steps[-1], None) is None or not is_leaf(around):
            return
        steps = steps[:-1]


def _released(had: Fields, wanted: Body, live: Body, others: list[dict[str, Any]]) -> Iterable[Steps]:
    sets = [entry.get("fieldsV1") or {} for entry in others]
    for steps in leaves(had):
        if (
            get(wanted, steps) is ABSENT
            and get(live, steps) is not ABSENT
            and all(within(f, steps) is None for f in sets)
        ):
            yield steps


def _marks(metadata: Body, wanted: Body, tools: Iterable[Tool], taken: bool) -> tuple[list[str], list[str]]:
    """Annotations and labels that go: other tools' marks, unless the bundle has them; kubectl's copy at takeover."""
    want: Body = wanted.get("metadata") or {}
    found: list[list[str]] = []
    for kind in ("annotations", "labels"):
        keys = [key for tool in tools for key in (tool.annotations if kind == "annotations" else tool.labels)]
        if kind == "annotations" and taken:
            keys.append(LAST_APPLIED)
        there, ours = metadata.get(kind) or {}, want.get(kind) or {}
        found.append([key for key in dict.fromkeys(keys) if key in there and key not in ours])
    if not any(key in (metadata.get("annotations") or {}) for key in ("meta.helm.sh/release-name",)):
        # charts set this label by hand as well; it is Helm's mark only beside the annotation
        found[1] = [key for key in found[1] if key != "app.kubernetes.io/managed-by"]
    return found[0], found[1]


def _remove(kind: str, keys: Iterable[str]) -> Iterable[dict[str, Any]]:
    for key in keys:
        pointer = key.replace("~", "~0").replace("/", "~1")
        yield {"op": "remove", "path": f"/metadata/{kind}/{pointer}"}
