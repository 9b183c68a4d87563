"""Settings in groups: default, unit and reason under each field. The only module that reads the environment.

Entry points call ``load()`` once and hand the parts down. A variable is ``FLEETBEAT_`` + GROUP + ``_`` + FIELD, e.g.
``FLEETBEAT_LOCK_TTL=15``; those that people set by hand have short names (``FLEETBEAT_REDIS_URL``,
``FLEETBEAT_KEY``, ``FLEETBEAT_OVERRIDE_KEY``, ``FLEETBEAT_CATALOG``, ``FLEETBEAT_LOG_LEVEL``).
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetbeat.errors import ConfigurationError
from fleetbeat.model import SecretText

MIB = 1024 * 1024


@dataclass(frozen=True)
class Lock:
    ttl: float = 15.0
    """Seconds a worker may be silent before another takes its application over. Renewed every third of it."""
    margin: float = 2.0
    """Seconds before expiry at which the holder stops writing by itself (its own monotonic clock)."""


@dataclass(frozen=True)
class Beat:
    batch: int = 500
    """Applications claimed by one script call; one kombu batch publishes them."""
    idle: float = 1.0
    """Longest sleep in seconds. The bell ends it earlier, so it only bounds how late a second beat notices."""
    lease: float = 30.0
    """Seconds after which a run whose message got lost is rung again."""
    start_rate: float = 100.0
    """New applications per second at start: 2,000 of them are spread over 20 s instead of landing in one."""
    removal_grace: float = 30.0
    """Seconds an application must have been gone from the catalog before its objects are deleted: files are renamed,
    checkouts rewritten, mounts come back."""
    catalog_every: float = 1.0
    """Seconds between looks at the catalog directory for changes; more where it is so large that looking takes long."""


@dataclass(frozen=True)
class Steps:
    timeout: float = 300.0
    """Seconds one step may work; its lock is not renewed past that, so a hung step is taken over."""
    health_poll: float = 0.25
    """Seconds until the first look at a wave's health; each further wait is 1.6 times longer."""
    health_poll_max: float = 10.0
    """Longest pause between two looks at a wave's health, in seconds."""
    parallel: int = 8
    """Requests of one wave in flight at once. Two cores shared with an API server gain nothing above 8."""


@dataclass(frozen=True)
class Observe:
    share: float = 0.25
    """Part of an application's interval that a shared look at its cluster may be old: at 3 m, 45 s, cut to …"""
    longest: float = 15.0
    """… this many seconds. Larger costs the cluster fewer lists, and finds drift that much later."""


@dataclass(frozen=True)
class Watch:
    lease: float = 10.0
    """Seconds after which another process takes over the watch of a cluster from one that died."""
    gap: float = 0.5
    """Seconds at least between two rings of one application: a storm of edits is answered twice a second."""
    silence: float = 90.0
    """Seconds without a line, bookmarks included (one a minute), after which a watch counts as broken."""
    clusters: int = 20
    """Clusters one process watches at most; a thread and a connection for each kind of each."""


@dataclass(frozen=True)
class Fights:
    """When a field that somebody else changes each time is left alone for a while (docs/engine.md, Who wins)."""

    heals: int = 3
    """So many heals of one field …"""
    within: float = 600.0
    """… within so many seconds, and found changed once more: it is fought over."""
    pause: float = 60.0
    """Seconds for which it is left alone at first; twice as long each time it does not last."""
    longest: float = 3600.0
    """Seconds of the longest pause. After as long without a dispute it is forgotten."""


@dataclass(frozen=True)
class Heals:
    """When an object that is healed again and again has to wait for the next time (docs/engine.md, Back-off). The
    pauses are Argo CD's for self-healing."""

    most: int = 10
    """So many heals of one object, of whichever fields: nobody who looks for a fault by hand edits one that often …"""
    within: float = 600.0
    """… within so many seconds, and found changed once more: it is left as it is for a pause, then healed once."""
    pause: float = 2.0
    """Seconds of the first pause. One the user hardly notices; …"""
    factor: float = 3.0
    """… each that follows is so many times longer, …"""
    longest: float = 300.0
    """… up to so many seconds: 12 heals of an object in an hour."""


@dataclass(frozen=True)
class Drift:
    """What the drift ledger remembers of one application."""

    rows: int = 300
    """Fields whose drift is over; about 200 bytes each in Redis. What stands there now is kept besides."""
    days: float = 90.0
    """Days a field is kept since it was last found otherwise: a quarter tells who does it habitually."""


@dataclass(frozen=True)
class Bundles:
    """Limits while pulling and unpacking; a bundle over one of them is refused by name of the limit."""

    max_layer: int = 32 * MIB
    """Bytes of the compressed layer."""
    max_unpacked: int = 128 * MIB
    """Bytes of all files together, counted while streaming."""
    max_entries: int = 20_000
    """Files and folders."""


@dataclass(frozen=True)
class Http:
    connect: float = 5.0
    """Seconds to open a connection."""
    read: float = 30.0
    """Seconds of silence on an open connection."""
    total: float = 120.0
    """Seconds for one whole pull (manifest and layer)."""


@dataclass(frozen=True)
class Blobs:
    ttl: float = 86_400.0
    """Seconds an unused blob stays; a missing one only costs a pull."""
    max_size: int = 64 * MIB
    """Bytes before compression."""


@dataclass(frozen=True)
class Ledger:
    writes: int = 5_000
    """Writes kept per application; each is about 300 bytes in Redis. Older ones go, and the chain stays verifiable."""
    days: float = 400.0
    """Days a write is kept: a year's audit looks back a little over one."""


