"""Where credentials go, how often they are tried, and that no error shows them."""

from __future__ import annotations

import base64
import json
import ssl
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lying_registry import (
    BLOB,
    BY_DIGEST,
    DIGEST,
    LAYER,
    REVISION,
    TAG,
    Handler,
    Route,
    Server,
    client,
    fixed,
    garbage,
    missing,
    running,
    secret,
    silent,
    wanted,
)

from fleetbeat.clients.oci_push import push
from fleetbeat.errors import (
    ConfigurationError,
    FleetbeatError,
    SourceThrottled,
    SourceUnavailable,
    Unauthorized,
)
from fleetbeat.local.certificates import Authority
from fleetbeat.model import RegistryAuth


@pytest.fixture
def server() -> Iterator[Server]:
    with running() as made:
        yield made


@pytest.fixture
def other() -> Iterator[Server]:
    with running() as made:
        yield made


def needs(*accepted: str, challenge: str) -> Callable[[Route], Route]:
    """A route behind a login: one of the Authorization values, else 401 with the challenge."""

    def around(route: Route) -> Route:
        def guarded(handler: Handler) -> None:
            if handler.headers.get("Authorization", "") in accepted:
                return route(handler)
            return handler.answer(401, WWW_Authenticate=challenge)

        return guarded

    return around


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


ANN = RegistryAuth(username="ann", password=secret("hunter2"))


@pytest.mark.parametrize("auth", [RegistryAuth(), ANN], ids=["anonymous", "user"])
def test_token_dance(server: Server, other: Server, auth: RegistryAuth) -> None:
    """Field case g8: the token server gets the password, the registry only the token."""
    challenge = f'Bearer realm="http://{other.host}/token",service="reg",scope="repository:shop:pull"'
    server.routes[TAG] = needs("Bearer tok-1", challenge=challenge)(server.routes[TAG])
    other.routes["/token"] = fixed(200, b'{"token": "tok-1", "expires_in": 10}')
    assert client().resolve(wanted(server, auth=auth)).digest == DIGEST
    assert [sent for *_, sent in server.seen] == ["", "Bearer tok-1"]
    expected = basic("ann", "hunter2") if auth.username else ""
    assert other.seen == [("GET", "/token?service=reg&scope=repository%3Ashop%3Apull", expected)]


def test_token_that_expires_during_a_pull_is_renewed_once(server: Server) -> None:
    """Field case g8."""
    issued: list[str] = []

    def issue(handler: Handler) -> None:
        issued.append(f"tok-{len(issued) + 1}")
        handler.answer(200, json.dumps({"access_token": issued[-1]}).encode())

    server.routes["/token"] = issue
    challenge = f'Bearer realm="http://{server.host}/v2/shop/token"'
    for path, token in ((BY_DIGEST, "Bearer tok-1"), (BLOB, "Bearer tok-2")):
        server.routes[path] = needs(token, challenge=challenge)(server.routes[path])
    assert client().pull(wanted(server), REVISION).layer == LAYER
    assert issued == ["tok-1", "tok-2"]
    issued.clear()
    server.routes[BLOB] = needs(challenge=challenge)(missing)
    with pytest.raises(Unauthorized):
        client().pull(wanted(server), REVISION)
    assert issued == ["tok-1", "tok-2"], "one for the manifest, one more for the layer, then it is an error"


@pytest.mark.parametrize("auth", [ANN, RegistryAuth(token=secret("tok-own"))], ids=["password", "token"])
def test_refused_credential_is_asked_for_once(server: Server, auth: RegistryAuth) -> None:
    """Field case g8."""
    server.routes[TAG] = needs(challenge='Basic realm="r"')(missing)
    with pytest.raises(Unauthorized, match=f"{server.host}/shop"):
        client().resolve(wanted(server, auth=auth))
    assert len(server.seen) <= 2


def test_basic_beside_other_challenges(server: Server) -> None:
    challenge = 'Negotiate, Basic realm="a, b", charset="UTF-8"'
    server.routes[TAG] = needs(basic("ann", "hunter2"), challenge=challenge)(server.routes[TAG])
    assert client().resolve(wanted(server, auth=ANN)).digest == DIGEST


@pytest.mark.parametrize(
    ("route", "error"),
    [
        (fixed(401), Unauthorized),
        (fixed(403), Unauthorized),
        (fixed(404), SourceUnavailable),
        (fixed(429, Retry_After="7"), SourceThrottled),
        (fixed(503), SourceUnavailable),
        (fixed(200, b"{}"), SourceUnavailable),
        (fixed(200, b"no"), SourceUnavailable),
        (fixed(200, b'{"token": "a b"}'), ConfigurationError),
        (fixed(302, Location="http://127.0.0.1:1/"), FleetbeatError),
    ],
    ids=["401", "403", "404", "429", "503", "no token", "no JSON", "no header value", "redirect"],
)
def test_token_server_that_fails(server: Server, route: Route, error: type[FleetbeatError]) -> None:
    server.routes[TAG] = needs(challenge=f'Bearer realm="http://{server.host}/v2/shop/token"')(missing)
    server.routes["/token"] = route
    with pytest.raises(error):
        client().resolve(wanted(server, auth=ANN))


