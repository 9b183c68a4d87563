"""What an API server's refusals become: each its own error, naming object and field, quoting no secret."""

from __future__ import annotations

import time
from typing import Any

import pytest
from unhurried import UNHURRIED

from fleetbeat.clients.cluster import KubernetesCluster
from fleetbeat.errors import FleetbeatError, NotYet, Rejected, Unauthorized
from fleetbeat.local.cluster import Cluster as LocalCluster
from fleetbeat.model import ApiResource, Body, Cluster, Credential, SecretText
from fleetbeat.ports import Absent, Seen, Written

CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", True)
SECRET = ApiResource("", "v1", "Secret", "secrets", True)
DEPLOYMENT = ApiResource("apps", "v1", "Deployment", "deployments", True)
UNKNOWN = ApiResource("nowhere.example.com", "v1", "Thing", "things", True)


def connect(cluster: LocalCluster, token: str | None = None) -> KubernetesCluster:
    return KubernetesCluster.connect(
        Cluster(
            name="test",
            server=cluster.server,
            ca=Credential(inline=SecretText(cluster.ca_pem)),
            token=Credential(inline=SecretText(token or cluster.token)),
        ),
        http=UNHURRIED,
    )


@pytest.fixture
def kube(cluster: LocalCluster) -> KubernetesCluster:
    return connect(cluster)


def config_map(namespace: str, name: str = "settings", **data: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace},
        "data": data or {"color": "green"},
    }


def deployment(namespace: str, app: str = "web") -> Body:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": app}},
            "template": {
                "metadata": {"labels": {"app": app}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }


def seen(written: Written | Body) -> Seen:
    metadata = (written.body if isinstance(written, Written) else written)["metadata"]
    return Seen(metadata["uid"], metadata["resourceVersion"])


def unknown_field(namespace: str) -> tuple[ApiResource, Body]:
    body = deployment(namespace)
    body["spec"]["template"]["spec"]["containers"][0]["imagee"] = "web:1"
    return DEPLOYMENT, body


def wrong_type(namespace: str) -> tuple[ApiResource, Body]:
    body = deployment(namespace)
    body["spec"]["replicas"] = "three"
    return DEPLOYMENT, body


def bad_name(namespace: str) -> tuple[ApiResource, Body]:
    return CONFIG_MAP, config_map(namespace, name="Not_A_Name")


def path_in_a_name(namespace: str) -> tuple[ApiResource, Body]:
    return CONFIG_MAP, config_map(namespace, name="..")


def no_namespace(_: str) -> tuple[ApiResource, Body]:
    return CONFIG_MAP, config_map("")


def no_json(namespace: str) -> tuple[ApiResource, Body]:
    return CONFIG_MAP, {**config_map(namespace), "data": {"big": 2**70}}


def missing_namespace(_: str) -> tuple[ApiResource, Body]:
    return CONFIG_MAP, config_map("not-there")


def unknown_kind(namespace: str) -> tuple[ApiResource, Body]:
    return UNKNOWN, {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", **_named(namespace)}


def unknown_kind_of_a_known_group(namespace: str) -> tuple[ApiResource, Body]:
    return UNKNOWN._replace(group="apps"), {"apiVersion": "apps/v1", "kind": "Thing", **_named(namespace)}


def _named(namespace: str) -> Body:
    return {"metadata": {"name": "x", "namespace": namespace}}


@pytest.mark.parametrize("dry_run", [False, True], ids=["kept", "dry-run"])
@pytest.mark.parametrize(
    ("case", "error", "text"),
    [
        (unknown_field, Rejected, r'^Deployment \S+/web: .*containers\[name="web"\].imagee: field not declared'),
        (wrong_type, Rejected, r"\.spec\.replicas: expected numeric"),
        (bad_name, Rejected, r"metadata\.name: Invalid value"),
        (path_in_a_name, Rejected, r"'\.\.' cannot be a name"),
        (no_namespace, Rejected, "no namespace is given"),
        (no_json, Rejected, "JSON cannot carry"),
        (missing_namespace, NotYet, "namespace not-there does not exist in cluster test"),
        (unknown_kind, NotYet, r"^Thing\.nowhere\.example\.com .*: this kind is not served by cluster test"),
        (unknown_kind_of_a_known_group, NotYet, "this kind is not served"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_refused(
    kube: KubernetesCluster, namespace: str, case: Any, error: type[FleetbeatError], text: str, dry_run: bool
) -> None:
    resource, body = case(namespace)
    with pytest.raises(error, match=text):
        kube.apply(resource, body, expect=Absent(), dry_run=dry_run)


def test_immutable_field_is_named(kube: KubernetesCluster, namespace: str) -> None:
    first = kube.apply(DEPLOYMENT, deployment(namespace), expect=Absent())
    with pytest.raises(Rejected, match=r"spec\.selector: Invalid value.*field is immutable"):
        kube.apply(DEPLOYMENT, deployment(namespace, app="other"), expect=seen(first), force=True)


def test_immutable_config_map(kube: KubernetesCluster, namespace: str) -> None:
    first = kube.apply(CONFIG_MAP, {**config_map(namespace), "immutable": True}, expect=Absent())
    with pytest.raises(Rejected, match="data: Forbidden: field is immutable"):
        kube.apply(CONFIG_MAP, {**config_map(namespace, color="red"), "immutable": True}, expect=seen(first))


def test_namespace_that_is_being_deleted(cluster: LocalCluster, kube: KubernetesCluster, namespace: str) -> None:
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")
    with pytest.raises(NotYet, match=f"ConfigMap {namespace}/settings: its namespace is being deleted"):
        kube.apply(CONFIG_MAP, config_map(namespace), expect=Absent())


def test_lacking_a_right(cluster: LocalCluster, namespace: str) -> None:
    stranger = connect(cluster, token=_token(cluster, namespace))
    with pytest.raises(Unauthorized, match=rf"^ConfigMap {namespace}/settings: apply .*cannot patch resource"):
        stranger.apply(CONFIG_MAP, config_map(namespace), expect=Absent())
    with pytest.raises(Unauthorized, match=r"get .*cannot get resource"):
        stranger.get(CONFIG_MAP, namespace, "settings")
    with pytest.raises(Unauthorized, match=r"list .*cannot list resource"):
        stranger.list(CONFIG_MAP)


def _token(cluster: LocalCluster, namespace: str) -> str:
    """Of a service account without any right."""
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "stranger"}})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/stranger/token"
    status, answer = cluster.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert status == 201, answer
    return str(answer["status"]["token"])


@pytest.fixture
def policy(cluster: LocalCluster, namespace: str) -> None:
    """An admission policy for this namespace that refuses ConfigMaps named "forbidden"."""
    base = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicy"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps", "secrets"]}
    where = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": where},
        "validations": [
            {
                "expression": "object.metadata.name != 'forbidden'",
                "messageExpression": "'no such name here, data: ' + string(object.data.a)",
            }
        ],
    }
    assert (
        cluster.request("POST", f"{base.replace('policy', 'policies')}", {**_meta(namespace), "spec": spec})[0] == 201
    )
    bind = {"policyName": namespace, "validationActions": ["Deny"]}
    assert cluster.request("POST", f"{base}bindings", {**_meta(namespace), "spec": bind})[0] == 201


