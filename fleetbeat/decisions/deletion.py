"""Deleting a whole application: when its objects may go, and which of them. Pure.

An application leaves with its objects only when its last document said so and nothing makes the leaving look like an
accident: a folder that is empty for a moment must not cost a fleet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetbeat.decisions.hook_runs import RUN
from fleetbeat.decisions.inventory import HOOK_OF, PART_OF, ObjectMeta
from fleetbeat.decisions.pruning import keep_mark, permission
from fleetbeat.model import ObjectId, Permission

#: As many applications may leave at once without more ado; beyond it, most of the catalog is too much.
FEW = 3


def wants_deletion(document: Mapping[str, Any]) -> bool:
    """Does this document of an application, as it was when it was in force, ask for its objects to be deleted?"""
    spec = document.get("spec")
    return isinstance(spec, Mapping) and spec.get("deletionPolicy") == "Delete"


def held(leaving: int, staying: int, documents: int) -> str:
    """Why none of the applications that are leaving is deleted until a person says so; "" = they may go.

    Args:
        leaving: applications with ``Delete`` that are gone from the catalog and not deleted yet, these included that
            left a moment ago: a folder may empty itself over several looks.
        staying: applications the catalog has now.
        documents: documents of any kind it has now.
    """
    if not leaving:
        return ""
    if not documents:
        return (
            "the catalog is empty now, which looks like a lost mount rather than a decision. "
            "If it is one: fleetbeat delete, with the application's name or --held for all"
        )
    if leaving > FEW and leaving > staying:
        return (
            f"{leaving} applications have left the catalog and {staying} stay, which looks like a mistake rather than "
            "a decision. If it is one: fleetbeat delete, with the application's name or --held for all"
        )
    return ""


@dataclass(frozen=True)
class DeletionDecision:
    delete: tuple[ObjectMeta, ...] = ()  #: those that are being deleted already among them: they are waited for
    kept: tuple[tuple[ObjectId, str], ...] = ()  #: ours, and stays, without our label: id, reason
    unconfirmed: tuple[ObjectId, ...] = ()  #: asks for a person's word first; nothing is deleted without it


def to_delete(
    labelled: Iterable[ObjectMeta],
    *,
    applyset: str,
    home: str,
    confirmed: bool = False,
    usual: Permission = "true",
) -> DeletionDecision:
    """What of an application that is deleted goes, and what stays.

    Args:
        labelled: every object found by the membership label, complete.
        applyset: the application's own id; objects with another one are left out without a word.
        home: the namespace of the ApplySet parents. Every application's record would go with it.
        confirmed: a person has said that objects with ``Delete=confirm`` go too.
        usual: the application's option Delete.
    """
    delete: list[ObjectMeta] = []
    kept: list[tuple[ObjectId, str]] = []
    unconfirmed: list[ObjectId] = []
    for meta in sorted(labelled, key=lambda m: m.id):
        if meta.labels.get(PART_OF) != applyset or not meta.written:
            continue  # of another application, or a copy of the label on something that Fleetbeat did not apply
        if meta.deleting:
            delete.append(meta)
        elif meta.id == ObjectId("", "Namespace", "", home):
            kept.append((meta.id, "holds the record of what each application owns in this cluster"))
        elif why := stays_because(meta, usual=usual):
            kept.append((meta.id, why))
        elif needs_confirmation(meta, usual) and not confirmed:
            unconfirmed.append(meta.id)
        else:
            delete.append(meta)
    return DeletionDecision(tuple(delete), tuple(kept), tuple(unconfirmed))


def needs_confirmation(meta: ObjectMeta, usual: Permission = "true") -> bool:
    """``Delete=confirm``, of its own or the application's."""
    return permission(meta, "Delete", usual)[0] == "confirm"


def stays_because(meta: ObjectMeta, *, confirmed: bool = True, usual: Permission = "true") -> str:
    """The mark by which an object asks to outlive its application, as ``key: value``; "" without one.

    As in Argo CD ``Prune=false`` is none: it is about an object that leaves its application, not the other way round.
    As in Flux ``reconcile: disabled`` is one. ``confirmed`` False: what asks for a person's word stays too.
    ``usual``: the application's option, for an object that does not say it itself.
    """
    word, place = permission(meta, "Delete", usual)
    if word == "false" or (word == "confirm" and not confirmed):
        return f"{place}: Delete={word}"
    if "disabled" in (str(found.get(_RECONCILE, "")).lower() for found in (meta.labels, meta.annotations)):
        return f"{_RECONCILE}: disabled"
    return keep_mark(meta)


_RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"


def is_hooks_object(meta: ObjectMeta, applyset: str, usual: Permission = "true") -> bool:
    """Did a hook of the application make this object? Not what a controller made of it, with a copy of the label."""
    made = meta.labels.get(HOOK_OF) == applyset and RUN in meta.annotations and not meta.controller
    return made and not stays_because(meta, usual=usual)
