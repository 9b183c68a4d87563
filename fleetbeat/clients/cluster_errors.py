"""What an API server's refusal, or its silence, means in Fleetbeat's own errors. Pure: text in, error out.

Status codes alone do not say it. Observed on Kubernetes 1.36: a field the schema does not know is a 500 under
server-side apply, a namespace that is going away is a 403, an admission policy's "no" is a 422 or a 403.
"""

from __future__ import annotations

import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import urllib3.exceptions as http

from fleetbeat.decisions.masking import spellings
from fleetbeat.errors import ClusterUnavailable, Conflict, Denied, FleetbeatError, NotYet, Rejected, Unauthorized
from fleetbeat.model import Body, ObjectId

_QUOTED = 1000  # characters of the server's message that are passed on
_SHORTEST_HIDDEN = 4  # characters; replacing shorter Secret values would garble the message

_LACKS_RIGHT = re.compile(r'\b[Uu]ser "[^"]*" (cannot |\(groups=.*is attempting to grant)', re.DOTALL)
#: Webhooks and policies answer with any code; their words are the API server's own.
_DENIED = re.compile(r'admission webhook "[^"]*" denied the request|ValidatingAdmissionPolicy \'[^\']*\' with binding ')
_MANAGER = re.compile(r'conflict with "(?P<manager>[^"]*)"')
_ECHOED = re.compile(r"((?:Invalid|Unsupported|Duplicate) value: |, got |cannot unmarshal ).*", re.DOTALL)
_WAITED = re.compile(r"timeout=([\d.]+)")


@dataclass(frozen=True)
class Doing:
    """The request an error is about, in words."""

    cluster: str
    verb: str  #: "apply", "list", …
    what: str  #: "Deployment shop/web", "Deployments", "/version"
    write: bool = False  #: the server was asked to change something (a dry-run is a write that is not kept)
    names_uid: bool = False  #: the body carries the uid of the object it expects
    secret: Body = field(default_factory=dict, repr=False)  #: the Secret in the request, whose values no message quotes
    id: ObjectId | None = None  #: the one object it is about


def refusal(doing: Doing, status: int, headers: Mapping[str, str], content: bytes) -> FleetbeatError:
    """The error for an answer that is not 2xx."""
    answer = _status_object(content)
    details = answer.get("details") or {}
    causes = [cause for cause in details.get("causes") or () if isinstance(cause, dict)]
    message = _quote(doing, answer, content, headers)
    said = f"{doing.what}: {doing.verb} answered {status} by cluster {doing.cluster}: {message}"
    wait = retry_after(headers)

    if not from_api_server(headers, content):
        return ClusterUnavailable(f"{said} (this is not an API server's answer)", retry_after=wait)
    if status == 401:
        return Unauthorized(f"{said}. The credentials of cluster {doing.cluster} are wrong or have expired")
    if status == 403:
        return _forbidden(doing, said, message, causes)
    if status == 404:
        return _not_found(doing, said, details)
    if status == 409:
        return Conflict(said, _field_conflicts(causes))
    if status == 422 and doing.names_uid and any(cause.get("field") == "metadata.uid" for cause in causes):
        return Conflict(f"{doing.what}: deleted and created again since it was looked at (its uid changed)")
    if status == 429:
        return ClusterUnavailable(said, retry_after=wait)
    if status >= 500:
        return _server_error(said, message, wait)
    if status in (410, 408):
        return ClusterUnavailable(said, retry_after=wait)
    if 300 <= status < 400:
        return ClusterUnavailable(f"{said} (a redirect; is the address that of an API server?)")
    return Denied(said) if _DENIED.search(message) else Rejected(said)


def from_api_server(headers: Mapping[str, str], content: bytes) -> bool:
    """API servers stamp their answers; a load balancer's own 404 must not read as "the object is absent"."""
    return "Audit-Id" in headers or bool(_status_object(content))


