"""``spec.healthCheckExprs``: what is read, and what each mistake is told as."""

from __future__ import annotations

from typing import Any

import pytest

from fleetbeat.catalog import parse_application
from fleetbeat.errors import CatalogError
from fleetbeat.model import HealthRule

AT = "shop.yaml, Application shop: spec.healthCheckExprs"
CART = {"apiVersion": "shop.example.com/v1", "kind": "Cart", "current": "status.phase == 'Full'"}


def application(rules: Any) -> dict[str, Any]:
    return {
        "apiVersion": "fleetbeat.dev/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "shop"},
        "spec": {
            "source": {"oci": "registry.example.com/shop"},
            "destination": {"cluster": "prod"},
            "healthCheckExprs": rules,
        },
    }


def rules(written: Any) -> tuple[HealthRule, ...]:
    return parse_application(application(written), "shop.yaml").health_rules


def test_rules_are_read():
    written = [
        {
            **CART,
            "inProgress": "has(status.phase) &&\n  status.phase == 'Filling'\n",
            "failed": "status.phase == 'Lost'",
        },
        {"apiVersion": "v1", "kind": "Service", "current": "true"},
    ]
    assert rules(written) == (
        HealthRule(
            "shop.example.com",
            "Cart",
            current="status.phase == 'Full'",
            in_progress="has(status.phase) &&\n  status.phase == 'Filling'",
            failed="status.phase == 'Lost'",
        ),
        HealthRule("", "Service", current="true"),
    )


@pytest.mark.parametrize("written", [None, []], ids=["empty", "no-rules"])
def test_none(written):
    assert rules(written) == ()


MISTAKES: dict[str, tuple[Any, str]] = {
    "no-list": (CART, ": must be a list, not a mapping"),
    "no-mapping": (["Cart"], "[0]: must be a mapping of fields, not text"),
    "no-kind": ([{k: v for k, v in CART.items() if k != "kind"}], "[0].kind: missing: e.g. Certificate"),
    "no-api-version": ([{k: v for k, v in CART.items() if k != "apiVersion"}], "[0].apiVersion: missing: with kind"),
    "no-current": ([{k: v for k, v in CART.items() if k != "current"}], "[0].current: missing: CEL that is true for"),
    "group-alone": ([{**CART, "apiVersion": "shop.example.com"}], "[0].apiVersion: must be group/version, such as"),
    "plural": ([{**CART, "kind": "carts"}], '[0].kind: must be a kind, such as Certificate, not "carts"'),
    "syntax": (
        [{**CART, "failed": "status.phase = 1"}],
        "[0].failed: is not CEL that can be read: character 14: Syntax",
    ),
    "not-true-or-false": ([{**CART, "current": "'Full'"}], "[0].current: must be true or false; it gives text"),
    "a-boolean": ([{**CART, "current": True}], "[0].current: must be text, not true or false. Put quotes around it"),
    "unknown-field": ([{**CART, "inprogress": "true"}], "[0].inprogress: unknown field. Did you mean inProgress?"),
    "twice": ([CART, {**CART, "apiVersion": "shop.example.com/v2"}], "[1].kind: Cart of this group has a rule already"),
    "too-many": ([CART] * 101, ": has 101 rules; at most 100 are read"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_field(name):
    written, said = MISTAKES[name]
    with pytest.raises(CatalogError) as caught:
        rules(written)
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].startswith(AT + said)
