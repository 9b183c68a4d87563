"""What a session towards a registry takes from the environment: the same as requests, asked for once per host."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest
import requests

from fleetbeat.clients import oci_http
from fleetbeat.clients.oci_http import Session
from fleetbeat.settings import Http

PROXY = {"HTTPS_PROXY": "http://proxy.example.com:3128", "NO_PROXY": "internal.example.com,10.0.0.0/8"}


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    oci_http._proxies.cache_clear()
    yield
    oci_http._proxies.cache_clear()


@pytest.mark.parametrize("verify", [True, False, None])
@pytest.mark.parametrize("proxies", [{}, {"https": "http://other.example.com:1"}])
@pytest.mark.parametrize(
    "url", ["https://r.example.com/v2/", "https://internal.example.com/v2/", "http://10.1.2.3/v2/"]
)
@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="empty"),
        pytest.param(PROXY, id="proxy"),
        pytest.param({"REQUESTS_CA_BUNDLE": "/etc/ca.pem"}, id="ca"),
        pytest.param({"CURL_CA_BUNDLE": "/etc/curl.pem"}, id="curl ca"),
    ],
)
def test_the_same_as_requests(
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    url: str,
    proxies: dict[str, str] | None,
    verify: object,
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    session = Session("r.example.com", Http(), plain_http=False, ca_pem=None, verify=True)
    ours = session.merge_environment_settings(url, dict(proxies), True, verify, None)
    theirs = requests.Session().merge_environment_settings(url, dict(proxies), True, verify, None)
    assert {name: value or {} for name, value in ours.items()} == {name: value or {} for name, value in theirs.items()}


def test_the_environment_is_read_once_per_host(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = mock.Mock(return_value={})
    monkeypatch.setattr(oci_http, "get_environ_proxies", reading)
    for path in ("manifests/a", "manifests/b", "blobs/c"):
        session = Session("r.example.com", Http(), plain_http=False, ca_pem=None, verify=True)
        session.merge_environment_settings(f"https://r.example.com/v2/{path}", None, True, True, None)
    assert reading.call_count == 1
