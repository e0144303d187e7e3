"""The plan of a source: files, columns, and byte ranges."""

from __future__ import annotations

import array
import bisect
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from beam_pipelines.core.arrow.sparse_columns import SparseColumns
from beam_pipelines.core.errors import masked_repr
from beam_pipelines.core.limits import MIB
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.recipe.model import Source

if TYPE_CHECKING:
    from beam_pipelines.sql.expressions import Expression

# Large enough that Beam's price per element and Arrow's per batch vanish, small enough that two
# workers share a 30 MB file: see benchmarks/bench_stages.py.
RANGE_BYTES = 16 * MIB
# Most files in one range, where small ones are read together: opening a local one takes tens of
# microseconds.
GATHERED_FILES = 4096
# More files than this are read together, if none would be cut: a range costs some milliseconds,
# however small.
SEPARATE_FILES = 256


@masked_repr
@dataclasses.dataclass(frozen=True)
class FileInfo:
    """One input file, as it was listed.

    Attributes:
      path: of the file; of an archive's member, the archive's path, ``/``, and the name in it.
      size_bytes: size of the file or member.
      modified_secs: when it was last written, in seconds since 1970.
      archive: path of the archive of a member; else empty.
      note: which of a lakehouse table's files it is; else empty.
    """

    path: str
    size_bytes: int
    modified_secs: float = 0.0
    archive: str = ""
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ByteRange:
    """A byte range [start, end) of a file, which one task reads.

    Ranges follow from the file sizes and ``RANGE_BYTES`` alone, never from the number of workers. A
    row (a CSV record, a Parquet row group, …) belongs to the range that has its first byte. A file
    that cannot be cut is one range.

    Attributes:
      number: number within the source, from 0, in order of files and bytes.
      number_in_file: number within the file, from 0.
      file: the file.
      members: positions [first, end) in the source's files of small files that are read together,
        whole; ``file`` is then the first of them, and ``end`` the bytes of them all. (0, 0): only
        ``file`` is read.
    """

    number: int
    number_in_file: int
    file: FileInfo
    start: int
    end: int
    members: tuple[int, int] = (0, 0)


# Path of a file -> state of the quote automaton (text/quotes.py) at the start of each range.
QuoteStates = Mapping[str, bytes]


class Snapshot(NamedTuple):
    """The state of a table that a source was read at.

    Attributes:
      id: of a database's server, or of a lakehouse's log.
      rows: count of its rows by the server or the log; ``None``: a query may give other rows each
        time, or the log does not say.
      table: id of a lakehouse's table; else empty.
    """

    id: str
    rows: int | None
    table: str = ""


@dataclasses.dataclass(frozen=True)
class SourcePlan(PickledOnce):
    """A source that is ready to be read.

    Attributes:
      source: the recipe's source, with the options that its files show.
      format: key of ``sources.FORMATS``.
      files: in order; at least one.
      read_schema: columns to read, with the types that the reader checks (``int8`` where the recipe
        says so).
      schema: the same columns as column types, and derived ones, which chunks have.
      ranges: in order.
      file_schema: the columns of the files, read or not (names and order; nested fields nested).
      null_columns: columns that have only nulls in the sample (typed as text).
      root: folder from which rows name their files; empty where they do not.
      labels: labels of columns that are ids, as in ``sources.format.Contents``.
      sparse: columns that are sparse tensors.
      decisions: what the files show and the recipe does not say, one a line, mostly as the option
        that says it.
      images: columns of images that are decoded to check them.
      steps: columns that are feature lists in the records.
      snapshot: of a database whose rows are kept, or of a lakehouse's table; else ``None``.
      private: columns of the recipe whose values no message shows.
      derive: columns that are made of those that are read (``derived.with_derived``).
      reader: the format, which workers may not have registered; ``sources.format_of`` returns it.
    """

    source: Source
    format: str
    files: Sequence[FileInfo]
    read_schema: pa.Schema
    schema: pa.Schema
    ranges: Sequence[ByteRange]
    null_columns: tuple[str, ...] = ()
    file_schema: pa.Schema = pa.schema([])  # noqa: RUF009 (a schema is immutable)
    root: str = ""
    labels: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sparse: tuple[SparseColumns, ...] = ()
    decisions: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    derive: tuple[Expression, ...] = ()
    private: tuple[str, ...] = ()
    reader: object | None = dataclasses.field(default=None, compare=False)

    @property
    def as_read(self) -> SourcePlan:
        """The plan without derived columns, as formats take it."""
        if not self.derive:
            return self
        derived = {expression.name for expression in self.derive}
        schema = pa.schema([field for field in self.schema if field.name not in derived])
        return dataclasses.replace(self, schema=schema, derive=())

    @property
    def size_bytes(self) -> int:
        """Bytes of all files on disk."""
        return sum(file.size_bytes for file in self.files[:])

    @property
    def places(self) -> dict[str, int]:
        """Path of each file -> its number among them, from 0."""
        return {file.path: place for place, file in enumerate(self.files[:])}


@dataclasses.dataclass(frozen=True)
class CutRanges(Sequence[ByteRange]):
    """The ranges of files, each made when it is asked for.

    100 TB have six million, which would take gigabytes.

    Attributes:
      files: in order.
      ends: for each file, the number of ranges up to its end.
      range_bytes: of a range, but for the last one of its file.
    """

    files: Sequence[FileInfo]
    ends: array.array[int]
    range_bytes: int

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __iter__(self) -> Iterator[ByteRange]:
        first = 0
        for file, end in zip(self.files, self.ends, strict=True):
            for number in range(first, end):
                yield self._range(file, number, first, end)
            first = end

    def __getitem__(self, index: Any) -> Any:
        number = range(len(self))[index]
        if isinstance(number, range):
            return tuple(map(self.__getitem__, number))
        place = bisect.bisect_right(self.ends, number)
        first = self.ends[place - 1] if place else 0
        return self._range(self.files[place], number, first, self.ends[place])

    def _range(self, file: FileInfo, number: int, first: int, end: int) -> ByteRange:
        start = (number - first) * self.range_bytes
        stop = file.size_bytes if number + 1 == end else start + self.range_bytes
        return ByteRange(number, number - first, file, start, stop)


def cut_ranges(
    files: Sequence[FileInfo],
    splittable: Callable[[FileInfo], bool],
    range_bytes: int = RANGE_BYTES,
) -> CutRanges:
    """Cuts files into ranges of ``range_bytes``.

    The last range of a file may be up to half as long again, or shorter.

    Args:
      files: in order.
      splittable: whether a file can be cut; a small one is not asked about, as an answer may need a
        request to an object store.
      range_bytes: of a range.
    """
    counts = (max(1, round(file.size_bytes / range_bytes)) for file in files)
    cut = (
        count if count == 1 or splittable(file) else 1
        for file, count in zip(files, counts, strict=True)
    )
    return CutRanges(files, array.array("q", itertools.accumulate(cut)), range_bytes)


def are_small(files: Sequence[FileInfo]) -> bool:
    """Whether files are many and small, so that they are read together."""
    return len(files) > SEPARATE_FILES and max(file.size_bytes for file in files) <= RANGE_BYTES


def gather_ranges(
    files: Sequence[FileInfo],
    groups: Sequence[int] = (),
    range_bytes: int = RANGE_BYTES,
    most: int = GATHERED_FILES,
) -> tuple[ByteRange, ...]:
    """Puts small files together in ranges.

    A range has at most ``range_bytes`` and ``most`` files; a file larger than ``range_bytes`` is a
    range of its own.

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
