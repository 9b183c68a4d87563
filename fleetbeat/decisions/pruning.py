"""What of an application may be deleted: ours beyond doubt, not wanted any more, and not asking to stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fleetbeat.decisions import confirmation
from fleetbeat.decisions.inventory import PART_OF, ObjectMeta
from fleetbeat.decisions.options import SYNC_OPTIONS
from fleetbeat.model import ObjectId, Permission

_STRICTEST_FIRST: tuple[Permission, ...] = ("false", "confirm", "true")


@dataclass(frozen=True)
class PruneDecision:
    prune: tuple[ObjectMeta, ...] = ()  #: delete, each with its uid and resourceVersion as preconditions
    kept: tuple[tuple[ObjectId, str], ...] = ()  #: ours and not wanted any more, but it asks to stay: id, reason
    going: tuple[ObjectMeta, ...] = ()  #: ours, not wanted any more, and being deleted already: left to go
    ignored: tuple[tuple[ObjectId, str], ...] = ()  #: has the label and is none of our business: id, reason
    refusal: str | None = None  #: why nothing at all is pruned, a sentence
    empties: bool = False  #: that is why: it would take every object away


def to_prune(
    labelled: Iterable[ObjectMeta],
    wanted: Collection[ObjectId],
    *,
    applyset: str,
    allow_empty: bool,
    complete: bool,
    wanted_uids: Collection[str] = frozenset(),
    confirmed: bool = False,
    usual: Permission = "true",
    incomplete_because: str = "the cluster could not be asked about every kind",
) -> PruneDecision:
    """What of the application is in the cluster, no longer in the bundle, and may be deleted.

    Args:
        labelled: every object found by the membership label.
        wanted: the objects of the bundle, without hooks and without a Namespace added by an option: an application
            that has only those is an empty one (field case d4).
        applyset: the application's own id; objects with another one are left out without a word.
        allow_empty: the catalog allows an application without objects, or a person has agreed to this bundle.
        complete: render, discovery and every list succeeded as a whole; else an object may merely be out of sight.
        wanted_uids: uids of the live copies of ``wanted``. An object stored once may be served in two API groups and
            then appears under two identities (field case d1).
        confirmed: somebody has agreed that what asks for a confirmation is deleted (``confirmation.py``).
        usual: the application's option Prune.
        incomplete_because: continues the refusal when not ``complete``.
    """
    candidates: list[ObjectMeta] = []
    kept: list[tuple[ObjectId, str]] = []
    going: list[ObjectMeta] = []
    ignored: list[tuple[ObjectId, str]] = []
    for meta in sorted(labelled, key=lambda m: m.id):
        if meta.labels.get(PART_OF) != applyset or meta.id in wanted:
            continue
        if why := _none_of_ours(meta, wanted_uids):
            ignored.append((meta.id, why))
        elif meta.deleting:
            going.append(meta)
        elif why := keep_reason(meta, confirmed=confirmed, usual=usual):
            kept.append((meta.id, why))
        else:
            candidates.append(meta)
    refusal, empties = None, bool(candidates and complete and not wanted and not allow_empty)
    if candidates and not complete:
        refusal = f"Nothing is pruned: {incomplete_because}."
    elif empties:
        refusal = (
            f"Nothing is pruned: the bundle has no objects, so pruning would delete all {len(candidates)} of the "
            "application. If that is meant: fleetbeat sync APP --confirm-prune for this bundle, "
            "or spec.sync.allowEmpty: true for each."
        )
    pruned = () if refusal else tuple(candidates)
    return PruneDecision(pruned, tuple(kept), tuple(going), tuple(ignored), refusal, empties)


def _none_of_ours(meta: ObjectMeta, wanted_uids: Collection[str]) -> str:
    if meta.uid and meta.uid in wanted_uids:
        return "is a wanted object under another API group"
    if not meta.written:
        # Operators copy labels of an object to what they make for it. Only the API server's own record tells the
        # copy from the original (field case d8).
        return "has a copy of the label: Fleetbeat did not apply it" + (
            f", {meta.controller} controls it" if meta.controller else ""
        )
    return ""


def going_reason(meta: ObjectMeta) -> str:
    """``is being deleted since 2026-01-01T00:00:00Z; finalizer x.example.com/y holds it``."""
    word = "finalizer" if len(meta.finalizers) == 1 else "finalizers"
    held = f"; {word} {', '.join(meta.finalizers)} {'holds' if word == 'finalizer' else 'hold'} it"
    return f"is being deleted since {meta.deleting}{held if meta.finalizers else ''}"


def keep_reason(meta: ObjectMeta, *, confirmed: bool = False, usual: Permission = "true") -> str:
    """The mark by which an object asks not to be pruned, as ``key: value``; "" without one.

    Argo CD's options compare exactly; Flux's key may be label or annotation, in any case; Helm's ignores case and
    blanks around the value. ``Prune=confirm`` keeps until somebody has ``confirmed``. ``usual``: the application's
    option, for an object that does not say it itself.
    """
    word, place = permission(meta, "Prune", usual)
    if word == "false":
        return f"{place}: Prune=false"
    if why := keep_mark(meta):
        return why
    return f"{confirmation.HOW} ({place}: Prune=confirm)" if word == "confirm" and not confirmed else ""


def permission(meta: ObjectMeta, option: str, usual: Permission) -> tuple[Permission, str]:
    """What ``option`` (Prune, Delete) says of an object, and where that is written.

    As in Argo CD the live object's own word counts before the application's; of two of its own the stricter one does.
    """
    said = sync_options(meta)
    for word in _STRICTEST_FIRST:
        if f"{option}={word}" in said:
            return word, SYNC_OPTIONS
    return usual, "spec.sync.options"


def sync_options(meta: ObjectMeta) -> frozenset[str]:
    """Argo CD's options as the live object has them."""
    return frozenset(option.strip() for option in str(meta.annotations.get(SYNC_OPTIONS, "")).split(","))


def keep_mark(meta: ObjectMeta) -> str:
    """The mark by which an object asks not to be deleted, whatever the occasion; "" without one."""
    labels, annotations = meta.labels, meta.annotations
    flux = "kustomize.toolkit.fluxcd.io/prune"
    if "disabled" in (str(labels.get(flux, "")).lower(), str(annotations.get(flux, "")).lower()):
        return f"{flux}: disabled"
    if str(annotations.get("helm.sh/resource-policy", "")).strip().lower() == "keep":
        return "helm.sh/resource-policy: keep"
    for key, value in (
        ("client.lifecycle.config.k8s.io/deletion", "detach"),
        ("cli-utils.sigs.k8s.io/on-remove", "keep"),
    ):
        if annotations.get(key) == value:
            return f"{key}: {value}"
    return f"{meta.controller} controls it" if meta.controller else ""


def needs_confirmation(meta: ObjectMeta, usual: Permission = "true") -> bool:
    """``Prune=confirm``, of its own or the application's."""
    return permission(meta, "Prune", usual)[0] == "confirm"
