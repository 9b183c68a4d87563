"""Health of live objects. The cases are files: ``tests/golden/health/<kind>-<state>/{live,expected}.yaml``.

``expected.yaml`` has the status and message, the field case where there is one, and under ``given`` what is
known beside the object.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.health import IGNORE, RULES, custom, health, is_ignored, worst
from fleetbeat.model import HealthRule
from fleetbeat.model_results import Health

CASES = Path(__file__).parents[2] / "golden" / "health"


def rule(written: dict[str, str]) -> HealthRule:
    """As in the catalog's ``healthCheckExprs``."""
    group = written["apiVersion"].rpartition("/")[0]
    return HealthRule(
        group, written["kind"], written["current"], written.get("inProgress", ""), written.get("failed", "")
    )


def load(path: Path):
    # BaseLoader would make texts of everything, SafeLoader dates of times: an API server sends neither.
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: loader.construct_scalar(node))
    return yaml.load(path.read_text(), Loader)  # noqa: S506 - derived from SafeLoader


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_health(case):
    expected = load(CASES / case / "expected.yaml")
    options = dict(expected.get("given") or {})
    if "now" in options:
        options["now"] = datetime.fromisoformat(options["now"])
    if "rules" in options:
        options["rules"] = custom.by_kind(map(rule, options["rules"]))
    result = health(load(CASES / case / "live.yaml"), **options)
    assert (result.status, result.message) == (expected["status"], expected["message"])


def test_without_a_clock_nothing_is_late():
    live = load(CASES / "pod-unschedulable" / "live.yaml")
    assert health(live).status == "Progressing"


def test_a_rule_is_for_its_group():
    """A Service of another group is a custom resource, not a Service without load balancer."""
    live = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "spec": {"type": "LoadBalancer"}}
    assert health(live) == Health("Progressing", "no status reported yet")


@pytest.mark.parametrize(
    ("metadata", "ignored"),
    [
        ({"annotations": {IGNORE: "true"}}, True),
        ({"annotations": {IGNORE: "True"}}, False),
        ({"annotations": {IGNORE: "false"}}, False),
        ({"annotations": None}, False),
        ({}, False),
        (None, False),
    ],
    ids=["true", "another-case", "false", "null", "absent", "no-metadata"],
)
def test_ignore_healthcheck(metadata, ignored):
    assert is_ignored({"metadata": metadata}) is ignored


FIELDS = st.sampled_from(
    [
        "conditions",
        "type",
        "status",
        "reason",
        "message",
        "observedGeneration",
        "replicas",
        "phase",
        "loadBalancer",
        "ingress",
        "ip",
        "containerStatuses",
        "state",
        "waiting",
        "terminated",
        "exitCode",
        "updateStrategy",
        "rollingUpdate",
        "partition",
        "suspend",
        "active",
        "lastScheduleTime",
        "lastSuccessfulTime",
        "creationTimestamp",
        "schedule",
        "timeZone",
        "name",
        "paused",
        "restartPolicy",
        "progressDeadlineSeconds",
        "generation",
        "annotations",
        "lastTransitionTime",
    ]
)
GROUP_KINDS = st.sampled_from(sorted([*RULES, "Cart.shop.example.com"]))
TIMES = ("2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:00Z", "0 0 * * *", "Europe/Berlin")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from(["True", "False", "Ready", "x", "[1]", *TIMES]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=20,
)
NOW = datetime.fromisoformat("2026-01-01T00:00:00Z")


@given(GROUP_KINDS, JSON, JSON, JSON)
def test_no_object_is_too_odd_to_judge(group_kind, metadata, spec, status):
    """Field case h4: never crashes, whatever is missing or misshapen."""
    kind, _, group = group_kind.partition(".")
    live = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status}
    assert isinstance(health(live, now=NOW), Health)


WORST = [
    ("nothing", [], "Healthy"),
    ("all-well", ["Healthy", "Healthy"], "Healthy"),
    ("suspended-leaves-it-healthy", ["Healthy", "Suspended"], "Healthy"),
    ("only-suspended", ["Suspended"], "Healthy"),
    ("progressing", ["Healthy", "Progressing", "Suspended"], "Progressing"),
    ("degraded-beats-progressing", ["Progressing", "Degraded", "Healthy"], "Degraded"),
    ("one-missing-of-three", ["Healthy", "Missing", "Progressing"], "Progressing"),
    ("all-missing", ["Missing", "Missing"], "Missing"),
    ("missing-and-suspended", ["Missing", "Suspended"], "Healthy"),
    ("unknown-beats-all", ["Unknown", "Degraded"], "Unknown"),
]


@pytest.mark.parametrize(("statuses", "expected"), [w[1:] for w in WORST], ids=[w[0] for w in WORST])
def test_the_health_of_an_application(statuses, expected):
    """Field cases h3 and h9."""
    assert worst(statuses) == expected
    assert worst([Health(status) for status in statuses]) == expected
