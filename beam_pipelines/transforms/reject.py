"""Selects rows and columns as ``select`` does, and rejects rows that an expression or an encoding
cannot take.

An encoding is tried on what it needs nothing learned for: a cast, a vector, the conversion to
float32. What fails later, on what was learned, stops the run: the row is in the statistics by then,
and its place in the shuffle is given away. A row of the base source is rejected as a whole, with
all that joins made of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.chunks import ROW, Chunk, Rejected, add_counts
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.sources.bad_rows import BadRow, shown_row, sift
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.transforms.encode import UnencodableError, check_encodable
from beam_pipelines.transforms.expressions import (
    Expression,
    ExpressionError,
    evaluate,
    failing_rows,
    failures,
)
from beam_pipelines.transforms.row_positions import RowPlaces
from beam_pipelines.transforms.select import SelectError, SelectPlan, select_chunk, select_rows

Numbers = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Checks:
    """What a row has to pass.

    Attributes:
      select: its expressions.
      encode: encodings of the selected columns; ``None`` if what is encoded is no row, but a
        sequence of them.
    """

    select: SelectPlan
    encode: EncodePlan | None


def select_good(chunk: Chunk, checks: Checks) -> tuple[Chunk, Mapping[int, Exception]]:
    """Selects of the good rows of one chunk.

    Args:
      chunk: with the numbers of its rows in their range as the column ``ROW``; several rows of a
        join have one.
      checks: what a row has to pass.

    Returns:
      The chunk, whose account counts the others as rejected; and what is wrong with each of those,
      by number, ascending.
    """
    try:
        _try_rows(checks, chunk.batch)
    except ValueError:
        bad = _bad_rows(checks, chunk.batch)
        if bad:
            chunk = _without(chunk, bad)
    else:
        bad = {}
    return select_chunk(chunk, checks.select), bad


def _try_rows(checks: Checks, batch: pa.RecordBatch) -> None:
    """Raises ``SelectError`` or ``UnencodableError`` if any row is bad."""
    selected, _ = select_rows(checks.select, batch)
    if checks.encode is not None:
        check_encodable(checks.encode, selected.select(checks.encode.columns.names))


def _bad_rows(checks: Checks, batch: pa.RecordBatch) -> dict[int, Exception]:
    """Returns an error of each bad row of the base source, by its number: that of an expression, or
    else that of an encoding.
    """
    bad: dict[int, Exception] = {}
    numbers = batch.column(ROW).to_numpy()
    for row, error in _without_value(checks.select, batch):
        bad.setdefault(int(numbers[row]), error)
    if checks.encode is not None:
        good = batch.filter(
            pa.array(~np.isin(batch.column(ROW).to_numpy(), np.array(list(bad), np.int64)))
        )
        selected, _ = select_rows(checks.select.numbered(), good)
        numbers = selected.column(ROW).to_numpy()
        bad.update(
            _unencodable(checks.encode, selected.select(checks.encode.columns.names), numbers)
        )
    return dict(sorted(bad.items()))


def _without_value(select: SelectPlan, batch: pa.RecordBatch) -> Sequence[tuple[int, Exception]]:
    """Returns the rows for which an expression has no value, ascending, each with the error of the
    first such expression.
    """
    left, rows = batch, np.arange(batch.num_rows)
    found: dict[int, Exception] = {}
    try:
        for expression in (*filter(None, [select.filter]), *select.derive):
            failing = failing_rows(left, expression)
            errors = _errors(left.filter(pa.array(failing)), expression)
            found.update(zip(rows[failing].tolist(), errors, strict=True))
            left, rows = left.filter(pa.array(~failing)), rows[~failing]
            values = evaluate(left, expression)
            if expression in select.derive:
                names = [*left.schema.names, expression.name]
                left = pa.RecordBatch.from_arrays([*left.columns, values], names)
            else:
                left, rows = (
                    left.filter(values),
                    rows[pc.fill_null(values, False).to_numpy(zero_copy_only=False)],
                )
    except ExpressionError:  # one that TRY does not take, or a value that no column holds
        tried = sift(
            lambda start, end: select_rows(select, batch.slice(start, end - start)),
            0,
            batch.num_rows,
        )
        return [(bad.number, bad.error) for bad in tried if isinstance(bad, BadRow)]
    return sorted(found.items(), key=itemgetter(0))


def _errors(failing: pa.RecordBatch, expression: Expression) -> Sequence[SelectError]:
    """Returns what is wrong with rows on which an expression fails; asks for it once for all rows
    with the same values.

    Raises:
      ExpressionError: on one of them it does not fail alone.
    """
    inputs = failing.select(expression.columns)
    first, same = _distinct(inputs)
    messages = failures(inputs.take(pa.array(first)), expression)
    if None in messages:
        raise ExpressionError("a value")
    errors = [
        SelectError(message, expression, failing) for message in messages if message is not None
    ]
    return [errors[number] for number in same.tolist()]


def _distinct(batch: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Returns the first row of each kind, rows of one kind having the same values to the last bit;
    and the number of the kind of each row.
    """
    rows = np.arange(batch.num_rows)
    if not batch.num_columns or any(pa.types.is_list(column.type) for column in batch.columns):
        return rows, rows
    kinds = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        # By their bits, zero has two values.
        bits = (
            column.view(f"int{column.type.bit_width}")
            if pa.types.is_floating(column.type)
            else column
        )
        values = bits.dictionary_encode(null_encoding="encode").indices.to_numpy()
        kinds = np.unique(kinds * (len(values) + 1) + values, return_inverse=True)[1]
    _, first, same = np.unique(kinds, return_index=True, return_inverse=True)
    return first, same


