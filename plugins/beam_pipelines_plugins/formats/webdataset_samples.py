"""The rows of a tar archive: runs of files with one name.

``n01/17.jpg`` and ``n01/17.cls`` are the members ``jpg`` and ``cls`` of the row ``n01/17``, as in
https://github.com/webdataset/webdataset.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import re
from collections.abc import Iterator

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.errors import DataError
from beam_pipelines.core.limits import Limits, exceeded
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.archives.archives import tar_compression
from beam_pipelines.sources.compression import decompressed
from beam_pipelines.sources.plan import ByteRange
from beam_pipelines.storage import files
from beam_pipelines_plugins.formats.tar_headers import Header, TarError, TarReader

# The part up to the first point behind the last slash, and the part behind the point.
_PARTS = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$", re.DOTALL)
# Names that WebDataset keeps for itself.
_OWN = re.compile(r"__[^/]*__($|/)")
# Names that begin with a point, and those of macOS.
_HIDDEN = re.compile(r"(^|/)(\.[^/]*$|__MACOSX/)")


@dataclasses.dataclass
class Member:
    """A file of a row.

    Attributes:
      header: of the file.
      data: its content; empty if it is not read.
    """

    header: Header
    data: bytes

    @property
    def place(self) -> str:
        """Where the member is, for messages."""
        return f"{self.header.name} at byte {self.header.start:,}"


@dataclasses.dataclass
class Sample:
    """The files of one name.

    Attributes:
      key: the name.
      members: extension in lower case -> file, in order.
      doubled: a second file of an extension.
    """

    key: str
    members: dict[str, Member]
    doubled: Member | None = None

    @property
    def first(self) -> Member:
        """The first file."""
        return next(iter(self.members.values()))


def name_parts(name: str) -> tuple[str, str] | None:
    """Returns key and extension; ``None`` of a file of no row.

    Such a file is hidden, has no extension, or is WebDataset's own.
    """
    match = _PARTS.match(name)
    if match is None or _OWN.match(name) or _HIDDEN.search(name):
        return None
    return match[1], match[2].lower()


class Reading:
    """The samples of a range, read once.

    Attributes:
      crc32c: checksum of the headers and contents read so far.
    """

    def __init__(self, source: Source, byte_range: ByteRange, with_data: bool = True) -> None:
        self._source, self._range, self._with_data = source, byte_range, with_data
        self.crc32c = 0

    def samples(self) -> Iterator[Sample]:
        """Yields the samples that begin in the range.

        Raises:
          DataError: the archive is damaged, has a link or a device, the same key in two places, or
            is beyond a limit.
        """
        path, limits = self._range.file.path, self._source.limits
        start, end, is_whole = self._bounds()
        if start >= end:
            return
        compression = tar_compression(self._source, path)
        sample: Sample | None = None
        seen = Keys(path, limits)
        with files.open_read(path) as file, explained(path):
            if start:
                file.seek(start)
            seeks = compression == "none" and not self._with_data
            reader = TarReader(decompressed(file, path, compression, limits), start, seeks)
            for header in reader.headers():
                if header.start >= end and (sample is None or not _continues(header, sample)):
                    break
                parts = checked_parts(path, header)
                seen.count()
                if parts is None:
                    continue
                key, extension = parts
                if sample is not None and sample.key != key:
                    yield sample
                    sample = None
                if sample is None:
                    if is_whole:
                        seen.add(key, header)
                    sample = Sample(key, {})
                self._add(sample, extension, header, reader)
        if sample is not None:
            yield sample

    def _bounds(self) -> tuple[int, int, bool]:
        """Returns a range's offsets, and whether it is the whole file."""
        range_, size = self._range, self._range.file.size_bytes
        if range_.number_in_file == 0 and range_.end >= size:
            return 0, 1 << 62, True
        starts = starts_of(range_.file.path, self._source.limits)
        first = int(np.searchsorted(starts, range_.start))
        start = int(starts[first]) if first < len(starts) else 1 << 62
        return start, range_.end, False

    def _add(self, sample: Sample, extension: str, header: Header, reader: TarReader) -> None:
        most = self._source.limits.cell_bytes
        if header.size_bytes > most:
            found = f"a file of {header.size_bytes:,} bytes"
            where = f"{self._range.file.path}, {header.name} at byte {header.start:,}"
            raise DataError(f"{where}: {exceeded(self._source.limits, 'cell_bytes', found)}")
        data = reader.content(header) if self._with_data else b""
        self.crc32c = google_crc32c.extend(google_crc32c.extend(self.crc32c, header.raw), data)
        if extension in sample.members:
            sample.doubled = sample.doubled or Member(header, b"")
        else:
            sample.members[extension] = Member(header, data)


def _continues(header: Header, sample: Sample) -> bool:
    """Whether a file begins no row."""
    parts = name_parts(header.name)
    return parts is None or parts[0] == sample.key


def checked_parts(path: str, header: Header) -> tuple[str, str] | None:
    """Returns key and extension of a file; see ``name_parts``.

    Raises:
      DataError: it is a link or a device.
    """
    if not header.is_file:
        raise DataError(
            f"{path}, {header.name} at byte {header.start:,}: found a link or a device, expected "
            "plain files. Make the archive again."
        )
    return name_parts(header.name)


class Keys:
    """The keys of an archive; refuses repeated ones and too many files."""

    def __init__(self, path: str, limits: Limits) -> None:
        self._path, self._limits = path, limits
        self._seen: dict[str, int] = {}
        self._files = 0

    def count(self) -> None:
        """Counts a file.

        Raises:
          DataError: it is one too many.
        """
        self._files += 1
        if self._files > self._limits.archive_files:
            found = f"{self._files:,} files"
            raise DataError(f"{self._path}: {exceeded(self._limits, 'archive_files', found)}")

    def add(self, key: str, header: Header) -> None:
        """Notes the key of a new row.

        Raises:
          DataError: a row before has it.
        """
        before = self._seen.setdefault(key, header.start)
        if before != header.start:
            raise DataError(
                f"{self._path}, {header.name} at byte {header.start:,}: found the key '{key}' "
                f"again, which a row at byte {before:,} has, expected all files of a row one after "
                "the other. Make the archive again, sorted by name: 'tar --sort=name'."
            )


def starts_of(path: str, limits: Limits) -> npt.NDArray[np.int64]:
    """Returns the offsets at which rows begin, int64, ascending.

    Raises:
      DataError: as ``Reading.samples``.
    """
    status = os.stat(path)
    return _starts(path, limits, status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _starts(path: str, limits: Limits, _size: int, _modified: int) -> npt.NDArray[np.int64]:
    """Reads all headers of a local archive, once a process."""
    found: list[int] = []
    key, seen = None, Keys(path, limits)
    with files.open_read(path) as file, explained(path):
        for header in TarReader(file, seeks=True).headers():
            seen.count()
            parts = checked_parts(path, header)
            if parts is not None and parts[0] != key:
                key = parts[0]
                seen.add(key, header)
                found.append(header.start)
    return np.array(found, np.int64)


@contextlib.contextmanager
def explained(path: str) -> Iterator[None]:
    """Raises ``DataError`` for the errors of a damaged archive."""
    try:
        yield
    except (TarError, OSError, EOFError, pa.ArrowInvalid) as error:
        raise DataError(
            f"{path}: found a damaged archive, expected a whole tar file, compressed as its name "
            f"says: {error}. Get the file again."
        ) from error
