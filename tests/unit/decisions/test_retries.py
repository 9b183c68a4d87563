"""What a retry has of the run it repeats, and for how long. Field case e5."""

from __future__ import annotations

import orjson
import pytest

from fleetbeat.decisions import overrides
from fleetbeat.decisions.lifecycle import origin
from fleetbeat.decisions.overrides import LIFE, UNSIGNED, admitted
from fleetbeat.decisions.retries import Repeated, kept, of

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
RUN, NOW = "20261130T140000Z-3fa9c1", 1_796_047_200_000  # 2026-11-30T14:00:00Z
DIGEST = "sha256:" + "1" * 64
WHO = {"by": "ann@laptop", "reason": "mends the outage"}
ASKED = {"run": RUN, "trigger": "Request", "digest": DIGEST, "promise": "3f9a1c22b0d4", "confirm_prune": "1", **WHO}


def record(key: bytes | None = KEY, **changed: str) -> dict[str, str]:
    """Of a run that overrides windows."""
    override = admitted(key, "shop", RUN, DIGEST, {**WHO, "override_windows": UNSIGNED})
    return {**ASKED, "override_windows": override, **changed}


def state(run: dict[str, str], failures: int = 1, key: bytes | None = KEY) -> dict[str, str]:
    return {"repeat": kept(key, "shop", run), "failures": str(failures)}


def repeated(left: dict[str, str], now: int = NOW, key: bytes | None = KEY, digest: str = DIGEST) -> Repeated:
    return of(left, key=key, app="shop", digest=digest, limit=5, now=now)


def test_it_keeps_who_asked_why_and_for_what() -> None:
    found = repeated(state(record()))
    assert found.fields() == {
        "retry_of": RUN,
        "repeats": "Request",
        "confirm_prune": "1",
        "promise": "3f9a1c22b0d4",
        **WHO,
    }
    assert found.override_windows == record()["override_windows"]


@pytest.mark.parametrize(
    ("trigger", "failures", "expected"),
    [
        pytest.param("Request", 5, "Request", id="as often as sync.retry.limit says"),
        pytest.param("Request", 6, "", id="at the interval afterwards it is nobody's"),
        pytest.param("Revision", 1, "Revision", id="automated"),
        pytest.param("Drift", 1, "Drift", id="self-heal"),
        pytest.param("Drift", 100, "Drift", id="self-heal for good"),
        pytest.param("Hold", 100, "Hold", id="of a hold that is noted too"),
    ],
)
def test_its_class(trigger: str, failures: int, expected: str) -> None:
    assert repeated(state(record(trigger=trigger), failures)).trigger == expected


def test_a_retry_of_a_retry_repeats_the_first() -> None:
    first = repeated(state(record()))
    second = "20261130T140005Z-aaaaaa"
    override = admitted(KEY, "shop", second, DIGEST, {**WHO, "override_windows": first.override_windows})
    again = {**first.fields(), "run": second, "trigger": "Retry", "digest": DIGEST, "override_windows": override}
    assert origin(again) == "Request"
    assert overrides.stands(KEY, "shop", again)
    assert repeated(state(again, 2)) == first


@pytest.mark.parametrize(
    ("left", "now", "key", "digest"),
    [
        pytest.param(state(record()), NOW + LIFE + 1, KEY, DIGEST, id="ten minutes after the first run began"),
        pytest.param(state(record()), NOW - LIFE - 1, KEY, DIGEST, id="a run that has not begun yet"),
        pytest.param(state(record()), NOW, KEY, "sha256:" + "2" * 64, id="another bundle"),
        pytest.param(state(record()), NOW, OTHER, DIGEST, id="another key by now"),
        pytest.param(state(record(by="eve")), NOW, KEY, DIGEST, id="a run that was nobody's to override"),
        pytest.param(state(record(override_windows="1")), NOW, KEY, DIGEST, id="written into the record by hand"),
        pytest.param(state(record(None), key=None), NOW, KEY, DIGEST, id="from before there was a key"),
        pytest.param(state({**ASKED}), NOW, KEY, DIGEST, id="none was asked for"),
    ],
)
def test_an_override_that_does_not_go_with_it(left: dict[str, str], now: int, key: bytes, digest: str) -> None:
    found = repeated(left, now, key, digest)
    assert found.override_windows == ""
    assert found.trigger == "Request"


def test_an_override_where_nobody_asks_for_a_signature_has_the_same_time() -> None:
    left = state(record(None), key=None)
    assert repeated(left, NOW + LIFE, None).override_windows == UNSIGNED
    assert repeated(left, NOW + LIFE + 1, None).override_windows == ""


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "1", "{", '{"another": "form"}', '{"run": "20261330T000000Z", "trigger": "Request"}']
)
def test_what_says_nothing_or_has_another_form(text: str) -> None:
    assert repeated({"repeat": text, "failures": "1"}).override_windows == ""


def test_no_secret_and_no_field_of_another_kind_is_kept() -> None:
    assert set(orjson.loads(kept(KEY, "shop", {**record(), "message": "x"}))) == {
        *("run", "trigger", "by", "reason", "confirm_prune", "promise", "override_windows")
    }
