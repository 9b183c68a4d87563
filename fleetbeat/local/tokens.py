"""A token service for the local registry: the second half of the login that the big public registries ask for.

The registry answers 401 with the URL of this service; the client asks here, with its password or as nobody, and comes
back with a bearer token (distribution's token authentication specification: docs/content/spec/auth/token.md there).
"""

from __future__ import annotations

import base64
import json
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from fleetbeat.local.certificates import Authority
from fleetbeat.local.registry import TokenAuth

_ISSUER = "fleetbeat-local"
_SERVICE = "registry"


class TokenService:
    """Grants pull to everybody and what is asked for to ``users``; a context manager around an HTTP server thread."""

    def __init__(
        self, users: Mapping[str, str], *, life: float = 300.0, field: str = "token", anonymous: bool = True
    ) -> None:
        """``users``: name → password. ``life``: of a token, in seconds; the registry forgives one more minute.

        ``field``: the answer's field with the token; some services say ``access_token``. ``anonymous`` False: 401
        without a password, as for private repositories.
        """
        authority = Authority("fleetbeat-local tokens")
        pair = authority.server(["tokens"])
        key = serialization.load_pem_private_key(pair.key.encode(), None)
        self._key = cast(ec.EllipticCurvePrivateKey, key)  # certificates.py makes no others
        leaf = x509.load_pem_x509_certificate(pair.certificate.encode())
        self._chain = [base64.b64encode(leaf.public_bytes(serialization.Encoding.DER)).decode()]
        self._users = dict(users)
        self._life = life
        self._field = field
        self._anonymous = anonymous
        self.asked: list[tuple[str, tuple[str, ...]]] = []  #: (user or "", scopes) of every request, oldest first
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.realm = f"http://127.0.0.1:{self._server.server_address[1]}/token"
        self.auth = TokenAuth(realm=self.realm, service=_SERVICE, issuer=_ISSUER, certificate=authority.pem)

    def __enter__(self) -> TokenService:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, authorization: str, scopes: Sequence[str]) -> tuple[int, dict[str, Any]]:
        """(HTTP status, body) for one request; ``authorization`` is the header's value or empty."""
        user = self._user(authorization)
        self.asked.append((user or "", tuple(scopes)))
        if user is None or (not user and not self._anonymous):
            return 401, {"errors": [{"code": "UNAUTHORIZED", "message": "incorrect username or password"}]}
        access = [_access(scope, everything=bool(user)) for scope in scopes]
        return 200, {self._field: self._sign(user, access), "expires_in": int(self._life)}

    def _user(self, authorization: str) -> str | None:
        """The user's name, "" for nobody, None for a wrong password."""
        if not authorization:
            return ""
        try:
            name, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        except ValueError:
            return None
        return name if self._users.get(name) == password else None

    def _sign(self, user: str, access: list[dict[str, Any]]) -> str:
        now = int(time.time())
        claims = {
            "iss": _ISSUER,
            "sub": user,
            "aud": _SERVICE,
            "exp": now + int(self._life),
            "nbf": now - 10,
            "iat": now,
            "jti": uuid.uuid4().hex,
            "access": access,
        }
        signed = f"{_part({'typ': 'JWT', 'alg': 'ES256', 'x5c': self._chain})}.{_part(claims)}"
        r, s = utils.decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _access(scope: str, *, everything: bool) -> dict[str, Any]:
    """``repository:shop/manifests:pull,push`` as the entry of a token, cut down to pull for nobody."""
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    granted = [action for action in actions.split(",") if everything or action == "pull"]
    return {"type": kind, "name": name, "actions": granted}


def _part(value: object) -> str:
    return _base64url(json.dumps(value).encode())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _handler(service: TokenService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked = parse_qs(urlsplit(self.path).query).get("scope", [])
            scopes = [scope for text in asked for scope in text.split()]  # one parameter each, or one with spaces
            status, body = service.answer(self.headers.get("Authorization", ""), scopes)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """The standard one writes every request to stderr."""

    return Handler
