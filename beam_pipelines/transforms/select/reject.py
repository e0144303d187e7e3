"""Selects as ``select`` does, and rejects bad rows.

Encodings are tried as far as they need no fitting: casts, vectors, conversion to float32. A failure
of a fitted encoding stops the run: the row is in the statistics by then, and has its position in
the shuffle. A row of the base source is rejected with all rows that joins made of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.chunks import ROW, Chunk, Rejected, add_counts
from beam_pipelines.core.private import hide_row
from beam_pipelines.encodings.apply import UnencodableError, check_encodable
from beam_pipelines.encodings.plan import EncodePlan
from beam_pipelines.sources.bad_input.bad_rows import BadRow, shown_row, sift
from beam_pipelines.sources.images.columns import first_damage
from beam_pipelines.sources.plan import SourcePlan
from beam_pipelines.sql.database import ExpressionError
from beam_pipelines.sql.derive import Numbers, errors_of_rows
from beam_pipelines.sql.expressions import evaluate
from beam_pipelines.transforms.row_positions import RowPositions
from beam_pipelines.transforms.select.errors import DamagedImageError, SelectError, explained
from beam_pipelines.transforms.select.rename import rename_batch
from beam_pipelines.transforms.select.select import SelectPlan, select_chunk, select_rows


@dataclasses.dataclass(frozen=True)
class Checks:
    """The checks that a row has to pass.

    Attributes:
      select: its expressions have values.
      encode: encodings of the selected columns; ``None`` if rows are grouped before they are
        encoded.
    """

    select: SelectPlan
    encode: EncodePlan | None


def select_good(chunk: Chunk, checks: Checks) -> tuple[Chunk, Mapping[int, Exception]]:
    """Selects from the good rows of one chunk.

    Args:
      chunk: with the column ``ROW``; the rows that a join made of one row share its number.
      checks: to pass.

    Returns:
      The chunk, whose counts have the bad rows as rejected; and row number -> error, ascending.
    """
    bad: dict[int, Exception] = {}
    with explained(chunk.path):
        try:
            _try_rows(checks, chunk.batch)
        except ValueError:
            bad = _bad_rows(checks, chunk.batch)
            if bad:
                chunk = _without(chunk, bad)
    return select_chunk(chunk, checks.select), bad


def _try_rows(checks: Checks, batch: pa.RecordBatch) -> None:
    """Raises ``SelectError`` or ``UnencodableError`` if any row is bad."""
    selected, _ = select_rows(checks.select, batch)
    if checks.encode is not None:
        check_encodable(checks.encode, selected)


def _bad_rows(checks: Checks, batch: pa.RecordBatch) -> dict[int, Exception]:
    """Returns row number -> error of its expression, else of its encoding."""
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
        bad.update(_unencodable(checks.encode, selected, numbers))
    return dict(sorted(bad.items()))


def _without_value(select: SelectPlan, batch: pa.RecordBatch) -> Sequence[tuple[int, Exception]]:
    """Returns the rows without a value or image, ascending, with errors.

    The error is of the first expression that fails on the row.
    """
    left, rows = rename_batch(batch, select.rename), np.arange(batch.num_rows)
    found: dict[int, Exception] = {}
    try:
        for expression in (*filter(None, [select.filter]), *select.derive):
            errors = errors_of_rows(left, expression)
            found.update(
                (int(rows[row]), SelectError(message, expression, left))
                for row, message in errors.items()
            )
            good = ~np.isin(np.arange(left.num_rows), list(errors))
            left, rows = left.filter(pa.array(good)), rows[good]
            values = evaluate(left, expression)
            if expression in select.derive:
                left = left.append_column(expression.name, values)
            else:
                left, rows = (
                    left.filter(values),
                    rows[pc.fill_null(values, False).to_numpy(zero_copy_only=False)],
                )
        for row, (column, reason) in first_damage(left, select.images, select.limits).items():
            found.setdefault(int(rows[row]), DamagedImageError(reason, column))
    except ExpressionError:  # not allowed in TRY, or no column type holds a value
        tried = sift(
            lambda start, end: select_rows(select, batch.slice(start, end - start)),
            0,
            batch.num_rows,
        )
        return [(bad.number, bad.error) for bad in tried if isinstance(bad, BadRow)]
    return sorted(found.items(), key=itemgetter(0))


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
    """Returns the column and the reason of a row that ``select_good`` rejects."""
    if isinstance(error, UnencodableError):
        return error.feature, str(error)
    if isinstance(error, SelectError):
        name, sql = error.expression.name, error.expression.sql
        cure = "Use TRY_CAST or TRY, which give NULL instead, or filter such rows out."
        return (
            "" if name == "filter" else name
        ), f"found {error} in '{sql}', expected a value. {cure}"
    if isinstance(error, DamagedImageError):
        return error.column, str(error)
    return "", str(error)


@dataclasses.dataclass
class SelectOrReject(beam.PTransform):
    """Selects rows and columns of chunks, and rejects bad rows.

    Input: ``Chunk`` elements of the base source, maybe joined, with the column ``ROW``. Output: a
    ``Chunk`` with the same address for each, without this column. Its counts are those of
    ``select.SelectChunks`` and the rejected rows.

    Attributes:
      checks: to pass.
      base: read again to find the positions of rejected rows.
    """

    checks: Checks
    base: SourcePlan

    def expand(self, chunks: beam.PCollection[Chunk]) -> beam.PCollection[Chunk]:
        return chunks | "SelectOrReject" >> beam.ParDo(_SelectOrReject(self.checks, self.base))


class _SelectOrReject(beam.DoFn):
    """Keeps the scan of a file for its next ranges."""

    def __init__(self, checks: Checks, base: SourcePlan) -> None:
        self._checks = checks
        self._base = base
        self._positions: RowPositions | None = None

    def process(self, chunk: Chunk) -> Iterator[Chunk]:
        selected, bad = select_good(chunk, self._checks)
        if bad:
            self._positions = self._positions or RowPositions(self._base)
            places = self._positions.find(chunk.range_number, list(bad))
            rows = (
                Rejected(
                    self._base.source.name,
                    place.file,
                    place.place,
                    *explain(error),
                    place.text or (shown_row_of(chunk, row) if place.place else ""),
                )
                for place, (row, error) in zip(places, bad.items(), strict=True)
            )
            if private := self._base.private:
                # An expression of any column may see private values.
                rows = (hide_row(row._replace(column=""), private) for row in rows)
            selected = selected._replace(rejected=(*selected.rejected, *rows))
        yield selected


def shown_row_of(chunk: Chunk, number: int) -> str:
    """Returns the values of the first row with a number."""
    row = int(np.argmax(chunk.batch.column(ROW).to_numpy() == number))
    return shown_row(chunk.batch.slice(row, 1).drop_columns([ROW]))
