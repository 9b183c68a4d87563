"""What the decisions and the steps need from the outside, as protocols. ``fleetbeat.clients`` fulfils them.

Every method raises only ``fleetbeat.errors``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from fleetbeat.model import ApiResource, ApiSet, Body, ObjectId, Propagation, Revision, Source


@dataclass(frozen=True)
class Absent:
    """The write must create: an object that exists in the meantime makes it a Conflict."""


@dataclass(frozen=True)
class Seen:
    """The write must find exactly this state of exactly this object, else Conflict."""

    uid: str
    resource_version: str

    @classmethod
    def of(cls, live: Body) -> Seen:
        """The state of an object as it was read, or of its metadata from a list."""
        return cls(live["metadata"]["uid"], live["metadata"]["resourceVersion"])


Expect = Absent | Seen


@dataclass(frozen=True)
class Written:
    """The server's answer to a write (or the dry-run of one)."""

    body: Body
    created: bool  #: 201: the object did not exist
    audit_id: str  #: Audit-Id response header
    warnings: tuple[str, ...] = ()  #: Warning response headers, text only


@dataclass(frozen=True)
class Kept:
    """One write that the server has carried out, for whoever keeps the ledger."""

    verb: Literal["create", "apply", "replace", "patch", "delete"]
    resource: ApiResource
    id: ObjectId
    seen: str  #: the resourceVersion it was made on, "" = it had to create
    written: Written


class ClusterPort(Protocol):
    """One API server, seen as one identity. Thread-safe.

    Errors: ``ClusterUnavailable`` (connection, time-out, 429, 5xx), ``Unauthorized`` (401, 403), ``Conflict``
    (409), ``Rejected`` (400, 404 on a write, 405, 409 AlreadyExists, 422, and the 500 "failed to create typed
    patch"), ``NotYet`` (404 of a namespace or kind that may still come).
    """

    @property
    def name(self) -> str: ...

    def now(self) -> datetime:
        """What time it is there, to about a second: what the server has stamped is compared with that."""

    def api_set(self, *, refresh: bool = False) -> ApiSet:
        """Aggregated discovery, cached per process; two requests when it has to ask."""

    def get(self, resource: ApiResource, namespace: str, name: str) -> Body | None:
        """The object, None when there is none (or its namespace, or its kind)."""

    def list(
        self,
        resource: ApiResource,
        *,
        selector: str = "",
        namespace: str = "",
        metadata_only: bool = False,
        instead: Collection[str] = (),
    ) -> list[Body]:
        """All pages. A list that broke off raises; it never comes back partial. A kind not served = [].

        ``instead``: the namespaces to list one by one where the LIST of all is forbidden. One of them that is forbidden
        too raises Unauthorized, and so does a kind without namespaces.
        """

    def apply(
        self,
        resource: ApiResource,
        body: Body,
        *,
        expect: Expect | None = None,
        force: bool = False,
        dry_run: bool = False,
        manager: str = "fleetbeat",
    ) -> Written:
        """Server-side apply with strict field validation. ``expect`` None is for dry-runs only."""

    def create(self, resource: ApiResource, body: Body) -> Written:
        """POST; an existing object is a Conflict."""

    def replace(self, resource: ApiResource, body: Body, *, dry_run: bool = False) -> Written:
        """PUT with the body's resourceVersion; a moved or vanished object is a Conflict."""

    def patch(
        self, resource: ApiResource, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Written:
        """JSON patch (RFC 6902), which must set ``/metadata/resourceVersion`` to what was seen: else Conflict."""

    def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        *,
        seen: Seen,
        propagation: Propagation = "Background",
    ) -> Written | None:
        """DELETE with uid and resourceVersion as preconditions. None when it was gone already."""


@dataclass(frozen=True)
class Pulled:
    """A verified bundle: its revision and the bytes of its one content layer (gzip tar), digest-checked."""

    revision: Revision
    layer: bytes
    layer_digest: str  #: "sha256:<64 hex>" of ``layer``


class SourcePort(Protocol):
    """An OCI registry or an image layout on disk.

    Errors: ``SourceUnavailable``, ``SourceThrottled``, ``SourceNotFound``, ``Unauthorized``, ``BundleError``.
    """

    def resolve(self, source: Source) -> Revision:
        """The digest the source means now; annotations are not read. No request when pinned by digest."""

    def pull(self, source: Source, revision: Revision) -> Pulled:
        """Manifest and layer at ``revision.digest``, both verified; the result's revision has the annotations."""
