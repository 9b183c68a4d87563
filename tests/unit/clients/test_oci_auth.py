"""Challenges, docker's stored logins, and credentials read at use."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
import requests

from fleetbeat.clients import credentials
from fleetbeat.clients.oci_auth import Login, docker_login, parse_challenges
from fleetbeat.clients.oci_http import Session
from fleetbeat.clients.oci_push import without_credentials
from fleetbeat.errors import ConfigurationError, Unauthorized
from fleetbeat.model import Credential, RegistryAuth, SecretText
from fleetbeat.settings import Http


@pytest.mark.parametrize(
    ("header", "parsed"),
    [
        ("", {}),
        ("Negotiate", {}),
        ('Basic realm="r"', {"basic": {"realm": "r"}}),
        (
            'Bearer realm="https://a.example/token",service="s",scope="repository:a/b:pull,push"',
            {"bearer": {"realm": "https://a.example/token", "service": "s", "scope": "repository:a/b:pull,push"}},
        ),
        ('bearer Realm = "x", SERVICE=y', {"bearer": {"realm": "x", "service": "y"}}),
        ('Basic realm="a, b=c", Bearer realm="d"', {"basic": {"realm": "a, b=c"}, "bearer": {"realm": "d"}}),
        (r'Basic realm="a\"b"', {"basic": {"realm": 'a"b'}}),
        ('Bearer realm=""', {"bearer": {"realm": ""}}),
    ],
)
def test_challenges(header: str, parsed: dict[str, dict[str, str]]) -> None:
    assert parse_challenges(header) == parsed


def test_token_server_without_tls_is_not_given_the_password() -> None:
    """Field case g7: no falling back to insecure unasked."""
    session = Session("r.example", Http(), plain_http=False, ca_pem=None, verify=True)
    auth = RegistryAuth(username="ann", password=Credential(inline=SecretText("hunter2")))
    login = Login(session, "https://r.example/v2/shop/", "r.example/shop", auth)
    challenge = requests.Response()
    challenge.status_code, challenge.raw = 401, io.BytesIO()
    challenge.headers["WWW-Authenticate"] = 'Bearer realm="http://token.example/"'
    with pytest.raises(Unauthorized, match=r"r\.example/shop: .* token server token\.example has no TLS"):
        login.authenticate_request(challenge, {})


ENTRY = {"auth": base64.b64encode(b"ann:pw:with:colons").decode()}


@pytest.mark.parametrize(
    ("key", "registry"),
    [
        ("r.example", "r.example"),
        ("https://r.example", "r.example"),
        ("https://r.example/", "r.example"),
        ("http://r.example", "r.example"),
        ("r.example/v1/", "r.example"),
        ("https://r.example/v2/", "r.example"),
        ("R.example", "r.example"),
        ("r.example:5000", "r.example:5000"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("docker.io", "index.docker.io"),
    ],
)
def test_docker_key_forms(tmp_path: Path, key: str, registry: str) -> None:
    """Field case g8."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {"r.other": {"auth": "eDp5"}, key: ENTRY}}))
    found = docker_login(config, registry)
    assert found.username == "ann"
    assert found.password is not None
    assert credentials.read(found.password).reveal() == "pw:with:colons"


@pytest.mark.parametrize("registry", ["r.example:5000", "sub.r.example", "r.example.evil"])
def test_docker_login_is_for_its_host_only(tmp_path: Path, registry: str) -> None:
    """Field case g8."""
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"auths": {"https://r.example/": ENTRY}}))
    assert docker_login(config, registry) == RegistryAuth()


def test_docker_helper_is_asked_by_the_caller(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"credsStore": "desktop", "credHelpers": {"ecr.example": "ecr-login"}, "auths": None}))
    asked = []

    def helper(program: str, registry: str) -> tuple[str, str] | None:
        asked.append((program, registry))
        return ("ann", "pw") if program == "ecr-login" else None

    assert docker_login(config, "ecr.example", helper).username == "ann"
    assert docker_login(config, "r.example", helper) == RegistryAuth()
    assert asked == [("ecr-login", "ecr.example"), ("desktop", "r.example")]


def test_no_docker_config(tmp_path: Path) -> None:
    assert docker_login(tmp_path / "config.json", "r.example") == RegistryAuth()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"auths": 7}',
        {"auths": {"r.example": {"auth": "aHVudGVyMg=="}}},
        {"auths": {"r.example": {"auth": "hunter2"}}},
    ],
)
def test_broken_docker_config_is_not_repeated(tmp_path: Path, content: Any) -> None:
    config = tmp_path / "config.json"
    config.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(ConfigurationError, match=r"config\.json") as caught:
        docker_login(config, "r.example")
    assert "hunter2" not in str(caught.value)


def test_credential_is_read_anew_at_each_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    for text in ("first", "second"):
        file.write_text(f"{text}\n")
        assert credentials.read(Credential(file=str(file))).reveal() == text
        monkeypatch.setenv("PROD_TOKEN", text)
        assert credentials.read(Credential(env="PROD_TOKEN")).reveal() == text
    assert str(credentials.read(Credential(inline=SecretText("third")))) == "***"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"file": "none"}, "none cannot be read: No such file"),
        ({"file": "."}, "cannot be read: Is a directory"),
        ({"file": "binary"}, "binary is not UTF-8"),
        ({"file": "empty"}, "empty is empty"),
        ({"file": "large"}, "large is larger than"),
        ({"env": "FLEETBEAT_TEST_UNSET"}, "FLEETBEAT_TEST_UNSET is not set"),
        ({"inline": SecretText("\n")}, "the inline credential is empty"),
        ({}, "must have one of"),
    ],
    ids=["missing", "folder", "binary", "empty", "large", "unset", "blank", "none"],
)
def test_credential_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "empty").write_bytes(b"\n")
    (tmp_path / "large").write_bytes(b"x" * 2_000_000)
    with pytest.raises(ConfigurationError, match=words):
        credentials.read(Credential(**fields))


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("https://ci:tok@git.example.com/a.git", "https://git.example.com/a.git"),
        ("https://tok@git.example.com:8443/a", "https://git.example.com:8443/a"),
        ("https://git.example.com/a@b", "https://git.example.com/a@b"),
        ("git@github.com:org/a.git", "git@github.com:org/a.git"),
        ("ssh://git@github.com/org/a.git", "ssh://git@github.com/org/a.git"),
        ("", ""),
    ],
)
def test_source_annotation_has_no_password(url: str, clean: str) -> None:
    """Field case l9."""
    assert without_credentials(url) == clean
