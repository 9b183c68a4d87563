"""Custom rules: what the catalog's author is told, and what no object and no expression can do.

What they decide is told by the golden cases ``rule-*``.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions.health import custom, health
from fleetbeat.model import HealthRule
from fleetbeat.model_results import Health

KNOWN = ". Known are apiVersion, kind, metadata, spec, status, data, self, which is the whole object"
PROBLEMS = {
    "syntax": ("status.phase = 'x'", "is not CEL that can be read: character 14: Syntax error: token recognition"),
    "second-line": (
        "[1].all(x,\n x == y)",
        "is not CEL that can be read: line 2, character 7: undeclared reference to 'y'",
    ),
    "unknown-function": ("now() > 1", "is not CEL that can be read: character 4: undeclared reference to 'now'"),
    "unknown-field": (
        "webhooks.size() > 1",
        "is not CEL that can be read: character 1: undeclared reference to 'webhooks'" + KNOWN,
    ),
    "number": ("spec.size + 1 > 1 ? 1 : 2", "must be true or false; it gives a number"),
    "text": ("'Healthy'", "must be true or false; it gives text"),
    "list": ("status.conditions.filter(c, c.type == 'Ready')", "must be true or false; it gives a list"),
    "optional": ("optional.of(true)", "must be true or false; it gives an optional value, which orValue(…)"),
    "too-long": ("true || " * 300 + "true", "is 2404 characters long; at most 2000 are read"),
    "too-deep": (
        "(" * 40 + "true" + ")" * 40,
        "is not CEL that can be read: Expression recursion limit exceeded. limit: 32",
    ),
    "types-that-never-fit": (
        "1 == 'x'",
        "is not CEL that can be read: character 3: found no matching overload for '_==_'",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_is_told_at_its_place(name):
    expression, said = PROBLEMS[name]
    assert custom.problem(expression).startswith(said)


GOOD = [
    "true",
    "status.conditions.filter(e, e.type == 'Ready').all(e, e.status == 'True')",
    "status.conditions.exists(e, e.type == 'Ready' && e.status == 'True')",
    "metadata.generation != status.observedGeneration",
    "has(status.phase) && status.phase in ['Running', 'Done']",
    "status.?conditions.orValue([]).exists(c, c.type == 'Available')",
    "status.conditions.map(c, c.type) == ['Ready']",
    "self.webhooks.size() > 0",
    "timestamp(metadata.creationTimestamp) < timestamp('2030-01-01T00:00:00Z')",
    "status.phase.lowerAscii().startsWith('run')",
    "// for people\nstatus.phase == 'Up'",
]


@pytest.mark.parametrize("expression", GOOD)
def test_what_flux_reads_is_read(expression):
    assert custom.problem(expression) == ""


CART = {"apiVersion": "shop.example.com/v1", "kind": "Cart", "metadata": {"name": "main"}}


def judged(expression: str, **fields: object) -> Health:
    rule = HealthRule("shop.example.com", "Cart", expression)
    return health({**CART, **fields}, rules=custom.by_kind([rule]))


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("status.items.all(a, status.items.all(b, status.items.all(c, true)))", {"items": list(range(1000))}),
        ("status.text.matches('(x+x+)+y')", {"text": "x" * 100_000}),
        ("status.big == 1", {"big": 2**70}),
        ("status.deep == {}", {"deep": {"a": [{}] * 5000}}),
        ("1 / status.zero == 1", {"zero": 0}),
        ("status.list[7] == 1", {"list": []}),
    ],
    ids=["loops", "regular-expression", "integer", "large-object", "division", "index"],
)
def test_no_rule_hurts_the_worker(expression, status):
    """It comes to an end, soon, and what it could not answer is not Healthy."""
    assert judged(expression, status=status).status in ("Unknown", "Progressing")


def test_a_value_of_the_object_is_not_quoted():
    found = judged("status.big == 1", status={"big": 2**70, "password": "s3cr3t"})
    assert found.status == "Unknown"
    assert "s3cr3t" not in found.message
    assert str(2**70) not in found.message.partition("out of range")[2]


def test_null_reads_like_nothing():
    assert judged("!has(status.phase)", status=None).status == "Healthy"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(JSON, JSON)
def test_no_object_is_too_odd_for_a_rule(spec, status):
    found = judged("status.conditions.exists(c, c.type == 'Ready' && spec.size > 1)", spec=spec, status=status)
    assert found.status in ("Healthy", "Progressing", "Unknown")


def test_rules_are_read_by_many_threads_at_once():
    objects = [{"phase": "Up" if number % 2 else "Down"} for number in range(400)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda status: judged("status.phase == 'Up'", status=status).status, objects))
    assert found == ["Healthy" if number % 2 else "Progressing" for number in range(400)]


def test_the_interpreter_is_not_loaded_without_a_rule():
    """It would cost every worker's start and memory."""
    script = (
        "import sys; from fleetbeat.decisions.health import health; "
        "health({'apiVersion': 'v1', 'kind': 'Pod', 'metadata': {}}, rules={}); "
        "sys.exit('cel_expr_python' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=240).returncode == 0
