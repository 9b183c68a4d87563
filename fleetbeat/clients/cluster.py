"""The Kubernetes client: ``ports.ClusterPort`` over raw JSON. Typed models would drop fields they do not know.

Facts of the API server this relies on (observed on 1.36, held by tests/contract/test_cluster.py):
- server-side apply with ``metadata.resourceVersion: "1"`` creates what is absent and is a 409 for what exists;
- with a resourceVersion alone it would create what has vanished, with uid as well it is a 409.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

import orjson

from fleetbeat import __version__
from fleetbeat.clients import cluster_connect, discovery
from fleetbeat.clients.cluster_errors import Doing
from fleetbeat.clients.cluster_transport import Answer, Guard, Transport
from fleetbeat.clients.refused_lists import is_gone
from fleetbeat.decisions.inventory import FIELD_MANAGER
from fleetbeat.errors import ClusterUnavailable, Conflict, Rejected
from fleetbeat.model import EVENT, ApiResource, ApiSet, Body, Cluster, ObjectId, Propagation
from fleetbeat.ports import Absent, Expect, Kept, Seen, Written
from fleetbeat.settings import Http

_Bodies = list[Body]  # inside the class, `list` is the method
_Verb = Literal["create", "apply", "replace", "patch", "delete"]

PAGE = 500  #: objects per list request, as kubectl asks
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA_EVENTS = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

#: told of every write that was carried out, right after its answer
Witness = Callable[[Kept], None]

_WARNING = re.compile(r'\d{3} \S+ "((?:[^"\\]|\\.)*)"')
_OWN_WRITE = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
#: writing one of these changes what the cluster serves
_DEFINES_KINDS = {("apiextensions.k8s.io", "CustomResourceDefinition"), ("apiregistration.k8s.io", "APIService")}


class KubernetesCluster:
    """One API server as one identity. Views share connections and discovery; each has its User-Agent and guard."""

    def __init__(self, transport: Transport, witness: Witness | None = None) -> None:
        self._transport = transport
        self._witness = witness

    @classmethod
    def connect(cls, cluster: Cluster, *, http: Http, pool: int = 16) -> KubernetesCluster:
        """Cheap when this process is connected already. Nothing is sent yet.

        ``pool``: connections per process to this cluster, shared by all views. Raises ConfigurationError.
        """
        connection = cluster_connect.connection(cluster, http, pool)
        return cls(Transport(connection, f"fleetbeat/{__version__}"))

    def acting(self, user_agent: str, guard: Guard | None, witness: Witness | None = None) -> KubernetesCluster:
        """The same cluster under another User-Agent; ``guard()`` runs right before every write that is not a dry-run.

        What the guard raises (LostLock) comes out of the write, which has then not been sent. ``witness`` is told of
        each such write that went well; it must not raise, and several threads call it.
        """
        return KubernetesCluster(self._transport.acting(user_agent, guard), witness)

    @property
    def name(self) -> str:
        return self._transport.connection.cluster

    def __repr__(self) -> str:
        return f"KubernetesCluster({self.name!r}, {self._transport.connection.address!r})"

    def now(self) -> datetime:
        return self._transport.connection.clock.now()

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────

    def api_set(self, *, refresh: bool = False) -> ApiSet:
        """As the port says. ``refresh`` is bounded: one in 2 s on average, and every 0.25 s while CRDs settle."""

        def ask(path: str) -> Mapping[str, Any]:
            accept = "application/json" if path == "/version" else discovery.ACCEPT
            doing = Doing(self.name, "discovery", path)
            return _document(doing, self._transport.send(doing, "GET", path, accept=accept))

        return self._transport.connection.discovery.get(ask, refresh=refresh)

    def get(self, resource: ApiResource, namespace: str, name: str) -> Body | None:
        doing = self._doing("get", resource, namespace, name)
        path = _path(doing, resource, namespace, name)
        answer = self._transport.send(doing, "GET", path, expected=(404,))
        return None if answer.status == 404 else _document(doing, answer)

    def list(
        self,
        resource: ApiResource,
        *,
        selector: str = "",
        namespace: str = "",
        metadata_only: bool = False,
        instead: Collection[str] = (),
    ) -> list[Body]:
        """Items carry the resource's own apiVersion and kind, which the server leaves out of lists."""

        def ask(space: str) -> _Bodies:
            return self.listing(resource, selector=selector, namespace=space, metadata_only=metadata_only)[0]

        if namespace or not resource.namespaced or not instead:
            return ask(namespace)
        return self._transport.connection.refusals.listed(ask, resource, instead, partial(is_gone, self))

    def listing(
        self, resource: ApiResource, *, selector: str = "", namespace: str = "", metadata_only: bool = False
    ) -> tuple[_Bodies, str]:
        """As ``list``, with the resourceVersion a watch goes on from; "" of a kind that is not served."""
        doing = Doing(self.name, "list", f"{resource.plural} with {selector}" if selector else resource.plural)
        accept = METADATA_ONLY if metadata_only else "application/json"
        query = {"limit": str(PAGE)}
        if selector:
            query["labelSelector"] = selector
        for _ in range(2):  # a continue token lives as long as etcd's compaction lets it, five minutes
            found = self._pages(doing, resource, namespace, query, accept)
            if found is not None:
                return found
        raise ClusterUnavailable(f"{doing.what}: list expired between its pages, twice in a row; cluster {self.name}")

    def _pages(
        self, doing: Doing, resource: ApiResource, namespace: str, query: Mapping[str, str], accept: str
    ) -> tuple[_Bodies, str] | None:
        """None when the server no longer has the snapshot that the first page was of."""
        path = _path(doing, resource, namespace)
        identity = {"apiVersion": _api_version(resource), "kind": resource.kind}
        found: list[Body] = []
        following: dict[str, str] = {}
        while True:
            expected = (410,) if following else (404,)
            answer = self._transport.send(
                doing, "GET", path, query={**query, **following}, accept=accept, expected=expected
            )
            if answer.status == 410:
                return None
            if answer.status == 404:  # the kind is not served
                return [], ""
            page = _document(doing, answer)
            found += [{**item, **identity} for item in page.get("items") or ()]
            about = page.get("metadata") or {}
            token = about.get("continue")
            if not token:
                return found, str(about.get("resourceVersion", ""))
            following = {"continue": token}

    def events(
        self, resource: ApiResource, *, selector: str, namespace: str, since: str, seconds: int, silence: float
    ) -> AbstractContextManager[Iterator[bytes]]:
        """The lines of a metadata-only watch with bookmarks, JSON ``{"type": …, "object": …}`` each.

        ``since``: the resourceVersion to go on from; ``seconds``: when the server ends it in good order; ``silence``:
        seconds after which a silent one counts as broken. Raises as ``Transport.stream`` does.
        """
        doing = Doing(self.name, "watch", f"{resource.plural} with {selector}" if selector else resource.plural)
        path = _path(Doing(self.name, "list", resource.plural), resource, namespace)
        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": since, "timeoutSeconds": str(seconds)}
        query |= {"labelSelector": selector} if selector else {}
        return self._transport.stream(doing, path, query=query, accept=METADATA_EVENTS, silence=silence)

    # ── writing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def apply(
        self,
        resource: ApiResource,
        body: Body,
        *,
        expect: Expect | None = None,
        force: bool = False,
        dry_run: bool = False,
        manager: str = FIELD_MANAGER,
    ) -> Written:
        if expect is None and not dry_run:
            raise ValueError("an apply that is kept must say what it expects to find")
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        verb = "dry-run" if dry_run else "apply"
        doing = self._doing(verb, resource, body=body, names_uid=isinstance(expect, Seen))
        answer = self._transport.send(
            doing,
            "PATCH",
            _path_of(doing, resource, body),
            query=query,
            body=_expecting(body, expect),
            content_type="application/apply-patch+yaml",  # JSON is YAML
            guarded=not dry_run,
        )
        if dry_run:
            return _written(doing, answer)
        return self._kept("apply", doing, resource, answer, expect.resource_version if isinstance(expect, Seen) else "")

    def tell(self, event: Body) -> None:
        """Write a Kubernetes Event, or the next count of one that is there. Raises as ``apply`` does.

        It is no part of anybody's state: it needs no precondition, and the witness is not told.
        """
        doing = self._doing("apply", EVENT, body=event)
        self._transport.send(
            doing,
            "PATCH",
            _path_of(doing, EVENT, event),
            query={**_OWN_WRITE, "force": "true"},
            body=event,
            content_type="application/apply-patch+yaml",
            guarded=True,
        )

    def create(self, resource: ApiResource, body: Body) -> Written:
        doing = self._doing("create", resource, body=body)
        path = _path(doing, resource, _named(body)[0])
        answer = self._transport.send(doing, "POST", path, query=_OWN_WRITE, body=body, guarded=True)
        return self._kept("create", doing, resource, answer)

    def replace(self, resource: ApiResource, body: Body, *, dry_run: bool = False) -> Written:
        if not (body.get("metadata") or {}).get("resourceVersion"):
            raise ValueError("a replace must carry the resourceVersion it was decided on")
        doing = self._doing("replace", resource, body=body, names_uid=True)
        path = _path_of(doing, resource, body)
        query = {**_OWN_WRITE, "dryRun": "All"} if dry_run else _OWN_WRITE
        answer = self._transport.send(doing, "PUT", path, query=query, body=body, guarded=not dry_run, expected=(404,))
        if answer.status == 404:
            raise Conflict(f"{doing.what}: vanished from cluster {self.name} since it was looked at")
        if dry_run:
            return _written(doing, answer)
        return self._kept("replace", doing, resource, answer, body["metadata"]["resourceVersion"])

    def patch(
        self, resource: ApiResource, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> Written:
        seen = next((o.get("value", "") for o in operations if o.get("path") == "/metadata/resourceVersion"), None)
        if seen is None:
            raise ValueError("a patch must carry the resourceVersion it was decided on")
        doing = self._doing("patch", resource, namespace, name, write=True, names_uid=True)
        answer = self._transport.send(
            doing,
            "PATCH",
            _path(doing, resource, namespace, name),
            query=_OWN_WRITE,
            body=operations,
            content_type="application/json-patch+json",
            guarded=True,
            expected=(404,),
        )
        if answer.status == 404:
            raise Conflict(f"{doing.what}: vanished from cluster {self.name} since it was looked at")
        return self._kept("patch", doing, resource, answer, seen)

    def delete(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        *,
        seen: Seen,
        propagation: Propagation = "Background",
    ) -> Written | None:
        doing = self._doing("delete", resource, namespace, name, write=True)
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": seen.uid, "resourceVersion": seen.resource_version},
            "propagationPolicy": propagation,
        }
        path = _path(doing, resource, namespace, name)
        answer = self._transport.send(doing, "DELETE", path, body=options, guarded=True, expected=(404,))
        return None if answer.status == 404 else self._kept("delete", doing, resource, answer, seen.resource_version)

    def _doing(
        self,
        verb: str,
        resource: ApiResource,
        namespace: str = "",
        name: str = "",
        *,
        body: Body | None = None,
        write: bool = False,
        names_uid: bool = False,
    ) -> Doing:
        if body is not None:
            namespace, name = _named(body)
        id_ = ObjectId(resource.group, resource.kind, namespace if resource.namespaced else "", name)
        secret = body if body and (resource.group, resource.kind) == ("", "Secret") else {}
        return Doing(self.name, verb, str(id_), write or body is not None, names_uid, secret, id_)

    def _kept(self, verb: _Verb, doing: Doing, resource: ApiResource, answer: Answer, seen: str = "") -> Written:
        """The answer to a write that was not a dry-run, and everything that follows from it."""
        if (resource.group, resource.kind) in _DEFINES_KINDS:
            self._transport.connection.discovery.kinds_written()
        written = _written(doing, answer)
        if self._witness is not None and doing.id is not None:
            self._witness(Kept(verb, resource, doing.id, seen, written))
        return written


