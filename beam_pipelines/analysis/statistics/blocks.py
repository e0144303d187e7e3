"""Statistics of many columns of numbers, by few calls.

A call costs as much as some hundred values, and a wide table has few rows in a range.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.analysis.statistics.column import ColumnStatistics
from beam_pipelines.analysis.statistics.distribution import Distribution, ExactMoments
from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.numeric import NumberStatistics
from beam_pipelines.core import _native

# Columns of fewer rows are counted together, so many values at once.
_FEW_ROWS, _MOST_VALUES = 4_096, 1 << 17
_TYPES = (pa.float64(), pa.int64())


class Plain(NamedTuple):
    """Statistics of a column of numbers, as ``Columns`` keeps them.

    Attributes:
      type: one of ``_TYPES``.
      sums: numbers that are added up, those of ``_SUMS``.
      error, values, weights: of the distribution; int64 counts.
    """

    type: pa.DataType
    sums: tuple[int, ...]
    error: float
    values: npt.NDArray[Any]
    weights: npt.NDArray[Any]

    @classmethod
    def of(cls, column: ColumnStatistics) -> Plain | None:
        """Returns what a column is made of; ``None`` of other columns."""
        if column.type not in _TYPES or not column.is_counted or _OTHERS(column) != (None,) * 3:
            return None
        own: Any = column.values
        error = own.distribution.error
        return cls(column.type, _SUMS(column), error, own.values, own.distribution.weights)

    def column(self) -> ColumnStatistics:
        """Returns the column."""
        present, missing, *moments, zeros, nans, minus, plus = self.sums
        distribution, one = Distribution(self.values, self.weights, self.error), int(present > 0)
        numbers = NumberStatistics(ExactMoments(*moments), distribution, zeros, nans, minus, plus)
        return ColumnStatistics(self.type, present, missing, one, one, present, numbers)


class Columns(Mapping[str, ColumnStatistics]):
    """Statistics of columns by name, made when they are asked for.

    To make the objects of a column takes longer than to count a hundred values.

    Args:
      found: of each column.
    """

    def __init__(self, found: Mapping[str, ColumnStatistics | Plain]) -> None:
        self.found = dict(found)
        self._made: dict[str, ColumnStatistics] = {}

    def __getitem__(self, name: str) -> ColumnStatistics:
        if name not in self._made:
            column = self.found[name]
            self._made[name] = column.column() if isinstance(column, Plain) else column
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    def __reduce__(self) -> tuple[Any, ...]:
        blocks, others = self.blocks(packs=False)
        return columns_of, ([*self.found], [blocks], others)

    def blocks(self, packs: bool = True) -> tuple[list[NumberBlock], dict[str, ColumnStatistics]]:
        """Returns blocks of plain columns, and the others.

        Args:
          packs: whether columns that were not counted together are in blocks, too.
        """
        plain: tuple[dict[str, Plain], ...] = {}, {}
        others = {}
        for name, column in self.found.items():
            own = column if isinstance(column, Plain) else Plain.of(column) if packs else None
            if own is None:
                others[name] = self[name]
            else:
                plain[own.type == _TYPES[1]][name] = own
        return [
            NumberBlock.of(type_, own) for type_, own in zip(_TYPES, plain, strict=True)
        ], others


def count_columns(columns: Mapping[str, pa.Array], limits: ColumnLimits) -> dict[str, Plain]:
    """Returns what ``ColumnStatistics.of`` does, for many columns together.

    Args:
      columns: n values or nulls each.
      limits: sizes at which accumulators turn into sketches.

    Returns:
      The statistics of columns of float64 and int64; of none if n is large, and not of those with
      infinities, NaN, nulls alone, or too many values to count.
    """
    found: dict[str, Plain] = {}
    for type_ in _TYPES:
        names = [
            name
            for name, array in columns.items()
            if array.type == type_ and len(array) < _FEW_ROWS and array.null_count < len(array)
        ]
        rows = len(columns[names[0]]) if names else 1
        for start in range(0, len(names), step := max(1, _MOST_VALUES // rows)):
            some = names[start : start + step]
            for number, own in _of_columns([columns[name] for name in some], limits):
                found[some[number]] = own
    return found


def _of_columns(arrays: Sequence[pa.Array], limits: ColumnLimits) -> Iterator[tuple[int, Plain]]:
    """Yields number and statistics of arrays of one type and length."""
    size, nulls = len(arrays[0]), np.array([array.null_count for array in arrays])
    present, given = size - nulls, pa.concat_arrays(arrays).drop_null().to_numpy()
    # Each row has its first value twice; see ``ExactMoments.of_runs``.
    rows = np.empty((len(arrays), size + 1), given.dtype)
    is_start, is_value = np.ones(rows.shape, np.bool_), np.arange(size) < present[:, np.newaxis]
    rows[:, 1:][is_value] = given
    for row, number in zip(rows, present.tolist(), strict=True):
        row[1 : number + 1].sort()
    rows[:, 0] = rows[:, 1]
    np.not_equal(rows[:, 2:], rows[:, 1:-1], out=is_start[:, 2:])
    is_start[:, 1:] &= is_value
    lengths = np.count_nonzero(is_start, axis=1)
    is_plain = np.isfinite(rows[:, 0]) & np.isfinite(rows[np.arange(len(rows)), present])
    is_plain &= lengths <= limits.numbers + 1
    numbers = np.flatnonzero(is_plain)
    is_start[~is_plain] = False
    places, lengths = np.flatnonzero(is_start), lengths[numbers]
    values, ends = rows.reshape(-1)[places], np.cumsum(lengths)
    starts = ends - lengths
    counts = np.diff(places, append=0)
    counts[starts], counts[ends - 1] = 0, places[starts] + present[numbers] + 1 - places[ends - 1]
    zeros = np.add.reduceat(np.where(values == 0, counts, 0), starts)
    facts = numbers, present[numbers], nulls[numbers], zeros, starts + 1, ends
    for number, filled, missing, zero, start, end, own in zip(
        *(array.tolist() for array in facts),
        ExactMoments.of_runs(values, counts, starts),
        strict=True,
    ):
        sums = filled, missing, own.count, own.total, own.squares, zero, 0, 0, 0
        yield number, Plain(arrays[0].type, sums, 0.0, values[start:end], counts[start:end])


class NumberBlock(NamedTuple):
    """Statistics of plain columns of one type.

    To pickle it takes a fifth of the time that its columns take.

    Attributes:
      type: of all columns.
      sums: column -> its numbers that are added up.
      errors: of each distribution.
      ends: int64[columns], where each distribution ends among all values.
      values, weights: of all distributions.
    """

    type: pa.DataType
    sums: Mapping[str, tuple[int, ...]]
    errors: Sequence[float]
    ends: npt.NDArray[np.int64]
    values: npt.NDArray[Any]
    weights: npt.NDArray[Any]

    @classmethod
    def of(cls, type_: pa.DataType, columns: Mapping[str, Plain]) -> NumberBlock:
        """Returns the block of some columns."""
        none = np.empty(0, np.int64)
        weights = np.concatenate([none, *(column.weights for column in columns.values())])
        return cls(
            type_,
            {name: column.sums for name, column in columns.items()},
            [column.error for column in columns.values()],
            np.cumsum([len(column.values) for column in columns.values()], dtype=np.int64),
            np.concatenate([column.values for column in columns.values()] or [none]),
            weights.astype(np.uint8) if weights.max(initial=0) < 1 << 8 else weights,
        )

    @classmethod
    def merged(cls, blocks: Sequence[NumberBlock], limits: ColumnLimits) -> NumberBlock:
        """Returns the columns of blocks that have the same ones."""
        first, *others = blocks
        if not others or not first.sums:
            return first
        parts = [(block.values, block.weights, block.ends) for block in blocks]
        values, weights, ends, moved = _native.merge_counts(parts, limits.numbers, limits.points)
        rows = zip(*(block.sums.values() for block in blocks), strict=True)
        sums = [tuple(map(sum, zip(*row, strict=True))) for row in rows]
        known = map(sum, zip(*(block.errors for block in blocks), strict=True))
        errors = list(map(operator.add, known, moved.tolist()))
        named = dict(zip(first.sums, sums, strict=True))
        return cls(first.type, named, errors, ends, values, weights)

    def columns(self) -> Iterator[Plain]:
        """Yields each column."""
        spans = itertools.pairwise([0, *self.ends.tolist()])
        weights = self.weights.astype(np.int64, copy=False)
        for sums, error, (start, end) in zip(self.sums.values(), self.errors, spans, strict=True):
            yield Plain(self.type, sums, error, self.values[start:end], weights[start:end])


def columns_of(
    names: Iterable[str],
    parts: Sequence[Sequence[NumberBlock]],
    others: Mapping[str, ColumnStatistics],
    limits: ColumnLimits | None = None,
) -> Columns:
    """Returns the columns of parts' blocks, merged, and of others.

    Args:
      names: of all columns, in order.
      parts: blocks of the same columns.
      others: the other columns.
      limits: sizes at which accumulators of several parts turn into sketches.
    """
    found: dict[str, ColumnStatistics | Plain] = {**others}
    for blocks in zip(*parts, strict=True):
        block = NumberBlock.merged(blocks, limits or ColumnLimits())
        found.update(zip(block.sums, block.columns(), strict=True))
    return Columns({name: found[name] for name in names})


_SUMS = operator.attrgetter(
    *("present", "missing"),
    *(f"values.moments.{name}" for name in ("count", "total", "squares")),
    *(f"values.{name}" for name in ("zeros", "nans", "minus_infinities", "plus_infinities")),
)
_OTHERS = operator.attrgetter("lengths", "categories", "weighted")
