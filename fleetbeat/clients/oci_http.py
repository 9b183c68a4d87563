"""HTTP towards a registry: one deadline for everything, bounded reads, no credential anywhere but in its header.

``requests`` on its own waits for ever, reads bodies of any size, takes passwords from ~/.netrc, and repeats URLs
(signed ones too) in its errors. This session does none of that. Its errors are ours.
"""

from __future__ import annotations

import functools
import http.client
import socket
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import certifi
import requests
import urllib3
from requests.sessions import merge_setting
from requests.utils import get_environ_proxies

from fleetbeat.clients.oci_deadline import Deadline, DeadlineAdapter
from fleetbeat.clients.server_clock import http_date
from fleetbeat.errors import (
    BundleError,
    ConfigurationError,
    FleetbeatError,
    SourceNotFound,
    SourceThrottled,
    SourceUnavailable,
    Unauthorized,
)
from fleetbeat.settings import Http, variable

#: everything requests, urllib3, http.client and the socket raise, with the ValueErrors for bad headers and URLs
FOREIGN = (OSError, urllib3.exceptions.HTTPError, http.client.HTTPException, ValueError)
_CHUNK = 64 * 1024
_MAX_REDIRECTS = 5
_merge: Any = merge_setting  # without types in the stubs


class Session(requests.Session):
    """Requests to one registry (and where it redirects to) within ``limits.total`` seconds from construction on.

    Not for several threads. ``host`` names the registry in errors. A private CA is trusted beside the public ones,
    because registries redirect blobs to public storage.
    """

    def __init__(self, host: str, limits: Http, *, plain_http: bool, ca_pem: str | None, verify: bool) -> None:
        super().__init__()
        self.host, self._limits, self._plain_http = host, limits, plain_http
        self._deadline = Deadline(limits.total)
        self.max_redirects = _MAX_REDIRECTS
        self.verify = verify  # for the token server too
        self.headers["User-Agent"] = "fleetbeat"
        # Digests are over the bytes as stored; a compressing proxy would also bring back unlimited unpacking.
        self.headers["Accept-Encoding"] = "identity"
        self.mount("http://", DeadlineAdapter(self._deadline))
        self.mount("https://", DeadlineAdapter(self._deadline, _context(ca_pem) if verify else None))

    def close(self) -> None:
        self._deadline.cancel()
        super().close()

    def _seconds_left(self) -> float:
        """Raises SourceUnavailable when the deadline has passed."""
        left = self._deadline.left()
        if left <= 0:
            raise SourceUnavailable(f"{self.host}: not done within {self._limits.total:g} s (FLEETBEAT_HTTP_TOTAL)")
        return left

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        """Every request goes through here, those of redirects and of token servers too."""
        left = self._seconds_left()
        if not self._plain_http and urlsplit(request.url or "").scheme != "https":
            raise SourceUnavailable(f"{self.host}: it leads to an address without TLS; that is not followed unasked")
        options["timeout"] = (min(self._limits.connect, left), min(self._limits.read, left))
        return super().send(request, **options)

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """As requests does it, but for reading the whole environment twice per request: half of a request's CPU."""
        parts = urlsplit(url)
        given = {"proxies": {**_proxies(parts.scheme, parts.netloc), **(proxies or {})}, "stream": stream, "cert": cert}
        if verify is None or verify is True:
            verify = variable("REQUESTS_CA_BUNDLE") or variable("CURL_CA_BUNDLE") or verify
        given["verify"] = verify
        return {name: _merge(value, getattr(self, name)) for name, value in given.items()}

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """On a redirect the Authorization header stays only within the same origin; ~/.netrc is never read."""
        if origin(prepared_request.url) != origin(response.request.url):
            prepared_request.headers.pop("Authorization", None)

    def call(self, send: Callable[[], requests.Response]) -> requests.Response:
        """The response of ``send``, whatever its status; connection failures become SourceUnavailable."""
        try:
            return send()
        except FleetbeatError:
            raise
        except FOREIGN as error:
            self._seconds_left()
            raise SourceUnavailable(f"{self.host}: {_describe(error, self._limits)}") from None

    def body(self, response: requests.Response, limit: int, what: str) -> bytes:
        """The whole body, of at most ``limit`` bytes. Raises BundleError for a longer one, without reading on."""
        content = bytearray()
        try:
            # read1 returns what has come; read would wait for a whole chunk, past the deadline
            while piece := response.raw.read1(_CHUNK, decode_content=False):
                content += piece
                if len(content) > limit:
                    raise TooLong(f"{what}: the registry sends more than {limit} bytes")
                self._seconds_left()
        except FleetbeatError:
            raise
        except FOREIGN as error:
            self._seconds_left()
            raise SourceUnavailable(f"{what}: {_describe(error, self._limits)}") from None
        finally:
            response.close()
        self._seconds_left()  # a connection cut at the deadline looks like the end of the body
        announced = response.headers.get("Content-Length", "")
        if response.request.method != "HEAD" and announced.isdecimal() and int(announced) > len(content):
            raise SourceUnavailable(f"{what}: the connection broke off after {len(content)} bytes")
        return bytes(content)

    def check(self, response: requests.Response, what: str, *fine: int) -> None:
        """Turns a status other than ``fine`` (default: 200) into the error it means; ``what`` names what was asked."""
        status = response.status_code
        if status in (fine or (HTTPStatus.OK,)):
            return
        response.close()
        said = f"{what}: the registry answered {status}"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise Unauthorized(f"{said}. Check source.auth and its right to this repository")
        if status == HTTPStatus.NOT_FOUND:
            raise SourceNotFound(
                f"{what}: the registry has no such repository, tag or digest. Push one, or mend the source"
            )
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            wait = retry_after(response)
            raise SourceThrottled(f"{said} (too many requests)", retry_after=wait)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.REQUEST_TIMEOUT:
            raise SourceUnavailable(said, retry_after=retry_after(response))
        raise BundleError(f"{said}, which is no answer to this request")


