"""Groups rows by key: columns of a key's rows become lists.

Rows go once through an exchange to the partition of their key's hash; each partition is grouped in
memory. The groups get addresses of their own: ranges after the base source's, one for each
partition. The row counts of the input chunks keep the chunks' addresses, without rows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import partial

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core import _native
from beam_pipelines.core.arrow.columns import empty_batch, has_lists_as_steps, take_rows, type_name
from beam_pipelines.core.arrow.ipc import unpack
from beam_pipelines.core.arrow.key_index import index_keys
from beam_pipelines.core.arrow.python_values import python_rows, python_value
from beam_pipelines.core.chunks import Chunk
from beam_pipelines.core.errors import DataError, Problem, RecipeProblems, nearest_column
from beam_pipelines.core.limits import MIB
from beam_pipelines.core.process.pickling import PickledOnce
from beam_pipelines.joins.index import table_batch
from beam_pipelines.recipe.model import Recipe
from beam_pipelines.recipe.sections import Sequences
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sql.database import not_null_line
from beam_pipelines.transforms.exchange import Message, Received
from beam_pipelines.transforms.join.plan import plain_bytes
from beam_pipelines.transforms.meet import MeetByKey, cut_by_key, send_counts, send_rows

# Plain bytes of the base source in one partition, which is grouped in memory.
PARTITION_BYTES = 32 * MIB
# Arrow data of a chunk; a reader's chunks are about as large.
CHUNK_BYTES = 16 << 20
_SHOWN_CHARACTERS = 200
Rows = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class GroupPlan(PickledOnce):
    """A grouping that is ready to run.

    Attributes:
      source: the base source's name, for messages.
      by: key columns.
      order_by: columns that order the rows of a key.
      context: columns with one value for all rows of a key, the key columns first.
      lists: the other columns, which become lists.
      max_length: rows of a sequence at most, or ``None``.
      partitions: of the rows.
      schema: the columns after the grouping, in the same order.
    """

    source: str
    by: tuple[str, ...]
    order_by: tuple[str, ...]
    context: tuple[str, ...]
    lists: tuple[str, ...]
    max_length: int | None
    partitions: int
    schema: pa.Schema


def plan_groups(recipe: Recipe, base: SourcePlan, schema: pa.Schema) -> GroupPlan | None:
    """Plans the grouping; ``None`` if the recipe groups nothing.

    Args:
      schema: columns of the rows.

    Raises:
      RecipeProblems: columns are unknown, or of a type that cannot be grouped.
    """
    sequence = recipe.sequence
    if sequence is None or not sequence.group_by:
        return None
    problems = list(_group_problems(recipe, sequence, schema))
    if problems:
        raise RecipeProblems(problems)
    context = (
        *sequence.group_by,
        *(name for name in sequence.context if name not in sequence.group_by),
    )
    whole = set(context)
    lists = tuple(name for name in schema.names if name not in whole)
    fields = [
        field if field.name in whole else pa.field(field.name, pa.list_(field.type))
        for field in schema
    ]
    partitions = max(1, math.ceil(plain_bytes(base) / PARTITION_BYTES))
    return GroupPlan(
        base.source.name,
        sequence.group_by,
        sequence.order_by,
        context,
        lists,
        sequence.max_length,
        partitions,
        pa.schema(fields),
    )


def _group_problems(recipe: Recipe, sequence: Sequences, schema: pa.Schema) -> Iterator[Problem]:
    known = set(schema.names)
    for key in ("group_by", "order_by", "context"):
        for name in getattr(sequence, key):
            if name not in known:
                yield Problem(
                    ("sequence", key),
                    f"unknown column '{name}'.{nearest_column(name, schema.names)}",
                )
    for key in ("group_by", "order_by"):
        for name in getattr(sequence, key):
            if name in known and pa.types.is_list(schema.field(name).type):
                yield Problem(
                    ("sequence", key),
                    f"column '{name}' is {type_name(schema.field(name).type)}, expected one value "
                    "in a row.",
                )
    for field in schema:
        if has_lists_as_steps(field.type) and field.name not in sequence.context:
            yield Problem(
                ("sequence", "group_by"),
                f"column '{field.name}' is {type_name(field.type)}, expected a value or a list in "
                "a row, which becomes a step. Leave it out with 'drop'.",
            )
    if recipe.split.files:
        yield Problem(
            ("sequence", "group_by"),
            "found a split by files, but a group may have rows of several files.",
        )


def send_rows_of(chunk: Chunk, plan: GroupPlan, first: int) -> Message:
    """Sends the rows of a chunk to the partitions of their keys.

    They keep their order.

    Args:
      first: number of the first partition.

    Raises:
      DataError: a null in a column to group or to order by.
    """
    for key, names in (("group_by", plan.by), ("order_by", plan.order_by)):
        for name in names:
            _check_no_null(chunk, name, key)
    parts = cut_by_key(chunk.batch, plan.by, plan.partitions)
    return send_rows((1, *chunk[:2]), {first + part: batch for part, batch in parts.items()})


def _check_no_null(chunk: Chunk, name: str, key: str) -> None:
    column = chunk.batch.column(name)
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        shown = str(python_rows(chunk.batch.slice(row, 1))[0])[:_SHOWN_CHARACTERS]
        raise DataError(
            f"{chunk.path}, column '{name}': found null in {column.null_count:,} rows of a chunk, "
            f"the first one {shown}, expected a "
            f"value in every row, because the sequence's '{key}' names it. Leave such rows out "
            f"with '{not_null_line(name)}'."
        )


def send_to_all(schema: pa.Schema, first: int, partitions: int) -> Message:
    """Sends no rows to every partition, so that each receives a message."""
    empty = empty_batch(schema)
    return send_rows((2, 0, 0), dict.fromkeys(range(first, first + partitions), empty))


def group_partition(received: Received, plan: GroupPlan, first: int) -> Iterator[Chunk]:
    """Yields the chunks of one partition or input range.

    A partition yields its groups; an input range yields its row counts, without rows.
    """
    packed = (item for payload in received.payloads() for item in unpack(payload))
    if received.partition < first:
        empty = empty_batch(plan.schema)
        for _, about in packed:
            yield Chunk.of(received.partition, empty, about)
        return
    rows = table_batch(pa.Table.from_batches([item.batch for item in packed]))
    groups = group_batch(rows, plan)
    merged = rows.num_rows - groups.num_rows
    size = math.ceil(groups.num_rows / max(1, math.ceil(groups.nbytes / CHUNK_BYTES))) or 1
    path = f"{plan.source}, grouped by {', '.join(plan.by)}"
    for part, start in enumerate(range(0, max(1, groups.num_rows), size)):
        counts = {"merged": 0 if part else merged}
        yield Chunk(received.partition, part, groups.slice(start, size), counts, path=path)


def group_batch(rows: pa.RecordBatch, plan: GroupPlan) -> pa.RecordBatch:
    """Groups rows by key.

    Args:
      rows: without a null in a key. Their order gives the order of groups, by their first rows, and
        of tied rows.
      plan: of the grouping.

    Returns:
      A batch of ``plan.schema``: one row for each group, or for each ``max_length`` rows of a
        group.

    Raises:
      DataError: a context column has several values in a group.
    """
    numbers = _group_numbers(rows, plan.by)
    order = _order(rows, numbers, plan.order_by)
    ordered, numbers = take_rows(rows, order), numbers[order]
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    for name in plan.context:
        if name not in plan.by:
            _check_one_value(name, ordered, starts, plan)
    starts = _cut(starts, len(numbers), plan.max_length)
    offsets = pa.array(np.append(starts, len(numbers)).astype(np.int32))
    lists = set(plan.lists)
    columns = [
        pa.ListArray.from_arrays(offsets, ordered.column(field.name))
        if field.name in lists
        else ordered.column(field.name).take(pa.array(starts))
        for field in plan.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=plan.schema)


def _group_numbers(rows: pa.RecordBatch, by: tuple[str, ...]) -> Rows:
    """Returns the number of each row's group, ordered by first row."""
    index = index_keys([rows.column(name) for name in by])
    groups = np.empty(rows.num_rows, np.int64)
    firsts = index.rows[index.starts[:-1]]
    ranks = np.empty(len(firsts), np.int64)
    ranks[np.argsort(firsts)] = np.arange(len(firsts))
    groups[index.rows] = np.repeat(ranks, np.diff(index.starts))
    return groups


