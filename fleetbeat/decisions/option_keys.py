"""The labels and annotations Fleetbeat knows of, and what a misspelt one was meant to be.

A key that nobody reads changes nothing, in silence: ``argocd.argoproj.io/sync-wav`` leaves the object in wave 0.
docs/conventions.md says of each key whether it has an effect.
"""

from __future__ import annotations

import difflib
from typing import Literal

from fleetbeat.decisions import self_heal
from fleetbeat.decisions.problems import nearest

Place = Literal["annotation", "label", "either"]


def _keys(place: Place, prefix: str, names: str) -> dict[str, Place]:
    return {f"{prefix}/{name}": place for name in names.split()}


#: key → where it counts
KNOWN: dict[str, Place] = {
    **_keys(
        "annotation",
        "argocd.argoproj.io",
        "sync-wave hook hook-delete-policy sync-options compare-options ignore-healthcheck ignore-restart-policy "
        "ignore-resource-updates ignore-differences-json-pointers tracking-id installation-id skip-reconcile refresh "
        "refresh-timestamp deletion-approved client-side-apply-migration-manager manifest-generate-paths "
        "managed-by-url ignore-default-links hydrate hydrate-timestamp application-set-refresh",
    ),
    **_keys(
        "label",
        "argocd.argoproj.io",
        "secret-type instance auto-label-cluster-info kubernetes-version application-set-name",
    ),
    **_keys("either", "kustomize.toolkit.fluxcd.io", "reconcile ssa force prune substitute decrypt"),
    **_keys("label", "kustomize.toolkit.fluxcd.io", "name namespace"),
    **_keys("either", "helm.toolkit.fluxcd.io", "driftDetection"),
    **_keys("label", "helm.toolkit.fluxcd.io", "name namespace"),
    **_keys("annotation", "reconcile.fluxcd.io", "requestedAt forceAt resetAt"),
    **_keys("label", "reconcile.fluxcd.io", "watch"),
    **_keys("label", "sharding.fluxcd.io", "key"),
    **_keys("label", "applyset.kubernetes.io", "id part-of is-parent-type"),
    **_keys("annotation", "applyset.kubernetes.io", "tooling contains-group-kinds additional-namespaces inventory"),
    **_keys("annotation", "config.kubernetes.io", "depends-on apply-time-mutation origin local-config"),
    **_keys("annotation", "config.k8s.io", "owning-inventory"),
    **_keys("annotation", "client.lifecycle.config.k8s.io", "deletion mutation"),
    **_keys("annotation", "cli-utils.sigs.k8s.io", "on-remove"),
    **_keys("annotation", "helm.sh", "resource-policy hook hook-weight hook-delete-policy"),
    **_keys("label", "helm.sh", "chart"),
}

OURS = "fleetbeat.dev/"
#: Of our own keys those that a manifest may carry; all others are written by us.
OF_A_MANIFEST = self_heal.KEYS

#: Prefix whose every name is in ``KNOWN``, as far as this version goes.
_COMPLETE = "argocd.argoproj.io/"
#: Prefixes whose names people choose themselves.
_FREE = ("link.argocd.argoproj.io", "notice.argocd.argoproj.io", "pref.argocd.argoproj.io", "event.toolkit.fluxcd.io")
_NAMES_BY_PREFIX: dict[str, list[str]] = {}
for _key in KNOWN:
    _prefix, _, _name = _key.partition("/")
    _NAMES_BY_PREFIX.setdefault(_prefix, []).append(_name)

#: Likeness of names under a known prefix from which on one is a misspelling of the other, and of prefixes before a
#: known name. Found by trying: "sync-wav", "syncwave", "hook-deletion-policy" are above, "hook-log" is below.
_NAME_LIKE, _PREFIX_LIKE = 0.75, 0.75


def misspelt(key: str) -> str:
    """The known key that was probably meant, "" for one that is known or resembles none."""
    prefix, slash, name = key.partition("/")
    if not slash or key in KNOWN or prefix in _FREE:
        return ""
    if prefix in _NAMES_BY_PREFIX:
        close = nearest(name, _NAMES_BY_PREFIX[prefix], _NAME_LIKE)
        return f"{prefix}/{close}" if close else ""
    homes = [known for known, names in _NAMES_BY_PREFIX.items() if name in names]
    close = next(iter(difflib.get_close_matches(prefix, homes, n=1, cutoff=_PREFIX_LIKE)), "")
    return f"{close}/{name}" if close else ""


def is_stranger(key: str) -> bool:
    """Under Argo CD's prefix, and neither known nor like anything known: perhaps of a later version."""
    return key.startswith(_COMPLETE) and key not in KNOWN and not misspelt(key)
