"""One document → Application or Cluster: what is read, and the sentence for each mistake."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetbeat.catalog import parse_application, parse_cluster
from fleetbeat.errors import CatalogError
from fleetbeat.model import (
    Application,
    Cluster,
    Credential,
    Destination,
    RegistryAuth,
    Retry,
    SecretText,
    Source,
    SyncPolicy,
)

Document = dict[str, Any]
WHERE = "apps/shop.yaml, document 2 (line 14)"
HEX = "0123456789abcdef" * 4
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
MARKER = "hunter2"


def application(**spec: Any) -> Document:
    """A small valid Application, with fields of spec replaced; None takes one out."""
    base: Document = {
        "source": {"oci": "registry.example.com/shop/manifests"},
        "destination": {"cluster": "prod"},
    }
    kept = {name: value for name, value in (base | spec).items() if value is not None}
    return {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": "Application", "metadata": {"name": "shop"}, "spec": kept}


def source(**fields: Any) -> Document:
    return application(source={"oci": "registry.example.com/shop", **fields})


def sync(**fields: Any) -> Document:
    return application(sync=fields)


def cluster(**spec: Any) -> Document:
    base: Document = {"server": "https://prod.example.com:6443", "token": {"env": "PROD_TOKEN"}}
    kept = {name: value for name, value in (base | spec).items() if value is not None}
    return {"apiVersion": "fleetbeat.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "prod"}, "spec": kept}


def annotated(annotations: dict[str, str]) -> Document:
    """A good application with these annotations."""
    document = application()
    return document | {"metadata": {**document["metadata"], "annotations": annotations}}


def problems(document: Document) -> list[str]:
    """The sentences without their common beginning, after checking that they have it."""
    parse: Callable[[Document, str], object] = parse_cluster if document.get("kind") == "Cluster" else parse_application
    before = copy.deepcopy(document)
    with pytest.raises(CatalogError) as caught:
        parse(document, WHERE)
    assert document == before, "parsing must not change the document"
    head = f"{WHERE}, {document.get('kind', 'Application')}"
    assert all(sentence.startswith(head) for sentence in caught.value.problems)
    return [sentence.removeprefix(head).partition(": ")[2] for sentence in caught.value.problems]


# ── what is read ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_defaults_of_an_application_are_those_of_the_model() -> None:
    assert parse_application(application(), WHERE) == Application(
        name="shop",
        source=Source(oci="registry.example.com/shop/manifests"),
        destination=Destination(cluster="prod"),
    )


def test_every_field_of_an_application() -> None:
    document = application(
        project="default",
        source={
            "oci": "oci://registry.example.com:5000/shop/manifests",
            "tag": "stable",
            "digest": f"sha256:{HEX}",
            "semver": ">=1.2 <2",
            "path": "./overlays//prod/",
            "ca": {"file": "/etc/ca.pem"},
            "auth": {"username": "robot", "password": {"inline": MARKER}},
        },
        destination={"cluster": "prod", "namespace": "shop"},
        sync={
            "interval": "1h30m",
            "selfHeal": False,
            "prune": False,
            "allowEmpty": True,
            "timeout": "10m",
            "noProgressTimeout": "10m",
            "retry": {"limit": 0, "backoff": {"duration": "500ms", "factor": 1.5, "maxDuration": "1m"}},
            "options": ["CreateNamespace=true", "PrunePropagationPolicy=foreground"],
        },
    )
    approved = {"argocd.argoproj.io/deletion-approved": "2026-11-30T12:00:00Z"}
    document["metadata"] |= {"labels": {"team": "web"}, "annotations": {"note": "x", **approved}}
    assert parse_application(document, WHERE) == Application(
        name="shop",
        source=Source(
            oci="registry.example.com:5000/shop/manifests",
            tag="stable",
            digest=f"sha256:{HEX}",
            semver=">=1.2 <2",
            path="overlays/prod",
            ca=Credential(file="/etc/ca.pem"),
            auth=RegistryAuth(username="robot", password=Credential(inline=SecretText(MARKER))),
        ),
        destination=Destination("prod", "shop"),
        sync=SyncPolicy(
            interval=5400.0,
            self_heal=False,
            prune=False,
            allow_empty=True,
            timeout=600.0,
            no_progress_timeout=600.0,
            create_namespace=True,
            prune_propagation="Foreground",
            retry=Retry(limit=0, duration=0.5, factor=1.5, max_duration=60.0),
        ),
        labels={"team": "web"},
        annotations={"note": "x", **approved},
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"ca": {"inline": PEM}, "tlsServerName": "api", "token": {"file": "/run/token"}},
            Cluster(
                "prod",
                server="https://prod.example.com:6443",
                ca=Credential(inline=SecretText(PEM)),
                token=Credential(file="/run/token"),
                tls_server_name="api",
            ),
            id="server with token",
        ),
        pytest.param(
            {"token": None, "clientCertificate": {"inline": PEM}, "clientKey": {"env": "KEY"}},
            Cluster(
                "prod",
                server="https://prod.example.com:6443",
                client_certificate=Credential(inline=SecretText(PEM)),
                client_key=Credential(env="KEY"),
            ),
            id="server with client certificate",
        ),
        pytest.param(
            {"server": "https://rancher.example.com/k8s/clusters/c-1", "insecureSkipTLSVerify": True},
            Cluster(
                "prod",
                server="https://rancher.example.com/k8s/clusters/c-1",
                token=Credential(env="PROD_TOKEN"),
                insecure_skip_tls_verify=True,
            ),
            id="server behind a path",
        ),
        pytest.param(
            {"server": None, "token": None, "inCluster": True}, Cluster("prod", in_cluster=True), id="in cluster"
        ),
        pytest.param(
            {"server": None, "token": None, "context": "kind", "kubeconfig": "/k", "inCluster": False},
            Cluster("prod", context="kind", kubeconfig="/k"),
            id="kubeconfig context",
        ),
    ],
)
def test_ways_to_reach_a_cluster(spec: Document, expected: Cluster) -> None:
    assert parse_cluster(cluster(**spec), WHERE) == expected


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param({}, "", id="not"),
        pytest.param({"argocd.argoproj.io/skip-reconcile": "false"}, "", id="false"),
        pytest.param(
            {"argocd.argoproj.io/skip-reconcile": "true"},
            'annotation argocd.argoproj.io/skip-reconcile: "true" on Cluster prod',
            id="as in Argo CD",
        ),
    ],
)
def test_what_suspends_a_cluster(said: dict[str, str], why: str) -> None:
    document = cluster() | {"metadata": {"name": "prod", "annotations": said}}
    assert parse_cluster(document, WHERE).suspended == why


@pytest.mark.parametrize(
    "oci",
    [
        "registry.example.com/shop",
        "127.0.0.1:5000/shop/manifests",
        "localhost/shop",
        "registry:5000/shop",
        "[::1]:5000/shop",
        "ghcr.io/org/a.b_c__d-e",
        "/srv/bundles/shop",
        "./shop",
        "../shop",
        "oci-layout:/srv/shop",
    ],
)
def test_sources_that_are_accepted(oci: str) -> None:
    assert parse_application(application(source={"oci": oci}), WHERE).source.oci == oci


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["Prune=false"], SyncPolicy(prune_objects="false")),
        (["Prune=confirm", "Delete=confirm"], SyncPolicy(prune_objects="confirm", delete_objects="confirm")),
        (["Delete=false"], SyncPolicy(delete_objects="false")),
        (["ClientSideApplyMigration=false"], SyncPolicy(migrate=False)),
        (["Replace=true", "Force=true"], SyncPolicy(replace=True, force=True)),
        (["Prune=true", "Delete=true", "ClientSideApplyMigration=true"], SyncPolicy()),
        (["SkipDryRunOnMissingResource=true", "ApplyOutOfSyncOnly=true", "Validate=true"], SyncPolicy()),
        (["PruneLast=true", "ServerSideApply=true", "RespectIgnoreDifferences=true"], SyncPolicy()),
        (["SkipDryRunOnMissingResource=false"], SyncPolicy()),
    ],
    ids=str,
)
def test_options_of_argo_cd(options: list[str], expected: SyncPolicy) -> None:
    assert parse_application(application(sync={"options": options}), WHERE).sync == expected


def test_a_section_with_nothing_under_it_is_an_empty_one() -> None:
    assert parse_application(application(sync={"retry": {}}), WHERE).sync == SyncPolicy()
    document = application() | {"metadata": {"name": "shop", "labels": None, "annotations": None}}
    document["spec"]["sync"] = None
    assert parse_application(document, WHERE) == parse_application(application(), WHERE)


# ── mistakes ─────────────────────────────────────────────────────────────────────────────────────────────────────

REPOSITORY = "registry.example.com/shop/manifests"
CASES: dict[str, tuple[Document, str]] = {
    "misspelt field": (sync(selfheal=True), "spec.sync.selfheal: unknown field. Did you mean selfHeal?"),
    "unknown field without a near one": (
        application(destination={"cluster": "prod", "zzz": 1}),
        "spec.destination.zzz: unknown field. Known here: cluster, namespace",
    ),
    "unknown field at the top": (application() | {"status": {}}, "status: unknown field."),
    "suspend that is no flag": (application(suspend="yes"), "spec.suspend: must be true or false"),
    "self-heal that is no word": (
        annotated({"fleetbeat.dev/self-heal": "off"}),
        "metadata.annotations.fleetbeat.dev/self-heal: must be disabled or enabled, not 'off'",
    ),
    "self-heal-until without a zone": (
        annotated({"fleetbeat.dev/self-heal": "disabled", "fleetbeat.dev/self-heal-until": "2026-11-30T12:00:00"}),
        "metadata.annotations.fleetbeat.dev/self-heal-until: must be an RFC 3339 time such as 2026-11-30T12:00:00Z",
    ),
    "self-heal-until alone": (
        annotated({"fleetbeat.dev/self-heal-until": "2026-11-30T12:00:00Z"}),
        "metadata.annotations.fleetbeat.dev/self-heal-until: does nothing without fleetbeat.dev/self-heal: disabled",
    ),
    "one of our annotations misspelt": (
        annotated({"fleetbeat.dev/selfheal": "disabled"}),
        "metadata.annotations.fleetbeat.dev/selfheal: unknown annotation. Did you mean fleetbeat.dev/self-heal?",
    ),
    "skip-reconcile of a cluster that is no word": (
        cluster() | {"metadata": {"name": "prod", "annotations": {"argocd.argoproj.io/skip-reconcile": "1"}}},
        "metadata.annotations.argocd.argoproj.io/skip-reconcile: must be ",
    ),
    "skip-reconcile that is no word": (
        annotated({"argocd.argoproj.io/skip-reconcile": "yes"}),
        "metadata.annotations.argocd.argoproj.io/skip-reconcile: must be ",
    ),
    "a dependency without a name": (
        application(dependsOn=[{}]),
        "spec.dependsOn[0].name: missing: the name of an Application in this catalog",
    ),
    "a dependency named twice": (
        application(dependsOn=[{"name": "db"}, {"name": "db"}]),
        'spec.dependsOn[1].name: "db" is named twice',
    ),
    "a dependency as a word": (application(dependsOn=["db"]), "spec.dependsOn[0]: must be a mapping of fields"),
    "Flux's namespace of a dependency": (
        application(dependsOn=[{"name": "db", "namespace": "x"}]),
        "spec.dependsOn[0].namespace: unknown field. Here it is no field: names of applications are unique",
    ),
    "Argo CD's syncPolicy": (application(syncPolicy={}), "spec.syncPolicy: unknown field. Here it is spec.sync"),
    "Argo CD's repoURL": (source(repoURL="x"), "spec.source.repoURL: unknown field. Here it is spec.source.oci"),
    "another tool's Application": (
        application() | {"apiVersion": "argoproj.io/v1alpha1"},
        'apiVersion: must be fleetbeat.dev/v1alpha1, not "argoproj.io/v1alpha1"',
    ),
    "no spec": ({k: v for k, v in application().items() if k != "spec"}, "spec: missing: it says what to sync"),
    "no source": (application(source=None), "spec.source: missing: it names the bundle"),
    "no oci": (application(source={}), "spec.source.oci: missing: it names the bundle's repository"),
    "text for a section": (application(source="x"), "spec.source: must be a mapping of fields, not text"),
    "nothing under spec": (application() | {"spec": None}, "spec: missing: it says what to sync and where to"),
    "cluster with nothing under spec": (cluster() | {"spec": None}, "spec: missing: it says how to reach the cluster"),
    "no cluster": (application(destination={}), "spec.destination.cluster: missing: the name of a Cluster"),
    "no name": (application() | {"metadata": {}}, "metadata.name: missing: every document has a name"),
    "upper-case name": (application() | {"metadata": {"name": "Shop"}}, "metadata.name: must be lower-case letters"),
    "name that breaks a header": (application() | {"metadata": {"name": "a\r\nX: 1"}}, "metadata.name: must be lower-"),
    "name with a line break at its end": (application() | {"metadata": {"name": "shop\n"}}, "metadata.name: must be"),
    "name of 254 characters": (application() | {"metadata": {"name": "a." * 126 + "ab"}}, "metadata.name: must be"),
    "name with a colon": (application() | {"metadata": {"name": "a:b"}}, "metadata.name: must be lower-case"),
    "label that is a number": (
        application() | {"metadata": {"name": "shop", "labels": {"tier": 1}}},
        "metadata.labels.tier: must be text, not a number. Put quotes around it",
    ),
    "label whose name moves the cursor": (
        application() | {"metadata": {"name": "shop", "labels": {"\x1b[2J": 1}}},
        r'metadata.labels."\u001b[2J": must be text, not a number',
    ),
    "approval that is no time": (
        application()
        | {"metadata": {"name": "shop", "annotations": {"argocd.argoproj.io/deletion-approved": "yesterday"}}},
        "metadata.annotations.argocd.argoproj.io/deletion-approved: must be an RFC 3339 time such as "
        '2026-11-30T12:00:00Z, not "yesterday"',
    ),
    "propagation policy that is none": (
        sync(options=["PrunePropagationPolicy=Foreground"]),
        "spec.sync.options[0]: must be PrunePropagationPolicy=background or PrunePropagationPolicy=foreground or",
    ),
    "project": (application(project="Web"), "spec.project: must be the name of a Project in this catalog, not"),
    "text for a flag": (sync(prune="yes please"), "spec.sync.prune: must be true or false, not text"),
    "list for a section": (application(sync=[]), "spec.sync: must be a mapping of fields, not a list"),
    "null for a scalar": (sync(interval=None), "spec.sync.interval: is empty. Give a value or remove the line"),
    "number for a duration": (sync(interval=180), 'spec.sync.interval: needs a unit: write "180s"'),
    "days": (sync(interval="1d"), "spec.sync.interval: must be a duration such as 30s, 5m or 1h30m"),
    "interval too short": (sync(interval="500ms"), 'spec.sync.interval: must be from 1s to 24h, not "500ms"'),
    "interval too long": (sync(interval="25h"), "spec.sync.interval: must be from 1s to 24h"),
    "interval beyond floats": (sync(interval="9" * 400 + "h"), "spec.sync.interval: must be from 1s to 24h"),
    "time-out of nothing": (sync(timeout="0s"), "spec.sync.timeout: must be from 1s to 24h"),
    "no progress for no time": (sync(noProgressTimeout="0s"), "spec.sync.noProgressTimeout: must be from 1s to 24h"),
    "no progress for longer than there is": (
        sync(timeout="2m", noProgressTimeout="3m"),
        "spec.sync.noProgressTimeout: must not be longer than timeout (2m), which ends the wave before it",
    ),
    "no progress for longer than is usual": (
        sync(noProgressTimeout="6m"),
        "spec.sync.noProgressTimeout: must not be longer than timeout (5m), which ends the wave before it",
    ),
    "negative limit": (sync(retry={"limit": -1}), "spec.sync.retry.limit: must be a whole number from 0 to 100"),
    "limit that is a fraction": (sync(retry={"limit": 1.5}), "spec.sync.retry.limit: must be a whole number"),
    "limit that is a flag": (sync(retry={"limit": True}), "spec.sync.retry.limit: must be a whole number, not true"),
    "factor below one": (
        sync(retry={"backoff": {"factor": 0.5}}),
        "spec.sync.retry.backoff.factor: must be a number from 1 to 100, not 0.5",
    ),
    "back-off longer than its cap": (
        sync(retry={"backoff": {"duration": "5m", "maxDuration": "1m"}}),
        "spec.sync.retry.backoff.duration: must not be longer than maxDuration",
    ),
    "metadata of the namespace": (
        sync(managedNamespaceMetadata={"labels": {"team": "web"}}),
        "spec.sync.managedNamespaceMetadata: unknown field. Here it is no field: a Namespace with labels",
    ),
    "option that server-side apply cannot have": (
        sync(options=["Prune=false", "Validate=false"]),
        "spec.sync.options[1]: Validate=false cannot be: with server-side apply the API server checks every field",
    ),
    "option with a value it never has": (
        sync(options=["Prune=maybe"]),
        'spec.sync.options[0]: must be Prune=true or Prune=false or Prune=confirm, not "Prune=maybe"',
    ),
    "option that everything is written as": (
        sync(options=["ApplyOutOfSyncOnly=false"]),
        "spec.sync.options[0]: ApplyOutOfSyncOnly=false cannot be: what does not differ is never written. Remove the",
    ),
    "option in the wrong case": (
        sync(options=["createNamespace=true"]),
        'spec.sync.options[0]: unknown option "createNamespace". Did you mean CreateNamespace?',
    ),
    "option without value": (
        sync(options=["CreateNamespace"]),
        "spec.sync.options[0]: must be CreateNamespace=true or",
    ),
    "option that cannot be switched off": (
        sync(options=["RespectIgnoreDifferences=false"]),
        "spec.sync.options[0]: RespectIgnoreDifferences=false cannot be: ignored differences stay as they are",
    ),
    "option twice, differently": (
        sync(options=["CreateNamespace=true", "CreateNamespace=false"]),
        "spec.sync.options[1]: says the opposite",
    ),
    "option that is a mapping": (
        sync(options=[{"CreateNamespace": True}]),
        "spec.sync.options[0]: must be text such as",
    ),
    "options that are text": (sync(options="CreateNamespace=true"), "spec.sync.options: must be a list, not text"),
    "tag read as a number": (source(tag=1.1), "spec.source.tag: must be text, not a number. Put quotes around it"),
    "tag with a space": (source(tag="a b"), "spec.source.tag: must be a tag"),
    "short digest": (source(digest="sha256:abc"), "spec.source.digest: must be sha256: and 64 lower-case"),
    "upper-case digest": (source(digest=f"sha256:{HEX.upper()}"), "spec.source.digest: must be sha256:"),
    "range that is none": (source(semver="latest"), "spec.source.semver: must be a range such as >=1.2 <2"),
    "tag of a layout in its path": (application(source={"oci": "./bundle:v1"}), "spec.source.oci: ends with a tag"),
    "path out of the bundle": (source(path="../../other"), "spec.source.path: must be a folder inside the bundle"),
    "path out, hidden in the middle": (source(path="a/../../b"), "spec.source.path: must be a folder inside"),
    "absolute path": (source(path="/etc"), "spec.source.path: must be a folder inside the bundle"),
    "path with backslashes": (source(path="..\\x"), "spec.source.path: must be a folder inside the bundle"),
    "tag in the reference": (application(source={"oci": f"{REPOSITORY}:v1"}), "spec.source.oci: ends with a tag"),
    "digest in the reference": (
        application(source={"oci": f"{REPOSITORY}@sha256:{HEX}"}),
        "spec.source.oci: ends with a digest. Write that under digest",
    ),
    "repository without host": (application(source={"oci": "shop/manifests"}), "spec.source.oci: must be a repository"),
    "repository in upper case": (application(source={"oci": "ghcr.io/Org/x"}), "spec.source.oci: must be a repository"),
    "repository as URL": (
        application(source={"oci": f"https://{REPOSITORY}"}),
        "spec.source.oci: must be a repository",
    ),
    "token beside password": (
        source(auth={"username": "u", "password": {"env": "P"}, "token": {"env": "T"}}),
        "spec.source.auth.token: is given beside username or password",
    ),
    "username without password": (source(auth={"username": "u"}), "spec.source.auth.username: username and password"),
    "CA for plain HTTP": (source(plainHTTP=True, ca={"file": "/ca"}), "spec.source.ca: is useless with plainHTTP"),
    "no way to a cluster": (cluster(server=None, token=None), "spec.server: a cluster has exactly one of server"),
    "two ways to a cluster": (
        cluster(inCluster=True),
        "spec.server: a cluster has exactly one of server, inCluster: true, context; not server and inCluster",
    ),
    "token beside context": (cluster(server=None, context="kind"), "spec.token: goes with server, not with context"),
    "kubeconfig beside server": (cluster(kubeconfig="/k"), "spec.kubeconfig: goes with context"),
    "server without credentials": (cluster(token=None), "spec.token: a server needs token, or clientCertificate"),
    "certificate without key": (cluster(clientCertificate={"file": "/c"}), "spec.clientCertificate: clientCertificate"),
    "server without scheme": (cluster(server="prod:6443"), "spec.server: must be the API server's URL"),
    "server in clear": (cluster(server="http://prod:8080"), "spec.server: must begin with https://"),
    "CA and no verification": (
        cluster(ca={"file": "/ca"}, insecureSkipTLSVerify=True),
        "spec.ca: is useless with insecureSkipTLSVerify",
    ),
    "kubeconfig's base64 as CA": (cluster(ca={"inline": "LS0tLS1CRUdJTg=="}), "spec.ca.inline: must be PEM text"),
    "credential by two ways": (cluster(token={"env": "A", "file": "/b"}), "spec.token: needs exactly one of inline"),
    "empty credential": (cluster(token={}), "spec.token: needs exactly one of inline, file, env"),
    "misspelt way": (
        cluster(token={"files": "/b"}),
        "spec.token: needs exactly one of inline, file, env. Did you mean file?",
    ),
    "number as credential": (cluster(token={"inline": 12345}), "spec.token.inline: must be text that is not empty"),
    "blank credential": (cluster(token={"inline": " \n"}), "spec.token.inline: must be text that is not empty"),
    "value where a variable's name belongs": (cluster(token={"env": "a-b"}), "spec.token.env: must be the name of an"),
}


@pytest.mark.parametrize(("document", "expected"), CASES.values(), ids=CASES.keys())
def test_one_mistake_gives_one_sentence(document: Document, expected: str) -> None:
    found = problems(document)
    assert len(found) == 1, found
    assert found[0].startswith(expected)


def test_all_mistakes_of_a_document_are_told_at_once() -> None:
    document = application(
        source={"oci": REPOSITORY, "tga": "v1"}, sync={"interval": "soon", "prun": True}, suspend="x"
    )
    assert [sentence.partition(":")[0] for sentence in problems(document)] == [
        "spec.source.tga",
        "spec.sync.interval",
        "spec.sync.prun",
        "spec.suspend",
    ]


@pytest.mark.parametrize(
    ("document", "why"),
    [
        pytest.param(application(), "", id="not"),
        pytest.param(application(suspend=False), "", id="false"),
        pytest.param(application(suspend=True), "spec.suspend: true", id="as in Flux"),
        pytest.param(
            annotated({"argocd.argoproj.io/skip-reconcile": "true"}),
            'annotation argocd.argoproj.io/skip-reconcile: "true"',
            id="as in Argo CD",
        ),
        pytest.param(annotated({"argocd.argoproj.io/skip-reconcile": "false"}), "", id="as in Argo CD, false"),
    ],
)
def test_what_suspends_an_application(document: Document, why: str) -> None:
    assert parse_application(document, WHERE).suspended == why


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(application(source={"oci": f"oci://user:{MARKER}@registry.example/x"}), id="URL of a registry"),
        pytest.param(application(source={"oci": f"user:{MARKER}@registry.example/x:v1"}), id="reference of a registry"),
        pytest.param(
            application(source={"oci": f"https://registry.example/x?token={MARKER}"}), id="query of a registry"
        ),
        pytest.param(cluster(server=f"https://user:{MARKER}@prod:6443"), id="URL of a server"),
        pytest.param(cluster(server=f"https://prod:6443/?token={MARKER}"), id="query of a server"),
        pytest.param(cluster(token=MARKER), id="credential as plain text"),
        pytest.param(cluster(token=[MARKER]), id="credential as list"),
        pytest.param(cluster(token={MARKER: None}), id="credential as key"),
        pytest.param(cluster(token={"env": f"{MARKER}=="}), id="credential in place of a variable"),
        pytest.param(cluster(token={"file": f"{MARKER}\n"}), id="credential in place of a path"),
        pytest.param(cluster(ca={"inline": MARKER}), id="inline that is no PEM"),
        pytest.param(cluster(token={"inline": MARKER}, extra=1), id="good credential beside a mistake"),
        pytest.param(source(auth=MARKER), id="login as plain text"),
        pytest.param(source(auth={"username": "u", "password": MARKER}), id="password as plain text"),
    ],
)
def test_no_sentence_holds_a_credential(document: Document) -> None:
    """Field case l9."""
    with pytest.raises(CatalogError) as caught:
        (parse_cluster if document["kind"] == "Cluster" else parse_application)(document, WHERE)
    assert MARKER not in str(caught.value)
    assert MARKER not in repr(caught.value)


def test_a_plain_credential_is_told_how_to_write_it() -> None:
    (sentence,) = problems(cluster(token="abc"))
    assert "{file: /path} or {env: VARIABLE}" in sentence


def test_a_cluster_does_not_show_its_credentials() -> None:
    read = parse_cluster(cluster(token={"inline": MARKER}), WHERE)
    assert MARKER not in repr(read)
    assert MARKER not in f"{read}"


# ── anything ─────────────────────────────────────────────────────────────────────────────────────────────────────

LABELLED = {"metadata": {"name": "shop", "labels": {"team": "web"}}}
FULL: tuple[tuple[Callable[[Document, str], object], Document], ...] = (
    (
        parse_application,
        application(
            source={"oci": REPOSITORY, "ca": {"file": "/ca"}, "auth": {"username": "u", "password": {"env": "P"}}},
            sync={"retry": {"backoff": {"factor": 2}}, "options": ["CreateNamespace=true"]},
        )
        | LABELLED,
    ),
    (parse_cluster, cluster(ca={"inline": PEM}, insecureSkipTLSVerify=False) | LABELLED),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    inner = value.items() if isinstance(value, dict) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


@given(st.data())
def test_whatever_stands_anywhere_is_read_or_told(data: st.DataObject) -> None:
    parse, whole = data.draw(st.sampled_from(FULL))
    document = copy.deepcopy(whole)
    *parents, last = data.draw(st.sampled_from([place for place in places(document) if place]))
    holder = document
    for key in parents:
        holder = holder[key]
    holder[last] = data.draw(JSON)
    told = []
    try:
        parse(document, WHERE)
    except CatalogError as error:
        told = error.problems
    assert [sentence for sentence in told if not sentence.isprintable()] == []
