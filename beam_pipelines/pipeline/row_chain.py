"""Reads, joins, selects, groups and splits rows without a Beam pipeline.

A conversion runs the same functions as the PTransforms of ``pipeline/read_splits.py``. Here one
object chains them, for previews, for estimates, for offending rows, and for a debugger::

    for chunk in RowChain(plan).split(byte_range):
        print(chunk.split, chunk.batch.to_pylist())
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from beam_pipelines.core.arrow.key_index import NO_KEY, find_keys, index_keys
from beam_pipelines.core.chunks import Chunk, Rejected
from beam_pipelines.joins.index import JoinIndex, build_index
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.sources.plan import ByteRange
from beam_pipelines.transforms import read
from beam_pipelines.transforms.group import group_batch
from beam_pipelines.transforms.join.join import join_chunk, load_index
from beam_pipelines.transforms.join.plan import BROADCAST_LIMIT_BYTES, JoinStep
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines.transforms.select.reject import Checks, select_good
from beam_pipelines.transforms.select.select import joinable, select_chunk
from beam_pipelines.transforms.split.split import split_chunk
from beam_pipelines.transforms.take import take_chunks

IndexOf = Callable[[JoinStep, Chunk], JoinIndex | None]
# Is told of a chunk before it is selected, with the errors of its bad rows by ``ROW``.
Note = Callable[[Chunk, Mapping[int, Exception]], None]


class RowChain:
    """Reads byte ranges of a source; keeps scans and indexes between.

    Attributes:
      read_bytes: of the sources.
      read_rows, read_chunks: of the base source.
      bad_row: the first row of the base source that cannot be read.
      omitted: joined sources that count as null.
    """

    def __init__(self, plan: Plan, reject: bool | None = None, skips_large: bool = False) -> None:
        """Takes a plan.

        Args:
          plan: of the conversion, as in ``split_rows``.
          reject: whether rows that cannot be read are left out; by default as the recipe says.
          skips_large: whether the columns of large right sources count as null. Else such a source
            is read for each chunk.
        """
        self.plan = plan
        self.read_bytes = self.read_rows = self.read_chunks = 0
        self.bad_row: Rejected | None = None
        self.omitted = [
            step.join.source
            for step in plan.joins.steps
            if skips_large and step.size_bytes > BROADCAST_LIMIT_BYTES
        ]
        self._reject = plan.recipe.rejects if reject is None else reject
        self._skips_large = skips_large
        self._indexes: dict[int, JoinIndex] = {}

    @functools.cached_property
    def positions(self) -> RowPositions:
        """Finds rows of the base source; Beam's own rows have none."""
        return RowPositions(self.plan.base)

    def select(self, byte_range: ByteRange, note: Note | None = None) -> Iterator[Chunk]:
        """Reads a range, joins and selects its rows as ``select_chunks``."""
        return select_chunks(self.plan, self._read(byte_range), self._index, note)

    def split(self, byte_range: ByteRange) -> Iterator[Chunk]:
        """Reads a range, and yields its rows by split as ``split_rows``."""
        return split_rows(self.plan, self._read(byte_range), self._index)

    def _read(self, byte_range: ByteRange) -> Iterator[Chunk]:
        states = self.positions.quote_states(byte_range)
        self.read_bytes += byte_range.end - byte_range.start
        for chunk in read.read_range(self.plan.base, byte_range, states, self._reject):
            self.read_rows += chunk.batch.num_rows
            self.read_chunks += 1
            self.bad_row = self.bad_row or next(iter(chunk.rejected), None)
            yield chunk

    def _index(self, step: JoinStep, chunk: Chunk) -> JoinIndex | None:
        """Returns an index of all right rows that a chunk can match."""
        if step.join.source in self.omitted:
            return None
        if step.strategy == "broadcast" or self._skips_large:
            if step.number not in self._indexes:
                self._indexes[step.number] = load_index(step, self._reject)
            return self._indexes[step.number]
        source = step.source_plan
        positions = RowPositions(source)
        keys = index_keys([chunk.batch.column(name) for name in step.join.left_on])
        self.read_bytes += source.size_bytes
        batches = []
        for byte_range in source.ranges:
            states = positions.quote_states(byte_range)
            for right in read.read_range(source, byte_range, states, self._reject):
                columns = [right.batch.column(name) for name in step.join.right_on]
                batches.append(right.batch.filter(pa.array(find_keys(keys, columns) != NO_KEY)))
        return build_index(pa.Table.from_batches(batches, source.schema), step.join, step.added)


def split_rows(plan: Plan, chunks: Iterable[Chunk], index_of: IndexOf) -> Iterator[Chunk]:
    """Joins, selects, groups and splits the chunks of one byte range.

    Args:
      plan: of the conversion. Rows are grouped within each chunk only. If ``plan.select`` is
        ``numbered``, the chunks keep the column ``ROW``.
      chunks: of the byte range, in order, as ``read_range`` yields them.
      index_of: returns an index of the right rows that a chunk can match; ``None``: the columns
        that the join adds are null.

    Yields:
      For each chunk and each split with rows, a ``Chunk`` of these rows. Rejected rows are left
      out.

    Raises:
      DataError: an expression has no value for a row, and the recipe rejects no rows; or a row
        fits no split.
    """
    for chunk in select_chunks(plan, chunks, index_of):
        batch = chunk.batch if plan.groups is None else group_batch(chunk.batch, plan.groups)
        for part in split_chunk(plan.split, chunk._replace(batch=batch)):
            if isinstance(part, Chunk):
                yield part


def select_chunks(
    plan: Plan, chunks: Iterable[Chunk], index_of: IndexOf, note: Note | None = None
) -> Iterator[Chunk]:
    """Joins and selects the chunks of one byte range.

    Args:
      plan, chunks, index_of: as in ``split_rows``.
      note: is told of bad rows, which are then left out, and no error.
    """
    numbered = read.number_rows(chunks)
    for chunk in numbered if plan.take is None else take_chunks(plan.take, numbered):
        yield _select(plan, chunk, index_of, note)


def _select(plan: Plan, chunk: Chunk, index_of: IndexOf, note: Note | None) -> Chunk:
    if (first := plan.base_filter) is not None:
        chunk = joinable(_select_by(plan, Checks(first.numbered(), None), chunk, note), first)
    for step in plan.joins.steps:
        index = index_of(step, chunk)
        chunk = _add_nulls(chunk, step) if index is None else join_chunk(chunk, step, index)
    return _select_by(plan, plan.checks, chunk, note)


def _select_by(plan: Plan, checks: Checks, chunk: Chunk, note: Note | None) -> Chunk:
    if plan.recipe.rejects or note is not None:
        selected, bad = select_good(chunk, checks)
        if bad and note is not None:
            note(chunk, bad)
        return selected
    return select_chunk(chunk, checks.select)


def _add_nulls(chunk: Chunk, step: JoinStep) -> Chunk:
    """Adds the columns of a join to a chunk, all null."""
    added = [step.schema.field(name) for _, name in step.made]
    batch = chunk.batch
    arrays = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in added)]
    schema = pa.schema([*batch.schema, *added])
    return chunk._replace(batch=pa.RecordBatch.from_arrays(arrays, schema=schema))
