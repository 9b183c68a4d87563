"""The content of a bundle: files ⇄ one gzip tar, the same bytes for the same files, unpacked without trust.

Unpacking never touches a disk. It streams: the two limits are checked before anything is held, so a layer of a
megabyte that unfolds into gigabytes costs no more memory than a good one.
"""

from __future__ import annotations

import io
import re
import tarfile
import zlib
from collections.abc import Collection, Mapping

from fleetbeat.decisions import tar
from fleetbeat.errors import BundleError, BundleTooLarge, UnsafeBundle

_CHUNK = 64 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
#: longest path of an entry in characters; Linux allows 4096 bytes for a whole path, folder of the unpacking included
_MAX_PATH = 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def pack(files: Mapping[str, bytes], executable: Collection[str] = ()) -> bytes:
    """A gzip tar of ``files`` ("/"-separated relative path → content), independent of order, time, user and umask.

    Folders are written before their content, files with mode 0755 where named in ``executable``, else 0644.
    Raises UnsafeBundle for a path that ``unpack`` would refuse.
    """
    folders = {"/".join(parts[:n]) for parts in (p.split("/") for p in files) for n in range(1, len(parts))}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted({*files, *folders}):
            if not path or _path(path) != path:
                raise UnsafeBundle(f"{path!r} is not a plain relative path")
            info = tarfile.TarInfo(path)  # mtime, uid and gid are 0, user and group names empty
            if path in folders:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                archive.addfile(info)
                continue
            info.mode = 0o755 if path in executable else 0o644
            info.size = len(files[path])
            archive.addfile(info, io.BytesIO(files[path]))
    return _gzip(buffer.getvalue())


def _gzip(content: bytes) -> bytes:
    """RFC 1952 by hand: the library's header bytes differ between Python versions, and with them the digest."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    header = _GZIP_MAGIC + b"\x08\x00" + bytes(4) + b"\x00\xff"  # deflate, no flags, no time, unknown system
    trailer = zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little")
    return header + deflate.compress(content) + deflate.flush() + trailer


def unpack(layer: bytes, *, max_unpacked: int, max_entries: int) -> dict[str, bytes]:
    """Path → content of every file in a gzip tar (or plain tar), in archive order. ``{}`` when it holds none.

    ``./`` and empty path parts are dropped; ``\\`` is a separator, as archives made on Windows have it.
    Raises BundleTooLarge (``max_unpacked`` bytes, ``max_entries`` files and folders), UnsafeBundle (absolute
    path, ``..``, link, device, two entries of one name), BundleError (damaged or cut off).
    """
    files: dict[str, bytes] = {}
    folders: set[str] = set()
    room = _Room(max_unpacked, max_entries)
    stream = _Stream(layer, room)
    for header, content in tar.entries(stream.read):
        path = _path(header.name)
        if not header.directory and (not path or path in files or path in folders):
            raise UnsafeBundle(f"entry {header.name!r}: " + ("it is in the archive twice" if path else "no file name"))
        # An implied folder counts as an entry too: "a/a/a/…" must not be a way around the limit.
        folder = path if header.directory else path.rpartition("/")[0]
        while folder and folder not in folders:
            if folder in files:
                raise UnsafeBundle(f"entry {header.name!r}: {folder!r} is in the archive as a file and as a folder")
            room.take_entry()
            folders.add(folder)
            folder = folder.rpartition("/")[0]
        if not header.directory:
            room.take_entry()
            room.take_bytes(header.size)
            files[path] = content()
    return files


def _path(name: str) -> str:
    """The normal form of an entry's name, "" for the archive's root. Raises UnsafeBundle."""
    slashed = name.replace("\\", "/")
    parts = [part for part in slashed.split("/") if part not in ("", ".")]
    problem = ""
    if slashed.startswith("/") or re.match(r"[A-Za-z]:(/|$)", slashed):
        problem = "an absolute path"
    elif ".." in parts:
        problem = "'..' in its path"
    elif _CONTROL.search(name):
        problem = "a control character in its name"
    elif len(name) > _MAX_PATH:
        problem = f"a path of {len(name)} characters (limit {_MAX_PATH})"
    if problem:
        raise UnsafeBundle(f"entry {name[:200]!r}: {problem}")
    return "/".join(parts)


class _Room:
    """What the limits still allow."""

    def __init__(self, max_unpacked: int, max_entries: int) -> None:
        self.max_unpacked, self.max_entries = max_unpacked, max_entries
        self._bytes = self._entries = 0
        #: everything the stream may yield: content, and for each entry headers, pax records, padding
        self.stream_bytes = max_unpacked + max_entries * 4 * tar.BLOCK + 16 * _CHUNK

    def take_entry(self) -> None:
        self._entries += 1
        if self._entries > self.max_entries:
            raise BundleTooLarge(
                f"the bundle has more than {self.max_entries} files and folders (FLEETBEAT_BUNDLES_MAX_ENTRIES)"
            )

    def take_bytes(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.max_unpacked:
            raise BundleTooLarge(self.too_many_bytes)

    @property
    def too_many_bytes(self) -> str:
        return f"the bundle unpacks to more than {self.max_unpacked} bytes (FLEETBEAT_BUNDLES_MAX_UNPACKED)"


class _Stream:
    """The tar inside a layer, inflated piece by piece; at the end the gzip checksum must have been right."""

    def __init__(self, layer: bytes, room: _Room) -> None:
        self._layer, self._at = memoryview(layer), 0
        self._room, self._seen, self._members = room, 0, 1
        self._gzip = zlib.decompressobj(wbits=31) if layer[:2] == _GZIP_MAGIC else None
        self._ready = bytearray()

    def read(self, size: int) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        while len(self._ready) < size and (piece := self._piece()):
            self._seen += len(piece)
            if self._seen > self._room.stream_bytes:
                raise BundleTooLarge(self._room.too_many_bytes)
            self._ready += piece
        taken = bytes(memoryview(self._ready)[:size])
        del self._ready[:size]
        return taken

    def _piece(self) -> bytes:
        """The next bytes of the tar, ``b""`` at its end."""
        if self._gzip is None:
            return self._take()
        while True:
            if self._gzip.eof:
                self._at -= len(self._gzip.unused_data)
                if self._at == len(self._layer):
                    return b""
                # RFC 1952 allows several members in a row; some image tools write one per file.
                self._members += 1
                if self._members > self._room.max_entries:
                    raise BundleError(f"the layer's gzip data has more than {self._room.max_entries} members")
                self._gzip = zlib.decompressobj(wbits=31)
            source = self._gzip.unconsumed_tail or self._take()
            try:
                piece = self._gzip.decompress(source, _CHUNK)
            except zlib.error:
                raise BundleError("the layer's gzip data is damaged (format or checksum)") from None
            if piece:
                return piece
            if not source and not self._gzip.eof:
                raise BundleError("the layer's gzip data is cut off: its checksum is missing")

    def _take(self) -> bytes:
        taken = bytes(self._layer[self._at : self._at + _CHUNK])
        self._at += len(taken)
        return taken
