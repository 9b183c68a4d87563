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
    names = {application.destination.cluster}
    if cluster is not None:
        server = (_IN_CLUSTER if cluster.in_cluster else cluster.server).rstrip("/")
        names |= {server, f"{server}/"} if server else set()
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
    return tuple("".join(words) for words in product(*parts))


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