def unreachable(doing: Doing, address: str, error: Exception) -> ClusterUnavailable:
    """The error for a request without an answer. ``error`` is urllib3's or the operating system's."""
    kind = _kind(error)
    return ClusterUnavailable(f"{doing.what}: {doing.verb}: cluster {doing.cluster} at {address}: {kind}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from ``Retry-After``; None without one. API servers write whole seconds, never a date."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def is_timeout(error: Exception) -> bool:
    """The whole time allowed is spent already, so asking again at once would double it."""
    return isinstance(error, (http.TimeoutError, TimeoutError)) and not isinstance(error, http.NewConnectionError)


def _forbidden(doing: Doing, said: str, message: str, causes: list[Any]) -> FleetbeatError:
    if any(cause.get("reason") == "NamespaceTerminating" for cause in causes):
        return NotYet(f"{doing.what}: its namespace is being deleted; nothing can be created there: {message}")
    if "exceeded quota" in message:
        return NotYet(said)  # somebody else's deletion may make room
    if not doing.write or _LACKS_RIGHT.search(message):
        return Unauthorized(said)
    return Denied(said)  # admission: Pod Security, policies, webhooks


def _not_found(doing: Doing, said: str, details: Mapping[str, Any]) -> FleetbeatError:
    if details.get("kind") == "namespaces" and doing.write and not doing.what.startswith("Namespace "):
        return NotYet(
            f"{doing.what}: namespace {details.get('name')} does not exist in cluster {doing.cluster}. Put it into the "
            "bundle, or let the application make its own: option CreateNamespace=true"
        )
    if not details.get("name"):  # the path itself is unknown, not an object under it
        return NotYet(f"{doing.what}: this kind is not served by cluster {doing.cluster}")
    return Rejected(said)


def _server_error(said: str, message: str, wait: float | None) -> FleetbeatError:
    if message.startswith("failed to create typed patch object"):
        return Rejected(said)
    if "failed calling webhook" in message or "conversion webhook" in message:
        return NotYet(said, retry_after=wait)  # one broken webhook is not a broken cluster
    return ClusterUnavailable(said, retry_after=wait)


def _field_conflicts(causes: list[Any]) -> tuple[tuple[str, str], ...]:
    """(field path, manager) of every server-side apply conflict: ``(".data.a", "kubectl-edit")``."""
    found = []
    for cause in causes:
        if cause.get("reason") == "FieldManagerConflict":
            match = _MANAGER.search(str(cause.get("message", "")))
            found.append((str(cause.get("field", "")), match["manager"] if match else ""))
    return tuple(found)


def _status_object(content: bytes) -> dict[str, Any]:
    """The answer as a ``Status`` object; empty when it is not one."""
    try:
        answer = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return answer if isinstance(answer, dict) and answer.get("kind") == "Status" else {}


def _quote(doing: Doing, answer: Mapping[str, Any], content: bytes, headers: Mapping[str, str]) -> str:
    """The server's own words on one line, cut, with nothing of a Secret in them."""
    message = str(answer.get("message") or "")
    if not answer and "text/plain" in headers.get("Content-Type", ""):
        message = content.decode(errors="replace")  # cut below: half a value would not be known for one
    if doing.secret:
        message = _without_values(message, doing.secret)
    message = " ".join(message.split())
    if len(message) > _QUOTED:
        # The field stands first and the reason last; between them validation quotes the value, whole Pods at times.
        message = f"{message[: _QUOTED // 2]} … {message[-_QUOTED // 2 :]}"
    return message or str(answer.get("reason") or "no reason given")


def _without_values(message: str, secret: Body) -> str:
    """Validation quotes the offending value and policies may quote any: both are cut out."""
    message = _ECHOED.sub(r"\1***", message)
    for value in sorted(spellings(secret), key=len, reverse=True):
        if len(value) >= _SHORTEST_HIDDEN:
            message = message.replace(value, "***")
    return message


def _kind(error: Exception) -> str:
    waited = _WAITED.search(str(error))
    limit = f" within {float(waited[1]):g} s" if waited else ""
    causes = list(_chain(error))
    text = next((t for cause in causes if (t := _plain(cause))), None)
    if text:
        return text
    if isinstance(error, http.ConnectTimeoutError) and not isinstance(error, http.NewConnectionError):
        return f"no connection{limit or ' in time'}"
    if is_timeout(error):
        return f"no answer{limit or ' in time'}"
    if isinstance(error, http.ProxyError):
        return "the proxy did not connect"
    if isinstance(error, http.ProtocolError):
        return "the connection was closed before a whole answer had arrived"
    return type(error).__name__


def _plain(error: BaseException) -> str | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the server's certificate was not accepted: {getattr(error, 'verify_message', '')}"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "reason", None) or "handshake failed"  # set by OpenSSL's own errors only
        return f"TLS: {reason.lower().replace('_', ' ')}"
    if isinstance(error, (http.NameResolutionError, socket.gaierror)):
        return "the host name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, ConnectionResetError):
        return "connection reset"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, TimeoutError):
        return error.strerror.lower()
    return None


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it wraps: urllib3 keeps the cause in ``args`` or ``__cause__``, innermost last."""
    chain: list[BaseException] = []
    queue: list[BaseException | None] = [error]
    while queue:
        current = queue.pop(0)
        if current is None or current in chain:
            continue
        chain.append(current)
        queue += [arg for arg in current.args if isinstance(arg, BaseException)]
        queue += [current.__cause__, current.__context__]
    return chain
