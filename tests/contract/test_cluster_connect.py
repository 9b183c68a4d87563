"""Every way to reach a cluster, against a real API server; and connections that are kept and renewed."""

from __future__ import annotations

import dataclasses
import datetime
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from unhurried import UNHURRIED

from fleetbeat.clients import cluster_connect
from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.errors import ClusterUnavailable, ConfigurationError, Unauthorized
from fleetbeat.local.certificates import Authority
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import ApiResource, Cluster, Credential, SecretText

NAMESPACE = ApiResource("", "v1", "Namespace", "namespaces", False)
REVIEW = ApiResource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False)
CONTEXT = "test"  # the local cluster's own


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    cluster_connect._connections.clear()
    yield
    cluster_connect._connections.clear()


def inline(text: str) -> Credential:
    return Credential(inline=SecretText(text))


def connect(definition: Cluster) -> KubernetesCluster:
    return KubernetesCluster.connect(definition, http=UNHURRIED)


def user(kube: KubernetesCluster) -> str:
    """Who the API server says we are."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    return str(kube.create(REVIEW, body).body["status"]["userInfo"]["username"])


@pytest.fixture
def definition(cluster: LocalCluster) -> Cluster:
    return Cluster(name="prod", server=cluster.server, ca=inline(cluster.ca_pem), token=inline(cluster.token))


# ── credentials ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_inline_token(definition: Cluster) -> None:
    assert user(connect(definition)) == "fleetbeat"


def test_token_and_ca_from_files(cluster: LocalCluster, definition: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ca").write_text(cluster.ca_pem)
    (tmp_path / "token").write_text(cluster.token + "\n")
    ca, token = Credential(file=str(tmp_path / "ca")), Credential(file=str(tmp_path / "token"))
    assert user(connect(dataclasses.replace(definition, ca=ca, token=token))) == "fleetbeat"


def test_token_from_the_environment(
    cluster: LocalCluster, definition: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROD_TOKEN", cluster.token)
    assert user(connect(dataclasses.replace(definition, token=Credential(env="PROD_TOKEN")))) == "fleetbeat"
    monkeypatch.delenv("PROD_TOKEN")
    with pytest.raises(ConfigurationError, match=r"Cluster prod, token: .*PROD_TOKEN"):
        connect(dataclasses.replace(definition, token=Credential(env="PROD_TOKEN")))


def test_client_certificate_leaves_nothing_on_disk(
    cluster: LocalCluster, definition: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pair = cluster.client_certificate("carol", groups=["system:masters"])
    certificate = {"client_certificate": inline(pair.certificate), "client_key": inline(pair.key)}
    kube = connect(dataclasses.replace(definition, token=None, **certificate))
    assert user(kube) == "carol"
    assert kube.list(NAMESPACE)
    assert list(tmp_path.iterdir()) == []


def test_kubeconfig(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert user(connect(Cluster(name="mine", kubeconfig=str(cluster.kubeconfig), context=CONTEXT))) == "fleetbeat"
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    assert user(connect(Cluster(name="default", context=CONTEXT))) == "fleetbeat"
    with pytest.raises(ConfigurationError, match=r"Cluster mine: kubeconfig .*, context nowhere: .*nowhere"):
        connect(Cluster(name="mine", context="nowhere"))
    with pytest.raises(ConfigurationError, match="kubeconfig /not/there"):
        connect(Cluster(name="mine", kubeconfig="/not/there", context="x"))


@pytest.mark.parametrize("works", [True, False], ids=["works", "fails"])
def test_kubeconfig_with_a_login_program(cluster: LocalCluster, tmp_path: Path, works: bool) -> None:
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    version = "client.authentication.k8s.io/v1"
    said = json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": cluster.token}})
    program = ["echo", said] if works else ["false"]
    login = {"apiVersion": version, "command": program[0], "args": program[1:], "interactiveMode": "Never"}
    config["users"][0]["user"] = {"exec": login}
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    mine = Cluster(name="mine", kubeconfig=str(tmp_path / "config"), context=CONTEXT)
    if works:
        assert user(connect(mine)) == "fleetbeat"
    else:
        with pytest.raises(ConfigurationError, match=f"context {CONTEXT}: it gives no credentials"):
            connect(mine)


def test_broken_kubeconfig_is_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "config").write_text('users: [{token: "marker-of-the-token}]\n  x: :')
    with pytest.raises(ConfigurationError) as caught:
        connect(Cluster(name="mine", kubeconfig=str(tmp_path / "config"), context="x"))
    assert "marker" not in str(caught.value)


@pytest.fixture
def pod(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a pod finds mounted."""
    host, port = cluster.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setattr(cluster_connect, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "ca.crt").write_text(cluster.ca_pem)
    (tmp_path / "token").write_text(cluster.token)
    return tmp_path


def test_in_cluster(pod: Path) -> None:
    assert user(connect(Cluster(name="here", in_cluster=True))) == "fleetbeat"


def test_in_cluster_token_is_read_again(cluster: LocalCluster, pod: Path) -> None:
    (pod / "token").write_text("expired")
    with pytest.raises(Unauthorized):
        user(connect(Cluster(name="here", in_cluster=True)))
    (pod / "token").write_text(cluster.token)
    assert user(connect(Cluster(name="here", in_cluster=True))) == "fleetbeat"


