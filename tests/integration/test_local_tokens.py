"""The token dance between the local registry and its token service."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import urllib3

from fleetbeat.local.registry import Registry
from fleetbeat.local.tokens import TokenService

BASIC = {"Authorization": "Basic " + base64.b64encode(b"ci:pw").decode()}


@pytest.fixture(scope="module")
def service() -> Iterator[TokenService]:
    with TokenService({"ci": "pw"}) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(local_binary: Path, service: TokenService) -> Iterator[Registry]:
    with Registry(token=service.auth) as running:
        yield running


def token(service: TokenService, scope: str, headers: dict[str, str] | None = None) -> dict[str, str]:
    query = urlencode({"service": "registry", "scope": scope})
    answer = urllib3.request("GET", f"{service.realm}?{query}", headers=headers, retries=False)
    assert answer.status == 200
    return {"Authorization": "Bearer " + json.loads(answer.data)["token"]}


def test_registry_sends_strangers_to_the_token_service(guarded: Registry, service: TokenService) -> None:
    answer = urllib3.request("GET", f"{guarded.url}/v2/shop/tags/list", retries=False)
    assert answer.status == 401
    challenge = answer.headers["WWW-Authenticate"]
    assert challenge == f'Bearer realm="{service.realm}",service="registry",scope="repository:shop:pull"'


@pytest.mark.parametrize(
    ("headers", "status"), [(BASIC, 202), (None, 401)], ids=["a user may push", "nobody may not push"]
)
def test_who_may_push(headers: dict[str, str] | None, status: int, guarded: Registry, service: TokenService) -> None:
    bearer = token(service, "repository:shop:pull,push", headers)
    answer = urllib3.request("POST", f"{guarded.url}/v2/shop/blobs/uploads/", headers=bearer, retries=False)
    assert answer.status == status
    assert service.asked[-1] == ("ci" if headers else "", ("repository:shop:pull,push",))


def test_nobody_may_pull(guarded: Registry, service: TokenService) -> None:
    bearer = token(service, "repository:shop:pull")
    answer = urllib3.request("GET", f"{guarded.url}/v2/shop/manifests/none", headers=bearer, retries=False)
    assert answer.status == 404


def test_a_wrong_password_is_refused(service: TokenService) -> None:
    wrong = {"Authorization": "Basic " + base64.b64encode(b"ci:guess").decode()}
    assert urllib3.request("GET", service.realm, headers=wrong, retries=False).status == 401
