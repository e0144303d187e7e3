"""Statistics of texts and bytes: lengths, and counts of distinct values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beam_pipelines.analysis.statistics.limits import ColumnLimits
from beam_pipelines.analysis.statistics.value_counts import ValueCounts, sum_distinct
from beam_pipelines.core.arrow.weighted_values import Numbers


@dataclasses.dataclass(frozen=True)
class TextStatistics:
    """Statistics of the texts, or bytes, of a column.

    Attributes:
      value_counts: of each text.
      count: number of values.
      total_bytes: sum of their lengths in bytes.
      min_bytes, max_bytes: shortest and longest length; 0 without values.
      weighted: the weight of each text, where the rows have weights.
    """

    value_counts: ValueCounts
    count: int = 0
    total_bytes: int = 0
    min_bytes: int = 0
    max_bytes: int = 0
    weighted: ValueCounts | None = None

    @classmethod
    def of(
        cls,
        array: pa.Array,
        weights: npt.NDArray[np.float64] | None = None,
        limits: ColumnLimits | None = None,
    ) -> TextStatistics:
        """Returns the statistics of an array, without its nulls.

        Args:
          array: string or binary.
          weights: float64[n] >= 0.
          limits: sizes at which accumulators turn into sketches.
        """
        limits = limits or ColumnLimits()
        if weights is not None:
            return cls.of_value_counts(*sum_distinct(array, weights), limits)
        value_counts = array.value_counts()
        values, counts = value_counts.field(0), value_counts.field(1)
        if values.null_count:
            valid = values.is_valid()
            values, counts = values.filter(valid), counts.filter(valid)
        return cls.of_value_counts(values, counts.to_numpy(), None, limits)

    @classmethod
    def of_value_counts(
        cls, values: pa.Array, counts: Numbers, sums: Numbers | None, limits: ColumnLimits
    ) -> TextStatistics:
        """Returns the statistics of distinct values, their counts and sums of weights."""
        weighted = None if sums is None else ValueCounts.of(values, sums, limits)
        if not len(values):
            return cls(ValueCounts(values, counts), weighted=weighted)
        lengths = pc.binary_length(values).to_numpy().astype(np.int64)
        return cls(
            ValueCounts.of(values, counts, limits),
            int(counts.sum()),
            int((lengths * counts).sum()),
            int(lengths.min()),
            int(lengths.max()),
            weighted,
        )

    @classmethod
    def merged(
        cls, parts: Sequence[TextStatistics], limits: ColumnLimits | None = None
    ) -> TextStatistics:
        """Returns the statistics of all parts.

        Exact counts do not depend on the order of the parts.
        """
        limits = limits or ColumnLimits()
        filled = [part for part in parts if part.count]
        weighted = [part.weighted for part in parts if part.weighted is not None]
        return cls(
            ValueCounts.merged([part.value_counts for part in parts], limits),
            sum(part.count for part in parts),
            sum(part.total_bytes for part in parts),
            min((part.min_bytes for part in filled), default=0),
            max((part.max_bytes for part in filled), default=0),
            ValueCounts.merged(weighted, limits) if weighted else None,
        )

    @property
    def values(self) -> pa.Array:
        """Distinct values, unordered: all of them while ``exact``, else the most frequent."""
        return self.value_counts.values

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """Count of each of ``values``."""
        return self.value_counts.counts.astype(np.int64, copy=False)

    @property
    def undercount(self) -> int:
        """Largest error of a count, which is too low.

        It bounds the count of values not kept.
        """
        return int(self.value_counts.undercount)

    @property
    def exact(self) -> bool:
        """Whether ``values`` are all distinct values, with their exact counts."""
        return self.value_counts.exact

    @property
    def distinct(self) -> int:
        """Number of distinct values; an estimate unless ``exact``."""
        return self.value_counts.distinct

    @property
    def average_bytes(self) -> float:
        """Average length in bytes; 0 without values."""
        return self.total_bytes / self.count if self.count else 0.0

    def top(self, number: int) -> list[tuple[str | bytes, Any]]:
        """Returns the most frequent values with their counts, in TFDV's order.

        That is by count, then value, both descending.
        """
        return self.value_counts.top(number)
