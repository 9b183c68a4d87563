"""Where in a sync one object asks to stand: its phases, its wave, what it waits for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fleetbeat.decisions import depends, hooks
from fleetbeat.decisions.hooks import Hook, SyncPhase
from fleetbeat.decisions.problems import Problem
from fleetbeat.errors import ManifestError
from fleetbeat.model import Manifest, ObjectId

SYNC_WAVE = "argocd.argoproj.io/sync-wave"

#: Go's strconv.Atoi, which is how Argo CD reads waves and weights
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class Order:
    """What an object's annotations say of its turn. Of one with ``problems`` nothing else may be relied upon."""

    wave: int = 0
    hook: Hook | None = None
    depends_on: tuple[ObjectId, ...] = ()  #: as written, see ``depends.find``
    problems: tuple[Problem, ...] = ()

    @property
    def phases(self) -> tuple[SyncPhase, ...]:
        """In which it is applied; () = in none."""
        return ("Sync",) if self.hook is None else self.hook.phases

    @property
    def left_out(self) -> str:
        """Why the object is neither applied nor pruned, "" for nearly all."""
        return self.hook.left_out if self.hook else ""


def order_of(manifest: Manifest) -> Order:
    annotations = manifest.annotations
    hook, problems = hooks.read(annotations)
    wave, unreadable = _wave(annotations, is_hook=hook is not None)
    needs: tuple[ObjectId, ...] = ()
    if depends.DEPENDS_ON in annotations:
        needs, more = depends.read(annotations[depends.DEPENDS_ON])
        problems += more
    subject = str(manifest.id)
    said = tuple(Problem.at(manifest.origin, text, subject=subject) for text in (*unreadable, *problems))
    return Order(wave, hook, needs, said)


def wave_of(manifest: Manifest) -> int:
    """The wave the manifest asks for; of a hook without one its Helm weight; 0 when it says nothing.

    Raises ManifestError for a value that is not a whole number: a guess would change the order in silence.
    """
    annotations = manifest.annotations
    is_hook = hooks.HOOK in annotations or hooks.HELM_HOOK in annotations
    wave, problems = _wave(annotations, is_hook=is_hook)
    if problems:
        raise ManifestError([Problem.at(manifest.origin, text, subject=str(manifest.id)) for text in problems])
    return wave


def live_wave(annotations: Mapping[str, str]) -> int:
    """The wave a live object names, for pruning; 0 when somebody made it unreadable since it was applied."""
    text = annotations.get(SYNC_WAVE, "0")
    return int(text) if _is_number(text) else 0


def _wave(annotations: Mapping[str, str], *, is_hook: bool) -> tuple[int, list[str]]:
    key = SYNC_WAVE if SYNC_WAVE in annotations or not is_hook else hooks.HELM_WEIGHT
    text = annotations.get(key, "0")
    if _is_number(text):
        return int(text), []
    return 0, [f'annotation {key} must be a whole number in quotes like "-5", not {text!r}']


def _is_number(text: object) -> bool:
    return isinstance(text, str) and _INTEGER.fullmatch(text) is not None
