"""What is forgotten because its kind is gone must not be forgotten because an answer was old."""

from __future__ import annotations

import pytest

from fleetbeat.engine.kinds import api_set_with_owned
from fleetbeat.errors import NotYet
from fleetbeat.model import ApiResource, ApiSet

CART = ApiResource("shop.example.com", "v1", "Cart", "carts", True)


class Cluster:
    """Answers from its cache, and asks anew only when it may."""

    name = "prod"

    def __init__(self, old: ApiSet, new: ApiSet | None) -> None:
        self._old, self._new = old, new

    def api_set(self, *, refresh: bool = False) -> ApiSet:
        return self._new if refresh and self._new is not None else self._old


def served(*resources: ApiResource) -> ApiSet:
    return ApiSet(resources, complete=True)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [(served(CART), None, True), (served(), served(CART), True), (served(), served(), False)],
    ids=["known", "learnt", "gone"],
)
def test_a_kind_we_have_objects_of(old: ApiSet, new: ApiSet | None, found: bool) -> None:
    apis = api_set_with_owned(Cluster(old, new), [], ["Cart.shop.example.com"])  # type: ignore[arg-type]
    assert (apis.find("shop.example.com", "Cart") is not None) == found


def test_not_gone_on_the_word_of_an_old_answer() -> None:
    with pytest.raises(NotYet, match=r"to be sure that Cart\.shop\.example\.com is gone"):
        api_set_with_owned(Cluster(served(), None), [], ["Cart.shop.example.com"])  # type: ignore[arg-type]
