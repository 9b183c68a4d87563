"""What a source string means: a repository in a registry, or an OCI image layout on disk.

``is_layout`` is the one place that decides which of the two a string is. A registry host is always written out;
there is no implied Docker Hub, because a mistyped host must not become somebody else's repository.
Grammar of names and tags: OCI distribution-spec 1.1, "Pulling manifests".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fleetbeat.errors import ConfigurationError

LAYOUT_SCHEME = "oci-layout:"

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_NAME_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(rf"{_NAME_PART}(?:/{_NAME_PART})*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True)
class Repository:
    """``registry/name``, with the tag or digest that was written behind it, if any."""

    registry: str  #: "host" or "host:port", as written
    name: str  #: "shop/manifests"
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{self.registry}/{self.name}"


@dataclass(frozen=True)
class Layout:
    """A directory that holds an OCI image layout (image-spec 1.1, "OCI Image Layout")."""

    path: str  #: as written; a relative one starts from the working directory
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return f"{LAYOUT_SCHEME}{self.path}"


def is_layout(text: str) -> bool:
    """True for ``oci-layout:PATH`` and for anything that starts like a path: ``/…`` or ``.…``."""
    return text.startswith((LAYOUT_SCHEME, "/", "."))


def is_digest(text: str) -> bool:
    """True for ``sha256:`` and 64 lower-case hex digits, the one digest form Fleetbeat accepts."""
    return _DIGEST.fullmatch(text) is not None


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def tag_of(version: str) -> str:
    """The tag a version is stored under: tags allow no ``+``, so registries' users write ``_`` for it, once."""
    return version.replace("+", "_", 1)


def parse(text: str) -> Repository | Layout:
    """``[oci://]host[:port]/name[:tag][@digest]``, or a layout path with the same endings.

    Raises ConfigurationError. A reference that carries credentials is refused without repeating them.
    """
    bare = text.removeprefix("oci://")
    rest, at, digest = bare.rpartition("@") if "@" in bare else (bare, "", "")
    if at and not is_digest(digest):
        if digest.startswith("sha"):
            raise ConfigurationError(f"{_shown(text)}: a digest is written sha256: and 64 lower-case hex digits")
        raise ConfigurationError(
            f"***@{digest.partition('?')[0]}: a source must not carry credentials. Leave out what stands before the @ "
            "and give user name and password under source.auth"
        )
    if "@" in rest:
        raise ConfigurationError(f"***@{digest}: a source must not carry credentials or two digests")
    if is_layout(rest):
        return _layout(rest, digest)
    return _repository(rest, digest)


def _layout(rest: str, digest: str) -> Layout:
    path = rest.removeprefix(LAYOUT_SCHEME)
    folder, colon, last = path.rpartition(":")
    tag = ""
    if colon and is_tag(last):
        path, tag = folder, last
    if not path:
        raise ConfigurationError(f"{rest}: no path. Write {LAYOUT_SCHEME}/path/of/the/layout")
    return Layout(path, tag, digest)


def _repository(rest: str, digest: str) -> Repository:
    shown = _shown(rest)
    if "://" in rest:
        raise ConfigurationError(
            f"{shown}: a source is written without a scheme (host/name), or with oci://. For a registry without TLS "
            "set plainHTTP"
        )
    host, slash, name = rest.partition("/")
    if not slash or not (_HOST.fullmatch(host) and ("." in host or ":" in host or host == "localhost")):
        raise ConfigurationError(
            f"{shown}: name the registry too, as in registry.example.com/shop/manifests. A path of an image layout "
            "starts with / or ./ or oci-layout:"
        )
    name, colon, tag = name.partition(":")
    if colon and not is_tag(tag):
        raise ConfigurationError(f"{shown}: {tag!r} is not a tag (letters, digits, '.', '_', '-', at most 128)")
    if not _NAME.fullmatch(name):
        raise ConfigurationError(f"{shown}: {name!r} is not a repository name (lower-case letters, digits, '.-_/')")
    return Repository(host, name, tag, digest)


def _shown(text: str) -> str:
    """The text as far as it may be repeated: nothing before an ``@``, no query."""
    before, at, after = text.rpartition("@")
    return f"***@{after}" if at and ":" in before.partition("/")[0] else text.partition("?")[0]
