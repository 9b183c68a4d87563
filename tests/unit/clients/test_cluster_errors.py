"""Every refusal of an API server and every kind of silence, as text in and error out."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest
import urllib3.exceptions as http

from fleetbeat.clients.cluster_errors import Doing, from_api_server, is_timeout, refusal, retry_after, unreachable
from fleetbeat.errors import ClusterUnavailable, Conflict, Denied, FleetbeatError, NotYet, Rejected, Unauthorized

APPLY = Doing("prod", "apply", "Deployment shop/web", write=True)
GET = Doing("prod", "get", "Deployment shop/web")
HEADERS = {"Audit-Id": "1", "Content-Type": "application/json"}


def status(message: str = "", reason: str = "", **details: Any) -> bytes:
    return json.dumps({"kind": "Status", "message": message, "reason": reason, "details": details or None}).encode()


NAMESPACE_ENDS = [{"reason": "NamespaceTerminating", "message": "namespace shop is being terminated"}]
UID_CHANGED = [{"reason": "FieldValueInvalid", "field": "metadata.uid", "message": "field is immutable"}]
CANNOT = 'deployments "web" is forbidden: User "x" cannot patch resource "deployments" in API group "apps"'
GRANT = (
    'roles "r" is forbidden: user "x" (groups=["g"]) is attempting to grant RBAC permissions not currently held:\n{…}'
)

POLICY = "ValidatingAdmissionPolicy 'keys' with binding 'keys' denied request: no such key"

CASES: dict[str, tuple[int, bytes, type[FleetbeatError], str]] = {
    "bad request": (400, status("strict decoding error"), Rejected, "strict decoding error"),
    "no credentials": (401, status("Unauthorized"), Unauthorized, "credentials of cluster prod"),
    "no right": (403, status(CANNOT), Unauthorized, "cannot patch resource"),
    "no right to grant": (403, status(GRANT), Unauthorized, "attempting to grant"),
    "Pod Security": (403, status('pods "web" is forbidden: violates PodSecurity "restricted"'), Denied, "violates"),
    "webhook": (400, status('admission webhook "a.b" denied the request: not today'), Denied, "not today"),
    "policy": (422, status('configmaps "a" is forbidden: ' + POLICY), Denied, "no such key"),
    "quota": (403, status('pods "web" is forbidden: exceeded quota: q, requested: pods=1'), NotYet, "exceeded quota"),
    "namespace ends": (403, status("no", causes=NAMESPACE_ENDS), NotYet, "namespace is being deleted"),
    "no namespace": (404, status(kind="namespaces", name="shop"), NotYet, "namespace shop does not exist"),
    "no object": (404, status("not found", kind="deployments", name="web"), Rejected, "not found"),
    "no kind": (404, status("the server could not find the requested resource"), NotYet, "kind is not served"),
    "no group": (404, b"404 page not found\n", NotYet, "kind is not served"),
    "no method": (405, status("the server does not allow this method"), Rejected, "does not allow"),
    "request took too long": (408, status("late"), ClusterUnavailable, "late"),
    "moved": (409, status("the object has been modified", "Conflict"), Conflict, "has been modified"),
    "exists": (409, status('deployments "web" already exists', "AlreadyExists"), Conflict, "already exists"),
    "gone": (410, status("too old resource version"), ClusterUnavailable, "too old"),
    "too large": (413, status("Request entity too large: limit is 3145728"), Rejected, "too large"),
    "invalid": (422, status("spec.replicas: Invalid value"), Rejected, "spec.replicas"),
    "uid in a body that names none": (422, status("uid", causes=UID_CHANGED), Rejected, "uid"),
    "throttled": (429, status("too many requests"), ClusterUnavailable, "too many requests"),
    "unknown field": (500, status("failed to create typed patch object (…): .spec.x"), Rejected, r"\.spec\.x"),
    "dead webhook": (500, status('Internal error: failed calling webhook "a.b"'), NotYet, "failed calling webhook"),
    "dead conversion": (500, status("conversion webhook for a/v1 failed"), NotYet, "conversion webhook"),
    "server error": (500, status("oops"), ClusterUnavailable, "oops"),
    "overload": (503, status("apiserver not ready"), ClusterUnavailable, "not ready"),
    "nothing said": (503, b"", ClusterUnavailable, "no reason given"),
    "redirect": (302, b"", ClusterUnavailable, "a redirect"),
}


@pytest.mark.parametrize(("code", "content", "error", "text"), CASES.values(), ids=CASES)
def test_refusal(code: int, content: bytes, error: type[FleetbeatError], text: str) -> None:
    headers = HEADERS if content.startswith(b"{") else {"Audit-Id": "1", "Content-Type": "text/plain"}
    with pytest.raises(error, match=f"^Deployment shop/web: .*{text}") as caught:
        raise refusal(APPLY, code, headers, content)
    assert type(caught.value) is error


def test_forbidden_read_is_a_lack_of_rights_whatever_the_words() -> None:
    """Authorizers other than RBAC have words of their own."""
    assert isinstance(refusal(GET, 403, HEADERS, status("denied by policy")), Unauthorized)


def test_changed_uid_where_one_was_expected_is_a_conflict() -> None:
    doing = Doing("prod", "apply", "Deployment shop/web", write=True, names_uid=True)
    assert isinstance(refusal(doing, 422, HEADERS, status("uid", causes=UID_CHANGED)), Conflict)


def test_field_conflicts() -> None:
    causes = [
        {"reason": "FieldManagerConflict", "field": ".spec.replicas", "message": 'conflict with "hpa" using v1'},
        {"reason": "FieldManagerConflict", "field": ".data.a", "message": 'conflict with "a \\"b" with subresource'},
        {"reason": "FieldManagerConflict", "field": ".data.b", "message": "in other words"},
    ]
    error = refusal(APPLY, 409, HEADERS, status("Apply failed", causes=causes))
    assert isinstance(error, Conflict)
    assert error.causes == ((".spec.replicas", "hpa"), (".data.a", "a \\"), (".data.b", ""))


def test_long_and_many_lined_messages_are_cut_in_the_middle_to_one_line() -> None:
    """The beginning names the object, the end the reason."""
    text = str(refusal(APPLY, 422, HEADERS, status("line\none\t" + "x" * 5000 + " field is immutable")))
    assert "line one xxx" in text
    assert "xxx … xxx" in text
    assert len(text) < 1200
    assert text.endswith("field is immutable")


@pytest.mark.parametrize("content", [b"<html>nginx</html>", b"[]", b"not here", b'{"a": 1}'])
def test_answer_of_something_else_is_no_answer_and_not_quoted(content: bytes) -> None:
    headers = {"Content-Type": "text/html"}
    assert not from_api_server(headers, content)
    for code in (401, 403, 404, 409, 422, 502):
        error = refusal(APPLY, code, headers, content)
        assert type(error) is ClusterUnavailable
        assert "not an API server's answer" in str(error)
        assert content.decode() not in str(error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1", 1.0), ("30", 30.0), ("", None), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None), ("٣", None)],
)
def test_retry_after(text: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": text} if text else {}) == seconds
    error = refusal(APPLY, 429, {**HEADERS, "Retry-After": text}, status("x"))
    assert isinstance(error, ClusterUnavailable)
    assert error.retry_after == seconds


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET_SAID = {
    "validation": 'Secret "s" is invalid: data[a]: Invalid value: "hunter22": too weak',
    "typed patch": ".data.a: expected string, got &value.valueUnstructured{hunter22}",
    "decoder": "json: cannot unmarshal number hunter22 into Go struct field",
    "policy that quotes": "denied: the password hunter22 is known",
    "policy that quotes base64": "denied: aHVudGVyMjI= is known",
}


@pytest.mark.parametrize("message", SECRET_SAID.values(), ids=SECRET_SAID)
@pytest.mark.parametrize("part", [{"data": {"a": "aHVudGVyMjI="}}, {"stringData": {"a": "hunter22"}}], ids=str)
def test_values_of_a_secret_are_cut_out(message: str, part: dict[str, Any]) -> None:
    doing = Doing("prod", "apply", "Secret shop/s", write=True, secret={"kind": "Secret", **part})
    text = str(refusal(doing, 422, HEADERS, status(message)))
    assert "hunter22" not in text
    assert "aHVu" not in text
    assert "***" in text
    assert "hunter22" not in repr(doing)


@pytest.mark.parametrize("data", [None, [], "text", {"a": None}, {"a": 5}, {"a": "%%%"}], ids=repr)
def test_malformed_secret_does_not_break_the_message(data: Any) -> None:
    doing = Doing("prod", "apply", "Secret shop/s", write=True, secret={"kind": "Secret", "data": data})
    assert "plain" in str(refusal(doing, 422, HEADERS, status("plain")))


# ── silence ──────────────────────────────────────────────────────────────────────────────────────────────────────


def caused(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def certificate_error() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "unable to get local issuer certificate"
    return error


REFUSED = ConnectionRefusedError(111, "Connection refused")
POOL: Any = None
SILENCE: dict[str, tuple[Exception, str]] = {
    "refused": (caused(http.NewConnectionError(POOL, "x"), REFUSED), "connection refused"),
    "no route": (caused(http.NewConnectionError(POOL, "x"), OSError(113, "No route to host")), "no route to host"),
    "name": (http.NameResolutionError("h", POOL, socket.gaierror(-2, "x")), "the host name cannot be resolved"),
    "connect": (http.ConnectTimeoutError(POOL, "timed out. (connect timeout=5)"), "no connection within 5 s"),
    "read": (http.ReadTimeoutError(POOL, "/", "Read timed out. (read timeout=30.0)"), "no answer within 30 s"),
    "certificate": (http.SSLError(certificate_error()), "unable to get local issuer certificate"),
    "TLS": (http.SSLError(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x")), "TLS: "),
    "reset": (http.ProtocolError("x", ConnectionResetError(104, "y")), "connection reset"),
    "closed": (http.ProtocolError("x", EOFError()), "closed before a whole answer"),
    "other": (http.HTTPError("x"), "HTTPError"),
}


@pytest.mark.parametrize(("error", "text"), SILENCE.values(), ids=SILENCE)
def test_unreachable(error: Exception, text: str) -> None:
    said = str(unreachable(APPLY, "https://10.0.0.1:6443", error))
    assert said.startswith("Deployment shop/web: apply: cluster prod at https://10.0.0.1:6443: ")
    assert text in said
    assert "pool" not in said


def test_errors_that_refer_to_each_other_end() -> None:
    first, second = OSError("a"), OSError("b")
    first.__context__, second.__context__ = second, first
    assert "OSError" in str(unreachable(APPLY, "https://x", first))


@pytest.mark.parametrize(
    ("error", "timeout"),
    [
        (http.ReadTimeoutError(POOL, "/", "x"), True),
        (http.ConnectTimeoutError(POOL, "x"), True),
        (TimeoutError(), True),
        (http.NewConnectionError(POOL, "x"), False),
        (http.NameResolutionError("h", POOL, socket.gaierror()), False),
        (http.ProtocolError("x"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_is_timeout(error: Exception, timeout: bool) -> None:
    assert is_timeout(error) is timeout
