"""Logging in to one registry: basic, a ready token, or the token server the registry names.

A ``Login`` belongs to one connection. It hands its header to that registry's origin only, so two sources on one host
never share a credential (field case g8), and asks for a new token at most once per request.
Source of the dance: distribution-spec's token authentication, RFC 9110 §11.6.1 for the challenge's form.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests

from fleetbeat.clients import credentials
from fleetbeat.clients.oci_http import Session, origin
from fleetbeat.errors import BundleError, ConfigurationError, SourceUnavailable, Unauthorized
from fleetbeat.model import Credential, RegistryAuth, SecretText

_MAX_ANSWER = 256 * 1024
_CHALLENGE = re.compile(r"(?:^|,)\s*([A-Za-z]+)\s+(?=[A-Za-z_]+\s*=)")
_PARAMETER = re.compile(r'([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')


class Login:
    """Called by the session for every request to add the header, and by oras on 401 and 403 to get a new one."""

    def __init__(self, session: Session, base: str, repository: str, auth: RegistryAuth) -> None:
        """``base`` is the registry's URL, ``repository`` ("host/name") is for errors."""
        self._session, self._origin, self._repository, self._auth = session, origin(base), repository, auth
        self._secure = urlsplit(base).scheme == "https"
        self._header = SecretText("")
        if auth.token is not None:
            self._header = _header("Bearer", credentials.read(auth.token))

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._header and origin(request.url) == self._origin:
            request.headers["Authorization"] = self._header.reveal()
        return request

    def authenticate_request(
        self, original: requests.Response, headers: dict[str, str], refresh: bool = False
    ) -> tuple[dict[str, str], bool]:
        """oras' hook: look at the challenge, get what it asks for, say that the request is worth repeating.

        Raises Unauthorized when there is nothing (new) to offer.
        """
        original.close()
        challenges = parse_challenges(original.headers.get("WWW-Authenticate", ""))
        if original.status_code == HTTPStatus.FORBIDDEN or refresh:
            raise Unauthorized(f"{self._repository}: {self._who()} has no right to it (403)")
        if self._auth.token is not None:
            raise Unauthorized(f"{self._repository}: the registry refused the token of source.auth (401)")
        before = self._header
        if "bearer" in challenges:
            self._header = self._fetch_token(challenges["bearer"])
        elif "basic" in challenges and self._auth.username:
            self._header = _header("Basic", self._basic())
        if self._header.reveal() == before.reveal():
            raise Unauthorized(f"{self._repository}: the registry refused {self._who()} (401)")
        return headers, True

    def _who(self) -> str:
        return f"user {self._auth.username!r}" if self._auth.username else "an anonymous request"

    def _basic(self) -> SecretText:
        password = credentials.read(self._auth.password).reveal() if self._auth.password else ""
        pair = f"{self._auth.username}:{password}".encode()
        return SecretText(base64.b64encode(pair).decode("ascii"))

    def _fetch_token(self, challenge: Mapping[str, str]) -> SecretText:
        realm = challenge.get("realm", "")
        parts = urlsplit(realm)
        if parts.scheme not in ("https", "http") or not parts.hostname or "@" in parts.netloc:
            raise Unauthorized(f"{self._repository}: the registry names no usable token server")
        if self._secure and parts.scheme != "https":
            raise Unauthorized(f"{self._repository}: the registry's token server {parts.hostname} has no TLS")
        query = {key: challenge[key] for key in ("service", "scope") if challenge.get(key)}
        what = f"{self._repository}: token server {parts.hostname}"

        def authorise(request: requests.PreparedRequest) -> requests.PreparedRequest:
            if self._auth.username:
                request.headers["Authorization"] = _header("Basic", self._basic()).reveal()
            return request

        # verify is given by hand: requests lets REQUESTS_CA_BUNDLE win over a session's own False
        verify = self._session.verify
        response = self._session.call(
            lambda: self._session.get(
                realm, params=query, auth=authorise, verify=verify, stream=True, allow_redirects=False
            )
        )
        if response.status_code in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            response.close()
            raise Unauthorized(f"{what} refused {self._who()} ({response.status_code})")
        if response.status_code == HTTPStatus.NOT_FOUND:  # not the repository's 404
            response.close()
            raise SourceUnavailable(f"{what} answered 404")
        self._session.check(response, what)
        try:
            answer = json.loads(self._session.body(response, _MAX_ANSWER, what))
            token = answer.get("token") or answer.get("access_token")
        except (ValueError, AttributeError, RecursionError, BundleError):
            token = None
        if not isinstance(token, str):
            raise SourceUnavailable(f"{what} sent no token")
        return _header("Bearer", SecretText(token))


def _header(scheme: str, value: SecretText) -> SecretText:
    text = value.reveal()
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigurationError(f"a registry's {scheme} credential has blanks or characters no header can carry")
    return SecretText(f"{scheme} {text}")


def parse_challenges(header: str) -> dict[str, dict[str, str]]:
    """``WWW-Authenticate`` as scheme → parameters, both names in lower case. One header may carry several."""
    starts = list(_CHALLENGE.finditer(header))
    found: dict[str, dict[str, str]] = {}
    for number, start in enumerate(starts):
        text = header[start.end() : starts[number + 1].start() if number + 1 < len(starts) else len(header)]
        parameters = {
            name.lower(): re.sub(r"\\(.)", r"\1", quoted) or plain for name, quoted, plain in _PARAMETER.findall(text)
        }
        found.setdefault(start[1].lower(), parameters)
    return found


#: asks a docker credential helper: (program suffix, registry) → (user name, secret), None when it knows none
Helper = Callable[[str, str], tuple[str, str] | None]

_HUB = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})


def docker_login(config: Path, registry: str, helper: Helper | None = None) -> RegistryAuth:
    """What ``docker login`` left in ``config`` ("…/config.json") for ``registry``; anonymous when there is nothing.

    Key forms ``host``, ``https://host/``, ``host/v1/`` and Docker Hub's own are the same registry. Helpers are
    programs, so the caller runs them. Raises ConfigurationError for a file that is there and cannot be read.
    """
    if not config.exists():
        return RegistryAuth()
    try:
        content: Any = json.loads(config.read_bytes())
        auths, helpers = content.get("auths") or {}, content.get("credHelpers") or {}
        default = content.get("credsStore") or ""
        matching = {_host(key): (key, value) for key, value in auths.items() if isinstance(value, dict)}
        suffix = next((value for key, value in helpers.items() if _host(key) == _host(registry)), default)
    except (OSError, ValueError, AttributeError, RecursionError):
        raise ConfigurationError(f"{config} is not a readable docker config.json") from None
    key, entry = matching.get(_host(registry), (registry, {}))
    if suffix and helper is not None and (known := helper(str(suffix), key)) is not None:
        return _basic_auth(*known)
    if entry.get("auth"):
        try:
            user, colon, password = base64.b64decode(entry["auth"], validate=True).decode("utf-8").partition(":")
        except (ValueError, TypeError):
            colon = ""
        if not colon:
            raise ConfigurationError(f"{config}: auths[{key!r}].auth is not base64 of user:password")
        return _basic_auth(user, password.rstrip("\0"))
    if entry.get("username"):
        return _basic_auth(str(entry["username"]), str(entry.get("password", "")))
    return RegistryAuth()


def _basic_auth(user: str, password: str) -> RegistryAuth:
    return RegistryAuth(username=user, password=Credential(inline=SecretText(password)))


def _host(key: str) -> str:
    host = key.removeprefix("https://").removeprefix("http://").partition("/")[0].lower()
    return "docker.io" if host in _HUB else host