@pytest.mark.parametrize("hours", [-1, 1])
def test_in_cluster_token_is_read_again_in_time_when_the_hosts_clock_jumps(
    pod: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    (pod / "token").write_text("old")
    kube = connect(Cluster(name="here", in_cluster=True))
    (pod / "token").write_text("new")
    seen = kube._transport.connection.authorization
    real, monotonic = datetime.datetime, time.monotonic()

    class Jumped(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return real.now(tz) + datetime.timedelta(hours=hours)

    monkeypatch.setattr(datetime, "datetime", Jumped)
    assert seen() == "bearer old"
    monkeypatch.setattr(time, "monotonic", lambda: monotonic + 61)
    assert seen() == "Bearer new"


def test_in_cluster_outside_of_one() -> None:
    with pytest.raises(ConfigurationError, match="does not run in a pod"):
        connect(Cluster(name="here", in_cluster=True))


def test_wrong_token(definition: Cluster) -> None:
    kube = connect(dataclasses.replace(definition, token=inline("marker-of-the-token")))
    with pytest.raises(Unauthorized, match="credentials of cluster prod are wrong or have expired") as caught:
        kube.list(NAMESPACE)
    assert "marker" not in str(caught.value)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "line break in the token": ({"token": inline("marker\r\nX-Evil: 1")}, "the token holds line breaks"),
    "umlaut in the token": ({"token": inline("märker")}, "the token holds line breaks or characters"),
    "ca is no PEM": ({"ca": inline("marker")}, "ca is not a PEM"),
    "certificate is no PEM": (
        {"client_certificate": inline("marker"), "client_key": inline("marker")},
        "clientCertificate and clientKey",
    ),
    "certificate without key": ({"client_certificate": inline(Authority().client("x").certificate)}, "clientKey"),
    "user in the URL": ({"server": "https://me:marker@127.0.0.1:6443"}, "without a user or password"),
    "no scheme": ({"server": "127.0.0.1:6443"}, "must be https://host:port"),
    "no port number": ({"server": "https://127.0.0.1:x"}, "must be https://host:port"),
    "no such file": ({"ca": Credential(file="/not/there")}, "Cluster prod, ca: .*/not/there"),
}


@pytest.mark.parametrize(("fields", "text"), BROKEN.values(), ids=BROKEN)
def test_broken_definition(fields: dict[str, Any], text: str) -> None:
    whole = Cluster(name="prod", server="https://127.0.0.1:6443", token=inline("t"))
    with pytest.raises(ConfigurationError, match=text) as caught:
        connect(dataclasses.replace(whole, **fields))
    assert "marker" not in str(caught.value)
    assert "märker" not in str(caught.value)


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_unknown_authority(definition: Cluster) -> None:
    kube = connect(dataclasses.replace(definition, ca=inline(Authority().pem)))
    with pytest.raises(ClusterUnavailable, match="TLS: the server's certificate was not accepted: "):
        kube.list(NAMESPACE)
    with pytest.raises(ClusterUnavailable, match="TLS: the server's certificate was not accepted"):
        connect(dataclasses.replace(definition, ca=None)).list(NAMESPACE)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_insecure(definition: Cluster) -> None:
    assert user(connect(dataclasses.replace(definition, ca=None, insecure_skip_tls_verify=True))) == "fleetbeat"


def test_server_name(definition: Cluster) -> None:
    """The certificate is made out to 127.0.0.1 and localhost."""
    assert user(connect(dataclasses.replace(definition, tls_server_name="localhost"))) == "fleetbeat"
    with pytest.raises(ClusterUnavailable, match=r"certificate was not accepted: .*other\.example\.com"):
        user(connect(dataclasses.replace(definition, tls_server_name="other.example.com")))


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_connections_are_shared_between_tasks(definition: Cluster) -> None:
    for _ in range(3):
        kube = connect(definition)
        kube.list(NAMESPACE)
        kube.acting("fleetbeat/0 app/shop", None).list(NAMESPACE)
    assert kube._transport.connection.pool.num_connections == 1
    assert connect(dataclasses.replace(definition, labels={"env": "prod"})).api_set() is kube.api_set()


def test_rotated_token_is_picked_up(cluster: LocalCluster, definition: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("expired")
    rotating = dataclasses.replace(definition, token=Credential(file=str(file)))
    with pytest.raises(Unauthorized):
        user(connect(rotating))
    file.write_text(cluster.token)
    assert user(connect(rotating)) == "fleetbeat"


def test_only_so_many_clusters_stay_connected(definition: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_connect, "_KEPT", 3)
    views = [connect(dataclasses.replace(definition, name=f"c{i}")) for i in range(5)]
    assert list(cluster_connect._connections) == ["c2", "c3", "c4"]
    assert user(views[0]) == "fleetbeat"  # who holds one keeps it


def test_nothing_shows_a_secret(cluster: LocalCluster, definition: Cluster) -> None:
    kube = connect(definition)
    shown = repr([kube, kube._transport.connection, cluster_connect._Secrets.read(definition), definition])
    assert cluster.token not in shown
    assert "PRIVATE" not in shown
