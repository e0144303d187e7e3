"""Analyzers: what fitting reads from the data, as accumulators that merge.

``Moments`` and ``Quantiles`` of a column's numbers are small and are merged along a fixed tree.
``KeyedSums`` grow with the number of distinct values and are merged by hash partition. The fixed
order of merging gives the same float sums with any number of workers.

Statistics have accumulators of their own (``analysis/statistics``): their ``ExactMoments`` merge in
any order, and their ``ValueCounts`` turn into sketches. Fitting needs extremes and nulls
at once, and exact sums of every key.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beam_pipelines.core.arrow.ipc import batches_to_bytes, bytes_to_batches
from beam_pipelines.core.arrow.weighted_values import add_equal, sum_runs

Numbers: TypeAlias = npt.NDArray[np.float64]

# Up to here distinct values are exact. Beyond, POINTS values of about equal weight are kept; each
# compression moves a rank by at most 1 / (POINTS - 2) of the weight.
MAX_DISTINCT = 1 << 14
POINTS = 1 << 12


@dataclasses.dataclass(frozen=True)
class Moments:
    """Moments and extremes of a column's finite numbers.

    Attributes:
      weight: their number.
      mean: of them; 0 without values.
      squares: sum of squared deviations from the mean.
      minimum, maximum: inf and -inf without values.
      nulls: number of nulls. NaN and infinities count nowhere.
    """

    weight: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    minimum: float = math.inf
    maximum: float = -math.inf
    nulls: float = 0.0

    @classmethod
    def of(cls, array: pa.Array) -> Moments:
        """Returns the moments of numbers, scalars or in lists."""
        values, nulls = flat_numbers(array)
        weight = float(len(values))
        if not weight:
            return cls(nulls=nulls)
        mean = float(values.sum()) / weight
        deviations = values - mean
        # The rounding error of the mean (Chan, Golub and LeVeque, 1983).
        error = float(deviations.sum()) / weight
        squares = max(float((deviations * deviations).sum()) - weight * error * error, 0.0)
        minimum, maximum = float(values.min()), float(values.max())
        mean = min(max(mean + error, minimum), maximum)
        return cls(weight, mean, squares, minimum, maximum, nulls)

    @classmethod
    def merged(cls, parts: Sequence[Moments]) -> Moments:
        """Returns the moments of all parts, added in order.

        The formulas are those of Chan, Golub and LeVeque (1979).
        """
        filled = [part for part in parts if part.weight]
        nulls = sum(part.nulls for part in parts)
        if not filled:
            return cls(nulls=nulls)
        weight = math.fsum(part.weight for part in filled)
        first = filled[0].mean
        mean = first + math.fsum(part.weight * (part.mean - first) for part in filled) / weight
        squares = math.fsum(part.squares + part.weight * (part.mean - mean) ** 2 for part in filled)
        minimum = min(part.minimum for part in filled)
        maximum = max(part.maximum for part in filled)
        return cls(weight, min(max(mean, minimum), maximum), squares, minimum, maximum, nulls)

    def with_nulls_as(self, value: float) -> Moments:
        """Returns the moments after every null was replaced by a value."""
        known = dataclasses.replace(self, nulls=0.0)
        if not self.nulls or not math.isfinite(value):
            return self.merged([known])
        return self.merged([known, Moments(self.nulls, value, 0.0, value, value)])

    @property
    def deviation(self) -> float:
        """Population standard deviation; 0 without values and, despite rounding, of equal ones."""
        return math.sqrt(self.squares / self.weight) if self.maximum > self.minimum else 0.0


@dataclasses.dataclass(frozen=True)
class Quantiles:
    """The distribution of a column's finite numbers.

    Attributes:
      values: float64, ascending: up to ``MAX_DISTINCT`` all distinct values, beyond at most
        ``POINTS`` of them, with the smallest and the largest.
      weights: float64, the weight for which each value stands.
      nulls: number of nulls.
    """

    values: Numbers = dataclasses.field(default_factory=lambda: np.zeros(0))
    weights: Numbers = dataclasses.field(default_factory=lambda: np.zeros(0))
    nulls: float = 0.0

    @classmethod
    def of(cls, array: pa.Array) -> Quantiles:
        """Returns the distribution of numbers, scalars or in lists."""
        values, nulls = flat_numbers(array)
        distinct, counts = np.unique(values, return_counts=True)
        return cls(*_bounded(distinct, counts.astype(np.float64)), nulls)

    @classmethod
    def merged(cls, parts: Sequence[Quantiles]) -> Quantiles:
        """Returns the distribution of all parts; once values are dropped, order matters."""
        values = np.concatenate([part.values for part in parts])
        weights = np.concatenate([part.weights for part in parts])
        return cls(*_bounded(*add_equal(values, weights)), sum(part.nulls for part in parts))

    def with_nulls_as(self, value: float) -> Quantiles:
        """Returns the distribution after every null was replaced by a value."""
        known = dataclasses.replace(self, nulls=0.0)
        if not self.nulls or not math.isfinite(value):
            return self.merged([known])
        return self.merged([known, Quantiles(np.array([value]), np.array([self.nulls]))])

    def quantiles(self, number: int) -> Numbers:
        """Returns ``number`` + 1 values that cut the weight into equal parts.

        Number k is the smallest value with at least k / ``number`` of the weight at or below it:
        the first is the minimum, the last the maximum. Empty without values.
        """
        if not len(self.values):
            return self.values
        ends = np.cumsum(self.weights)
        # Products of whole numbers are exact, quotients are not.
        places = np.searchsorted(ends * number, np.arange(number + 1) * ends[-1])
        chosen: Numbers = self.values[places.clip(max=len(ends) - 1)]
        return chosen

    def boundaries(self, number: int) -> Numbers:
        """Returns the distinct values that divide the weight evenly.

        There are at most ``number`` - 1. A part begins at its boundary: the weight below boundary k
        is the nearest to k / ``number`` of all, and the larger of two that are equally near. None
        is the minimum, so no part is empty.
        """
        if len(self.values) < 2:
            return np.zeros(0)
        ends = np.cumsum(self.weights)
        # Products of whole numbers are exact, quotients are not. Place k is of value k + 1.
        below, wanted = ends[:-1] * number, np.arange(1, number) * ends[-1]
        places = np.searchsorted(below, wanted).clip(max=len(below) - 1)
        lower = (places - 1).clip(min=0)
        is_nearer = np.abs(wanted - below[lower]) < np.abs(below[places] - wanted)
        chosen: Numbers = self.values[1 + np.unique(np.where(is_nearer, lower, places))]
        return chosen


class KeyedSums(Protocol):
    """Sums by key, counted per batch and merged.

    Tables of batches are partitioned by a hash of the key before they are merged. A frozen
    dataclass, the ``analyzer`` of an encoding. Its tables have a column ``key`` (string, binary,
    int64 or float32, without nulls, distinct within a table) and columns of sums, int64: floats
    would depend on the order in which they are added.
    """

    def count(self, array: pa.Array) -> pa.RecordBatch:
        """Returns the sums of one batch, the input of the encoding."""

    def select(self, sums: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of one hash partition, all merged, that ``fit`` needs."""


