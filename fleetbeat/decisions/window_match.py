"""Which sync windows are for an application. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product

from fleetbeat.errors import FleetbeatError
from fleetbeat.model import Application, Cluster
from fleetbeat.model_windows import LabelRequirement, SyncWindow

#: ``{a,b}{c,d}…`` multiply; nobody writes more by hand.
_MOST_ALTERNATIVES = 100
#: What Argo CD calls the cluster it runs in.
_IN_CLUSTER = "https://kubernetes.default.svc"


class GlobProblem(FleetbeatError):
    """A pattern that cannot be read."""


def matches(window: SyncWindow, application: Application, cluster: Cluster | None) -> bool:
    """Do the window's selectors hit this application? One that has none hits nothing, as in Argo CD.

    ``cluster``: its destination, so that both its name and its server are understood.
    """
    names = _names(application, cluster)
    found = []
    if window.applications:
        found.append(_any(window.applications, [application.name]))
    if window.namespaces:
        found.append(_any(window.namespaces, [application.destination.namespace]))
    if window.clusters:
        found.append(_any(window.clusters, names))
    if window.labels:
        found.append(all(_holds(requirement, application.labels) for requirement in window.labels))
    return bool(found) and (all(found) if window.and_operator else any(found))


def because(window: SyncWindow, application: Application, cluster: Cluster | None) -> tuple[str, ...]:
    """Which of its selectors hit: ``applications *-prod``, ``clusters private``, ``selector``. None of its own windows.

    Where any one of them is enough, people who meant all of them see here by which it came.
    """
    asked = (
        ("applications", window.applications, [application.name]),
        ("namespaces", window.namespaces, [application.destination.namespace]),
        ("clusters", window.clusters, _names(application, cluster)),
    )
    found = [
        f"{word} {pattern or '(none)'}" for word, globs, texts in asked for pattern in globs if _any([pattern], texts)
    ]
    if window.labels and all(_holds(requirement, application.labels) for requirement in window.labels):
        found.append("selector")
    return tuple(found)


def _names(application: Application, cluster: Cluster | None) -> set[str]:
    """What a cluster may be called in a window."""
    names = {application.destination.cluster}
    if cluster is not None:
        server = (_IN_CLUSTER if cluster.in_cluster else cluster.server).rstrip("/")
        names |= {server, f"{server}/"} if server else set()
    return names


def is_about(window: SyncWindow, group: str | None, kind: str) -> bool:
    """Is the window for a sync that writes an object of this kind? ``group`` None: of any group."""
    if not window.kinds:
        return True
    for wanted in window.kinds:
        name, dot, wanted_group = wanted.partition(".")
        if name == kind and (not dot or group is None or wanted_group == group):
            return True
    return False


@lru_cache(maxsize=16384)  # each window of a project is asked for each of its applications
def alternatives(pattern: str) -> tuple[str, ...]:
    """``{web,api}-*`` → ``web-*``, ``api-*``. Raises GlobProblem."""
    parts: list[list[str]] = []
    rest = pattern
    while rest:
        plain, brace, behind = rest.partition("{")
        if "}" in plain:
            raise GlobProblem("has a } without a { before it")
        parts.append([plain])
        if not brace:
            break
        inner, close, rest = behind.partition("}")
        if not close or "{" in inner:
            raise GlobProblem("has a { without its }, or one inside another")
        parts.append(inner.split(","))
    if "\\" in pattern:
        raise GlobProblem("holds a backslash; only *, ?, [a-z] and {a,b} have a meaning")
    if _product(map(len, parts)) > _MOST_ALTERNATIVES:
        raise GlobProblem(f"stands for more than {_MOST_ALTERNATIVES} patterns")
    found = tuple("".join(words) for words in product(*parts))
    if any(map(_is_cut_off, found)):
        raise GlobProblem("has a [ without its ]")
    return found


def _is_cut_off(glob: str) -> bool:
    """Is there a [ without its ]? fnmatch would take it literally; no name holds one, so it would match nothing."""
    at = 0
    while (at := glob.find("[", at)) >= 0:
        at += 2 if glob[at + 1 : at + 2] == "!" else 1
        at = glob.find("]", at + 1)  # one right at the beginning is one of the characters
        if at < 0:
            return True
    return False


def _product(numbers: Iterable[int]) -> int:
    total = 1
    for number in numbers:
        total *= number
    return total


def _any(patterns: Iterable[str], texts: Iterable[str]) -> bool:
    texts = list(texts)
    for pattern in patterns:
        for glob in alternatives(pattern):
            for text in texts:
                if fnmatchcase(text, glob):
                    return True
    return False


def _holds(requirement: LabelRequirement, labels: Mapping[str, str]) -> bool:
    """As Kubernetes has it: NotIn holds as well where the label is missing."""
    there, value = requirement.key in labels, labels.get(requirement.key)
    if requirement.operator == "In":
        return there and value in requirement.values
    if requirement.operator == "NotIn":
        return value not in requirement.values
    return there if requirement.operator == "Exists" else not there
