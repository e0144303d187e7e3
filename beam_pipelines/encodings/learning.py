"""What encodings learn from the first read: accumulators that merge.

Two are small, and merged along a fixed tree: ``Moments`` and ``Distribution`` of a column's
numbers. The third is as large as the number of distinct values, and merged by hash partition: the
``ValueCounts`` of a column's values. Merging in a fixed order keeps float sums the same, whatever
the number of workers.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.core.ipc import batches_to_bytes, bytes_to_batches

Weights: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = npt.NDArray[np.float64]

# Distinct values are exact up to here; beyond, a distribution is kept as so many points that stand
# for equal weights: each compression moves a rank by at most 1/(POINTS - 2) of the weight.
MAX_DISTINCT = 1 << 14
POINTS = 1 << 12


@dataclasses.dataclass(frozen=True)
class Moments:
    """Weighted moments and extremes of a column's finite numbers.

    Attributes:
      weight: sum of their weights; without a weight column, their number.
      mean: their mean; 0 of none.
      squares: weighted sum of squared deviations from the mean.
      minimum, maximum: of the values with a positive weight; infinity and minus infinity of none.
      nulls: sum of the weights of nulls. NaN and infinities count nowhere.
    """

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf
    nulls: float = 0.0

    @classmethod
    def of(cls, array: pa.Array, weights: Weights | None) -> Moments:
        """Returns the moments of an array of numbers, or of lists of numbers: then of their items,
        each with its row's weight.
        """
        values, own, nulls = flat_numbers(array, weights)
        if own is not None:
            values, own = values[own > 0], own[own > 0]
        weight = float(len(values) if own is None else own.sum())
        if not weight:
            return cls(nulls=nulls)
        mean = _total(values, own) / weight
        deviations = values - mean
        error = (
            _total(deviations, own) / weight
        )  # of the mean, by rounding (Chan, Golub and LeVeque, 1983)
        squares = max(_total(deviations * deviations, own) - weight * error * error, 0.0)
        minimum, maximum = float(values.min()), float(values.max())
        return cls(
            weight, min(max(mean + error, minimum), maximum), squares, minimum, maximum, nulls
        )

    @classmethod
    def merged(cls, parts: Sequence[Moments]) -> Moments:
        """Returns the moments of all parts together, added up in order (Chan, Golub and LeVeque,
        1979).
        """
        filled = [part for part in parts if part.weight]
        nulls = sum(part.nulls for part in parts)
        if not filled:
            return cls(nulls=nulls)
        weight = math.fsum(part.weight for part in filled)
        first = filled[0].mean
        mean = first + math.fsum(part.weight * (part.mean - first) for part in filled) / weight
        squares = math.fsum(part.squares + part.weight * (part.mean - mean) ** 2 for part in filled)
        minimum, maximum = (
            min(part.minimum for part in filled),
            max(part.maximum for part in filled),
        )
        return cls(weight, min(max(mean, minimum), maximum), squares, minimum, maximum, nulls)

    def with_nulls_as(self, value: float) -> Moments:
        """Returns the moments after every null was replaced by a value."""
        own = (
            type(self)(self.nulls, value, 0.0, value, value)
            if self.nulls and math.isfinite(value)
            else type(self)()
        )
        return self.merged([dataclasses.replace(self, nulls=0.0), own])

    @property
    def deviation(self) -> float:
        """Population standard deviation; 0 of no values, and of equal ones however sums were
        rounded.
        """
        return math.sqrt(self.squares / self.weight) if self.maximum > self.minimum else 0.0


@dataclasses.dataclass(frozen=True)
class Distribution:
    """The weighted distribution of a column's finite numbers.

    Attributes:
      values: float64, ascending: all distinct ones up to ``MAX_DISTINCT``, else at most ``POINTS``
        of them, the smallest and the largest among them.
      weights: float64, the weight that each stands for.
      nulls: sum of the weights of nulls.
    """

    values: Numbers = dataclasses.field(default_factory=lambda: np.zeros(0))
    weights: Weights = dataclasses.field(default_factory=lambda: np.zeros(0))
    nulls: float = 0.0

    @classmethod
    def of(cls, array: pa.Array, weights: Weights | None) -> Distribution:
        """Returns the distribution of an array of numbers, or of lists of numbers: then of their
        items.
        """
        values, own, nulls = flat_numbers(array, weights)
        if own is None:
            distinct, counts = np.unique(values, return_counts=True)
            return cls(*_bounded(distinct, counts.astype(np.float64)), nulls)
        return cls(*_bounded(*_added(values[own > 0], own[own > 0])), nulls)

    @classmethod
    def merged(cls, parts: Sequence[Distribution]) -> Distribution:
        """Returns the distribution of all parts together; its points depend on the order once there
        are too many values.
        """
        values = np.concatenate([part.values for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return cls(*_bounded(*_added(values, weights)), sum(part.nulls for part in parts))

    def with_nulls_as(self, value: float) -> Distribution:
        """Returns the distribution after every null was replaced by a value."""
        own = Distribution(np.array([value]), np.array([self.nulls]))
        parts = [dataclasses.replace(self, nulls=0.0)]
        return self.merged([*parts, own] if self.nulls and math.isfinite(value) else parts)

    def quantiles(self, number: int) -> Numbers:
        """Returns ``number`` + 1 values that cut the weight into equal parts, from the minimum to
        the maximum; none of no values.

        Number k is the smallest value at or below which there is at least k / ``number`` of the
        weight.
        """
        if not len(self.values):
            return self.values
        ends = np.cumsum(self.weights)
        # Products of whole numbers are exact, quotients are not.
        places = np.searchsorted(ends * number, np.arange(number + 1) * ends[-1])
        chosen: Numbers = self.values[places.clip(max=len(ends) - 1)]
        return chosen

    def boundaries(self, number: int) -> Numbers:
        """Returns at most ``number`` - 1 distinct values that divide the weight into parts as
        nearly equal as they can be.

        A part begins at its boundary: boundary k is the smallest value with at least k / ``number``
        of the weight below it. None is the minimum, so no part is empty.
        """
        if not len(self.values):
            return self.values
        ends = np.cumsum(self.weights)
        places = np.searchsorted(
            np.concatenate([[0.0], ends[:-1]]) * number, np.arange(1, number) * ends[-1]
        )
        chosen: Numbers = self.values[np.unique(places[places < len(ends)])]
        return chosen


class ValueCounts(Protocol):
    """Sums by key, as large as the number of distinct keys: gathered per batch, partitioned by a
    hash of the key, and merged.

    A frozen dataclass, declared as an encoding's ``learns``. Its tables have a column ``key``
    (string, binary, int64 or float32, without nulls, distinct within a table) and columns of sums:
    int64, which are exact, or float64, which are added in a fixed order.

    Attributes:
      folds: in how many folds rows are divided for ``count``; 0 for none.
    """

    folds: int = 0

    def count(
        self,
        array: pa.Array,
        target: pa.Array | None,
        weights: Weights | None,
        folds: npt.NDArray[np.int64] | None,
    ) -> pa.RecordBatch:
        """Returns the sums of one batch of n rows.

        Args:
          array: what the encoding encodes, n rows.
          target: the encoding's ``target``, n rows, if it has one.
          weights: weight of each row (>= 0); ``None``: all weigh 1 and sums of weights are int64.
          folds: number of each row's fold, from 0, if ``folds`` is not 0.
        """

    def select(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the keys of one hash partition that may be needed (the ``top_k`` largest, say),
        after all sums were added.
        """


