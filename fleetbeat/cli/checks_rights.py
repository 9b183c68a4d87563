"""What `fleetbeat doctor` says of our rights in a cluster: everything, or what in which namespace."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fleetbeat.cli.checks import Check
from fleetbeat.decisions.rights import EVERYTHING, OF_A_KIND, OF_RECORDS, RECORDS, applicable, lacking
from fleetbeat.model import ApiResource
from fleetbeat.ports import ClusterPort

_ACCESS = ApiResource(
    "authorization.k8s.io", "v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews", namespaced=False
)
_RULES = ApiResource(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False
)
_MOST = 8  # kinds that are named
_PAGE = "docs/rights.md has the Roles to copy"


def rights(name: str, port: ClusterPort, home: str, namespaces: Collection[str]) -> Iterator[Check]:
    """May we apply everything? Less can be meant, so less is a warning, as long as there can be syncs at all.

    ``home``: the namespace of the records; ``namespaces``: the destinations of the cluster's applications.
    """
    name = f"{name} rights"
    if _may_patch_everything(port):
        yield Check(name, "ok", "may patch everything")
        return
    spaces = sorted({home, *namespaces} - {""})
    found = {space: rules for space in spaces if (rules := _rules(port, space)) is not None}
    if len(found) < len(spaces):
        todo = "bind the ClusterRole cluster-admin, or one that covers all kinds your bundles hold"
        yield Check(name, "warn", "may not patch everything", todo)
        return
    full: list[str] = []
    for space in sorted({*namespaces} - {""}):
        if not lacking(found[space], EVERYTHING, OF_A_KIND):
            full.append(f"everything in {space}")
        elif kinds := applicable(found[space]):
            more = f" and {len(kinds) - _MOST} more" if len(kinds) > _MOST else ""
            detail = f"in namespace {space} only {', '.join(map(str, kinds[:_MOST]))}{more}"
            yield Check(name, "warn", detail, f"if its bundles hold more: {_PAGE}")
        else:
            yield Check(name, "fail", f"may apply nothing in namespace {space}", _PAGE)
    if verbs := lacking(found[home], RECORDS, OF_RECORDS):
        detail = f"may not {' or '.join(verbs)} ConfigMaps in namespace {home}, the record of what is applied"
        yield Check(name, "fail", detail, _PAGE)
    else:
        full.append(f"records in {home}")
    if full:
        yield Check(name, "ok", f"per namespace: {', '.join(full)}")


def _may_patch_everything(port: ClusterPort) -> bool:
    attributes = {"verb": "patch", "group": "*", "resource": "*"}
    spec = {"resourceAttributes": attributes}
    return bool(_asked(port, _ACCESS, spec).get("allowed"))


def _rules(port: ClusterPort, namespace: str) -> Sequence[Mapping[str, Any]] | None:
    """None when the cluster cannot list them all: an authorizer other than RBAC need not."""
    status = _asked(port, _RULES, {"namespace": namespace})
    return None if status.get("incomplete") or "resourceRules" not in status else status["resourceRules"] or ()


def _asked(port: ClusterPort, review: ApiResource, spec: Mapping[str, Any]) -> Mapping[str, Any]:
    body = {"apiVersion": f"{review.group}/{review.version}", "kind": review.kind, "spec": dict(spec)}
    status: Mapping[str, Any] = port.create(review, body).body.get("status") or {}
    return status