def _order(rows: pa.RecordBatch, numbers: Rows, order_by: tuple[str, ...]) -> Rows:
    """Returns the row numbers by group, then ``order_by``, then input order.

    NaN comes last.
    """
    columns = [pa.array(numbers), *(rows.column(name) for name in order_by)]
    names = [str(number) for number in range(len(columns))]
    table = pa.Table.from_arrays(columns, names)
    order: Rows = (
        pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy().astype(np.int64)
    )
    return order


def _cut(starts: Rows, rows: int, max_length: int | None) -> Rows:
    """Returns the first row of each sequence of at most ``max_length`` rows."""
    if max_length is None or not len(starts):
        return starts
    places = np.arange(rows) - np.repeat(starts, np.diff(starts, append=rows))
    return np.flatnonzero(places % max_length == 0)


def _check_one_value(name: str, ordered: pa.RecordBatch, starts: Rows, plan: GroupPlan) -> None:
    """Raises ``DataError`` if a group has several values of a column.

    Null counts as a value.
    """
    column = ordered.column(name)
    firsts = np.repeat(starts, np.diff(starts, append=len(column)))
    hashes = _native.hash_column(column)
    wrong = np.flatnonzero(hashes != hashes[firsts])
    if len(wrong):
        row = int(wrong[0])
        key = ", ".join(f"{by}={python_value(ordered.column(by), row)!r}" for by in plan.by)
        values = " and ".join(repr(python_value(column, each)) for each in (int(firsts[row]), row))
        raise DataError(
            f"source '{plan.source}', column '{name}': found {values} in the rows of {key}, "
            "expected one value, because the "
            "sequence's 'context' names it. Leave it out there, and it becomes a feature list; or "
            "add it to 'group_by'."
        )


@dataclasses.dataclass
class GroupRows(beam.PTransform):
    """Groups the rows of chunks into sequences.

    Input: ``Chunk`` elements. Output, whatever the order of the input: for each, a ``Chunk`` with
    the same address and counts, without rows; and for each partition of keys, chunks with its
    groups. Their range numbers follow those of the input. Their counts have ``merged``: rows that
    became steps of another row.

    Attributes:
      plan: from ``plan_groups``.
      schema: columns of the input.
      num_ranges: number of the input's ranges.
      folder: for the exchange, used by this step only; ``None`` sends rows through the engine.
    """

    plan: GroupPlan
    schema: pa.Schema
    num_ranges: int
    folder: str

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        plan, first = self.plan, self.num_ranges
        opened = (
            chunks.pipeline
            | "Once" >> beam.Create([None])
            | "SendToAll" >> beam.Map(lambda _: send_to_all(self.schema, first, plan.partitions))
        )
        return (chunks, chunks, opened) | "MeetInPartitions" >> MeetByKey(
            (partial(send_rows_of, plan=plan, first=first), send_counts, None),
            partial(group_partition, plan=plan, first=first),
            self.folder,
        )
