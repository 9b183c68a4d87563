"""The OCI source and push against a real registry (CNCF distribution) and an image layout on disk."""

from __future__ import annotations

import base64
import datetime
import json
import os
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fleetbeat.clients.oci import OciSource
from fleetbeat.clients.oci_push import push
from fleetbeat.clients.oci_registry import Connection
from fleetbeat.decisions import artifact, bundles, references
from fleetbeat.errors import (
    BundleError,
    BundleTooLarge,
    ConfigurationError,
    DigestMismatch,
    SourceNotFound,
    SourceUnavailable,
    Unauthorized,
    UnsafeBundle,
)
from fleetbeat.local.registry import Registry, TokenAuth
from fleetbeat.model import Credential, RegistryAuth, Revision, SecretText, Source
from fleetbeat.settings import Bundles, Http

FILES = {"deploy/web.yaml": b"kind: Deployment\n", "cm.yaml": b"kind: ConfigMap\n"}
NOTES = {
    artifact.SOURCE: "https://ci:hunter2@git.example.com/shop.git",
    artifact.REVISION: "main@sha1:" + "a" * 40,
    artifact.CREATED: "2026-11-30T10:00:00Z",
}
source = OciSource(Http(connect=2, read=5, total=20), Bundles())


def unpacked(layer: bytes) -> dict[str, bytes]:
    return bundles.unpack(layer, max_unpacked=1_000_000, max_entries=1000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "bundle" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "bundle"


@pytest.fixture(params=["registry", "layout"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A reference without tag: a fresh repository, or a layout that does not exist yet."""
    if request.param == "layout":
        return f"oci-layout:{tmp_path}/layout"
    return f"{request.getfixturevalue('registry').host}/shop/{uuid.uuid4().hex}"


def push_manifest(place: str, layers: list[tuple[str, bytes]], tag: str, **more: object) -> str:
    """A manifest of another tool's making; returns its digest."""
    repository = references.parse(place)
    assert isinstance(repository, references.Repository)
    manifest = {
        "schemaVersion": 2,
        "mediaType": artifact.OCI_MANIFEST,
        "config": artifact.Descriptor.of(artifact.EMPTY, artifact.EMPTY_TYPE).as_json(),
        "layers": [artifact.Descriptor.of(content, kind).as_json() for kind, content in layers],
    } | more
    raw = json.dumps(manifest).encode()
    with Connection(repository, Http(), RegistryAuth(), plain_http=True) as connection:
        for content in (artifact.EMPTY, *(content for _, content in layers)):
            connection.put_blob(content)
        connection.put_manifest(raw, tag)
    return artifact.digest_of(raw)


def test_what_is_pushed_is_pulled(place: str, folder: Path) -> None:
    pushed = push(folder, f"{place}:v1", annotations=NOTES, plain_http=True)
    wanted = Source(place, tag="v1", plain_http=True)
    found = source.resolve(wanted)
    assert found == Revision(pushed.digest, "v1")
    pulled = source.pull(wanted, found)
    assert unpacked(pulled.layer) == {"cm.yaml": FILES["cm.yaml"], "deploy/web.yaml": FILES["deploy/web.yaml"]}
    assert pulled.layer_digest == artifact.digest_of(pulled.layer)
    assert pulled.revision == pushed
    assert pulled.revision.source == "https://git.example.com/shop.git", "the CI job's password must not be published"
    assert pulled.revision.commit == "a" * 40


def test_same_files_same_digest_whatever_their_times_and_modes(place: str, folder: Path) -> None:
    first = push(folder, f"{place}:a", plain_http=True)
    for path in folder.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700 if path.is_dir() else 0o640)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main")
    assert push(folder, f"{place}:b", plain_http=True).digest == first.digest


def test_moved_tag_is_noticed_and_the_old_digest_stays_pinnable(place: str, folder: Path) -> None:
    """Field case g9."""
    wanted = Source(place, tag="v1", plain_http=True)
    push(folder, f"{place}:v1", plain_http=True)
    old = source.resolve(wanted)
    (folder / "cm.yaml").write_text("kind: Secret\n")
    push(folder, f"{place}:v1", plain_http=True)
    new = source.resolve(wanted)
    assert new.digest != old.digest
    assert unpacked(source.pull(wanted, old).layer)["cm.yaml"] == FILES["cm.yaml"]


def test_digest_beats_semver_beats_tag(place: str, folder: Path) -> None:
    """Field case g9."""
    digests = {}
    for tag in ("1.0.0", "1.1.0", "latest"):
        (folder / "cm.yaml").write_text(tag)
        digests[tag] = push(folder, f"{place}:{tag}", plain_http=True).digest
    everything = Source(place, tag="latest", semver=">=1", digest=digests["1.0.0"], plain_http=True)
    assert source.resolve(everything) == Revision(digests["1.0.0"])
    by_range = Source(place, tag="latest", semver=">=1", plain_http=True)
    assert source.resolve(by_range) == Revision(digests["1.1.0"], "1.1.0")
    assert source.resolve(Source(place, plain_http=True)) == Revision(digests["latest"], "latest")


@pytest.mark.parametrize(
    ("wanted", "tag"),
    [(">0.0.1", "v1.1.0"), (">=1.0.0-0", "v1.1.0"), ("~1.0", "1.0.0"), ("<1", "0.20250616.1_ref.abc")],
)
def test_range_over_real_tags(place: str, folder: Path, wanted: str, tag: str) -> None:
    """Field case g2."""
    for name in ("0.20250616.1_ref.abc", "1.0.0-rc.1", "1.0.0", "latest", "v1.1.0"):
        push(folder, f"{place}:{name}", plain_http=True)
    assert source.resolve(Source(place, semver=wanted, plain_http=True)).tag == tag


def test_version_with_build_data_is_found_under_its_tag(place: str, folder: Path) -> None:
    """Field case g2."""
    push(folder, f"{place}:1.0.0_build.5", plain_http=True)
    assert source.resolve(Source(place, tag="1.0.0+build.5", plain_http=True)).tag == "1.0.0_build.5"


def test_no_version_in_range_says_what_there_is(place: str, folder: Path) -> None:
    push(folder, f"{place}:1.4.0", plain_http=True)
    with pytest.raises(SourceNotFound, match=r"no tag is in the range '>=2'; 1 tags, its newest versions: 1\.4\.0"):
        source.resolve(Source(place, semver=">=2", plain_http=True))


def test_missing_tag_digest_and_repository(place: str, folder: Path) -> None:
    with pytest.raises(SourceNotFound):
        source.resolve(Source(place, tag="v1", plain_http=True))
    with pytest.raises(SourceNotFound):
        source.resolve(Source(place, semver="*", plain_http=True))
    push(folder, f"{place}:v1", plain_http=True)
    with pytest.raises(SourceNotFound):
        source.resolve(Source(place, tag="v2", plain_http=True))
    with pytest.raises(SourceNotFound):
        source.pull(Source(place, plain_http=True), Revision("sha256:" + "0" * 64))


def test_limits_hold_before_the_layer_is_fetched(place: str, folder: Path) -> None:
    pushed = push(folder, f"{place}:v1", plain_http=True)
    small = OciSource(Http(), Bundles(max_layer=10))
    with pytest.raises(BundleTooLarge, match="FLEETBEAT_BUNDLES_MAX_LAYER"):
        small.pull(Source(place, plain_http=True), pushed)
    with pytest.raises(BundleTooLarge, match="FLEETBEAT_BUNDLES_MAX_LAYER"):
        push(folder, f"{place}:v2", plain_http=True, limits=Bundles(max_layer=10))


@pytest.mark.parametrize("damage", ["altered", "shortened", "lengthened"])
@pytest.mark.parametrize("which", ["manifest", "layer"])
def test_damaged_layout_is_refused(tmp_path: Path, folder: Path, damage: str, which: str) -> None:
    """Field case g9."""
    place = str(tmp_path / "layout")
    pushed = push(folder, place)
    layer = source.pull(Source(place), pushed).layer_digest
    digest = pushed.digest if which == "manifest" else layer
    blob = tmp_path / "layout" / "blobs" / "sha256" / digest.removeprefix("sha256:")
    content = blob.read_bytes()
    changed = {"altered": content[:-1] + b"X", "shortened": content[:-1], "lengthened": content + b"X"}[damage]
    blob.write_bytes(changed)
    with pytest.raises(DigestMismatch, match=r"instead of|longer than"):
        source.pull(Source(place), pushed)


def test_named_pipe_in_a_layout_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "index.json")
    with pytest.raises(BundleError, match="not a regular file"):
        source.resolve(Source(str(tmp_path), tag="v1"))


def test_layers_beside_the_content_are_left_alone(registry: Registry) -> None:
    """Field case g1."""
    place = f"{registry.host}/g1/extra"
    layer = bundles.pack(FILES)
    digest = push_manifest(place, [("application/vnd.in-toto+json", b"{}"), (artifact.LAYER, layer)], "v1")
    assert source.pull(Source(place, plain_http=True), Revision(digest)).layer == layer


def test_two_content_layers_are_listed(registry: Registry) -> None:
    """Field case g1."""
    place = f"{registry.host}/g1/two"
    flux = "application/vnd.cncf.flux.content.v1.tar+gzip"
    digest = push_manifest(place, [(flux, b"1"), (artifact.LAYER, b"22")], "v1")
    with pytest.raises(BundleError, match=rf"has 2\. Layers: {flux.replace('+', '.')} .*1 bytes\), .*2 bytes\)"):
        source.pull(Source(place, plain_http=True), Revision(digest))


def test_helm_chart_is_named_as_such(registry: Registry) -> None:
    """Field case g1."""
    place = f"{registry.host}/g1/chart"
    provenance = "application/vnd.cncf.helm.chart.provenance.v1.prov"
    digest = push_manifest(place, [(artifact.HELM_LAYER, b"1"), (provenance, b"2")], "v1")
    with pytest.raises(BundleError, match="Helm charts are not rendered by this version"):
        source.pull(Source(place, plain_http=True), Revision(digest))


def test_index_with_one_manifest_is_followed(registry: Registry, folder: Path) -> None:
    """Field case g11."""
    place = f"{registry.host}/g11/one"
    pushed = push(folder, f"{place}:v1", annotations=NOTES, plain_http=True)
    repository = references.parse(place)
    assert isinstance(repository, references.Repository)
    with Connection(repository, Http(), RegistryAuth(), plain_http=True) as connection:
        size = len(connection.manifest(pushed.digest))
        entry = artifact.Descriptor(artifact.OCI_MANIFEST, pushed.digest, size).as_json()
        index = {"schemaVersion": 2, "mediaType": artifact.OCI_INDEX, "manifests": [entry]}
        raw = json.dumps(index).encode()
        response = connection._request("PUT", "manifests/index", data=raw, content_type=artifact.OCI_INDEX)
        assert response.status_code == 201
    wanted = Source(place, tag="index", plain_http=True)
    found = source.resolve(wanted)
    pulled = source.pull(wanted, found)
    assert unpacked(pulled.layer) == dict(sorted(FILES.items()))
    assert pulled.revision.digest == artifact.digest_of(raw), "the revision stays what was asked for"
    assert pulled.revision.commit == "a" * 40


def test_link_inside_the_folder_is_pushed_as_its_content(tmp_path: Path, folder: Path) -> None:
    (folder / "again.yaml").symlink_to("cm.yaml")
    pushed = push(folder, str(tmp_path / "layout"))
    assert unpacked(source.pull(Source(str(tmp_path / "layout")), pushed).layer)["again.yaml"] == FILES["cm.yaml"]


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "deploy", "missing"])
def test_other_links_are_not_pushed(tmp_path: Path, folder: Path, target: str) -> None:
    (tmp_path / "secret").write_text("s")
    (folder / "link").symlink_to(target)
    with pytest.raises(UnsafeBundle, match=r"^link: "):
        push(folder, str(tmp_path / "layout"))


def test_empty_folder_is_pushed_only_when_meant(tmp_path: Path) -> None:
    """Field case g10."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match="holds no files"):
        push(tmp_path / "empty", str(tmp_path / "layout"))
    pushed = push(tmp_path / "empty", str(tmp_path / "layout"), allow_empty=True)
    assert unpacked(source.pull(Source(str(tmp_path / "layout")), pushed).layer) == {}


# ── logins ───────────────────────────────────────────────────────────────────────────────────────────────────────


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
    pushed = push(folder, f"{guarded.host}/g7/a:v1", auth=auth, ca=ca)
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
        push(folder, f"{guarded.host}/g8/{user}:v1", auth=login(user, f"pw-{user}"), ca=ca)
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
        thread.join(30)
    assert failures == []


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


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenServer]:
    server = TokenServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


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
