"""One repository in one registry, for the length of one look, pull or push.

oras carries the requests (its ``do_request`` repeats one after a login); everything that must be certain is here or
below: digests and sizes, time and memory limits, credentials. A connection is made anew each time because oras would
send the first registry's token to the second one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import oras.provider
import requests

from fleetbeat.clients import credentials
from fleetbeat.clients.oci_auth import Login
from fleetbeat.clients.oci_http import Session, TooLong, origin
from fleetbeat.decisions import artifact, references
from fleetbeat.decisions.references import Repository
from fleetbeat.errors import BundleError, DigestMismatch
from fleetbeat.model import Credential, RegistryAuth
from fleetbeat.settings import Http

#: oras' request with a repetition after a login, without its decorator that sleeps 131 s over five more attempts
_do_request = inspect.unwrap(oras.provider.Registry.do_request)

#: pages of a tag list; 1,000 tags a page is what we ask for, a registry may give fewer
_MAX_PAGES = 1000
_PAGE = 1000


class Connection:
    """Requests about one repository. A context manager; not for several threads.

    Errors of all methods: SourceUnavailable, SourceThrottled, SourceNotFound, Unauthorized, BundleError.
    """

    def __init__(
        self,
        repository: Repository,
        http: Http,
        auth: RegistryAuth,
        *,
        plain_http: bool = False,
        ca: Credential | None = None,
        insecure_skip_tls_verify: bool = False,
    ) -> None:
        self.repository = repository
        scheme = "http" if plain_http else "https"
        hub = repository.registry in ("docker.io", "index.docker.io")
        host = "registry-1.docker.io" if hub else repository.registry
        name = f"library/{repository.name}" if hub and "/" not in repository.name else repository.name
        self._base = f"{scheme}://{host}/v2/{name}/"
        verify = not insecure_skip_tls_verify
        ca_pem = credentials.read(ca).reveal() if ca else None
        self._session = Session(repository.registry, http, plain_http=plain_http, ca_pem=ca_pem, verify=verify)
        self._session.auth = login = Login(self._session, self._base, str(repository), auth)
        self._oras = oras.provider.Registry(host, insecure=plain_http, tls_verify=verify)
        self._oras.session, self._oras.auth = self._session, login

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def digest_of(self, tag: str) -> str:
        """The digest a tag means now: one HEAD. A registry that tells no digest is asked for the manifest itself."""
        what = f"{self.repository}:{tag}"
        response = self._request("HEAD", f"manifests/{tag}", accept=artifact.ACCEPT)
        if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
            self._session.check(response, what)
            response.close()
            digest = response.headers.get("Docker-Content-Digest", "")
            if references.is_digest(digest):
                return digest
        return artifact.digest_of(self._get(f"manifests/{tag}", what, artifact.MAX_MANIFEST, accept=artifact.ACCEPT))

    def tags(self) -> Iterator[str]:
        """Every tag, page by page. Pages are followed within this registry only: the next one is the server's word."""
        url = urljoin(self._base, f"tags/list?n={_PAGE}")
        what = f"{self.repository}: list of tags"
        for _ in range(_MAX_PAGES):
            response = self._request("GET", url)
            self._session.check(response, what)
            page = artifact.parse_json(self._session.body(response, artifact.MAX_MANIFEST, what), what)
            listed = page.get("tags") or []
            if not isinstance(listed, list):
                raise BundleError(f"{what}: tags is not a list")
            yield from (tag for tag in listed if isinstance(tag, str) and references.is_tag(tag))
            following = response.links.get("next", {}).get("url")
            if not following:
                return
            url = urljoin(url, following)
            if origin(url) != origin(self._base):
                raise BundleError(f"{what}: its next page is on another host")
        raise BundleError(f"{what}: more than {_MAX_PAGES} pages. Use a tag or a digest instead of semver")

    def manifest(self, digest: str) -> bytes:
        """The manifest with this digest, checked."""
        what = f"{self.repository}@{digest}"
        content = self._get(f"manifests/{digest}", what, artifact.MAX_MANIFEST, accept=artifact.ACCEPT)
        artifact.check_digest(content, digest, what)
        return content

    def blob(self, descriptor: artifact.Descriptor) -> bytes:
        """The content a descriptor announces, checked; reading stops at the first byte over its size."""
        what = f"{self.repository}: layer {descriptor.digest}"
        try:
            content = self._get(f"blobs/{descriptor.digest}", what, descriptor.size)
        except TooLong:
            raise DigestMismatch(f"{what}: longer than the announced {descriptor.size} bytes") from None
        descriptor.check(content, what)
        return content

    def put_blob(self, content: bytes) -> None:
        """Uploads content unless the repository has it (distribution-spec, POST then PUT)."""
        digest = artifact.digest_of(content)
        what = f"{self.repository}: blob {digest}"
        found = self._request("HEAD", f"blobs/{digest}")
        found.close()
        if found.status_code == HTTPStatus.OK:
            return
        started = self._request("POST", "blobs/uploads/", data=b"")
        self._session.check(started, f"{self.repository}: upload", HTTPStatus.ACCEPTED)
        started.close()
        place = urljoin(self._base + "blobs/uploads/", started.headers.get("Location", ""))
        url = f"{place}{'&' if '?' in place else '?'}digest={digest}"
        done = self._request("PUT", url, data=content, content_type="application/octet-stream")
        self._session.check(done, what, HTTPStatus.CREATED)
        done.close()

    def put_manifest(self, content: bytes, tag: str) -> None:
        what = f"{self.repository}:{tag}"
        done = self._request("PUT", f"manifests/{tag}", data=content, content_type=artifact.OCI_MANIFEST)
        self._session.check(done, what, HTTPStatus.CREATED)
        done.close()

    def _get(self, path: str, what: str, limit: int, accept: str = "*/*") -> bytes:
        response = self._request("GET", path, accept=accept)
        self._session.check(response, what)
        return self._session.body(response, limit, what)

    def _request(
        self, method: str, path: str, *, accept: str = "*/*", content_type: str = "", data: bytes | None = None
    ) -> requests.Response:
        """``path`` below the repository, or a whole URL. The body is not read yet."""
        headers = {"Accept": accept} | ({"Content-Type": content_type} if content_type else {})
        url = urljoin(self._base, path)
        return self._session.call(lambda: _do_request(self._oras, url, method, data=data, headers=headers, stream=True))
