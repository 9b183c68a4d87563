"""The words of Fleetbeat as frozen values. No behaviour beyond naming and parsing of these values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from fleetbeat.model_windows import SyncWindow

#: A Kubernetes object as parsed JSON. Values are JSON types only.
Body = dict[str, Any]


class SecretText(str):
    """A string that must not be shown: ``repr`` hides it, so tracebacks and logs do too. ``reveal()`` at the edge."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'***'"

    def __str__(self) -> str:
        return "***"

    def __format__(self, spec: str) -> str:
        return "***"

    def reveal(self) -> str:
        """The text itself, for the call that needs it."""
        return str.__str__(self)


# ── objects ──────────────────────────────────────────────────────────────────────────────────────────────────────


class ObjectId(NamedTuple):
    """Identity of an object inside one cluster. The API version is not part of it (field case d1)."""

    group: str  #: "" for the core group
    kind: str
    namespace: str  #: "" for a cluster-scoped object
    name: str

    def __str__(self) -> str:
        """As people write it: ``Deployment shop/web``, ``Namespace shop``, ``Cart.shop.example.com shop/main``."""
        where = f"{self.namespace}/{self.name}" if self.namespace else self.name
        # Groups of Kubernetes itself are left out, as kubectl users know those kinds by name alone.
        foreign = "." in self.group and not self.group.endswith(".k8s.io")
        return f"{self.kind}.{self.group} {where}" if foreign else f"{self.kind} {where}"

    @property
    def key(self) -> str:
        """Compact text form, unique, used as a JSON key: ``group/Kind/namespace/name``."""
        return "/".join(self)

    @classmethod
    def from_key(cls, key: str) -> ObjectId:
        return cls(*key.split("/"))

    @property
    def group_kind(self) -> str:
        """ApplySet form: ``Kind.group``, ``Kind`` alone for the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


@dataclass(frozen=True)
class Origin:
    """Where in the bundle a manifest stood."""

    file: str  #: path inside the bundle, "/"-separated
    document: int  #: 1-based number of the YAML document in the file
    line: int  #: 1-based line the document starts on

    def __str__(self) -> str:
        return f"{self.file}, document {self.document} (line {self.line})"


@dataclass(frozen=True)
class Manifest:
    """One wanted object: identity after namespace defaulting, the API version it is written in, its body."""

    id: ObjectId
    version: str  #: "v1", "v1beta1", …
    body: Body = field(repr=False)
    origin: Origin

    @property
    def api_version(self) -> str:
        return f"{self.id.group}/{self.version}" if self.id.group else self.version

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.body.get("metadata", {}).get("annotations") or {}


class ApiResource(NamedTuple):
    """One kind as a cluster serves it."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    preferred: bool = True  #: this version is the group's preferred one
    has_status: bool | None = None  #: has a status subresource; None = not known
    short_names: tuple[str, ...] = ()  #: ``deploy``, ``cm``: as kubectl takes them
    listable: bool = True  #: False for what only answers questions: reviews, bindings


#: Three kinds that every cluster serves, for what is asked of it before or without discovery.
NAMESPACE = ApiResource("", "v1", "Namespace", "namespaces", namespaced=False)
CONFIG_MAP = ApiResource("", "v1", "ConfigMap", "configmaps", namespaced=True)
EVENT = ApiResource("", "v1", "Event", "events", namespaced=True)


@dataclass(frozen=True)
class ApiSet:
    """Everything a cluster serves, from aggregated discovery."""

    resources: tuple[ApiResource, ...]
    complete: bool  #: False when the server said that some group could not be asked: then nothing may be pruned
    version: str = ""  #: gitVersion, e.g. "v1.36.1"

    def find(self, group: str, kind: str, version: str | None = None) -> ApiResource | None:
        """The resource of exactly this version, or (without one) of the preferred version."""
        served = [r for r in self.resources if r.group == group and r.kind == kind]
        if version is not None:
            return next((r for r in served if r.version == version), None)
        return next((r for r in served if r.preferred), served[0] if served else None)

    def versions(self, group: str, kind: str) -> tuple[str, ...]:
        return tuple(r.version for r in self.resources if r.group == group and r.kind == kind)