Learns: TypeAlias = type[Moments] | type[Distribution] | ValueCounts
# Of value counts: the selected keys of all partitions, in no particular order: ``fit`` sorts.
Learned: TypeAlias = Moments | Distribution | pa.RecordBatch


StepKey: TypeAlias = tuple[int, int]  # number of the chain, number of the step
_NUMBERS = pa.schema(
    [
        ("chain", pa.int64()),
        ("step", pa.int64()),
        ("moments", pa.list_(pa.float64())),  # the fields of Moments; null: it is a Distribution
        ("values", pa.list_(pa.float64())),
        ("weights", pa.list_(pa.float64())),
        ("nulls", pa.float64()),
    ]
)


def numbers_to_bytes(numbers: Mapping[StepKey, Moments | Distribution]) -> bytes:
    """Returns moments and distributions as an Arrow IPC stream, exact to the last bit."""
    rows: list[tuple[Any, ...]] = []
    for (chain, step), value in numbers.items():
        if isinstance(value, Moments):
            rows.append((chain, step, dataclasses.astuple(value), None, None, None))
        else:
            rows.append((chain, step, None, value.values, value.weights, value.nulls))
    columns = [
        pa.array(column, field.type)
        for column, field in zip(
            zip(*rows, strict=True) if rows else [()] * len(_NUMBERS), _NUMBERS, strict=True
        )
    ]
    return batches_to_bytes([pa.RecordBatch.from_arrays(columns, schema=_NUMBERS)], "lz4")


