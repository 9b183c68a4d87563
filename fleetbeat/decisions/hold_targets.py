"""What a hold can be about: names that Kubernetes and the catalog can have. Pure.

A hold on a name that nothing can have holds nothing, in silence. There are no globs: `deployment/*` would be one.
"""

from __future__ import annotations

import re

from fleetbeat.decisions import names
from fleetbeat.decisions.problems import shown

_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
#: Wider than a subdomain: RBAC objects have names such as system:controller:job-controller.
_OBJECT = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9][-A-Za-z0-9._:]{0,252}")


def wrong(kind: str, target: str) -> str:
    """Why nothing can be meant by this target, "" when something can. Kinds and targets as in ``holds.Hold``."""
    if kind in ("app", "cluster") and not names.is_subdomain(target):
        return f"{shown(target)} is no name of {'an application' if kind == 'app' else 'a cluster'}"
    if kind == "namespace" and not names.is_label(target):
        return f"{shown(target)} is no name of a namespace"
    if kind == "label" and not names.is_labelled(target):
        return f"{shown(target)} is no label of applications, such as team=web"
    return _wrong_object(target) if kind == "object" else ""


def _wrong_object(target: str) -> str:
    parts = target.split("/")
    if len(parts) != 4:
        return f"{shown(target)} is not group/Kind/namespace/name"
    group, kind, namespace, name = parts
    if not (group in ("", "*") or names.is_subdomain(group)) or not _KIND.fullmatch(kind):
        return f"{shown('/'.join((group, kind)))} is no kind with its group"
    if namespace and not names.is_label(namespace):
        return f"{shown(namespace)} is no name of a namespace"
    if not _OBJECT.fullmatch(name):
        return f"{shown(name)} is no name of an object. A hold of several: one for each, or of the namespace"
    return ""
