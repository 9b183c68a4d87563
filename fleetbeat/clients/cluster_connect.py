"""From a ``model.Cluster`` to pooled TLS connections, kept per process so that a task does not shake hands again.

The kubernetes package reads kubeconfigs and service accounts and builds the connection pool (proxies, keep-alive);
requests go to that pool directly. Its own ``rest_client.request`` costs 0.77 ms of CPU for a 2 KB apply, the pool
0.59 ms (2 cores, 2026-11): as much as 20 % of a worker's applies per second.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.util.ssl_ import create_urllib3_context

from fleetbeat.clients import credentials
from fleetbeat.clients.breaker import Breaker
from fleetbeat.clients.discovery import Discovery
from fleetbeat.clients.refused_lists import RefusedLists
from fleetbeat.clients.server_clock import ServerClock
from fleetbeat.errors import ConfigurationError
from fleetbeat.model import Cluster, Credential
from fleetbeat.settings import Http, variable

#: where Kubernetes mounts a pod's own identity
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_KEPT = 32  # clusters with open connections per process; with 16 connections each that is half of a usual 1,024 files
_TOKEN_AGE = 60.0  # seconds after which a pod's token is read again


@dataclass(eq=False)
class Connection:
    """Open connections to one API server as one identity, with what this process has learned of it."""

    cluster: str
    address: str  #: scheme, host and port, for messages
    prefix: str  #: path before every request's: "" or a proxy's ("/k8s/clusters/c-abc")
    pool: urllib3.HTTPConnectionPool = field(repr=False)
    authorization: Callable[[], str | None] = field(repr=False)  #: the header's value, refreshed where it expires
    timeout: urllib3.Timeout
    slots: threading.BoundedSemaphore = field(repr=False)  #: one for each connection of the pool
    patience: float  #: seconds to wait for a free one
    discovery: Discovery = field(default_factory=Discovery, repr=False)
    breaker: Breaker = field(default_factory=Breaker, repr=False)
    clock: ServerClock = field(default_factory=ServerClock, repr=False)
    refusals: RefusedLists = field(default_factory=RefusedLists, repr=False)


_connections: OrderedDict[str, tuple[bytes, Connection]] = OrderedDict()
_lock = threading.Lock()
os.register_at_fork(after_in_child=_connections.clear)  # sockets must not be shared with a parent


def connection(cluster: Cluster, http: Http, pool: int) -> Connection:
    """The process's connections to ``cluster``: new ones when its definition or a credential's value has changed.

    ``pool``: connections at once; more threads than that wait for one. Nothing is sent yet.
    Raises ConfigurationError: an unreadable credential, a PEM that is none, a kubeconfig without the context.
    """
    secrets = _Secrets.read(cluster)
    fingerprint = _fingerprint(cluster, secrets, http, pool)
    with _lock:
        kept = _connections.get(cluster.name)
        if kept and kept[0] == fingerprint:
            _connections.move_to_end(cluster.name)
            return kept[1]
    fresh = _open(cluster, secrets, http, pool)
    with _lock:
        _connections[cluster.name] = (fingerprint, fresh)
        _connections.move_to_end(cluster.name)
        while len(_connections) > _KEPT:
            _connections.popitem(last=False)  # views that still use it keep it alive
    return fresh


def forget(dead: Connection) -> None:
    """Make the next ``connection()`` start over: after a 401 a kubeconfig's login program must run again."""
    with _lock:
        if _connections.get(dead.cluster, (b"", None))[1] is dead:
            del _connections[dead.cluster]


@dataclass(frozen=True)
class _Secrets:
    """The values behind a cluster's credentials at this moment, PEM or token; "" = not given."""

    ca: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)

    @classmethod
    def read(cls, cluster: Cluster) -> _Secrets:
        return cls(
            _value(cluster, "ca", cluster.ca),
            _value(cluster, "token", cluster.token),
            _value(cluster, "clientCertificate", cluster.client_certificate),
            _value(cluster, "clientKey", cluster.client_key),
        )


