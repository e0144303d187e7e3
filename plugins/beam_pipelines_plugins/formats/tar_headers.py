"""Reads the headers of a tar archive.

Python's ``tarfile`` takes ten times as long, and an archive of small files is mostly headers.
Formats: POSIX (ustar, pax) and GNU, see
https://www.gnu.org/software/tar/manual/html_node/Standard.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from beam_pipelines.sources.archives.tar import MAX_HEADER_BYTES
from beam_pipelines.sources.compression import Readable

BLOCK_BYTES = 512
_SKIPPED_BYTES = 1 << 20
_NAME, _SIZE, _SUM, _PREFIX = slice(0, 100), slice(124, 136), slice(148, 156), slice(345, 500)
_MAGIC = slice(257, 263)
_POSIX_MAGIC = b"ustar\0"
_KIND = 156
_FILES, _FOLDER = b"0\0" + b"7", ord("5")
_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL = b"LKxg"
# The sum counts its own field as blanks.
_BLANKS = 8 * ord(" ")
_RECORD = re.compile(rb"([0-9]{1,20}) ([^=]+)=")


class TarError(ValueError):
    """A damaged archive; says where."""


class Header(NamedTuple):
    """The header of a file in an archive.

    Attributes:
      name: of the file.
      start: offset of the header, or of the first one before it that belongs to the file.
      content: offset of the content.
      size_bytes: of the content.
      is_file: whether it is a plain file, no link or device.
      raw: the bytes of the headers.
    """

    name: str
    start: int
    content: int
    size_bytes: int
    is_file: bool
    raw: bytes

    @property
    def end(self) -> int:
        """Offset of the next header."""
        return self.content + padded(self.size_bytes)


def padded(size: int) -> int:
    """Returns the bytes that a content takes, whole blocks."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class TarReader:
    """Headers and contents of an archive, from front to back.

    Attributes:
      place: offset of the next byte.
    """

    def __init__(self, file: Readable, place: int = 0, seeks: bool = False) -> None:
        self._file, self.place, self._seeks = file, place, seeks

    def headers(self) -> Iterator[Header]:
        """Yields the headers of files, links and devices; folders are passed over.

        Contents may be read by ``content`` in between.

        Raises:
          TarError: the archive is damaged or cut off.
        """
        found = None
        while block := self._block():
            if found is None:
                found = _Fields(self.place - BLOCK_BYTES)
            size = found.add(block)
            if size:
                found.extend(block, self._read(padded(size))[:size], size)
                continue
            if found.is_done:
                header, found = found.header(self.place), None
                if block[_KIND] != _FOLDER:
                    yield header
                self._skip(header.end - self.place)
        if found is not None:
            raise TarError("it ends behind an extended header")

    def content(self, header: Header) -> bytes:
        """Returns the content of the last header.

        Raises:
          TarError: the archive ends within.
        """
        return self._read(header.size_bytes)

    def _block(self) -> bytes:
        """Returns the next header's block, empty at the archive's end."""
        block = self._read(BLOCK_BYTES)
        return b"" if block.count(0) == BLOCK_BYTES else block

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        while len(data) < size and (more := self._file.read(size - len(data))):
            data += more
        self.place += len(data)
        if len(data) < size:
            raise TarError(f"it ends at byte {self.place:,}, within a file or without an end")
        return data

    def _skip(self, size: int) -> None:
        if self._seeks:
            self.place += size
            self._file.seek(self.place)  # type: ignore[attr-defined] # of a plain file
            return
        while size > 0:
            size -= len(self._read(min(size, _SKIPPED_BYTES)))


class _Fields:
    """The headers of one file, so far."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._raw: list[bytes] = []
        self._name: str | None = None
        self._size: int | None = None
        self.is_done = False

    def add(self, block: bytes) -> int:
        """Notes a block; returns the bytes that belong to its header."""
        _check_sum(block, self._start)
        self._raw.append(block)
        kind, size = block[_KIND], _number(block[_SIZE], self._start)
        if kind not in (_LONG_NAME, _LONG_LINK, _EXTENDED, _GLOBAL):
            self.is_done = True
            self._size = size if self._size is None else self._size
            return 0
        if not 0 < size <= MAX_HEADER_BYTES:
            raise TarError(f"the header at byte {self._start:,} states {size:,} bytes")
        return size

    def extend(self, block: bytes, data: bytes, size: int) -> None:
        """Notes the content of an extended header."""
        self._raw.append(data)
        kind = block[_KIND]
        if kind == _LONG_NAME:
            self._name = _text(data.partition(b"\0")[0])
        elif kind in (_EXTENDED, _GLOBAL):
            found = _records(data, self._start)
            if kind == _GLOBAL and {b"path", b"size"} & found.keys():
                raise TarError(f"the header at byte {self._start:,} names all files alike")
            if any(key.startswith(b"GNU.sparse") for key in found):
                raise TarError(f"the file at byte {self._start:,} is a sparse one")
            self._name = _text(found[b"path"]) if b"path" in found else self._name
            self._size = _decimal(found[b"size"], self._start) if b"size" in found else self._size

    def header(self, content: int) -> Header:
        """Returns the whole header."""
        block = self._raw[-1]
        name = self._name
        if name is None:
            name = _text(block[_NAME].partition(b"\0")[0])
            prefix = block[_PREFIX].partition(b"\0")[0]
            if prefix and block[_MAGIC] == _POSIX_MAGIC:
                name = f"{_text(prefix)}/{name}"
        is_file = block[_KIND] in _FILES
        size = self._size or 0
        return Header(
            name, self._start, content, size if is_file else 0, is_file, b"".join(self._raw)
        )


def _check_sum(block: bytes, start: int) -> None:
    total = sum(block) - sum(block[_SUM]) + _BLANKS
    if _number(block[_SUM], start) != total:
        raise TarError(f"found no header of a file at byte {start:,}")


def _number(field: bytes, start: int) -> int:
    """Returns a number: octal digits, or GNU's binary number."""
    if field[0] == 0x80:
        return _bounded(int.from_bytes(field[1:], "big"), start)
    digits = field.partition(b"\0")[0].strip()
    try:
        return _bounded(int(digits or b"0", 8), start)
    except ValueError as error:
        raise TarError(f"the header at byte {start:,} has no number in {field!r}") from error


def _decimal(digits: bytes, start: int) -> int:
    if not digits.isdigit() or len(digits) > 20:
        raise TarError(f"the header at byte {start:,} has no size in {digits[:40]!r}")
    return _bounded(int(digits), start)


def _bounded(number: int, start: int) -> int:
    if not 0 <= number < 1 << 62:
        raise TarError(f"the header at byte {start:,} states a size of {number:,}")
    return number


def _records(data: bytes, start: int) -> dict[bytes, bytes]:
    """Returns key -> value of a pax header."""
    found: dict[bytes, bytes] = {}
    place = 0
    while place < len(data) and data[place]:
        match = _RECORD.match(data, place)
        end = place + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise TarError(f"the extended header at byte {start:,} is damaged")
        found[match[2]] = data[match.end() : end - 1]
        place = end
    return found


def _text(name: bytes) -> str:
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TarError(f"found the name {name!r}, which is no UTF-8") from error