def _meta(name: str) -> Body:
    return {"metadata": {"name": name}}


def refused_in_the_end(kube: KubernetesCluster, resource: ApiResource, body: Body) -> Rejected:
    """The server learns of a new policy a moment after it was written."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            kube.apply(resource, body, expect=Absent(), dry_run=True)
        except Rejected as error:
            return error
        time.sleep(0.1)
    raise AssertionError("the policy never refused")


@pytest.mark.usefixtures("policy")
def test_admission_denial(kube: KubernetesCluster, namespace: str) -> None:
    error = refused_in_the_end(kube, CONFIG_MAP, config_map(namespace, name="forbidden", a="x"))
    assert "no such name here, data: x" in str(error)


@pytest.mark.usefixtures("policy")
def test_no_message_shows_a_secret(kube: KubernetesCluster, namespace: str) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "forbidden", "namespace": namespace}}
    error = refused_in_the_end(kube, SECRET, {**secret, "data": {"a": "bWFya2VyLXZhbHVl"}})
    assert "no such name here" in str(error)
    assert "marker-value" not in str(error)
    for data in ({"a": 987654321}, {"a": {"b": "marker-value"}}, {"marker-value!": "eA=="}):
        with pytest.raises(Rejected) as caught:
            kube.apply(SECRET, {**secret, "data": data}, expect=Absent(), dry_run=True)
        assert "987654321" not in str(caught.value)
    with pytest.raises(Rejected) as caught:
        kube.apply(SECRET, {**secret, "data": {"a": {"b": "marker-value"}}}, expect=Absent(), dry_run=True)
    assert "marker-value" not in str(caught.value)


def test_warnings_are_handed_on(kube: KubernetesCluster, namespace: str) -> None:
    body = deployment(namespace)
    body["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"memory": "100m"}}
    warnings = kube.apply(DEPLOYMENT, body, dry_run=True).warnings
    assert any('fractional byte value "100m"' in text for text in warnings), warnings