@pytest.mark.parametrize("realm", ["", "ftp://x/token", "http://user:pw@x/token", "/token"])
def test_token_server_that_is_none(server: Server, realm: str) -> None:
    server.routes[TAG] = needs(challenge=f'Bearer realm="{realm}"')(missing)
    with pytest.raises(Unauthorized, match="names no usable token server"):
        client().resolve(wanted(server, auth=ANN))


def test_tls_choices_hold_for_the_token_server_too(server: Server, tmp_path: Path) -> None:
    """Field case g7."""
    authority = Authority("token server")
    pair = authority.server()
    (tmp_path / "pair.pem").write_text(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pair.pem")
    with running(context) as token_server:
        token_server.routes["/token"] = fixed(200, b'{"token": "tok-1"}')
        guard = needs("Bearer tok-1", challenge=f'Bearer realm="https://{token_server.host}/token"')
        server.routes[TAG] = guard(server.routes[TAG])
        with pytest.raises(SourceUnavailable, match="certificate is not trusted"):
            client().resolve(wanted(server, auth=ANN))
        for choice in ({"insecure_skip_tls_verify": True}, {"ca": secret(authority.pem)}):
            assert client().resolve(wanted(server, auth=ANN, **choice)).digest == DIGEST


def test_redirected_blob_goes_without_the_login(server: Server, other: Server) -> None:
    """Registries keep blobs in storage elsewhere; its URLs are signed and the registry's login is not for it."""
    other.routes["/storage/blob"] = fixed(200, LAYER)
    server.routes[BLOB] = fixed(307, Location=f"http://{other.host}/storage/blob?signature=abc")
    auth = RegistryAuth(token=secret("tok-1"))
    assert client().pull(wanted(server, auth=auth), REVISION).layer == LAYER
    assert {sent for *_, sent in server.seen} == {"Bearer tok-1"}
    assert other.seen == [("GET", "/storage/blob?signature=abc", "")]
    other.routes["/storage/blob"] = silent
    with pytest.raises(SourceUnavailable) as caught:
        client(read=0.3).pull(wanted(server, auth=auth), REVISION)
    assert "abc" not in str(caught.value), "a signed URL is a credential"


def test_netrc_is_not_read(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login ann password hunter2\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    server.routes[BLOB] = fixed(307, Location="/v2/shop/moved")
    server.routes["/moved"] = fixed(200, LAYER)
    client().pull(wanted(server), REVISION)
    assert {sent for *_, sent in server.seen} == {""}


@pytest.mark.parametrize(
    "route", [silent, garbage, fixed(401), fixed(403), fixed(500)], ids=["silent", "garbage", "401", "403", "500"]
)
@pytest.mark.parametrize("auth", [ANN, RegistryAuth(token=secret("hunter2"))], ids=["password", "token"])
def test_no_secret_in_any_error(server: Server, auth: RegistryAuth, route: Route) -> None:
    """Field case l9: not in the text, and not in a traceback with local variables either."""
    challenge = f'Bearer realm="http://{server.host}/v2/shop/token"'
    server.routes[TAG] = needs(challenge=challenge)(missing)
    server.routes["/token"] = route
    source = wanted(server, auth=auth)
    with pytest.raises(FleetbeatError) as caught:
        client(read=0.3).resolve(source)
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    encoded = base64.b64encode(b"ann:hunter2").decode()
    assert "hunter2" not in shown + repr(source)
    assert encoded not in shown


def test_multiline_token_is_refused_without_repeating_it(server: Server) -> None:
    with pytest.raises(ConfigurationError) as caught:
        client().resolve(wanted(server, auth=RegistryAuth(token=secret("hunter2\r\nX-Evil: 1"))))
    assert "hunter2" not in str(caught.value)


def test_upload_elsewhere_goes_without_the_login(server: Server, other: Server, tmp_path: Path) -> None:
    (tmp_path / "cm.yaml").write_text("kind: ConfigMap\n")
    server.routes["/blobs/uploads/"] = fixed(202, Location=f"http://{other.host}/upload?state=1")
    server.routes["/manifests/v2"] = fixed(201)
    other.routes["/upload"] = fixed(201)
    auth = RegistryAuth(token=secret("tok-1"))
    pushed = push(tmp_path, f"{server.host}/shop:v2", auth=auth, plain_http=True)
    assert pushed.tag == "v2"
    assert {method for method, *_ in other.seen} == {"PUT"}
    assert {sent for *_, sent in other.seen} == {""}
    assert all("&digest=sha256:" in path for _, path, _ in other.seen)