def _written(doing: Doing, answer: Answer) -> Written:
    return Written(
        body=_document(doing, answer),
        created=answer.status == 201,
        audit_id=answer.headers.get("Audit-Id", ""),
        warnings=_warnings(answer),
    )


def _expecting(body: Body, expect: Expect | None) -> Body:
    """The body with its precondition, as a copy."""
    match expect:
        case Absent():
            wanted = {"resourceVersion": "1"}  # older than any object; an absent one is created all the same
        case Seen(uid, resource_version):
            wanted = {"uid": uid, "resourceVersion": resource_version}
        case None:
            return body
    return {**body, "metadata": {**body["metadata"], **wanted}}


def _named(body: Body) -> tuple[str, str]:
    """(namespace, name) of an object."""
    metadata = body.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def _path_of(doing: Doing, resource: ApiResource, body: Body) -> str:
    namespace, name = _named(body)
    if not name:
        raise Rejected(f"{doing.what}: has no metadata.name")
    return _path(doing, resource, namespace, name)


def _path(doing: Doing, resource: ApiResource, namespace: str = "", name: str = "") -> str:
    """``/apis/apps/v1/namespaces/shop/deployments/web``. Names with the power to change the path are refused."""
    parts = ["apis", resource.group, resource.version] if resource.group else ["api", resource.version]
    if resource.namespaced and namespace:
        parts += ["namespaces", namespace]
    elif resource.namespaced and doing.verb != "list":
        raise Rejected(f"{doing.what}: {resource.kind} is namespaced, and no namespace is given")
    parts.append(resource.plural)
    if name:
        parts.append(name)
    for part in (namespace, name):
        if part in (".", "..") or "/" in part or "%" in part:
            raise Rejected(f"{doing.what}: {part!r} cannot be a name: it must not be . or .. nor hold / or %")
    return "/" + "/".join(quote(part, safe=":") for part in parts)


def _api_version(resource: ApiResource) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def _document(doing: Doing, answer: Answer) -> Body:
    try:
        document = orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise ClusterUnavailable(
            f"{doing.what}: {doing.verb}: cluster {doing.cluster} answered {answer.status} with something that is not "
            "a JSON object; is its address that of an API server?"
        )
    return document


def _warnings(answer: Answer) -> tuple[str, ...]:
    """Texts of ``Warning: 299 - "text"`` headers, unescaped."""
    lines = answer.headers.getlist("Warning") if "Warning" in answer.headers else []
    return tuple(re.sub(r"\\(.)", r"\1", text) for line in lines for text in _WARNING.findall(line))