def numbers_from_bytes(data: bytes) -> dict[StepKey, Moments | Distribution]:
    """Returns what ``numbers_to_bytes`` was given."""
    (batch,) = bytes_to_batches(data)
    numbers: dict[StepKey, Moments | Distribution] = {}
    for row in range(batch.num_rows):
        chain, step, moments, values, weights, nulls = (column[row] for column in batch.columns)
        numbers[chain.as_py(), step.as_py()] = (
            Moments(*moments.as_py())
            if moments.is_valid
            else Distribution(values.values.to_numpy(), weights.values.to_numpy(), nulls.as_py())
        )
    return numbers


def flat_numbers(array: pa.Array, weights: Weights | None) -> tuple[Numbers, Weights | None, float]:
    """Returns the finite values of numbers or lists of them as float64, the weight of each, and the
    weight of nulls.
    """
    if pa.types.is_list(array.type):
        if weights is not None:
            weights = weights[pc.list_parent_indices(array).to_numpy()]
        array = array.flatten()
    is_float = pa.types.is_floating(array.type)
    numbers: Numbers
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        numbers = array.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
        nulls = float(array.null_count) if weights is None else float(weights[~valid].sum())
        weights = weights if weights is None else weights[valid]
    else:
        numbers, nulls = array.to_numpy(zero_copy_only=False).astype(np.float64), 0.0
    if is_float and not (finite := np.isfinite(numbers)).all():
        numbers, weights = numbers[finite], weights if weights is None else weights[finite]
    return numbers, weights, nulls


def _total(values: Numbers, weights: Weights | None) -> float:
    """Returns a weighted sum. No dot product: its rounding depends on the machine's number of
    cores.
    """
    return float(values.sum() if weights is None else (values * weights).sum())


def _added(values: Numbers, weights: Weights) -> tuple[Numbers, Weights]:
    """Sorts values and adds the weights of equal ones, in their order."""
    if not len(values):
        return values, weights
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return values[starts], np.add.reduceat(weights, starts)


def _bounded(values: Numbers, weights: Weights) -> tuple[Numbers, Weights]:
    """Replaces more than ``MAX_DISTINCT`` values by ``POINTS`` of them: the first, the last, and
    the middle one of each group between.

    A group is what has its middle in one of ``POINTS`` - 2 parts of equal weight. At most half of a
    group lies on one side of its middle value, and that is at most one such part: no rank moves
    further.
    """
    if len(values) <= MAX_DISTINCT:
        return values, weights
    ends = np.cumsum(weights[1:-1])
    groups = np.minimum((ends - weights[1:-1] / 2) * ((POINTS - 2) / ends[-1]), POINTS - 3).astype(
        np.int64
    )
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sums = np.add.reduceat(weights[1:-1], starts)
    middles = np.searchsorted(ends, np.cumsum(sums) - sums / 2).clip(max=len(ends) - 1)
    points = np.concatenate([values[:1], values[1:-1][middles], values[-1:]])
    return points, np.concatenate([weights[:1], sums, weights[-1:]])
