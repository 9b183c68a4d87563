"""What an application owns in a cluster: the names of it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.decisions import inventory
from fleetbeat.decisions.inventory import applyset_id, event_prefix, parent_name
from fleetbeat.model import ObjectId

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        (("web", "prod", "Secret", ""), "applyset-urL2h4aVg3a_edRtK9aAR8zrSuhnmBmUjQFVaar2EI4-v1"),
        (("fleet", "", "ApplySet", "sync.example.io"), "applyset-ac6_BecjNrcCb02oHBHwVBgn8KuqeLLwvM8hdkySdr0-v1"),
    ],
    ids=["namespaced", "cluster-scoped"],
)
def test_the_id_of_an_applyset(parent, expected):
    assert applyset_id(*parent) == expected
    assert len(expected) == 55


def test_the_parent_of_an_ordinary_application():
    assert parent_name("shop") == "app-shop"
    assert parent_name("shop.web-1") == "app-shop.web-1"


def test_long_names_that_begin_alike_never_mix():
    """Field case d12: 70 characters, the first 63 equal, character 63 a dash."""
    apps = ("a" * 62 + "-eu-west", "a" * 62 + "-us-east")
    assert {len(app) for app in apps} == {70}
    one, two = (parent_name(app) for app in apps)
    assert (one, two) == tuple(f"app-{app}" for app in apps)
    assert applyset_id(one, "fleetbeat") != applyset_id(two, "fleetbeat")
    long = ["x" * 250 + end for end in ("a", "b", "-c")]
    assert len({parent_name(name) for name in long}) == 3


NAMES = st.text(min_size=1, max_size=300) | st.from_regex(SUBDOMAIN, fullmatch=True)


@given(NAMES, NAMES)
def test_parent_names_are_valid_and_unique(one, two):
    for app in (one, two):
        name = parent_name(app)
        assert len(name) <= 253
        assert SUBDOMAIN.fullmatch(name)
        # not even the name of another application can be made to look like a hashed one
        assert parent_name(name) != name
    assert (parent_name(one) == parent_name(two)) == (one == two)


@pytest.mark.parametrize("app", ["shop", "a" * 62 + "-eu-west", "x" * 236, "x" * 237, "x" * 249, "x" * 250, "-a" * 120])
def test_names_of_events_are_valid(app):
    """Field case d12. The time of an Event stands behind the parent's name and must fit."""
    last = f"{event_prefix(parent_name(app))}{2**48 - 1:x}"
    assert len(last) <= 253
    assert SUBDOMAIN.fullmatch(last)


def test_names_of_events_never_mix():
    apps = ["x" * 236 + end for end in ("", "a", "ab", "abc", "-c")]
    assert len({event_prefix(parent_name(app)) for app in apps}) == 5
    assert event_prefix("app-shop") == "app-shop."


def test_group_kinds_and_namespaces():
    ids = [
        ObjectId("apps", "Deployment", "shop", "web"),
        ObjectId("", "Secret", "shop", "s"),
        ObjectId("", "Node", "", "n"),
    ]
    kinds = inventory.group_kinds(ids)
    assert inventory.format_group_kinds(kinds) == "Deployment.apps,Node,Secret"
    assert inventory.namespaces(ids) == {"shop"}
    assert inventory.parse_group_kinds(" Secret, Deployment.apps ,,Node") == kinds
    assert inventory.parse_group_kinds("") == frozenset()
    assert inventory.split_group_kind("Cart.shop.example.com") == ("shop.example.com", "Cart")
    assert inventory.split_group_kind("Secret") == ("", "Secret")


def test_claims_read_back_as_they_were_written():
    objects = {ObjectId("", "Namespace", "", "team"), ObjectId("rbac.authorization.k8s.io", "Role", "shop", "a,b")}
    assert inventory.parse_claims(inventory.format_claims(objects)) == objects
    assert inventory.parse_claims("") == frozenset()
    assert inventory.parse_claims("nonsense, /Namespace//team ,a/b") == {ObjectId("", "Namespace", "", "team")}