def _value(cluster: Cluster, name: str, credential: Credential | None) -> str:
    if credential is None:
        return ""
    try:
        return credentials.read(credential).reveal().strip()
    except ConfigurationError as error:
        raise ConfigurationError(f"Cluster {cluster.name}, {name}: {error}") from error


def _fingerprint(cluster: Cluster, secrets: _Secrets, http: Http, pool: int) -> bytes:
    """Changes with anything that connections depend on. For kubeconfigs the file's own state stands for its content."""
    parts = [cluster.server, cluster.tls_server_name, cluster.insecure_skip_tls_verify, cluster.in_cluster]
    parts += [cluster.kubeconfig, cluster.context, http.connect, http.read, pool]
    parts += [secrets.ca, secrets.token, secrets.certificate, secrets.key]
    if cluster.context or cluster.kubeconfig:
        parts += [_state(path) for path in _kubeconfig(cluster).split(os.pathsep)]
    return hashlib.sha256(repr(parts).encode()).digest()


def _state(path: str) -> tuple[int, int]:
    try:
        found = Path(path).stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


_importing = threading.Lock()


def _kubernetes() -> Any:
    """The kubernetes package (untyped here), imported when first needed: it takes 0.6 s and 40 MB.

    By one thread: its modules import each other in circles, and Python lets a second thread see them half made.
    """
    with _importing:
        import kubernetes.client.rest
        import kubernetes.config.incluster_config
    return kubernetes


def preload() -> None:
    """Pay for the import now: a worker does at its start, so that its first application need not wait for it."""
    _kubernetes()


def _open(cluster: Cluster, secrets: _Secrets, http: Http, pool: int) -> Connection:
    package = _kubernetes()
    configuration = package.client.Configuration()
    if cluster.in_cluster:
        _load_service_account(cluster, configuration)
    elif cluster.server:
        configuration.host = cluster.server
        configuration.verify_ssl = not cluster.insecure_skip_tls_verify
        configuration.tls_server_name = cluster.tls_server_name or None
        if secrets.token:
            configuration.api_key["BearerToken"] = f"Bearer {secrets.token}"
    else:
        _load_kubeconfig(cluster, configuration)

    url = urlsplit(configuration.host)
    try:
        usable = url.scheme in ("https", "http") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if not usable or url.username or url.password:
        raise ConfigurationError(
            f"Cluster {cluster.name}: server must be https://host:port, without a user or password in it"
        )
    configuration.connection_pool_maxsize = pool
    configuration.keep_alive = True  # an idle connection that a firewall dropped is found out before it is used
    manager = package.client.rest.RESTClientObject(configuration).pool_manager
    if url.scheme == "https":
        manager.connection_pool_kw["ssl_context"] = _tls(cluster, configuration, secrets)
    address = f"{url.scheme}://{url.netloc}"
    return Connection(
        cluster=cluster.name,
        address=address,
        prefix=url.path.rstrip("/"),
        pool=manager.connection_from_url(address),
        authorization=_Authorization(cluster.name, configuration),
        timeout=urllib3.Timeout(connect=http.connect, read=http.read),
        slots=threading.BoundedSemaphore(pool),
        patience=http.read,
    )


class _Authorization:
    """The Authorization header of a configuration, whose token may expire and be read or made anew."""

    def __init__(self, cluster: str, configuration: Any) -> None:
        self._cluster = cluster
        self._configuration = configuration
        self._lock = threading.Lock()
        self()

    def __call__(self) -> str | None:
        """Raises ConfigurationError when the token cannot be read, or could not be sent as a header."""
        configuration = self._configuration
        try:
            with self._lock:
                value = configuration.get_api_key_with_prefix("BearerToken")
        except Exception as error:  # a login program may fail in any way
            raise ConfigurationError(f"Cluster {self._cluster}: no token: {type(error).__name__}") from error
        value = value.strip() if value else None
        if value and not (value.isascii() and value.isprintable()):
            raise ConfigurationError(
                f"Cluster {self._cluster}: the token holds line breaks or characters that cannot be sent; "
                "it must be one line of ASCII text"
            )
        return value


