"""Reads, joins, selects, groups and splits rows without a Beam pipeline.

A conversion runs the same functions as the PTransforms of ``pipeline/read_splits.py``. Here one
generator chains them, for previews, for offending rows, and for a debugger::

    chunks = read_range(plan.base, byte_range, quote_states={}, reject=False)
    for chunk in split_rows(plan, chunks, lambda step, _: load_index(step, reject=False)):
        print(chunk.split, chunk.batch.to_pylist())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from beam_pipelines.core.chunks import Chunk
from beam_pipelines.pipeline.planning.plan import Plan
from beam_pipelines.transforms.base_filter import joinable
from beam_pipelines.transforms.group import group_batch
from beam_pipelines.transforms.join.index import JoinIndex
from beam_pipelines.transforms.join.join import join_chunk
from beam_pipelines.transforms.join.plan import JoinStep
from beam_pipelines.transforms.read import number_rows
from beam_pipelines.transforms.reject import Checks, select_good
from beam_pipelines.transforms.select import select_chunk
from beam_pipelines.transforms.split import split_chunk
from beam_pipelines.transforms.take import take_chunks

IndexOf = Callable[[JoinStep, Chunk], JoinIndex | None]
# Is told of a chunk before it is selected, with the errors of its bad rows by ``ROW``.
Note = Callable[[Chunk, Mapping[int, Exception]], None]


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
    numbered = number_rows(chunks)
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
    added = [step.schema.field(name) for _, name in step.added]
    batch = chunk.batch
    arrays = [*batch.columns, *(pa.nulls(batch.num_rows, field.type) for field in added)]
    schema = pa.schema([*batch.schema, *added])
    return chunk._replace(batch=pa.RecordBatch.from_arrays(arrays, schema=schema))
