"""The kinds of the catalog: one document → Application, Cluster or Project. Every field is told of in docs/catalog.md.

Used when a directory is loaded, and again by workers on what they read back from Redis.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fleetbeat import catalog_annotations
from fleetbeat.catalog_differences import adopted_tools, conflict_rules, ignore_rules
from fleetbeat.catalog_fields import Fields, Problems, shown
from fleetbeat.catalog_health import health_rules
from fleetbeat.catalog_sync import sync_policy
from fleetbeat.catalog_windows import own_windows, project_windows
from fleetbeat.decisions import names, references, semver
from fleetbeat.decisions.projects import DEFAULT
from fleetbeat.errors import ConfigurationError
from fleetbeat.model import (
    Application,
    Cluster,
    DeletionPolicy,
    Destination,
    Project,
    RegistryAuth,
    Source,
)

API_VERSION = "fleetbeat.dev/v1alpha1"
KINDS = ("Application", "Cluster", "Project")
KINDS_LATER = ("Fleet",)

# A name becomes part of Redis keys, User-Agents and object names in clusters; a subdomain is safe in all of them.
_NAME_FORM = "lower-case letters, digits, '-' and '.', beginning and ending with a letter or digit, at most 253"
_NAMESPACE_FORM = "a namespace: lower-case letters, digits and '-', at most 63"

_REPOSITORY_EXAMPLE = "registry.example.com/shop/manifests"
_SERVER = re.compile(r"https://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")

DELETION_POLICIES: tuple[DeletionPolicy, ...] = ("Orphan", "Delete")

#: What restricts in Argo CD. Passing over such a field would grant what it was meant to forbid.
_ARGO_CD_PROJECT = dict.fromkeys(
    (
        *("sourceRepos", "destinations", "sourceNamespaces", "destinationServiceAccounts", "roles", "signatureKeys"),
        *("clusterResourceWhitelist", "clusterResourceBlacklist"),
        *("namespaceResourceWhitelist", "namespaceResourceBlacklist"),
    ),
    "a right of the workers' account in the cluster: a Project restricts nothing. Remove the line",
)
_ARGO_CD_SPEC = {
    "health": "spec.healthCheckExprs",
    "healthChecks": "spec.healthCheckExprs; every object is waited for anyway",
    "syncPolicy": "spec.sync",
    "syncWindows": "spec.sync.windows, or spec.syncWindows of its Project",
    "sources": "spec.source, and only one",
}
_ARGO_CD_SOURCE = {"repoURL": "spec.source.oci", "targetRevision": "spec.source.tag, semver or digest"}
_ARGO_CD_DESTINATION = {
    "name": "spec.destination.cluster",
    "server": "spec.destination.cluster, the name of a Cluster in this catalog",
}


def name_of(document: Mapping[str, Any]) -> str:
    """``metadata.name`` when it is a valid one, else ""."""
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) and names.is_subdomain(name) else ""


def parse_application(document: Mapping[str, Any], where: str) -> Application:
    """One ``kind: Application`` document.

    ``where`` begins every sentence, e.g. ``apps/shop.yaml, document 2 (line 14)``. Raises CatalogError with every
    problem. Whether its cluster and project exist is not known here, and the project's rules are not in it.
    """
    problems, top = _open(document, where, "Application")
    name, labels, annotations = _metadata(top, "Application")
    spec = top.section("spec", required="it says what to sync and where to")
    top.close()
    project = spec.text("project", DEFAULT, accept=names.is_subdomain, form="the name of a Project in this catalog")
    source = _source(spec.section("source", required=f"it names the bundle, e.g. {{oci: {_REPOSITORY_EXAMPLE}}}"))
    destination = _destination(spec.section("destination", required="it names the cluster, e.g. {cluster: prod}"))
    sync_fields = spec.section("sync")
    windows = own_windows(sync_fields, f"Application {name}")
    sync = sync_policy(sync_fields)
    rules = health_rules(spec)
    ignored, conflicts, adopt = ignore_rules(spec), conflict_rules(spec), adopted_tools(spec)
    needs, deletion = _depends_on(spec), _deletion_policy(spec)
    suspended = _suspended(spec, annotations)
    spec.close(elsewhere=_ARGO_CD_SPEC)
    problems.check()
    return Application(
        *(name, source, destination, sync, project, labels, annotations),
        *(rules, ignored, conflicts, adopt, needs, deletion, windows),
        suspended=suspended,
    )


def parse_cluster(document: Mapping[str, Any], where: str) -> Cluster:
    """One ``kind: Cluster`` document; ``where`` as in ``parse_application``. Raises CatalogError with every problem."""
    problems, top = _open(document, where, "Cluster")
    name, labels, annotations = _metadata(top, "Cluster")
    spec = top.section("spec", required="it says how to reach the cluster: server, inCluster or context")
    top.close()
    cluster = Cluster(
        name=name,
        server=_server(spec),
        ca=spec.credential("ca", pem=True),
        token=spec.credential("token"),
        client_certificate=spec.credential("clientCertificate", pem=True),
        client_key=spec.credential("clientKey", pem=True),
        insecure_skip_tls_verify=spec.flag("insecureSkipTLSVerify", False),
        tls_server_name=spec.text("tlsServerName"),
        in_cluster=spec.flag("inCluster", False),
        kubeconfig=spec.text("kubeconfig"),
        context=spec.text("context"),
        labels=labels,
        suspended=f"{skipped} on Cluster {name}" if (skipped := _skipped(annotations)) else "",
    )
    if spec.given:
        _one_way_in(spec, cluster)
    spec.close()
    problems.check()
    return cluster


def parse_project(document: Mapping[str, Any], where: str) -> Project:
    """One ``kind: Project`` document; ``where`` as in ``parse_application``. Raises CatalogError with every problem."""
    problems, top = _open(document, where, "Project")
    name, _labels, _annotations = _metadata(top, "Project")
    spec = top.section("spec", required="it holds the rules that the project's applications share")
    top.close()
    project = Project(
        name=name,
        description=spec.text("description", lines=True),
        health_rules=health_rules(spec),
        ignore_differences=ignore_rules(spec),
        conflicts=conflict_rules(spec),
        windows=project_windows(spec, f"Project {name}"),
    )
    spec.close(elsewhere=_ARGO_CD_PROJECT)
    problems.check()
    return project


def _open(document: Mapping[str, Any], where: str, kind: str) -> tuple[Problems, Fields]:
    name = name_of(document)
    problems = Problems(f"{where}, {kind} {name}" if name else f"{where}, {kind}")
    top = Fields(document, "", problems)
    version = top.text("apiVersion", required=f"must be {API_VERSION}")
    if version not in ("", API_VERSION):
        top.problem("apiVersion", f"must be {API_VERSION}, not {shown(version)}")
    if top.text("kind", required=f"must be {kind}") not in ("", kind):
        top.problem("kind", f"must be {kind} here")
    return problems, top


def _metadata(top: Fields, kind: str) -> tuple[str, dict[str, str], dict[str, str]]:
    metadata = top.section("metadata", required="it holds the name")
    name = metadata.text("name", required="every document has a name", accept=names.is_subdomain, form=_NAME_FORM)
    labels, annotations = metadata.texts("labels"), metadata.texts("annotations")
    metadata.close(later=("namespace", "finalizers"))
    catalog_annotations.check(top, kind, labels, annotations)
    return name, labels, annotations


def _source(fields: Fields) -> Source:
    source = Source(
        oci=_oci(fields),
        tag=fields.text("tag", accept=_is_tag, form="a tag: letters, digits, '.', '_' and '-', at most 128") or None,
        digest=fields.text("digest", accept=references.is_digest, form="sha256: and 64 lower-case hex digits") or None,
        semver=fields.text("semver", accept=_is_range, form="a range such as >=1.2 <2, ~1.4 or ^2.0.1") or None,
        path=_folder(fields),
        plain_http=fields.flag("plainHTTP", False),
        ca=fields.credential("ca", pem=True),
        insecure_skip_tls_verify=fields.flag("insecureSkipTLSVerify", False),
        auth=_registry_auth(fields.section("auth")),
    )
    if source.ca and (source.plain_http or source.insecure_skip_tls_verify):
        fields.problem("ca", "is useless with plainHTTP or insecureSkipTLSVerify. Remove one of them")
    fields.close(elsewhere=_ARGO_CD_SOURCE)
    return source


def _oci(fields: Fields) -> str:
    """A repository or layout without scheme, tag or digest. A text that is refused may hold a password: not shown."""
    text = fields.text("oci", required=f"it names the bundle's repository, e.g. {_REPOSITORY_EXAMPLE}")
    if not text:
        return ""
    try:
        place = references.parse(text)
    except ConfigurationError:
        if "@" in text:
            why = "holds credentials. Remove them and use auth: {username: …, password: {file|env|inline: …}}"
        elif "://" in text.removeprefix("oci://"):
            why = f"must be a repository such as {_REPOSITORY_EXAMPLE}, without http:// (plainHTTP: true says that)"
        else:
            why = (
                f"must be a repository with its registry's host, such as {_REPOSITORY_EXAMPLE} (path in lower case), "
                "or the path of an OCI image layout, beginning with / or ./"
            )
        fields.problem("oci", why)
        return ""
    if place.digest:
        fields.problem("oci", "ends with a digest. Write that under digest")
    elif place.tag:
        fields.problem("oci", "ends with a tag. Write that under tag")
    return text.removeprefix("oci://")


def _is_tag(text: str) -> bool:
    return references.is_tag(references.tag_of(text))


def _is_range(text: str) -> bool:
    try:
        semver.parse_range(text)
    except ConfigurationError:
        return False
    return True


def _folder(fields: Fields) -> str:
    """A folder inside the bundle, without "." and doubled "/". It never leads out (field case l5)."""
    text = fields.text("path")
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if text.startswith("/") or ".." in parts or "\\" in text:
        fields.problem("path", 'must be a folder inside the bundle: relative, with "/", without ".."')
        return ""
    return "/".join(parts)


def _registry_auth(fields: Fields) -> RegistryAuth:
    auth = RegistryAuth(fields.text("username"), fields.credential("password"), fields.credential("token"))
    if fields.has("token") and (fields.has("username") or fields.has("password")):
        fields.problem("token", "is given beside username or password. Give one of the two ways to log in")
    elif fields.has("username") != fields.has("password"):
        fields.problem("username", "username and password go together; one of them is missing")
    fields.close()
    return auth


def _destination(fields: Fields) -> Destination:
    destination = Destination(
        cluster=fields.text("cluster", required="the name of a Cluster in this catalog"),
        namespace=fields.text("namespace", accept=names.is_label, form=_NAMESPACE_FORM),
    )
    fields.close(elsewhere=_ARGO_CD_DESTINATION)
    return destination


def _depends_on(spec: Fields) -> tuple[str, ...]:
    """``[{name: …}]``, as in Flux. Whether they exist, and whether they go in a ring, is not known here."""
    found: dict[str, None] = {}
    for entry in spec.sections("dependsOn"):
        name = entry.text(
            "name", required="the name of an Application in this catalog", accept=names.is_subdomain, form=_NAME_FORM
        )
        if name in found:
            entry.problem("name", f"{shown(name)} is named twice")
        if name:
            found[name] = None
        entry.close(elsewhere={"namespace": "no field: names of applications are unique", "readyExpr": "no field yet"})
    return tuple(found)


def _suspended(spec: Fields, annotations: Mapping[str, str]) -> str:
    """What says that the application is left alone: Flux's ``spec.suspend``, or Argo CD's annotation."""
    return "spec.suspend: true" if spec.flag("suspend", False) else _skipped(annotations)


def _skipped(annotations: Mapping[str, str]) -> str:
    key = catalog_annotations.SKIP_RECONCILE
    return f'annotation {key}: "true"' if annotations.get(key) == "true" else ""


def _deletion_policy(spec: Fields) -> DeletionPolicy:
    form = f"{' or '.join(DELETION_POLICIES)}, which is what becomes of its objects when it leaves the catalog"
    said = spec.text("deletionPolicy", "Orphan", accept=DELETION_POLICIES.__contains__, form=form)
    return next((policy for policy in DELETION_POLICIES if policy == said), "Orphan")


def _server(fields: Fields) -> str:
    text = fields.text("server")
    if not text or _SERVER.fullmatch(text):
        return text
    if "@" in text:
        fields.problem("server", "holds credentials. Remove them and use token or clientCertificate with clientKey")
    elif text.startswith("http://"):
        fields.problem("server", "must begin with https://: credentials are not sent in clear")
    else:
        fields.problem("server", "must be the API server's URL, such as https://prod.example.com:6443")
    return ""


def _one_way_in(fields: Fields, cluster: Cluster) -> None:
    """Exactly one of server, inCluster, context, and only what belongs to it."""
    ways = [name for name in ("server", "inCluster", "context") if fields.has(name)]
    if fields.has("inCluster") and not cluster.in_cluster:
        ways.remove("inCluster")
    if len(ways) != 1:
        named = f"not {' and '.join(ways)}" if ways else "it has none of them"
        fields.problem("server", f"a cluster has exactly one of server, inCluster: true, context; {named}")
        return
    for_server = ("ca", "token", "clientCertificate", "clientKey", "insecureSkipTLSVerify", "tlsServerName")
    if ways != ["server"]:
        for name in filter(fields.has, for_server):
            fields.problem(name, f"goes with server, not with {ways[0]}, which brings its own")
    if ways != ["context"] and fields.has("kubeconfig"):
        fields.problem("kubeconfig", "goes with context, which names one of its entries")
    if ways != ["server"]:
        return
    if fields.has("clientCertificate") != fields.has("clientKey"):
        fields.problem("clientCertificate", "clientCertificate and clientKey go together; one of them is missing")
    elif not fields.has("token") and not fields.has("clientCertificate"):
        fields.problem("token", "a server needs token, or clientCertificate with clientKey")
    if fields.has("ca") and cluster.insecure_skip_tls_verify:
        fields.problem("ca", "is useless with insecureSkipTLSVerify: true. Remove one of them")
