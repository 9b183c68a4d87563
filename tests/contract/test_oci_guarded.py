"""Push and pull with real registries that ask who is there: TLS, basic auth, token server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from token_server import TokenServer
from unhurried import UNHURRIED

from fleetbeat.clients.oci import OciSource
from fleetbeat.clients.oci_push import push
from fleetbeat.decisions import bundles
from fleetbeat.errors import (
    BundleError,
    ConfigurationError,
    SourceUnavailable,
    Unauthorized,
)
from fleetbeat.local.registry import Registry, TokenAuth
from fleetbeat.model import Credential, RegistryAuth, SecretText, Source
from fleetbeat.settings import Bundles

FILES = {"deploy/web.yaml": b"kind: Deployment\n", "cm.yaml": b"kind: ConfigMap\n"}
source = OciSource(UNHURRIED, Bundles())


def unpacked(layer: bytes) -> dict[str, bytes]:
    return bundles.unpack(layer, max_unpacked=1_000_000, max_entries=1000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "bundle"


@pytest.fixture(scope="module")
def guarded(local_binary: Path) -> Iterator[Registry]:
    """TLS under a private CA and basic auth for two users."""
    with Registry(users={"ann": "pw-ann", "bob": "pw-bob"}, tls=True) as running:
        yield running


def login(user: str, password: str) -> RegistryAuth:
    return RegistryAuth(username=user, password=Credential(inline=SecretText(password)))


def test_private_ca_and_basic_auth(guarded: Registry, folder: Path, tmp_path: Path) -> None:
    """Field case g7."""
    (tmp_path / "ca.pem").write_text(guarded.ca_pem or "")
    ca = Credential(file=str(tmp_path / "ca.pem"))
    auth = login("ann", "pw-ann")
    pushed = push(folder, f"{guarded.host}/g7/a:v1", auth=auth, ca=ca, http=UNHURRIED)
    wanted = Source(f"{guarded.host}/g7/a", tag="v1", ca=ca, auth=auth)
    assert source.pull(wanted, source.resolve(wanted)).revision.digest == pushed.digest
    skipping = Source(f"{guarded.host}/g7/a", tag="v1", insecure_skip_tls_verify=True, auth=auth)
    assert source.resolve(skipping).digest == pushed.digest, "credentials are kept when verification is off"
    with pytest.raises(SourceUnavailable, match="certificate is not trusted"):
        source.resolve(Source(f"{guarded.host}/g7/a", tag="v1", auth=auth))
    with pytest.raises((SourceUnavailable, BundleError)):
        source.resolve(Source(f"{guarded.host}/g7/a", tag="v1", auth=auth, plain_http=True))


def test_tls_towards_a_plain_registry_does_not_fall_back(registry: Registry) -> None:
    """Field case g7."""
    with pytest.raises(SourceUnavailable, match="set plainHTTP"):
        source.resolve(Source(f"{registry.host}/g7/b", tag="v1"))


@pytest.mark.parametrize(
    "auth", [RegistryAuth(), login("ann", "pw-wrong"), RegistryAuth(token=Credential(inline=SecretText("tok-wrong")))]
)
def test_refused_login_is_unauthorized_not_missing(guarded: Registry, auth: RegistryAuth) -> None:
    """Field case g8."""
    wanted = Source(
        f"{guarded.host}/g8/none", tag="v1", ca=Credential(inline=SecretText(guarded.ca_pem or "")), auth=auth
    )
    for ask in (wanted, Source(**{**wanted.__dict__, "tag": None, "semver": "*"})):
        with pytest.raises(Unauthorized, match=f"{guarded.host}/g8/none") as caught:
            source.resolve(ask)
        assert "wrong" not in str(caught.value)


def test_two_users_on_one_host_at_once(guarded: Registry, folder: Path) -> None:
    """Field case g8."""
    ca = Credential(inline=SecretText(guarded.ca_pem or ""))
    for user in ("ann", "bob"):
        push(folder, f"{guarded.host}/g8/{user}:v1", auth=login(user, f"pw-{user}"), ca=ca, http=UNHURRIED)
    failures: list[BaseException] = []

    def ask(user: str, right: bool) -> None:
        auth = login(user, f"pw-{user}" if right else "pw-of-nobody")
        for _ in range(5):
            try:
                source.resolve(Source(f"{guarded.host}/g8/{user}", tag="v1", ca=ca, auth=auth))
            except Unauthorized:
                if not right:
                    continue
                raise
            if not right:
                failures.append(AssertionError(f"{user} got in with another one's login"))

    def guard(user: str, right: bool) -> None:
        try:
            ask(user, right)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=guard, args=who) for who in (("ann", True), ("bob", False), ("bob", True))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenServer]:
    server = TokenServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(60)


@pytest.fixture(scope="module")
def behind_tokens(local_binary: Path, tokens: TokenServer) -> Iterator[Registry]:
    realm = f"http://127.0.0.1:{tokens.server_address[1]}/token"
    pem = tokens.certificate.public_bytes(Encoding.PEM).decode()
    with Registry(token=TokenAuth(realm=realm, service="registry", issuer="tokens", certificate=pem)) as running:
        yield running


def test_push_and_pull_with_a_token_server(behind_tokens: Registry, tokens: TokenServer, folder: Path) -> None:
    """Field case g8."""
    place = f"{behind_tokens.host}/ann/shop"
    ann, bob = login("ann", "pw-ann"), login("bob", "pw-bob")
    push(folder, f"{place}:1.0.0", auth=ann, plain_http=True)
    for fields in ({"tag": "1.0.0"}, {"semver": "1.x"}):
        wanted = Source(place, auth=ann, plain_http=True, **fields)
        assert unpacked(source.pull(wanted, source.resolve(wanted)).layer) == dict(sorted(FILES.items()))
    before = tokens.issued
    with pytest.raises(Unauthorized):
        source.resolve(Source(place, tag="1.0.0", auth=bob, plain_http=True))
    assert tokens.issued == before + 1, "a token without the right is asked for once"
    for auth in (RegistryAuth(), login("ann", "pw-wrong")):
        with pytest.raises(Unauthorized, match=f"{place}: token server 127.0.0.1 refused"):
            source.resolve(Source(place, tag="1.0.0", auth=auth, plain_http=True))


def test_ca_that_is_none_is_a_configuration_error() -> None:
    wanted = Source("registry.example.com/a", tag="v1", ca=Credential(inline=SecretText("not a pem")))
    with pytest.raises(ConfigurationError, match="PEM"):
        source.resolve(wanted)