@dataclass(frozen=True)
class Events:
    kept: int = 10_000
    """Events kept for all applications together (about; each is some 500 bytes in Redis). Who follows and was away for
    longer than these last is told so."""
    in_clusters: bool = True
    """Tell the end of a run that changed something or failed as a Kubernetes Event, too, on the application's ConfigMap
    in its cluster. One request for each such run."""


@dataclass(frozen=True)
class Settings:
    redis_url: SecretText = field(default=SecretText("redis://127.0.0.1:6379/0"))
    """A secret because it may carry a password."""
    key: SecretText | None = None
    """base64 of 32 random bytes that seal blobs and catalog entries in Redis. `fleetbeat key` prints a new one."""
    override_key: SecretText | None = None
    """base64 of 32 random bytes, another one than `key`. Workers that have it let sync windows be overridden only by
    requests signed with it, so only whoever has it too may do that. Without it everybody may who may ask for a sync."""
    catalog: str = ""
    """Directory of catalog YAML; only beat and the CLI read it."""
    log_level: str = "INFO"
    history: int = 20
    """Finished runs kept per application."""
    namespace: str = "fleetbeat"
    """Namespace in each target cluster that holds the ApplySet parents."""
    resolve_ttl: float = 5.0
    """Seconds for which all applications of one source share one look at its tag."""
    lock: Lock = field(default_factory=Lock)
    beat: Beat = field(default_factory=Beat)
    steps: Steps = field(default_factory=Steps)
    observe: Observe = field(default_factory=Observe)
    watch: Watch = field(default_factory=Watch)
    fights: Fights = field(default_factory=Fights)
    heals: Heals = field(default_factory=Heals)
    drift: Drift = field(default_factory=Drift)
    bundles: Bundles = field(default_factory=Bundles)
    http: Http = field(default_factory=Http)
    blobs: Blobs = field(default_factory=Blobs)
    ledger: Ledger = field(default_factory=Ledger)
    events: Events = field(default_factory=Events)

    def sealing_key(self) -> bytes:
        """The 32 bytes of ``key``. Raises ConfigurationError when it is missing or malformed."""
        if self.key is None:
            raise ConfigurationError(
                "FLEETBEAT_KEY is not set. It seals manifests and credentials kept in Redis; every beat, worker and "
                "CLI of an installation needs the same one. For what `fleetbeat up` runs on this machine: "
                'eval "$(fleetbeat env)". For a new installation, make one with: fleetbeat key'
            )
        return _key_bytes("FLEETBEAT_KEY", self.key)

    def signing_key(self) -> bytes | None:
        """The 32 bytes of ``override_key``, None without one. Raises ConfigurationError when it is malformed."""
        if self.override_key is None:
            return None
        if self.key is not None and self.override_key.reveal() == self.key.reveal():
            raise ConfigurationError(
                "FLEETBEAT_OVERRIDE_KEY is the same as FLEETBEAT_KEY, which everybody has who may ask for a sync. "
                "Make another one with: fleetbeat key"
            )
        return _key_bytes("FLEETBEAT_OVERRIDE_KEY", self.override_key)


def _key_bytes(name: str, key: SecretText) -> bytes:
    try:
        raw = base64.b64decode(key.reveal(), validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != 32:
        raise ConfigurationError(f"{name} must be base64 of exactly 32 bytes. Make one with: fleetbeat key")
    return raw


_SHORT = {"redis_url", "key", "override_key", "catalog", "log_level", "history", "namespace", "resolve_ttl"}


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from the environment over the defaults.

    Raises ConfigurationError naming the variable: one that is not known (nearest name given) or not of its type.
    """
    env = os.environ if environ is None else environ
    known: dict[str, tuple[str | None, dataclasses.Field[Any]]] = {}
    for top in dataclasses.fields(Settings):
        if top.name in _SHORT:
            known[f"FLEETBEAT_{top.name.upper()}"] = (None, top)
        else:
            group: Any = top.default_factory
            for leaf in dataclasses.fields(group):
                known[f"FLEETBEAT_{top.name}_{leaf.name}".upper()] = (top.name, leaf)
    tops: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name, text in env.items():
        if not name.startswith("FLEETBEAT_") or name in OUTSIDE:
            continue
        if name not in known:
            raise ConfigurationError(f"{name}: no such setting.{nearest(name, known)}")
        group_name, leaf = known[name]
        value = _convert(name, text, leaf)
        if group_name is None:
            tops[leaf.name] = value
        else:
            groups.setdefault(group_name, {})[leaf.name] = value
    made = {name: type(getattr(Settings(), name))(**values) for name, values in groups.items()}
    return Settings(**tops, **made)


#: variables with our prefix that are read elsewhere: by the local parts and by tests
OUTSIDE = frozenset({"FLEETBEAT_LOCAL_BINARY", "FLEETBEAT_LOCAL_CACHE", "FLEETBEAT_LOCAL_PORTS"})


def variable(name: str) -> str | None:
    """One variable of the environment, for catalog credentials that name one (`env: PROD_TOKEN`)."""
    return os.environ.get(name)


def nearest(word: str, known: Mapping[str, Any] | list[str]) -> str:
    """`` Did you mean X?`` for the closest known word, or nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]}?" if close else ""


def _convert(name: str, text: str, leaf: dataclasses.Field[Any]) -> Any:
    kind = str(leaf.type)
    if "SecretText" in kind:
        return SecretText(text)
    if kind == "str":
        return text
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ConfigurationError(f"{name} must be true or false, not {text!r}")
        return text.lower() == "true"
    try:
        number = int(text) if kind == "int" else float(text)
    except ValueError:
        raise ConfigurationError(f"{name} must be a number, not {text!r}") from None
    if not 0 < number < float("inf"):
        raise ConfigurationError(f"{name} must be a positive number, not {text!r}")
    return number
