"""Hooks: objects that run at a moment of a sync, and are neither compared nor pruned with the rest.

Read here are Argo CD's annotations and Helm's, as Argo CD maps them. Where an object has both, Argo CD's count as a set
(field case c8). Differences from Argo CD, all towards telling instead of guessing: an unknown phase or policy is a
mistake, where Argo CD would drop it in silence, and with it perhaps the whole object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from fleetbeat.decisions.problems import did_you_mean, shown

HOOK = "argocd.argoproj.io/hook"
DELETE_POLICY = "argocd.argoproj.io/hook-delete-policy"
HELM_HOOK = "helm.sh/hook"
HELM_DELETE_POLICY = "helm.sh/hook-delete-policy"
HELM_WEIGHT = "helm.sh/hook-weight"

#: A part of a sync, or of what surrounds it. "Sync" is also where everything stands that is no hook.
SyncPhase = Literal["PreSync", "Sync", "PostSync", "SyncFail", "PreDelete", "PostDelete"]
PHASES: tuple[SyncPhase, ...] = get_args(SyncPhase)
#: Those that a sync can come to; the others are the deletion's.
OF_A_SYNC: tuple[SyncPhase, ...] = ("PreSync", "Sync", "PostSync", "SyncFail")

#: When a hook's object is deleted: before its next run, or when its phase is over and it went well, or did not.
DeletePolicy = Literal["BeforeHookCreation", "HookSucceeded", "HookFailed"]
_POLICIES: tuple[DeletePolicy, ...] = get_args(DeletePolicy)

_HELM_PHASES: dict[str, SyncPhase] = {
    "pre-install": "PreSync",
    "pre-upgrade": "PreSync",
    "post-install": "PostSync",
    "post-upgrade": "PostSync",
    "pre-delete": "PreDelete",
    "post-delete": "PostDelete",
}
#: Helm's other events, and whose command they belong to. Argo CD runs none of them either.
_HELM_ALONE = {
    "pre-rollback": "helm rollback",
    "post-rollback": "helm rollback",
    "test": "helm test",
    "test-success": "helm test",
    "test-failure": "helm test",
}
_HELM_POLICIES: dict[str, DeletePolicy] = {
    "before-hook-creation": "BeforeHookCreation",
    "hook-succeeded": "HookSucceeded",
    "hook-failed": "HookFailed",
}


@dataclass(frozen=True)
class Hook:
    """What the annotations of a hook say."""

    mark: str  #: the annotation that makes it one, ``key: value``
    phases: tuple[SyncPhase, ...]  #: in the order of ``PHASES``; () = left out of every sync, or unreadable
    delete_policies: tuple[DeletePolicy, ...] = ("BeforeHookCreation",)
    left_out: str = ""  #: why no sync runs it, continues "is not applied: "


def read(annotations: Mapping[str, str]) -> tuple[Hook | None, list[str]]:
    """The hook an object is, None for an ordinary object, and what cannot be read of it in words.

    Lists are split at commas and trimmed, empty items dropped. Argo CD's words count exactly, Helm's in any case.
    """
    if HOOK in annotations:
        return _argo(annotations)
    if HELM_HOOK in annotations:
        return _helm(annotations)
    return None, []


def runs_at_deletion(annotations: Mapping[str, str]) -> bool:
    """Is it a hook of PreDelete or PostDelete?"""
    hook, _ = read(annotations)
    return hook is not None and any(phase not in OF_A_SYNC for phase in hook.phases)


def is_hook(annotations: Mapping[str, str]) -> bool:
    """Whether ``read`` finds one."""
    if HOOK in annotations:
        return True
    return HELM_HOOK in annotations and _helm_words(annotations) != ["crd-install"]


def _argo(annotations: Mapping[str, str]) -> tuple[Hook, list[str]]:
    words = items(annotations[HOOK])
    mark = f"{HOOK}: {annotations[HOOK]}"
    policies, problems = _policies(annotations, helm=False)
    if set(words) == {"Skip"}:
        return Hook(mark, (), policies, left_out=f"annotation {mark}"), problems
    known = (*PHASES, "Skip")
    problems = [_unknown(HOOK, "phase", word, known) for word in words if word not in known] + problems
    if not words:
        problems.insert(0, f"annotation {HOOK} names no phase. Known: {', '.join(known)}")
    return Hook(mark, tuple(phase for phase in PHASES if phase in words), policies), problems


def _helm(annotations: Mapping[str, str]) -> tuple[Hook | None, list[str]]:
    words = _helm_words(annotations)
    if words == ["crd-install"]:  # Helm 2's way to say "first"; a definition comes first anyway
        return None, []
    mark = f"{HELM_HOOK}: {annotations[HELM_HOOK]}"
    known = (*_HELM_PHASES, *_HELM_ALONE)
    policies, problems = _policies(annotations, helm=True)
    problems = [_unknown(HELM_HOOK, "event", word, known) for word in words if word not in known] + problems
    if not words:
        problems.insert(0, f"annotation {HELM_HOOK} names no event. Known: {', '.join(known)}")
    phases = {_HELM_PHASES[word] for word in words if word in _HELM_PHASES}
    alone = "" if phases or problems else f"annotation {mark}, which is for `{_HELM_ALONE[words[0]]}`"
    return Hook(mark, tuple(phase for phase in PHASES if phase in phases), policies, left_out=alone), problems


def _helm_words(annotations: Mapping[str, str]) -> list[str]:
    return [word.lower() for word in items(annotations[HELM_HOOK])]


def _policies(annotations: Mapping[str, str], *, helm: bool) -> tuple[tuple[DeletePolicy, ...], list[str]]:
    """Argo CD's annotation where it stands; Helm's only on a Helm hook without it."""
    known: Mapping[str, DeletePolicy]
    if DELETE_POLICY in annotations:
        key, known = DELETE_POLICY, {policy: policy for policy in _POLICIES}
        words = items(annotations[key])
    elif helm and HELM_DELETE_POLICY in annotations:
        key, known = HELM_DELETE_POLICY, _HELM_POLICIES
        words = [word.lower() for word in items(annotations[key])]
    else:
        return ("BeforeHookCreation",), []
    problems = [_unknown(key, "policy", word, tuple(known)) for word in words if word not in known]
    asked = {known[word] for word in words if word in known}
    return tuple(policy for policy in _POLICIES if policy in asked) or ("BeforeHookCreation",), problems


def items(csv: object) -> list[str]:
    """A comma list as Argo CD reads it: trimmed, without empty items and repetitions."""
    return list(dict.fromkeys(part for item in str(csv).split(",") if (part := item.strip())))


def _unknown(key: str, what: str, word: str, known: tuple[str, ...]) -> str:
    hint = did_you_mean(word, known)
    return f"annotation {key}: unknown {what} {shown(word)}.{hint} Known: {', '.join(known)}"