def _unencodable(
    encode: EncodePlan, batch: pa.RecordBatch, numbers: Numbers
) -> dict[int, Exception]:
    bad: dict[int, Exception] = {}
    for found in sift(
        lambda start, end: check_encodable(encode, batch.slice(start, end - start)),
        0,
        batch.num_rows,
    ):
        if isinstance(found, BadRow):
            bad.setdefault(int(numbers[found.number]), found.error)
    return bad


def _without(chunk: Chunk, bad: Mapping[int, Exception]) -> Chunk:
    good = ~np.isin(chunk.batch.column(ROW).to_numpy(), np.array(list(bad)))
    left = chunk.batch.filter(pa.array(good))
    copies = chunk.batch.num_rows - left.num_rows - len(bad)
    counts = add_counts(chunk.counts, {"read": -len(bad), "rejected": len(bad), "undone": copies})
    return chunk._replace(batch=left, counts=counts)


def explain(error: Exception) -> tuple[str, str]:
    """Returns the column and what is wrong with a row on which ``select_good`` failed."""
    if isinstance(error, UnencodableError):
        return error.feature, f"{error}. Mend the value with 'derive', or change 'encode'."
    if isinstance(error, SelectError):
        name, sql = error.expression.name, error.expression.sql
        cure = "Use TRY_CAST or TRY, which give NULL instead, or filter such rows out."
        return (
            "" if name == "filter" else name
        ), f"found {error} in '{sql}', expected a value. {cure}"
    return "", str(error)


@dataclasses.dataclass
class SelectOrReject(beam.PTransform):
    """Selects rows and columns of chunks.

    Input: ``Chunk`` elements of the base source, maybe joined, with the column ``ROW``. Output: a
    ``Chunk`` with the same address for each, without this column; its account as of
    ``select.SelectChunks``, and in it what was rejected here.

    Attributes:
      checks: what a row has to pass.
      base: of which ranges are read again to find where rejected rows lie.
    """

    checks: Checks
    base: SourcePlan

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | "SelectOrReject" >> beam.ParDo(_SelectOrReject(self.checks, self.base))


class _SelectOrReject(beam.DoFn):
    """Keeps what it knows of a file for the next of its ranges."""

    def __init__(self, checks: Checks, base: SourcePlan) -> None:
        self._checks = checks
        self._base = base
        self._places: RowPlaces | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        selected, bad = select_good(chunk, self._checks)
        if bad:
            self._places = self._places or RowPlaces(self._base)
            places = self._places.find(chunk.range_number, list(bad))
            first_rows = _first_rows(chunk)
            rows = (
                Rejected(
                    self._base.source.name,
                    place.file,
                    place.place,
                    *explain(error),
                    place.text or (_shown(chunk, first_rows[row]) if place.place else ""),
                )
                for place, (row, error) in zip(places, bad.items(), strict=True)
            )
            selected = selected._replace(rejected=(*selected.rejected, *rows))
        yield selected


def _first_rows(chunk: Chunk) -> dict[int, int]:
    """Returns where the first row of each number is."""
    numbers, first = np.unique(chunk.batch.column(ROW).to_numpy(), return_index=True)
    return dict(zip(numbers.tolist(), first.tolist(), strict=True))


def _shown(chunk: Chunk, row: int) -> str:
    """Returns the values of a row, for sources without text."""
    return shown_row(chunk.batch.slice(row, 1).drop_columns([ROW]))
