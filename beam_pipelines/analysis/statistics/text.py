"""Statistics of texts and bytes: lengths, and counts, exact or sketched."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tfx_bsl.sketches import KmvSketch

from beam_pipelines.analysis.statistics.limits import BYTES_PER_TEXT, MAX_TEXT_BYTES, ColumnLimits
from beam_pipelines.core.arrow.weighted_values import Numbers

# As in TFDV's sketches: once values are dropped, longer ones share one placeholder.
LARGE_BYTES = 1024
LARGE_VALUE = b"__LARGE_BYTES__"
# Parts that are merged at a time.
_MERGED_BYTES = 2 * MAX_TEXT_BYTES


@dataclasses.dataclass(frozen=True)
class ValueCounts:
    """Distinct texts or bytes with their counts, or with sums of weights.

    All are kept within ``ColumnLimits``. Beyond, the most frequent texts are kept, with counts that
    are too low by at most ``undercount`` (Misra and Gries' summary, merged as in Agarwal et al.,
    *Mergeable Summaries*, 2012), and a KMV sketch estimates the number of distinct values. Whether
    the limits are exceeded does not depend on the order of merging.

    Attributes:
      values: string or binary array of distinct values, no nulls, unordered.
      counts: of each value: int64 counts, or float64 sums of weights.
      undercount: largest error of a count, which is too low; bounds the count of values not kept.
      sketch: serialized KMV sketch, or ``None`` while ``values`` are all distinct values.
    """

    values: pa.Array
    counts: Numbers
    undercount: float = 0
    sketch: bytes | None = None

    @classmethod
    def of(cls, values: pa.Array, counts: Numbers, limits: ColumnLimits) -> ValueCounts:
        """Returns the counts of distinct values."""
        return _bounded(cls(values, counts), limits)

    @classmethod
    def merged(cls, parts: Sequence[ValueCounts], limits: ColumnLimits) -> ValueCounts:
        """Returns the counts of all parts.

        Exact counts do not depend on the order of the parts. Large parts are merged a few at a
        time: in a column of texts that occur once, each is as large as the limits allow.
        """
        waiting: list[ValueCounts] = []
        size = 0
        for part in parts:
            if size > _MERGED_BYTES and len(waiting) > 1:
                waiting = [_merge(waiting, limits)]
                size = _size_bytes(waiting[0].values)
            waiting.append(part)
            size += _size_bytes(part.values)
        return _merge(waiting, limits)

    def __reduce__(self) -> tuple[Any, ...]:
        own = pa.concat_arrays([self.values])  # without the texts around a slice
        return ValueCounts, (own, self.counts, self.undercount, self.sketch)

    @property
    def exact(self) -> bool:
        """Whether ``values`` are all distinct values, with their exact counts."""
        return self.sketch is None

    @property
    def distinct(self) -> int:
        """Number of distinct values; an estimate unless ``exact``."""
        return (
            len(self.values)
            if self.sketch is None
            else int(KmvSketch.Deserialize(self.sketch).Estimate())
        )

    def top(self, number: int) -> list[tuple[str | bytes, Any]]:
        """Returns the most frequent values with their counts, in TFDV's order.

        That is by count, then value, both descending.
        """
        values, counts = self.frequent(number)
        # Arrow sorts texts by bytes; the stable second sort keeps that order among equal counts.
        order = pc.sort_indices(values, sort_keys=[("", "descending")]).to_numpy()
        order = order[np.argsort(-counts[order], kind="stable")]
        return list(
            zip(values.take(pa.array(order)).to_pylist(), counts[order].tolist(), strict=True)
        )

    def frequent(self, number: int) -> tuple[pa.Array, Numbers]:
        """Returns the values of ``top`` and their counts, unordered."""
        if len(self.values) <= number:
            return self.values, self.counts
        if number < 1:
            return self.values.slice(0, 0), self.counts[:0]
        # Sort only candidates.
        threshold = np.partition(self.counts, -number)[-number]
        above = np.flatnonzero(self.counts > threshold)
        equal = np.flatnonzero(self.counts == threshold)
        order = pc.sort_indices(
            self.values.take(pa.array(equal)), sort_keys=[("", "descending")]
        ).to_numpy()
        places = np.concatenate([above, equal[order[: number - len(above)]]])
        return self.values.take(pa.array(places)), self.counts[places]


def _merge(parts: Sequence[ValueCounts], limits: ColumnLimits) -> ValueCounts:
    values = pa.concat_arrays([part.values for part in parts])
    counts = np.concatenate([part.counts for part in parts])
    undercount = sum(part.undercount for part in parts)
    sketch = _merged_sketch(parts, limits)
    return _bounded(ValueCounts(*_added(values, counts), undercount, sketch), limits)


def _bounded(value_counts: ValueCounts, limits: ColumnLimits) -> ValueCounts:
    """Turns counts beyond the limits into sketches, and keeps the frequent values."""
    is_text = pa.types.is_string(value_counts.values.type)
    sketch = value_counts.sketch
    if sketch is None:
        max_bytes = limits.text_bytes if is_text else limits.binary_bytes
        if (
            len(value_counts.values) <= limits.texts
            and _size_bytes(value_counts.values) <= max_bytes
        ):
            return value_counts
        fresh = KmvSketch(limits.hashes)
        fresh.AddValues(value_counts.values)
        sketch = bytes(fresh.Serialize())
    values, counts = _without_large(value_counts.values, value_counts.counts)
    return _most_frequent(
        ValueCounts(values, counts, value_counts.undercount, sketch), limits if is_text else None
    )


def _most_frequent(value_counts: ValueCounts, limits: ColumnLimits | None) -> ValueCounts:
    """Returns the counts of the most frequent values within the limits.

    The counts of the others are lost. Without limits no value is kept.
    """
    values, counts = value_counts.values, value_counts.counts
    kept = 0
    if limits is not None:
        if len(values) <= limits.kept_texts and _size_bytes(values) <= limits.kept_bytes:
            return value_counts
        frequent = np.argsort(-counts, kind="stable")[: limits.kept_texts]
        lengths = pc.binary_length(values.take(pa.array(frequent))).to_numpy() + BYTES_PER_TEXT
        kept = int(
            np.searchsorted(np.cumsum(lengths, dtype=np.int64), limits.kept_bytes, side="right")
        )
    if kept >= len(values):
        return value_counts
    loss = np.partition(counts, -kept - 1)[-kept - 1].item()
    places = np.flatnonzero(counts > loss)
    return ValueCounts(
        values.take(pa.array(places)),
        counts[places] - loss,
        value_counts.undercount + loss,
        value_counts.sketch,
    )


def _without_large(values: pa.Array, counts: Numbers) -> tuple[pa.Array, Numbers]:
    """Replaces values that are too long to be kept by one placeholder."""
    short = pc.less_equal(pc.binary_length(values), LARGE_BYTES)
    if pc.all(short).as_py():
        return values, counts
    return _added(pc.if_else(short, values, pa.scalar(LARGE_VALUE).cast(values.type)), counts)


def _added(values: pa.Array, counts: Numbers) -> tuple[pa.Array, Numbers]:
    """Adds the counts of equal values."""
    encoded = values.dictionary_encode()
    # Whole counts stay below 2**53, so that bincount's float64 holds them exactly.
    sums: Numbers = np.bincount(
        encoded.indices.to_numpy(), weights=counts, minlength=len(encoded.dictionary)
    )
    return encoded.dictionary, sums.astype(np.int64) if counts.dtype == np.int64 else sums


def _merged_sketch(parts: Sequence[ValueCounts], limits: ColumnLimits) -> bytes | None:
    """Returns one sketch of all parts' distinct values.

    Returns ``None`` if no part has a sketch.
    """
    if all(part.sketch is None for part in parts):
        return None
    merged = KmvSketch(limits.hashes)
    for part in parts:
        if part.sketch is None:
            merged.AddValues(part.values)
        else:
            merged.Merge(KmvSketch.Deserialize(part.sketch))
    return bytes(merged.Serialize())


def _size_bytes(values: pa.Array) -> int:
    """Returns the size of values and counts, independent of slices and buffers."""
    return int(pc.sum(pc.binary_length(values)).as_py() or 0) + BYTES_PER_TEXT * len(values)


def sum_distinct(
    array: pa.Array, weights: npt.NDArray[np.float64]
) -> tuple[pa.Array, Numbers, Numbers]:
    """Returns the distinct values, their counts, and the sums of their weights.

    Args:
      array: string or binary; nulls are left out.
      weights: float64[n], nulls included.
    """
    if array.null_count:
        weights = weights[array.is_valid().to_numpy(zero_copy_only=False)]
    encoded = array.drop_null().dictionary_encode()
    places, number = encoded.indices.to_numpy(), len(encoded.dictionary)
    counts = np.bincount(places, minlength=number).astype(np.int64, copy=False)
    return encoded.dictionary, counts, np.bincount(places, weights, number)


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