class TooLong(BundleError):
    """A body longer than it may be."""

    @property
    def reason(self) -> str:
        return BundleError.__name__


def origin(url: str | None) -> tuple[str, str, int | None]:
    """Scheme, host and port: the extent of a credential."""
    parts = urlsplit(url or "")
    return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def retry_after(response: requests.Response) -> float | None:
    """Seconds from a ``Retry-After`` header in either of its forms (RFC 9110 §10.2.3), None without one."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isdecimal() and len(text) < 10:
        return float(text)
    at = http_date(text)
    # From the answer's own time on: our clock may be an hour off.
    now = http_date(response.headers.get("Date", "")) or datetime.now(UTC)
    return max(0.0, (at - now).total_seconds()) if at is not None else None


@functools.lru_cache(maxsize=64)
def _context(ca_pem: str | None) -> ssl.SSLContext:
    """Public authorities and the given one. Shared by threads and connections, which only read it."""
    context = ssl.create_default_context(cafile=certifi.where())
    try:
        if ca_pem:
            context.load_verify_locations(cadata=ca_pem)
    except (ssl.SSLError, ValueError):
        raise ConfigurationError("source.ca is not a certificate in PEM form (-----BEGIN CERTIFICATE-----)") from None
    return context


@functools.lru_cache
def _proxies(scheme: str, netloc: str) -> dict[str, str]:
    """What ``HTTPS_PROXY``, ``NO_PROXY`` and the like say of a host; a process does not change them."""
    return dict(get_environ_proxies(f"{scheme}://{netloc}"))


def _describe(error: BaseException, limits: Http) -> str:
    """What went wrong, in words of ours: the texts of these exceptions carry URLs and header values."""
    causes = _causes(error)
    untrusted = next((cause for cause in causes if isinstance(cause, ssl.SSLCertVerificationError)), None)
    if untrusted is not None:
        return f"its certificate is not trusted ({untrusted.verify_message}). Give the CA as source.ca"
    broken = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
    if broken is not None:
        told = broken.reason or "no reason given"
        return f"TLS failed ({told}). If it does not speak TLS at all, set plainHTTP (fleetbeat push: --plain-http)"
    for kinds, words in (
        (socket.gaierror, "its host name is not known"),
        (ConnectionRefusedError, "connection refused"),
        (requests.ConnectTimeout, f"no connection within {limits.connect:g} s"),
        (urllib3.exceptions.ConnectTimeoutError, f"no connection within {limits.connect:g} s"),
        (TimeoutError, f"no answer for {limits.read:g} s"),
        (urllib3.exceptions.ReadTimeoutError, f"no answer for {limits.read:g} s"),
        (requests.TooManyRedirects, f"more than {_MAX_REDIRECTS} redirects"),
        (urllib3.exceptions.ProxyError, "the proxy could not be used"),
        (http.client.IncompleteRead, "the connection broke off in the middle of an answer"),
    ):
        if any(isinstance(cause, kinds) for cause in causes):
            return words
    return f"the connection failed ({type(error).__name__})"


def _causes(error: object) -> list[BaseException]:
    """The exception and those wrapped in it, outermost first; urllib3 hides them in ``reason`` and ``args``."""
    found: list[BaseException] = []
    queue = [error]
    while queue and len(found) < 20:
        item = queue.pop(0)
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            queue += [getattr(item, "reason", None), item.__cause__, item.__context__, *item.args]
    return found
