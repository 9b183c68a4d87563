"""What `fleetbeat doctor` says of rights that end at some namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.cli.checks_rights import rights
from fleetbeat.ports import Written

RECORDS = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "update", "delete"]}
EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
APPS = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get", "list", "create", "patch", "delete"]}
READING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}


class Api:
    """Answers reviews: nothing cluster-wide, and in each namespace the rules it is made with."""

    def __init__(self, **rules: list[dict[str, Any]]) -> None:
        self._rules = rules
        self.incomplete = False

    def create(self, resource: Any, body: Any) -> Written:
        assert (body["apiVersion"], body["kind"]) == ("authorization.k8s.io/v1", resource.kind)
        if resource.kind == "SelfSubjectAccessReview":
            return Written({"status": {"allowed": False}}, created=True, audit_id="")
        found = self._rules.get(body["spec"]["namespace"])
        return Written({"status": {"incomplete": self.incomplete, "resourceRules": found}}, created=True, audit_id="")


def said(api: Api, *namespaces: str) -> list[tuple[str, str]]:
    return [(check.state, check.detail) for check in rights("prod", api, "fleetbeat", namespaces)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rules", "namespaces", "expected"),
    [
        (
            {"fleetbeat": [RECORDS], "shop": [EVERYTHING]},
            ["shop"],
            [("ok", "per namespace: everything in shop, records in fleetbeat")],
        ),
        (
            {"fleetbeat": [EVERYTHING]},
            ["fleetbeat"],
            [("ok", "per namespace: everything in fleetbeat, records in fleetbeat")],
        ),
        (
            {"fleetbeat": [RECORDS], "shop": [RECORDS, APPS]},
            ["shop"],
            [("warn", "in namespace shop only deployments.apps"), ("ok", "per namespace: records in fleetbeat")],
        ),
        (
            {"fleetbeat": [RECORDS], "shop": [READING]},
            ["shop"],
            [("fail", "may apply nothing in namespace shop"), ("ok", "per namespace: records in fleetbeat")],
        ),
        (
            {"shop": [EVERYTHING]},
            ["shop"],
            [
                (
                    "fail",
                    "may not get or list or create or update or delete ConfigMaps in namespace fleetbeat, the record "
                    "of what is applied",
                ),
                ("ok", "per namespace: everything in shop"),
            ],
        ),
    ],
    ids=["enough", "at home", "some kinds", "reading alone", "no records"],
)
def test_rights_per_namespace(rules: Any, namespaces: list[str], expected: list[tuple[str, str]]) -> None:
    assert said(Api(**rules), *namespaces) == expected


def test_an_authorizer_that_cannot_tell_is_not_guessed_at() -> None:
    api = Api(fleetbeat=[RECORDS], shop=[EVERYTHING])
    api.incomplete = True
    assert said(api, "shop") == [("warn", "may not patch everything")]
