"""What is not as it was when a plan was saved."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.promise import Promise, broken
from fleetbeat.model import ObjectId

A, B = ObjectId("", "ConfigMap", "shop", "a"), ObjectId("", "ConfigMap", "shop", "b")
DIGEST, OTHER = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def promise(digest: str = DIGEST, spec: str = "s", app: str = "shop", **writes: tuple[str, str]) -> Promise:
    return Promise(app, digest, spec, {{"a": A, "b": B}[name]: write for name, write in writes.items()})


SAVED = promise(a=("apply", "u1/7"), b=("create", ""))

CASES = [
    pytest.param(promise(b=("create", ""), a=("apply", "u1/7")), "", id="the same"),
    pytest.param(promise(app="carts"), "it was made for shop", id="another application"),
    pytest.param(
        promise(digest=OTHER),
        "it was made for 111111111111, and the application is to have 222222222222 now",
        id="another bundle",
    ),
    pytest.param(
        promise(spec="t"), "the application's catalog entry, or its cluster's, was edited since", id="another spec"
    ),
    pytest.param(
        promise(a=("apply", "u1/8"), b=("create", "")), "ConfigMap shop/a was changed", id="changed by somebody"
    ),
    pytest.param(
        promise(a=("create", ""), b=("create", "")), "ConfigMap shop/a would be created, not configured", id="deleted"
    ),
    pytest.param(promise(b=("create", "")), "ConfigMap shop/a need not be configured any more", id="done by somebody"),
]


@pytest.mark.parametrize(("now", "why"), CASES)
def test_what_has_moved(now: Promise, why: str) -> None:
    assert broken(SAVED, now) == why


def test_something_more() -> None:
    assert broken(promise(), promise(b=("prune", "u1/9"))) == "ConfigMap shop/b would be pruned"


def test_what_is_held_is_not_called_done_by_somebody() -> None:
    """Field case e5. An object that is held and would not have been written anyway is not told."""
    why = "hold 3fa9c1 of object ConfigMap shop/a by ann until 2026-11-30T18:00:00Z: drain"
    now = promise(b=("create", ""))
    assert broken(SAVED, now, {A: why}) == f"ConfigMap shop/a would not be configured: {why}"
    assert broken(now, now, {A: why}) == ""


def test_many_are_counted() -> None:
    keys = [ObjectId("", "ConfigMap", "shop", f"c{number}") for number in range(8)]
    now = Promise("shop", DIGEST, "s", dict.fromkeys(keys, ("create", "")))
    assert broken(promise(), now).endswith("ConfigMap shop/c4 would be created and 3 more")


def test_it_is_read_back() -> None:
    assert Promise.from_json(SAVED.to_json()) == SAVED
