"""What a SelfSubjectRulesReview means for a sync."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.decisions.rights import EVERYTHING, OF_A_KIND, OF_RECORDS, RECORDS, Right, applicable, lacking


def rule(groups: str, resources: str, verbs: str, **more: Any) -> dict[str, Any]:
    """``core`` stands for the group without a name."""
    names = ["" if group == "core" else group for group in groups.split()]
    return {"apiGroups": names, "resources": resources.split(), "verbs": verbs.split(), **more}


ALL = "get list create patch delete"


@pytest.mark.parametrize(
    ("rules", "of", "verbs", "lacks"),
    [
        ([], RECORDS, OF_RECORDS, OF_RECORDS),
        ([rule("*", "*", "*")], RECORDS, OF_RECORDS, ()),
        ([rule("*", "*", "*")], EVERYTHING, OF_A_KIND, ()),
        ([rule("core", "configmaps", "get list create update delete")], RECORDS, OF_RECORDS, ()),
        (
            [rule("core", "configmaps", "get list"), rule("core", "*", "create")],
            RECORDS,
            OF_RECORDS,
            ("update", "delete"),
        ),
        ([rule("core apps", "*", ALL)], EVERYTHING, OF_A_KIND, OF_A_KIND),
        ([rule("*", "*", "get list watch")], EVERYTHING, OF_A_KIND, ("create", "patch", "delete")),
        ([rule("apps", "configmaps", "*")], RECORDS, OF_RECORDS, OF_RECORDS),
        ([rule("core", "configmaps", "*", resourceNames=["one"])], RECORDS, OF_RECORDS, OF_RECORDS),
        ([{"verbs": ["get"]}], RECORDS, ("get",), ("get",)),
        ([{"apiGroups": None, "resources": None, "verbs": None}], RECORDS, ("get",), ("get",)),
    ],
    ids=[
        "nothing",
        "everything covers one kind",
        "everything",
        "by name",
        "rules add up",
        "all kinds of two groups are not everything",
        "reading alone",
        "another group's kind of that name",
        "objects by name do not count",
        "a rule about something else",
        "empty lists as null",
    ],
)
def test_what_is_lacking(rules: Any, of: Right, verbs: Any, lacks: tuple[str, ...]) -> None:
    assert lacking(rules, of, verbs) == lacks


def test_what_may_be_applied() -> None:
    rules = [
        rule("core", "configmaps services services/status", ALL),
        rule("apps", "deployments", "get list create"),
        rule("apps", "deployments statefulsets", "patch delete"),
        rule("core", "pods", "get list watch"),
    ]
    assert [str(right) for right in applicable(rules)] == ["configmaps", "services", "deployments.apps"]
