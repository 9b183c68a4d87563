"""Reads a tar stream strictly: what is not a plain file or folder is refused, what is damaged is an error.

The standard library's reader ends quietly at a damaged header, and a bundle that lost its second half would then
look like one whose objects were removed. Formats: POSIX.1-2001 (ustar, pax), GNU long names, v7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from fleetbeat.errors import BundleError, UnsafeBundle

BLOCK = 512
_ZERO = bytes(BLOCK)
#: a pax header or long name is a path and some attributes; this bounds what one can make us hold
_MAX_METADATA = 64 * 1024

_OTHER = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a character device",
    b"4": "a block device",
    b"6": "a named pipe",
    b"S": "a sparse file",
}

Read = Callable[[int], bytes]  #: up to n bytes; fewer only at the end of the stream


class Header(NamedTuple):
    name: str
    directory: bool
    size: int  #: bytes of content that follow; 0 for a directory


def entries(read: Read) -> Iterator[tuple[Header, Callable[[], bytes]]]:
    """Each file and folder with a function that reads its content; content that is not read is skipped.

    Raises UnsafeBundle for links, devices and names that are not UTF-8, BundleError for a damaged archive.
    """
    overrides: dict[str, str] = {}
    while True:
        block = read(BLOCK)
        if block == _ZERO:
            return _expect_end(read)
        if not block:
            raise BundleError("the archive has no end marker: it was cut off")
        _check(block)
        kind, size = block[156:157], _number(block[124:136])
        if kind in b"xgLK":
            overrides |= _metadata(kind, size, read)
            continue
        name = overrides.pop("path", None) or _name(block)
        target = overrides.pop("linkpath", None) or _text(block[157:257])
        size = int(overrides.pop("size", size))
        overrides.clear()
        directory = kind == b"5" or (kind == b"\0" and name.endswith("/"))  # the second is how v7 wrote folders
        if not directory and kind not in (b"0", b"\0", b"7"):
            to = f" to {target!r}" if kind in b"12" else ""
            what = _OTHER.get(kind, f"of the unknown type {kind!r}")
            raise UnsafeBundle(
                f"entry {name!r} is {what}{to}; a bundle holds only files and folders. `fleetbeat push` stores the "
                "content of a link that stays inside the folder"
            )
        content = _Content(read, 0 if directory else size)
        yield Header(name, directory, content.left), content.read
        content.skip()


class _Content:
    """The content of one entry, read at most once, and the padding behind it."""

    def __init__(self, read: Read, size: int) -> None:
        self._read, self.left, self._padding = read, size, -size % BLOCK

    def read(self) -> bytes:
        size, self.left = self.left, 0
        return _exactly(self._read, size)

    def skip(self) -> None:
        while self.left:
            step = min(self.left, 64 * 1024)
            _exactly(self._read, step)
            self.left -= step
        _exactly(self._read, self._padding)


def _exactly(read: Read, size: int) -> bytes:
    content = read(size)
    if len(content) != size:
        raise BundleError("the archive ends in the middle of an entry: it was cut off")
    return content


def _expect_end(read: Read) -> None:
    """Behind the end marker only zeros may follow: other readers would go on, and see another bundle."""
    while rest := read(64 * 1024):
        if rest.count(0) != len(rest):
            raise BundleError("the archive goes on behind its end marker")


def _check(block: bytes) -> None:
    """The header's checksum: the sum of its bytes with the checksum field taken as blanks."""
    if len(block) == BLOCK:
        announced = _number(block[148:156])
        total = sum(block) - sum(block[148:156]) + 8 * ord(" ")
        if announced == total:
            return
        high = sum(1 for byte in block[:148] + block[156:] if byte > 127)
        if announced == total - 256 * high:  # some old writers summed signed characters
            return
    raise BundleError("the archive has a damaged entry header: it is not a tar, or it was cut off or altered")


def _number(field: bytes) -> int:
    """Octal text, or base 256 where the first bit is set (GNU)."""
    if field[0] & 0x80:
        if field[0] != 0x80:
            raise BundleError("the archive has an entry of negative or absurd size")
        return int.from_bytes(field[1:], "big")
    text = field.strip(b" \0")
    if text.strip(b"01234567"):
        raise BundleError("the archive has a damaged entry header: a number in it is not octal")
    return int(text or b"0", 8)


def _name(block: bytes) -> str:
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and (prefix := _text(block[345:500])):
        return f"{prefix}/{name}"
    return name


def _text(field: bytes) -> str:
    try:
        return field.split(b"\0", 1)[0].decode("utf-8")
    except UnicodeDecodeError:
        raise UnsafeBundle(f"entry {field.rstrip(bytes(1))!r}: its name is not UTF-8") from None


def _metadata(kind: bytes, size: int, read: Read) -> dict[str, str]:
    """What a pax header or a GNU long name says of the next entry: ``path``, ``linkpath``, ``size``."""
    if size > _MAX_METADATA:
        raise UnsafeBundle(f"the archive describes an entry with {size} bytes of attributes (limit {_MAX_METADATA})")
    content = _exactly(read, size)
    _exactly(read, -size % BLOCK)
    if kind in b"LK":
        return {"path" if kind == b"L" else "linkpath": _text(content)}
    records = _pax(content)
    if sparse := next((key for key in records if key.startswith("GNU.sparse.")), None):
        raise UnsafeBundle(f"the archive has a sparse file ({sparse}); a bundle holds only plain files and folders")
    named: dict[str, str] = {key: records[key] for key in ("path", "linkpath", "size") if key in records}
    if kind == b"g" and named:
        raise UnsafeBundle("the archive gives all its entries one name or size (global pax header)")
    if not re.fullmatch("[0-9]{1,18}", named.get("size", "0")):
        raise BundleError("the archive has a damaged pax header: size is not a number")
    return named


def _pax(content: bytes) -> dict[str, str]:
    """``LENGTH KEY=VALUE\\n``, LENGTH counting the whole record. Values that are not UTF-8 are never names of ours."""
    records = {}
    while content:
        length, blank, _ = content.partition(b" ")
        if not blank or not length.isdigit() or not len(length) + 1 < int(length[:6]) <= len(content):
            raise BundleError("the archive has a damaged pax header")
        record, content = content[len(length) + 1 : int(length)], content[int(length) :]
        key, equals, value = record.partition(b"=")
        if not equals or not value.endswith(b"\n"):
            raise BundleError("the archive has a damaged pax header")
        if key in (b"path", b"linkpath", b"size") or key.startswith(b"GNU.sparse."):
            if b"\0" in value:
                raise UnsafeBundle(f"entry {value[:-1]!r}: a zero byte in its name")
            records[key.decode("ascii", "replace")] = _text(value[:-1])
    return records
