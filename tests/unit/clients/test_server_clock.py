"""A server's clock as the Date of its answers tells it, whatever the host's own clock says."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fleetbeat.clients.server_clock import ServerClock, http_date

HOST = datetime(2026, 11, 30, 13, 0, 0, tzinfo=UTC)  #: an hour ahead of the server
SENT = "Mon, 30 Nov 2026 12:00:00 GMT"
THERE = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


class Ticks:
    """A monotonic clock that stands still until it is told."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def ticks() -> Ticks:
    return Ticks()


@pytest.fixture
def clock(ticks: Ticks) -> ServerClock:
    return ServerClock(ticks, lambda: HOST)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SENT, THERE),
        ("Mon, 30 Nov 2026 13:00:00 +0100", THERE),
        ("Monday, 30-Nov-26 12:00:00 GMT", THERE),
        ("Mon, 30 Nov 2026 12:00:00 -0000", None),
        ("Mon, 31 Feb 2026 12:00:00 GMT", None),
        ("2026-11-30T12:00:00Z", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),
        ("soon", None),
        ("", None),
    ],
    ids=["usual", "offset", "rfc-850", "no-zone", "no-such-day", "iso", "the last year", "no clock", "words", "empty"],
)
def test_dates_of_http(text: str, found: datetime | None) -> None:
    assert http_date(text) == found


def test_the_servers_clock_goes_on_by_the_monotonic_one(clock: ServerClock, ticks: Ticks) -> None:
    clock.heard(SENT)
    assert clock.now() == THERE
    ticks.at += 90.5
    assert clock.now() == THERE + timedelta(seconds=90.5)


def test_the_first_answer_of_a_second_counts(clock: ServerClock, ticks: Ticks) -> None:
    """A Date is cut to the second: a later answer with the same one would set the clock back."""
    clock.heard(SENT)
    ticks.at += 0.75
    clock.heard(SENT)
    assert clock.now() == THERE + timedelta(seconds=0.75)


def test_a_server_whose_clock_is_set_is_followed(clock: ServerClock, ticks: Ticks) -> None:
    clock.heard(SENT)
    ticks.at += 5
    clock.heard("Mon, 30 Nov 2026 11:00:00 GMT")
    assert clock.now() == THERE - timedelta(hours=1)


@pytest.mark.parametrize("said", [None, "", "soon"])
def test_without_a_date_the_hosts_clock_has_to_do(clock: ServerClock, ticks: Ticks, said: str | None) -> None:
    clock.heard(said)
    assert clock.now() == HOST
    clock.heard(SENT)
    clock.heard(said)
    ticks.at += 1
    assert clock.now() == THERE + timedelta(seconds=1)