# ── catalog ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Credential:
    """One secret value: given inline, or the path of a file, or the name of an environment variable to read at use.

    Exactly one of the three is set. Files and variables are read on the machine that connects, at each new
    connection, so that rotated tokens are picked up.
    """

    inline: SecretText | None = None
    file: str | None = None
    env: str | None = None


@dataclass(frozen=True)
class RegistryAuth:
    """How to log in to a registry. Basic (username + password), or a ready bearer token; none = anonymous.

    The registry's own token dance (401 with ``WWW-Authenticate: Bearer``) works with basic and with none.
    """

    username: str = ""
    password: Credential | None = None
    token: Credential | None = None


@dataclass(frozen=True)
class Source:
    """Where the wanted state comes from. ``digest`` beats ``semver`` beats ``tag``."""

    oci: str  #: "registry.example.com/shop/manifests" or the path of an OCI image layout ("/…", "./…", "oci-layout:…")
    tag: str | None = None
    digest: str | None = None  #: "sha256:<64 hex>"
    semver: str | None = None  #: Masterminds-style range, ">=1.2 <2"
    path: str = ""  #: folder inside the bundle
    plain_http: bool = False
    ca: Credential | None = None  #: PEM of a private CA
    insecure_skip_tls_verify: bool = False
    auth: RegistryAuth = RegistryAuth()


@dataclass(frozen=True)
class Destination:
    cluster: str
    namespace: str = ""  #: given to namespaced objects that name none


@dataclass(frozen=True)
class Retry:
    """Argo CD's retry words. Delay n (from 0) = ``duration * factor**n`` seconds, at most ``max_duration``."""

    limit: int = 5
    duration: float = 5.0
    factor: float = 2.0
    max_duration: float = 180.0


#: What the API server does with what an object owns when it is deleted.
Propagation = Literal["Foreground", "Background", "Orphan"]
#: Argo CD's options Prune and Delete: it may be deleted, may not, may when a person has agreed.
Permission = Literal["true", "false", "confirm"]


@dataclass(frozen=True)
class SyncPolicy:
    interval: float = 180.0  #: seconds between looks, jittered by a hash of the name
    self_heal: bool = True
    prune: bool = True
    allow_empty: bool = False  #: may a sync prune every object of the application?
    timeout: float = 300.0  #: seconds a wave may take to become healthy
    no_progress_timeout: float = 0.0  #: seconds without any progress after which a wave has failed; 0 = not limited
    create_namespace: bool = False  #: option CreateNamespace=true
    replace: bool = False  #: option Replace=true: write by PUT
    force: bool = False  #: option Force=true: delete and create what cannot be changed
    prune_objects: Permission = "true"  #: option Prune, for objects that do not say it themselves
    delete_objects: Permission = "true"  #: option Delete, likewise
    migrate: bool = True  #: option ClientSideApplyMigration, likewise: fields of client-side applies become ours
    prune_propagation: Propagation = "Background"  #: option PrunePropagationPolicy
    fail_on_shared: bool = False  #: option FailOnSharedResource=true: another application's object is an error
    retry: Retry = Retry()


@dataclass(frozen=True)
class HealthRule:
    """How objects of one kind are judged, as CEL over the live object; "" = no such expression."""

    group: str  #: "" for the core group; the version does not matter
    kind: str
    current: str
    in_progress: str = ""
    failed: str = ""


@dataclass(frozen=True)
class ObjectSelector:
    """Which objects a rule is about. Globs (``*``, ``?``, ``[…]``) that match with case; None = any."""

    group: str | None = None  #: "" is the core group
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class IgnoreRule:
    """Parts of objects that are left as they are in the cluster, in Argo CD's words."""

    objects: ObjectSelector
    json_pointers: tuple[str, ...] = ()  #: RFC 6901
    jq_path_expressions: tuple[str, ...] = ()  #: as decisions/jqpaths.py reads them
    managed_fields_managers: tuple[str, ...] = ()  #: every field these field managers own


#: What happens to a field of the bundle that another field manager has set to another value.
ConflictPolicy = Literal["takeOver", "yield", "report"]


