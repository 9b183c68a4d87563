"""A token server as big registries have them, signing what CNCF distribution checks."""

from __future__ import annotations

import base64
import datetime
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID


class TokenServer(ThreadingHTTPServer):
    """Issues signed tokens to ann and bob, each for the repositories of that name only, as a real one does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), TokenHandler)
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tokens")])
        now = datetime.datetime.now(datetime.UTC)
        self.certificate = (
            x509.CertificateBuilder(name, name, self.key.public_key(), x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .sign(self.key, hashes.SHA256())
        )
        self.issued = 0

    def token(self, user: str, scopes: list[str]) -> str:
        wanted = [scope.split(":") for scope in scopes]
        access = [{"type": t, "name": n, "actions": a.split(",")} for t, n, a in wanted if n.startswith(f"{user}/")]
        now = int(time.time())
        claims = {"iss": "tokens", "aud": "registry", "sub": user, "nbf": now - 5, "iat": now, "exp": now + 10}
        chain = base64.b64encode(self.certificate.public_bytes(Encoding.DER)).decode()
        head = {"typ": "JWT", "alg": "RS256", "x5c": [chain]}
        text = ".".join(encoded(json.dumps(part).encode()) for part in (head, claims | {"access": access}))
        self.issued += 1
        return f"{text}.{encoded(self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class TokenHandler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_GET(self) -> None:
        pair = base64.b64decode(self.headers.get("Authorization", "Basic Og==").removeprefix("Basic ")).decode()
        user, _, password = pair.partition(":")
        right = password == f"pw-{user}"
        token = self.server.token(user, parse_qs(urlsplit(self.path).query).get("scope", [])) if right else ""
        body = json.dumps({"token": token, "expires_in": 10}).encode()
        self.send_response(200 if right else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
