"""The base class of formats: finds columns, and reads ranges."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from beam_pipelines.core.arrow.columns import concat_batches, empty_batch
from beam_pipelines.core.arrow.sparse_columns import SparseColumns
from beam_pipelines.core.chunks import Rejected
from beam_pipelines.core.errors import DataError, Problem
from beam_pipelines.core.limits import MIB, exceeded
from beam_pipelines.recipe.keys import FOUND, keys_of
from beam_pipelines.recipe.model import Source
from beam_pipelines.sources.options import NoOptions
from beam_pipelines.sources.plan import ByteRange, FileInfo, QuoteStates, SourcePlan
from beam_pipelines.sources.text.quotes import Dialect, Positions

# Most rows of a chunk: narrow rows would otherwise make batches of millions.
MAX_CHUNK_ROWS = 131_072
# Bytes that a format decodes at once, if it can choose.
CHUNK_BYTES = 16 * MIB
# Behind what differs between files of a source, in messages.
MUST_AGREE = (
    "Files of one source must agree: mend one, or make them two sources and a 'union' of both with "
    "'missing: fill'. 'init' of their folder, an archive unpacked, proposes the sources."
)


class Contents(NamedTuple):
    """Columns and files of a source, found at planning.

    Attributes:
      names: all column names, in file order, nested fields as ``a.b``.
      file_schema: see ``SourcePlan``.
      read_schema: the columns that the recipe selects, with the types that the reader checks;
        declared types applied.
      null_columns: selected columns that have only nulls in the sample.
      labels: column of ids (int64) -> labels by id, where the source knows them.
      files: the files to read, if they are not all that were listed: an archive's members, or
        arrays without their files of labels.
      root: folder from which rows name their files; empty where they do not.
      sparse: columns that are sparse tensors together, whether they are selected or not.
      source: the source with the options that the files show, where the recipe does not say them;
        ``None``: as it is.
      decisions: see ``SourcePlan``.
      images: columns that the source's own schema calls images.
      steps: columns that are feature lists in the records.
    """

    names: tuple[str, ...]
    file_schema: pa.Schema
    read_schema: pa.Schema
    null_columns: tuple[str, ...] = ()
    labels: Mapping[str, tuple[str, ...]] = {}
    files: tuple[FileInfo, ...] = ()
    root: str = ""
    sparse: tuple[SparseColumns, ...] = ()
    source: Source | None = None
    decisions: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()


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


class Position(NamedTuple):
    """Where a row is, for messages.

    Attributes:
      file: path of the file.
      place: ``line 48112``, ``row 17`` where there are no lines, empty where the file is the row.
      text: text of the row; empty if it has none.
    """

    file: str
    place: str
    text: str


class Format(abc.ABC):
    """One file format.

    It has no state: a plan names it by its key in ``FORMATS``. A format defines ``suffixes``,
    ``infer`` and ``read``, and overrides the defaults that do not fit. Text formats derive from
    ``text.format.TextFormat`` instead.

    Attributes:
      suffixes: file name suffixes in lower case, with the dot, without a compression's; may be
        empty.
      infers_types: whether types are inferred from values, because files do not have them.
      reads_nulls: whether the texts of ``nulls`` mean null where no recipe has them.
      has_lines: whether rows are lines, so that a file's first bytes are its first rows.
      judges_cells: whether it finds itself how cells are written, as all of them are texts.
      has_arrays: whether values may be arrays, so that a column may be declared ``tensor``.
      is_compressed: whether files are often compressed inside, for estimates of sizes.
      is_file_a_row: whether each file is a row. A path may then be a folder, an empty file is a bad
        row, and a range is a run of files.
      checks_images: whether images are decoded when they are read.
      reads_archives: whether the format itself lists the files in an archive.
      rounds_sparse: whether values of sparse tensors are texts, read as the nearest float32.
      has_files: whether rows are in the files of ``SourcePlan.files``, and not in a server.
      Options: dataclass of ``recipe_key`` fields, keys of a source that only this format and its
        relatives have; ``Source.options_of`` returns one. A field has the name of its key.
      is_kept: whether rows are read before the job, and kept in files (``keep``).
    """

    suffixes: tuple[str, ...]
    infers_types = False
    has_lines = False
    reads_nulls = False
    judges_cells = False
    has_arrays = False
    is_compressed = False
    is_file_a_row = False
    checks_images = False
    reads_archives = False
    is_kept = False
    rounds_sparse = False
    has_files = True
    Options: ClassVar[Any] = NoOptions

    @property
    def options(self) -> tuple[str, ...]:
        """Keys of a source that only this format and its relatives have."""
        return tuple(keys_of(self.Options))

    def check(self, source: Source) -> list[Problem]:
        """Returns the options of the source that the format cannot honour."""
        return []

    def paths_of(self, source: Source) -> Mapping[str, tuple[str, ...]]:
        """Returns key -> paths of other files that the options name."""
        return {}

    def placed(self, source: Source, place: Callable[[str], str]) -> Source:
        """Returns the source with other paths in its options.

        Args:
          source: of the recipe.
          place: makes a path absolute.
        """
        return source

    def has_own_names(self, source: Source) -> bool:
        """Whether files name their columns, so that ``columns`` selects some."""
        return True

    def member_of(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[SourcePlan, ByteRange]:
        """Returns the source that a range is of, and the range there."""
        return plan, byte_range

    def found_of(self, source: Source) -> dict[str, Any]:
        """Returns the options whose values files show."""
        shown = [field for field, key in keys_of(self.Options).items() if key.default == FOUND]
        options = source.options_of(self.Options)
        return {field: getattr(options, field) for field in shown}

    def splittable(self, source: Source, path: str) -> bool:
        """Whether a file can be cut into ranges."""
        return False

    def quoting(self, source: Source) -> Dialect | None:
        """Returns the dialect if line ends may be inside quotes.

        A cut then needs the quote states of its ranges.
        """
        return None

    @abc.abstractmethod
    def infer(self, source: Source, files: tuple[FileInfo, ...]) -> Contents:
        """Finds columns and types.

        Raises:
          DataError: contents that cannot be read.
          RecipeProblems: a declared type that the format cannot read.
        """

    def pin(
        self, source: Source, types: Mapping[str, str], labels: Mapping[str, tuple[str, ...]]
    ) -> Source:
        """Returns the source with the types or labels that a dataset has.

        New data is then read as the dataset's was.

        Args:
          source: of the recipe.
          types: column -> type that was read.
          labels: see ``Contents``.
        """
        if not self.infers_types:
            return source
        pinned = dataclasses.replace(source, types={**types, **source.types}, infer="sample")
        return pinned.with_planning(pinned=frozenset(types.keys() - source.types.keys()))

    def keep(
        self,
        plans: Mapping[str, SourcePlan],
        limits: Mapping[str, int],
        folder: str,
        note_rows: Callable[[int], None],
    ) -> dict[str, SourcePlan]:
        """Reads rows before the job, and returns plans of them.

        Args:
          plans: of sources of this kind, by name.
          limits: source -> number of its first rows; all of the others.
          folder: for the files.
          note_rows: is told how many rows came.

        Raises:
          DataError: rows cannot be read.
        """
        raise NotImplementedError

    def store(self, plan: SourcePlan, folder: str) -> SourcePlan:
        """Returns the plan with what workers read from a folder stored there."""
        return plan

    @abc.abstractmethod
    def read(
        self, plan: SourcePlan, byte_range: ByteRange, quote_states: QuoteStates, reject: bool
    ) -> Iterator[Rows]:
        """Reads one range.

        Args:
          plan: plan of the source.
          byte_range: one of its ranges.
          quote_states: of the files that are cut into ranges, if ``quoting`` asks for them.
          reject: leaves bad rows out and lists them, instead of raising at the first one.

        Raises:
          DataError: a bad row, or a file that is damaged or unlike the others.
        """

    def read_together(
        self, plan: SourcePlan, some: Sequence[FileInfo]
    ) -> tuple[pa.RecordBatch, list[int]] | None:
        """Reads small files in one go, if the format can.

        Returns:
          The rows, and the CRC-32C of each file; ``None`` if the files have to be read one by one.
        """
        return None

    def companions(self, plan: SourcePlan) -> Iterator[str]:
        """Yields the paths of other files that are read, such as labels."""
        yield from ()

    def positions(
        self,
        plan: SourcePlan,
        byte_range: ByteRange,
        quote_states: QuoteStates,
        rejected: Sequence[Rejected],
        rows: Sequence[int],
    ) -> list[Position]:
        """Finds rows of a range in their file, for messages.

        Args:
          plan, byte_range, quote_states: as ``read`` takes them.
          rejected: bad rows of the range, which ``rows`` does not count.
          rows: numbers of good rows within the range, from 0, ascending.
        """
        word, first = self.numbering(plan, byte_range)
        numbers = skip_rows(first + np.asarray(rows, np.int64), np.sort(row_numbers(rejected)))
        path = byte_range.file.path
        return [Position(path, f"{word} {number}", "") for number in numbers.tolist()]

    def numbering(self, plan: SourcePlan, byte_range: ByteRange) -> tuple[str, int]:
        """Returns the word for a row, and a range's first row number.

        The number counts in the file, from 0 or 1 as messages do.
        """
        return "row", 1


class Planner(abc.ABC):
    """Plans sources whose rows are no list of files, such as tables.

    Attributes:
      Options: see ``Format``.
    """

    Options: ClassVar[Any] = NoOptions

    @abc.abstractmethod
    def plan(self, source: Source, directory: str) -> tuple[SourcePlan, Contents]:
        """Plans a source; its ranges may be left to be cut.

        Args:
          source: of the recipe.
          directory: where relative paths start.

        Raises:
          RecipeProblems: the recipe does not fit the table.
          DataError: the table cannot be read.
        """

    def check(self, source: Source) -> list[Problem]:
        """Returns the keys of the source that do not fit."""
        return []


def row_numbers(rejected: Sequence[Rejected]) -> Positions:
    """Returns the numbers of rows, or lines, in their file."""
    return np.array([int(bad.position.rpartition(" ")[2]) for bad in rejected], np.int64)


def skip_rows(numbers: Positions, left_out: Positions) -> Positions:
    """Renumbers rows that were counted without those left out.

    Args:
      numbers, left_out: int64, ascending.
    """
    kept_before = left_out - np.arange(len(left_out))
    skipped: Positions = numbers + np.searchsorted(kept_before, numbers, "right")
    return skipped


def problem(source: Source, key: str, message: str) -> Problem:
    """Returns a problem with one option of a source."""
    return Problem(("sources", source.name, key), message)


def check_columns(source: Source, path: str, number: int) -> None:
    """Raises ``DataError`` if a file has more columns than the limit."""
    if number > source.limits.columns:
        raise DataError(f"{path}: {exceeded(source.limits, 'columns', f'{number:,} columns')}")


def combine(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Returns the rows of all batches as one batch."""
    filled = [batch for batch in batches if batch.num_rows]
    if not filled:
        return empty_batch(schema)
    return filled[0] if len(filled) == 1 else concat_batches(filled)


def cut_rows(batch: pa.RecordBatch, rejected: tuple[Rejected, ...]) -> Iterator[Rows]:
    """Cuts a batch into ``Rows`` of at most ``MAX_CHUNK_ROWS``, without copying.

    The first ``Rows`` have the rejected rows.
    """
    yield Rows(batch.slice(0, MAX_CHUNK_ROWS), rejected)
    for start in range(MAX_CHUNK_ROWS, batch.num_rows, MAX_CHUNK_ROWS):
        yield Rows(batch.slice(start, MAX_CHUNK_ROWS))
