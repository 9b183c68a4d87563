"""What becomes of a hook in one run: whether it is due, its name, what is sent, whose an object of its name is, and
whether it goes when its phase is over.

A hook's object is no member of the application's ApplySet: it is neither compared, nor drift, nor pruned. The label
``HOOK_OF`` says whose it is, two annotations of which run and phase.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any, Literal

from fleetbeat.decisions.hooks import Hook, SyncPhase
from fleetbeat.decisions.inventory import HOOK_OF
from fleetbeat.decisions.ownership import Foreign, Ours, owner_of
from fleetbeat.decisions.treatment import PRECIOUS
from fleetbeat.model import Body, Manifest, ObjectId

RUN = "fleetbeat.dev/run"  #: annotation: id of the run it was made by
PHASE = "fleetbeat.dev/hook"  #: annotation: the phase it was made for

#: seconds. A Job that the cluster may delete the moment it has finished cannot be told from one that somebody deleted
#: before (field case c1). Those who ask for less get this much, and are deleted when their phase is over.
SHORTEST_TTL = 3600

#: Jobs and what other controllers name after them: a label's value has at most 63 characters.
_LONGEST_NAME = 63


def due(*, trigger: str, digest: str, completed: Collection[str], owed: str) -> bool:
    """Does this run run hooks? As in Argo CD a sync that is asked for does, self-healing does not.

    ``completed``: the bundle whose hooks have last gone through here, as the cluster and Redis remember it. ``owed``:
    the bundle of a run that should have run them and did not get through.
    """
    return trigger == "Request" or digest not in completed or digest == owed


def generated(prefix: str, run: str, phase: SyncPhase, index: int) -> str:
    """The name for ``generateName: prefix``: one for each run, phase and position in the bundle, however often the step
    is killed and repeated (field case c5)."""
    mark = hashlib.sha256(f"{run}/{phase}/{index}".encode()).hexdigest()[:10]
    return prefix[: _LONGEST_NAME - len(mark)] + mark


def is_generated(manifest: Manifest) -> bool:
    return "name" not in manifest.body["metadata"]


def sent(manifest: Manifest, *, applyset: str, run: str, phase: SyncPhase, name: str) -> Body:
    """The object as it is created, a copy."""
    metadata = manifest.body["metadata"]
    body = {
        **manifest.body,
        "metadata": {
            **metadata,
            "name": name,
            "labels": {**(metadata.get("labels") or {}), HOOK_OF: applyset},
            "annotations": {**(metadata.get("annotations") or {}), RUN: run, PHASE: phase},
        },
    }
    if is_short_lived(manifest):
        body["spec"] = {**body["spec"], "ttlSecondsAfterFinished": SHORTEST_TTL}
    return body


def is_short_lived(manifest: Manifest) -> bool:
    """A Job that asks to be gone soon after its end."""
    spec: Any = manifest.body.get("spec")
    ttl = spec.get("ttlSecondsAfterFinished") if isinstance(spec, dict) else None
    return manifest.id.group_kind == "Job.batch" and type(ttl) is int and ttl < SHORTEST_TTL


#: started: of this very run and phase. ours: a hook of an earlier run, another phase, or a member. free: nobody's.
Standing = Literal["started", "ours", "free"] | Foreign


def standing(live: Body, *, applyset: str, run: str, phase: SyncPhase) -> Standing:
    """What an object is that has the hook's name already."""
    metadata = live.get("metadata") or {}
    marks = metadata.get("annotations") or {}
    if (metadata.get("labels") or {}).get(HOOK_OF) == applyset:
        return "started" if (marks.get(RUN), marks.get(PHASE)) == (run, phase) else "ours"
    owner = owner_of(live, applyset)
    if isinstance(owner, Foreign):
        return owner
    return "ours" if isinstance(owner, Ours) else "free"


def is_earlier_copy(live: Body, prefix: str, *, applyset: str, run: str) -> bool:
    """An object that another run made of the same ``generateName``. What a controller copied from it is not ours."""
    metadata = live.get("metadata") or {}
    marks = metadata.get("annotations") or {}
    return (
        metadata.get("generateName") == prefix
        and (metadata.get("labels") or {}).get(HOOK_OF) == applyset
        and marks.get(RUN, run) != run
        and not any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
    )


def replaces(hook: Hook, key: ObjectId) -> bool:
    """Is what has the hook's name deleted before it is made anew (BeforeHookCreation)?

    Never a kind whose loss takes others along: a definition or a Namespace that a chart installs as a hook would empty
    the cluster of what is in it at each sync. It is applied over.
    """
    return "BeforeHookCreation" in hook.delete_policies and key.group_kind not in PRECIOUS


def goes_because(hook: Hook, *, succeeded: bool, short_lived: bool) -> str:
    """Why the object is deleted now that its whole phase is over (field case c6); "" = it stays."""
    policy = "HookSucceeded" if succeeded else "HookFailed"
    if policy in hook.delete_policies:
        return policy
    return "ttlSecondsAfterFinished" if short_lived else ""
