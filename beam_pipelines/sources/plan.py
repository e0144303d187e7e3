"""What is read, decided before it is read: the files of each source, their columns, and the ranges
they are cut into.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from beam_pipelines.core.limits import MIB
from beam_pipelines.core.pickling import PickledOnce
from beam_pipelines.core.sparse_columns import SparseColumns
from beam_pipelines.recipe.model import Source

# Large enough that Beam's price per element and Arrow's per batch vanish, small enough that two
# workers share a 30 MB file: see benchmarks/bench_stages.py.
RANGE_BYTES = 16 * MIB
# Files in one range at most, where small ones are read together: opening one takes tens of
# microseconds, if it lies near.
GATHERED_FILES = 4096
# Of more files than this, none of which would be cut, several are read together: a range costs some
# milliseconds, whatever is in it.
SEPARATE_FILES = 256


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """One input file as it was listed: its path, its size in bytes, when it was last written
    (seconds since 1970).

    A member of an archive is a file too: its path is the archive's, ``/``, and its name in there;
    ``archive`` is the archive's path, and else empty.
    """

    path: str
    size_bytes: int
    modified_secs: float = 0.0
    archive: str = ""


@dataclasses.dataclass(frozen=True)
class ByteRange:
    """A byte range of a file, which one task reads: [start, end), and the rows that begin in it.

    Ranges follow from the file sizes and ``RANGE_BYTES`` alone, never from the number of workers. A
    row (a CSV record, a Parquet row group, …) belongs to the range in which its first byte lies. A
    file that cannot be cut is one range.

    Attributes:
      number: number within the source, from 0, in order of files and bytes.
      number_in_file: number within the file, from 0.
      file: the file.
      members: positions (first, behind the last) in the source's files of those that are read
        together, whole, as small ones are; ``file`` is the first of them, and ``end`` the bytes of
        them all. (0, 0): it is ``file`` alone.
    """

    number: int
    number_in_file: int
    file: FileInfo
    start: int
    end: int
    members: tuple[int, int] = (0, 0)


@dataclasses.dataclass(frozen=True)
class SourcePlan(PickledOnce):
    """A source that is ready to be read.

    Attributes:
      source: the recipe's source.
      format: key of ``sources.FORMATS``.
      files: in order; at least one.
      read_schema: columns to read, with the types that the reader checks (``int8`` where the recipe
        says so).
      schema: the same columns as column types: what chunks have.
      ranges: in order.
      file_schema: the columns of the files as they lie there, read or not (names and order; nested
        fields nested).
      null_columns: columns in which the sample held nothing but nulls (typed as text).
      root: folder as seen from which rows name their files; empty where they do not.
      labels: class names of columns that are ids, as ``sources.format.Contents`` has them.
      sparse: which of the columns are sparse tensors.
    """

    source: Source
    format: str
    files: Sequence[FileInfo]
    read_schema: pa.Schema
    schema: pa.Schema
    ranges: tuple[ByteRange, ...]
    null_columns: tuple[str, ...] = ()
    file_schema: pa.Schema = pa.schema([])  # noqa: RUF009 (a schema is immutable)
    root: str = ""
    labels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sparse: tuple[SparseColumns, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, as they lie on disk."""
        return sum(file.size_bytes for file in self.files[:])

    @property
    def places(self) -> dict[str, int]:
        """Path of each file -> its place among them, from 0."""
        return {file.path: place for place, file in enumerate(self.files[:])}


def cut_ranges(
    files: tuple[FileInfo, ...], splittable: bool, range_bytes: int = RANGE_BYTES
) -> tuple[ByteRange, ...]:
    """Cuts files into ranges of ``range_bytes`` (the last of a file may be up to half as long
    again, or shorter).
    """
    ranges: list[ByteRange] = []
    for file in files:
        count = max(1, round(file.size_bytes / range_bytes)) if splittable else 1
        for number in range(count):
            end = file.size_bytes if number == count - 1 else (number + 1) * range_bytes
            ranges.append(ByteRange(len(ranges), number, file, number * range_bytes, end))
    return tuple(ranges)


def are_small(files: Sequence[FileInfo]) -> bool:
    """Whether files are so many and so small that they are to be read together."""
    return len(files) > SEPARATE_FILES and max(file.size_bytes for file in files) <= RANGE_BYTES


def gather_ranges(
    files: Sequence[FileInfo],
    groups: Sequence[int] = (),
    range_bytes: int = RANGE_BYTES,
    most: int = GATHERED_FILES,
) -> tuple[ByteRange, ...]:
    """Puts small files together: ranges of ``range_bytes`` and ``most`` files at most, or of one
    file that is larger.

    Args:
      files: of a source, in order.
      groups: a number for each file, if a range must not have files of different ones.
      range_bytes, most: see above.
    """
    ranges: list[ByteRange] = []
    start = size = 0
    for position, file in enumerate(files):
        is_full = size + file.size_bytes > range_bytes or position - start == most
        if position > start and (is_full or (groups and groups[position] != groups[start])):
            ranges.append(ByteRange(len(ranges), 0, files[start], 0, size, (start, position)))
            start, size = position, 0
        size += file.size_bytes
    if files:
        ranges.append(ByteRange(len(ranges), 0, files[start], 0, size, (start, len(files))))
    return tuple(ranges)
