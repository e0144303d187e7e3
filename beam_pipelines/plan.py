"""What is read, decided before it is read: the files of each source, their columns, and the ranges they are cut into."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from beam_pipelines.recipe import MIB, Source

# Large enough that Beam's price per element and Arrow's per batch vanish, small enough that two workers share a
# 30 MB file: see benchmarks/bench_stages.py.
RANGE_BYTES = 16 * MIB


@dataclasses.dataclass(frozen=True)
class FileInfo:
    """One input file as it was listed: its path, its size in bytes, when it was last written (seconds since 1970)."""

    path: str
    size_bytes: int
    modified_secs: float = 0.0


@dataclasses.dataclass(frozen=True)
class Range:
    """The piece of a source that one task reads: bytes [start, end) of one file, or what begins in them.

    Ranges follow from the file sizes and ``RANGE_BYTES`` alone, never from the number of workers. A row (a CSV record, a
    Parquet row group, …) belongs to the range in which its first byte lies. A file that cannot be cut is one range.

    Attributes:
      number: number within the source, from 0, in order of files and bytes.
      chunk: number within the file, from 0.
      file: the file.
    """

    number: int
    chunk: int
    file: FileInfo
    start: int
    end: int


@dataclasses.dataclass(frozen=True)
class SourcePlan:
    """A source that is ready to be read.

    Attributes:
      source: the recipe's source.
      format: key of ``sources.FORMATS``.
      files: in order; at least one.
      read_schema: columns to read, with the types that the reader checks (``int8`` where the recipe says so).
      schema: the same columns as column types: what pieces have.
      ranges: in order.
      file_schema: the columns of the files as they lie there, read or not (names and order; nested fields nested).
      null_columns: columns in which the sample held nothing but nulls (typed as text).
    """

    source: Source
    format: str
    files: tuple[FileInfo, ...]
    read_schema: pa.Schema
    schema: pa.Schema
    ranges: tuple[Range, ...]
    null_columns: tuple[str, ...] = ()
    file_schema: pa.Schema = pa.schema([])  # noqa: RUF009 (a schema is immutable)

    @property
    def size_bytes(self) -> int:
        """Bytes of all files, as they lie on disk."""
        return sum(file.size_bytes for file in self.files)


def cut_ranges(files: tuple[FileInfo, ...], splittable: bool, range_bytes: int = RANGE_BYTES) -> tuple[Range, ...]:
    """Cuts files into ranges of ``range_bytes`` (the last of a file may be up to half as long again, or shorter)."""
    ranges: list[Range] = []
    for file in files:
        chunks = max(1, round(file.size_bytes / range_bytes)) if splittable else 1
        for chunk in range(chunks):
            end = file.size_bytes if chunk == chunks - 1 else (chunk + 1) * range_bytes
            ranges.append(Range(len(ranges), chunk, file, chunk * range_bytes, end))
    return tuple(ranges)