@dataclass(frozen=True)
class ConflictRule:
    """Who wins. The first rule that fits decides, then the defaults (decisions/conflicts.py)."""

    policy: ConflictPolicy
    manager: str = "*"  #: glob over the field manager's name
    fields: tuple[str, ...] = ()  #: JSON pointers: these places and everything below; none = all
    objects: ObjectSelector = ObjectSelector()


#: What becomes of an application's objects when it leaves the catalog.
DeletionPolicy = Literal["Orphan", "Delete"]


@dataclass(frozen=True)
class Application:
    name: str
    source: Source
    destination: Destination
    sync: SyncPolicy = SyncPolicy()
    project: str = "default"
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    health_rules: tuple[HealthRule, ...] = ()  #: at most one for a kind
    ignore_differences: tuple[IgnoreRule, ...] = ()
    conflicts: tuple[ConflictRule, ...] = ()
    adopt: frozenset[str] = frozenset()  #: tools whose objects are taken over: words of decisions/migration.TOOLS
    depends_on: tuple[str, ...] = ()  #: applications that must have been synced and be healthy before it is written
    deletion_policy: DeletionPolicy = "Orphan"
    windows: tuple[SyncWindow, ...] = ()  #: its own, and those of its project that match it
    suspended: str = ""  #: what in the catalog says that it is neither looked at nor synced, "" = nothing


@dataclass(frozen=True)
class Project:
    """Rules that several applications share. Each application's own come first (decisions/projects.py)."""

    name: str
    description: str = ""
    health_rules: tuple[HealthRule, ...] = ()  #: at most one for a kind
    ignore_differences: tuple[IgnoreRule, ...] = ()
    conflicts: tuple[ConflictRule, ...] = ()
    windows: tuple[SyncWindow, ...] = ()


@dataclass(frozen=True)
class Cluster:
    """How to reach a cluster: ``server`` with credentials, or ``in_cluster``, or a kubeconfig ``context``."""

    name: str
    server: str = ""  #: "https://host:port"
    ca: Credential | None = None  #: PEM
    token: Credential | None = None
    client_certificate: Credential | None = None  #: PEM
    client_key: Credential | None = None  #: PEM
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    in_cluster: bool = False
    kubeconfig: str = ""  #: path; "" = the user's default
    context: str = ""  #: for local use only: a kubeconfig can run programs
    labels: Mapping[str, str] = field(default_factory=dict)
    suspended: str = ""  #: what in the catalog says that none of its applications is looked at or synced, "" = nothing


@dataclass(frozen=True)
class Catalog:
    """Everything that is wanted, validated as a whole: every application's cluster and project exist."""

    #: with the rules of their projects
    applications: Mapping[str, Application] = field(default_factory=dict)
    clusters: Mapping[str, Cluster] = field(default_factory=dict)
    projects: Mapping[str, Project] = field(default_factory=dict)


# ── bundles ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Revision:
    """A bundle at a digest, and what its annotations say of the commit. Missing = "" = shown as "unknown"."""

    digest: str  #: manifest digest, "sha256:<64 hex>"
    tag: str = ""  #: the tag it was found by, "" when pinned by digest
    source: str = ""  #: org.opencontainers.image.source
    revision: str = ""  #: org.opencontainers.image.revision, as written
    created: str = ""  #: org.opencontainers.image.created, RFC 3339

    def __str__(self) -> str:
        """Flux's form: ``<tag>@sha256:<hex>``, or the digest alone."""
        return f"{self.tag}@{self.digest}" if self.tag else self.digest

    @property
    def short(self) -> str:
        """First 12 hex digits, for a User-Agent or a table."""
        return self.digest.removeprefix("sha256:")[:12]

    @property
    def commit(self) -> str:
        """The commit id inside ``revision`` in any of the forms in use (conventions.md §2.7), "" when there is none."""
        text = self.revision.rsplit("@", 1)[-1].rsplit("/", 1)[-1]
        text = text.rsplit(":", 1)[-1]
        is_hex = len(text) in (40, 64) and all(c in "0123456789abcdef" for c in text)
        return text if is_hex else ""


def iter_problems(error: BaseException) -> Iterator[str]:
    """The single problems of an error that carries several, else its message."""
    problems = getattr(error, "problems", None)
    yield from problems if problems else [str(error)]