Analyzer: TypeAlias = type[Moments] | type[Quantiles] | KeyedSums
# Of KeyedSums: the selected keys of all partitions, in no particular order; ``fit`` sorts.
Analysis: TypeAlias = Moments | Quantiles | pa.RecordBatch


StepKey: TypeAlias = tuple[int, int]  # number of the chain, number of the step
_NUMBERS = pa.schema(
    [
        ("chain", pa.int64()),
        ("step", pa.int64()),
        # The fields of Moments as one list; those of Quantiles as three.
        ("fields", pa.list_(pa.list_(pa.float64()))),
    ]
)


def numbers_to_bytes(numbers: Mapping[StepKey, Moments | Quantiles]) -> bytes:
    """Returns moments and quantiles as an Arrow IPC stream.

    The stream keeps numbers to the last bit.
    """
    fields = [
        [dataclasses.astuple(value)]
        if isinstance(value, Moments)
        else [value.values, value.weights, [value.nulls]]
        for value in numbers.values()
    ]
    columns = [chain for chain, _ in numbers], [step for _, step in numbers], fields
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _NUMBERS, strict=True)]
    return batches_to_bytes([pa.RecordBatch.from_arrays(arrays, schema=_NUMBERS)], "lz4")


def numbers_from_bytes(data: bytes) -> dict[StepKey, Moments | Quantiles]:
    """Returns the argument of ``numbers_to_bytes``."""
    chains, steps, fields = bytes_to_batches(data)[0].columns
    numbers: dict[StepKey, Moments | Quantiles] = {}
    for chain, step, value in zip(chains.to_pylist(), steps.to_pylist(), fields, strict=True):
        first, *more = (part.values.to_numpy() for part in value)
        numbers[chain, step] = (
            Quantiles(first, more[0], float(more[1][0])) if more else Moments(*first.tolist())
        )
    return numbers


def flat_numbers(array: pa.Array) -> tuple[Numbers, float]:
    """Returns an array's finite values as float64[m], and its number of nulls.

    Args:
      array: int64, float32 or float64, or lists of these.
    """
    if pa.types.is_list(array.type):
        array = array.flatten()
    numbers: Numbers = array.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
    if pa.types.is_floating(array.type):
        numbers = numbers[np.isfinite(numbers)]
    return numbers, float(array.null_count)


def _bounded(values: Numbers, weights: Numbers) -> tuple[Numbers, Numbers]:
    """Replaces more than ``MAX_DISTINCT`` values by ``POINTS`` of them.

    Kept are the first, the last, and the middle value of each group between. A group are the values
    whose middle is in one of ``POINTS`` - 2 parts of equal weight. At most half of a group is on
    one side of its middle value, and that is at most one such part: no rank moves further.
    """
    if len(values) <= MAX_DISTINCT:
        return values, weights
    inner = weights[1:-1]
    ends = np.cumsum(inner)
    groups = ((ends - inner / 2) * ((POINTS - 2) / ends[-1])).clip(max=POINTS - 3).astype(np.int64)
    _, sums = sum_runs(groups, inner)
    middles = np.searchsorted(ends, np.cumsum(sums) - sums / 2).clip(max=len(ends) - 1)
    points = np.concatenate([values[:1], values[1:-1][middles], values[-1:]])
    return points, np.concatenate([weights[:1], sums, weights[-1:]])
