"""All manifests of a bundle together: what a sync would refuse, what it would tell, and in which order it would go.

Rendering asks it before anything is planned, ``fleetbeat check`` before anything is pushed: what one refuses the other
finds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fleetbeat.decisions import hooks
from fleetbeat.decisions.options import read
from fleetbeat.decisions.problems import Problem
from fleetbeat.decisions.waves import Stage, arrange
from fleetbeat.model import Manifest


@dataclass(frozen=True)
class Examined:
    stages: tuple[Stage, ...]  #: of everything whose turn can be told
    problems: tuple[Problem, ...]  #: a sync refuses the bundle for each of them
    remarks: tuple[Problem, ...]  #: marks that do nothing; a sync tells them
    told: tuple[str, ...]  #: what is left out or has no effect yet, full sentences; nobody's mistake


def examine(manifests: Sequence[Manifest], *, complete: bool = True) -> Examined:
    """In the order of the manifests, dependencies between them last. Never raises.

    ``complete`` False: these are not all of the bundle, since some of it cannot be read.
    """
    problems: list[Problem] = []
    remarks: list[Problem] = []
    told: list[str] = []
    for manifest in manifests:
        options = read(manifest)
        problems += options.problems
        remarks += options.remarks
        told += options.idle
        order, subject = options.order, str(manifest.id)
        if order.problems or order.hook is None:
            continue
        if order.left_out:
            told.append(f"{manifest.origin}: {subject} is not applied: {order.left_out}")
        elif not set(order.phases) & set(hooks.OF_A_SYNC):
            told.append(f"{manifest.origin}: {subject} is run by no sync: it is a {order.phases[0]} hook")
    arranged = arrange(manifests, complete=complete)
    problems += [problem for problem in arranged.problems if problem not in problems]
    return Examined(arranged.stages, tuple(problems), tuple(remarks), tuple(map(str, told)))
