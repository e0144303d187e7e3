"""What a format has to offer: how its columns are found, and how one range of it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.columns import concat_batches
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import MIB, exceeded
from beam_pipelines.core.sparse_columns import SparseColumns
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.plan import ByteRange, FileInfo, SourcePlan
from beam_pipelines.sources.text.quotes import Dialect

# A chunk has at most so many rows: narrow rows would otherwise make batches of millions.
MAX_CHUNK_ROWS = 131_072
# Where a format chooses the size of what it decodes at once, it aims at this many bytes.
CHUNK_BYTES = 16 * MIB

# Path of a file -> state of the quote automaton at the start of each of its ranges (csv_ranges.py).
QuoteStates = Mapping[str, bytes]


class Contents(NamedTuple):
    """What the files of a source hold, found at planning.

    Attributes:
      names: all column names, in file order, nested fields as ``a.b``.
      file_schema: see ``SourcePlan``.
      read_schema: the columns that the recipe selects, as the reader will check them; declared
        types applied.
      null_columns: selected columns in which the sample held nothing but nulls.
      labels: class names of int64 columns that are ids, where the source knows them: column ->
        names, by id.
      files: what is read, where that is not all that was listed: an archive's members, or files
        without those that go with them.
      root: folder as seen from which rows name their files; empty where they do not.
      sparse: columns that are sparse tensors together, whether they are selected or not.
    """

    names: tuple[str, ...]
    file_schema: pa.Schema
    read_schema: pa.Schema
    null_columns: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = {}
    files: tuple[FileInfo, ...] = ()
    root: str = ""
    sparse: tuple[SparseColumns, ...] = ()


class Rows(NamedTuple):
    """Some rows of a range, in order.

    Attributes:
      batch: the good rows, in the plan's ``schema``.
      rejected: the bad rows.
      crc32c: checksum of the range (see ``Chunk.crc32c``), on the last ``Rows`` of a range.
    """

    batch: pa.RecordBatch
    rejected: tuple[Rejected, ...] = ()
    crc32c: int | None = None


class Format(Protocol):
    """One file format. Stateless: a plan names it by its key in ``FORMATS``."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File name suffixes, in lower case, with the dot, without a compression's."""

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""

    def quoting(self, source: Source) -> Dialect | None:
        """Returns the dialect if line ends may lie inside quotes, so that a cut needs the quote
        states of its ranges.
        """

    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types.

        Raises:
          DataError: contents that cannot be read.
          RecipeProblems: a declared type that the format cannot read.
        """

    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range. Bad rows are left out and listed if ``reject``, else the first one
        raises.

        Raises:
          DataError: a bad row, or a file that is damaged or unlike the others.
        """


def problem(source: Source, key: str, message: str) -> Problem:
    """Returns a problem with one option of a source."""
    return Problem(("sources", source.name, key), message)


def check_columns(source: Source, path: str, number: int) -> None:
    """Raises ``DataError`` if a file has more columns than the limit."""
    if number > source.limits.columns:
        raise DataError(f"{path}: {exceeded(source.limits, 'columns', f'{number:,} columns')}")


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch without rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def combine(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of all batches as one; none makes an empty batch."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return empty_batch(schema)
    return filled[0] if len(filled) == 1 else concat_batches(filled)


def cut_rows(batch: pa.RecordBatch, rejected: tuple[Rejected, ...]) -> Iterator[Rows]:
    """Cuts a batch into ``Rows`` of at most ``MAX_CHUNK_ROWS``, without copying; the first one
    carries the rejected.
    """
    yield Rows(batch.slice(0, MAX_CHUNK_ROWS), rejected)
    for start in range(MAX_CHUNK_ROWS, batch.num_rows, MAX_CHUNK_ROWS):
        yield Rows(batch.slice(start, MAX_CHUNK_ROWS))
