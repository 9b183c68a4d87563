"""Who may go past sync windows: what a signature is good for, and everything it is not."""

from __future__ import annotations

import pytest

from fleetbeat.decisions.overrides import LIFE, UNSIGNED, admitted, mark, refusal, sign, stands, told

KEY, OTHER = bytes(range(32)), bytes(range(1, 33))
NOW = 1_796_047_200_000  # 2026-11-30T14:00:00Z
ASKED = {"id": "q1", "by": "ann@laptop", "reason": "mends the outage"}


def request(key: bytes = KEY, app: str = "shop", now: int = NOW, **changed: str) -> dict[str, str]:
    signed = sign(key, app=app, request=ASKED["id"], by=ASKED["by"], reason=ASKED["reason"], now=now)
    return {**ASKED, "override_windows": signed, **changed}


def cut(signed: dict[str, str], **changed: str) -> dict[str, str]:
    """With another end of its time, or another MAC, than it was signed with."""
    until, _, mac = signed["override_windows"].partition(" ")
    return {**signed, "override_windows": f"{changed.get('until', until)} {changed.get('mac', mac)}"}


@pytest.mark.parametrize(
    ("key", "asked", "now"),
    [
        pytest.param(KEY, request(), NOW, id="signed"),
        pytest.param(KEY, request(), NOW + LIFE, id="to the last moment"),
        pytest.param(KEY, request(now=NOW + 30_000), NOW, id="Redis fell back by half a minute"),
        pytest.param(KEY, dict(ASKED), NOW, id="no override asked for"),
        pytest.param(None, {**ASKED, "override_windows": UNSIGNED}, NOW, id="nobody asks for a signature"),
        pytest.param(None, request(), NOW, id="signed, and nobody asks"),
    ],
)
def test_it_may(key: bytes | None, asked: dict[str, str], now: int) -> None:
    assert refusal(key, "shop", asked, now) == ""


@pytest.mark.parametrize(
    ("asked", "now", "says"),
    [
        pytest.param({**ASKED, "override_windows": UNSIGNED}, NOW, "it is not signed", id="not signed"),
        pytest.param(
            {**ASKED, "override_windows": UNSIGNED}, NOW, "FLEETBEAT_OVERRIDE_KEY", id="names what is missing"
        ),
        pytest.param(request(OTHER), NOW, "signed with another FLEETBEAT_OVERRIDE_KEY", id="another key"),
        pytest.param(request(app="bank"), NOW, "or was altered", id="copied to another application"),
        pytest.param(request(id="q2"), NOW, "or was altered", id="copied to another request"),
        pytest.param(request(by="eve@laptop"), NOW, "or was altered", id="by somebody else"),
        pytest.param(request(reason="because"), NOW, "or was altered", id="for another reason"),
        pytest.param(request(), NOW + LIFE + 1, "was good until 2026-11-30T14:10:00.000Z", id="copied, and later"),
        pytest.param(cut(request(), until=str(NOW + 10 * LIFE)), NOW, "or was altered", id="its time made longer"),
        pytest.param(request(now=NOW + 2 * LIFE), NOW, "too far ahead", id="signed for a time to come"),
        pytest.param(cut(request(), mac=""), NOW, "it is not signed", id="no MAC"),
        pytest.param(cut(request(), mac="ü" * 64), NOW, "or was altered", id="a MAC of other letters"),
        pytest.param(cut(request(), until="soon"), NOW, "it is not signed", id="no time"),
        pytest.param(cut(request(), until="9" * 20), NOW, "it is not signed", id="a time beyond 64 bits"),
        pytest.param(cut(request(), until="9" * 5000), NOW, "it is not signed", id="a time nobody lives to see"),
        pytest.param(cut(request(), until="٣"), NOW, "it is not signed", id="a digit of another script"),
        pytest.param(
            {
                **ASKED,
                "reason": " ",
                "override_windows": sign(KEY, app="shop", request="q1", by=ASKED["by"], reason=" ", now=NOW),
            },
            NOW,
            "gives no reason",
            id="no reason",
        ),
    ],
)
def test_it_may_not(asked: dict[str, str], now: int, says: str) -> None:
    assert says in refusal(KEY, "shop", asked, now)


RUN = {"run": "20261130T140000Z-3fa9c1", "digest": "sha256:1", "by": ASKED["by"], "reason": ASKED["reason"]}
KEPT = admitted(KEY, "shop", RUN["run"], RUN["digest"], request())


@pytest.mark.parametrize(
    ("key", "record", "may"),
    [
        pytest.param(KEY, {**RUN, "override_windows": KEPT}, True, id="its own"),
        pytest.param(None, {**RUN, "override_windows": UNSIGNED}, True, id="nobody asks"),
        pytest.param(KEY, {**RUN, "override_windows": UNSIGNED}, False, id="begun by a worker that does not ask"),
        pytest.param(KEY, {**RUN, "override_windows": request()["override_windows"]}, False, id="a request's"),
        pytest.param(KEY, {**RUN, "run": "another", "override_windows": KEPT}, False, id="of another run"),
        pytest.param(KEY, {**RUN, "digest": "sha256:2", "override_windows": KEPT}, False, id="of another bundle"),
        pytest.param(KEY, {**RUN, "reason": "other", "override_windows": KEPT}, False, id="for another reason"),
        pytest.param(OTHER, {**RUN, "override_windows": KEPT}, False, id="another key"),
        pytest.param(KEY, {**RUN, "override_windows": "ü"}, False, id="of other letters"),
        pytest.param(KEY, {**RUN, "override_windows": ""}, False, id="none was asked for"),
        pytest.param(None, dict(RUN), False, id="none was asked for, and nobody asks"),
    ],
)
def test_what_a_run_keeps_is_good_for_that_run(key: bytes | None, record: dict[str, str], may: bool) -> None:
    assert stands(key, "shop", record) is may


@pytest.mark.parametrize("key", [KEY, None])
def test_a_run_without_an_override_keeps_none(key: bytes | None) -> None:
    assert admitted(key, "shop", RUN["run"], RUN["digest"], ASKED) == ""


def test_what_is_told_does_not_help_to_forge_one() -> None:
    wrong = refusal(KEY, "shop", request(OTHER), NOW)
    right = request()["override_windows"].partition(" ")[2]
    assert right not in told(wrong)
    assert "The request is dropped" in told(wrong)


def test_a_mark_tells_keys_apart_and_nothing_of_them() -> None:
    assert mark(KEY) == mark(KEY) != mark(OTHER)
    assert mark(None) == ""
    assert KEY.hex()[:16] not in mark(KEY)