def _load_service_account(cluster: Cluster, configuration: Any) -> None:
    """The pod's own identity. The token file is read again every minute, as Kubernetes replaces it."""
    config = _kubernetes().config
    names = ("KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT")
    try:
        config.incluster_config.InClusterConfigLoader(
            token_filename=str(SERVICE_ACCOUNT / "token"),
            cert_filename=str(SERVICE_ACCOUNT / "ca.crt"),
            environ={name: variable(name) or "" for name in names},
            try_refresh_token=False,
        ).load_and_set(configuration)
    except (config.ConfigException, OSError) as error:
        raise ConfigurationError(
            f"Cluster {cluster.name} is inCluster, but this process does not run in a pod with a service account: "
            f"{error}"
        ) from error
    configuration.refresh_api_key_hook = _token_again(SERVICE_ACCOUNT / "token")


def _token_again(path: Path) -> Callable[[Any], None]:
    """Reads a token anew once it is old. The package's own hook goes by the host's clock, which may be set back."""
    read_at = time.monotonic()

    def refresh(configuration: Any) -> None:
        nonlocal read_at
        if time.monotonic() - read_at >= _TOKEN_AGE:
            if token := path.read_text().strip():
                configuration.api_key["BearerToken"] = f"Bearer {token}"
            read_at = time.monotonic()

    return refresh


def _kubeconfig(cluster: Cluster) -> str:
    return str(Path(cluster.kubeconfig or variable("KUBECONFIG") or "~/.kube/config").expanduser())


def _load_kubeconfig(cluster: Cluster, configuration: Any) -> None:
    """A person's own kubeconfig. It may name programs to run and files to read, so only for local use."""
    load = _kubernetes().config.load_kube_config
    where = f"Cluster {cluster.name}: kubeconfig {_kubeconfig(cluster)}, context {cluster.context or '(current)'}"
    try:
        load(_kubeconfig(cluster), cluster.context or None, configuration, persist_config=False)
    except Exception as error:  # noqa: BLE001 - KeyError, TypeError, YAML and OS errors come out of the loader
        # A YAML error quotes the lines around it, and those may be a token: only its type is told.
        text = str(error) if type(error).__name__ == "ConfigException" else type(error).__name__
        raise ConfigurationError(f"{where}: {text}") from None
    if configuration.host.startswith("https:") and not (configuration.api_key or configuration.cert_file):
        # The loader only logs that a login program (`exec`) failed.
        raise ConfigurationError(f"{where}: it gives no credentials; if it names a login program, that failed")


def _tls(cluster: Cluster, configuration: Any, secrets: _Secrets) -> ssl.SSLContext:
    """One context for all connections. Certificates given inline touch the disk only as long as OpenSSL reads them."""
    verify = ssl.CERT_REQUIRED if configuration.verify_ssl else ssl.CERT_NONE
    context = create_urllib3_context(cert_reqs=verify)
    context.check_hostname = configuration.verify_ssl
    try:
        if secrets.ca:
            context.load_verify_locations(cadata=secrets.ca)
        elif configuration.ssl_ca_cert:
            context.load_verify_locations(cafile=configuration.ssl_ca_cert)
        else:
            context.load_default_certs()
    except (ssl.SSLError, ValueError, OSError):
        raise ConfigurationError(f"Cluster {cluster.name}: ca is not a PEM certificate") from None
    try:
        if secrets.certificate or secrets.key:
            _load_pair(context, secrets)
        elif configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file, password=_no_password)
    except (ssl.SSLError, ValueError, OSError):
        raise ConfigurationError(
            f"Cluster {cluster.name}: clientCertificate and clientKey are not a PEM certificate and its unencrypted key"
        ) from None
    return context


def _load_pair(context: ssl.SSLContext, secrets: _Secrets) -> None:
    with tempfile.TemporaryDirectory(prefix="fleetbeat-") as directory:  # made with mode 0700
        pair = Path(directory) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_text(f"{secrets.certificate}\n{secrets.key}\n")
        context.load_cert_chain(pair, password=_no_password)


def _no_password() -> bytes:
    """Given to OpenSSL, which would otherwise ask at the terminal and wait."""
    return b""
