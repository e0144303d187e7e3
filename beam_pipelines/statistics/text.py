"""Statistics of texts and bytes: lengths, distinct values, and how often the most frequent ones occur."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from tfx_bsl.sketches import KmvSketch

from beam_pipelines.statistics.packing import pack, unpack

# Exact up to both bounds, per column: texts take at most 16 MiB, and 12 bytes more for each one. Of bytes (images, mostly)
# no values are shown: they are kept only to be counted.
MAX_DISTINCT = 1 << 18
MAX_TEXT_BYTES = 1 << 24
MAX_BINARY_BYTES = 1 << 20
# Beyond them: the most frequent values that are kept, and the size of the sketch that estimates how many there are.
KEPT_VALUES = 1 << 12
_KMV_BUCKETS = 1 << 12
# As in TFDV's sketches: longer values are not told apart.
LARGE_BYTES = 1024
LARGE_VALUE = b"__LARGE_BYTES__"


@dataclasses.dataclass(frozen=True)
class TextStatistics:
    """Statistics of the texts, or bytes, of a column.

    While a column has few distinct values (``MAX_DISTINCT``, ``MAX_TEXT_BYTES``) all of them are counted. Beyond, the most
    frequent texts are kept with counts that are too low by at most ``undercount`` (Misra and Gries' summary, merged as in
    Agarwal et al., *Mergeable Summaries*, 2012), and the number of distinct values is estimated by a KMV sketch (2 % off).
    Whether the bounds are exceeded does not depend on the order of merging.

    Attributes:
      values: string or binary array of distinct values, no nulls, in no particular order.
      counts: how often each occurs.
      undercount: how much a count may be too low; a value that is not kept occurs at most so often.
      sketch: serialized KMV sketch, or ``None`` while ``values`` are all there are.
      large: number of values longer than 1,024 bytes; they count as one value, ``__LARGE_BYTES__``.
      count: number of values.
      total_bytes: sum of their lengths in bytes.
      min_bytes, max_bytes: shortest and longest length; 0 of no values.
    """

    values: pa.Array
    counts: npt.NDArray[np.int64]
    undercount: int = 0
    sketch: bytes | None = None
    large: int = 0
    count: int = 0
    total_bytes: int = 0
    min_bytes: int = 0
    max_bytes: int = 0

    @classmethod
    def of(cls, array: pa.Array) -> TextStatistics:
        """Returns the statistics of a string or binary array; nulls are left out."""
        tally = array.value_counts()
        values, counts = tally.field(0), tally.field(1)
        if values.null_count:
            valid = values.is_valid()
            values, counts = values.filter(valid), counts.filter(valid)
        if not len(values):
            return cls(values, counts.to_numpy())
        numbers = counts.to_numpy()
        lengths = pc.binary_length(values).to_numpy().astype(np.int64)
        large = 0
        if lengths.max() > LARGE_BYTES:
            large = int(numbers[lengths > LARGE_BYTES].sum())
            short = pa.array(lengths <= LARGE_BYTES)
            values = pc.if_else(short, values, pa.scalar(LARGE_VALUE).cast(values.type))
            values, numbers = _added(values, numbers)
        total_bytes = int((lengths * counts.to_numpy()).sum())
        return cls(
            *_bounded(values, numbers, 0, None),
            large,
            int(numbers.sum()),
            total_bytes,
            int(lengths.min()),
            int(lengths.max()),
        )

    @classmethod
    def merged(cls, parts: Sequence[TextStatistics]) -> TextStatistics:
        """Returns the statistics of all parts' values together; while exact, the same whatever their order."""
        values, counts = _added(
            pa.concat_arrays([part.values for part in parts]), np.concatenate([part.counts for part in parts])
        )
        filled = [part for part in parts if part.count]
        return cls(
            *_bounded(values, counts, sum(part.undercount for part in parts), _merged_sketch(parts)),
            sum(part.large for part in parts),
            sum(part.count for part in parts),
            sum(part.total_bytes for part in parts),
            min((part.min_bytes for part in filled), default=0),
            max((part.max_bytes for part in filled), default=0),
        )

    def __reduce__(self) -> tuple[Any, ...]:
        rest = tuple(getattr(self, field.name) for field in dataclasses.fields(self)[2:])
        return _unpickle, (pack(self.values, self.counts), rest)

    @property
    def exact(self) -> bool:
        """Whether ``values`` and ``counts`` tell everything: no bound exceeded, no value too long."""
        return self.sketch is None and not self.large

    @property
    def distinct(self) -> int:
        """Number of distinct values; an estimate unless ``exact``."""
        return len(self.values) if self.sketch is None else int(KmvSketch.Deserialize(self.sketch).Estimate())

    def top(self, number: int) -> list[tuple[str | bytes, int]]:
        """Returns the most frequent values with their counts, ordered as in TFDV: count, then value, both descending."""
        if not len(self.values) or number < 1:
            return []
        places = np.arange(len(self.counts))
        if len(places) > number:  # sort no more than what can be among them
            threshold = np.partition(self.counts, -number)[-number]
            above = np.flatnonzero(self.counts > threshold)
            equal = np.flatnonzero(self.counts == threshold)
            order = pc.sort_indices(self.values.take(pa.array(equal)), sort_keys=[("", "descending")]).to_numpy()
            places = np.concatenate([above, equal[order[: number - len(above)]]])
        values = self.values.take(pa.array(places))
        pairs = zip(values.to_pylist(), self.counts[places].tolist(), strict=True)
        return sorted(pairs, key=lambda pair: (pair[1], _as_bytes(pair[0])), reverse=True)


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _unpickle(packed: bytes, rest: tuple[Any, ...]) -> TextStatistics:
    return TextStatistics(*unpack(packed), *rest)


def _added(values: pa.Array, counts: npt.NDArray[np.int64]) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """Adds the counts of equal values."""
    encoded = values.dictionary_encode()
    # Counts stay below 2**53, so that bincount's float64 holds them exactly.
    sums = np.bincount(encoded.indices.to_numpy(), weights=counts, minlength=len(encoded.dictionary))
    return encoded.dictionary, sums.astype(np.int64)


def _merged_sketch(parts: Sequence[TextStatistics]) -> bytes | None:
    """Returns one sketch of all parts' distinct values if one of the parts already has one."""
    if all(part.sketch is None for part in parts):
        return None
    merged = KmvSketch(_KMV_BUCKETS)
    for part in parts:
        if part.sketch is None:
            merged.AddValues(part.values)
        else:
            merged.Merge(KmvSketch.Deserialize(part.sketch))
    return bytes(merged.Serialize())


def _bounded(
    values: pa.Array, counts: npt.NDArray[np.int64], undercount: int, sketch: bytes | None
) -> tuple[pa.Array, npt.NDArray[np.int64], int, bytes | None]:
    """Goes over to sketches when a bound is exceeded, and keeps the frequent values of a column that has done so."""
    is_text = pa.types.is_string(values.type)
    max_bytes, max_kept = (MAX_TEXT_BYTES, KEPT_VALUES) if is_text else (MAX_BINARY_BYTES, 0)
    if sketch is None:
        if len(values) <= MAX_DISTINCT and values.nbytes - 4 * len(values) <= max_bytes:
            return values, counts, undercount, None
        fresh = KmvSketch(_KMV_BUCKETS)
        fresh.AddValues(values)
        sketch = bytes(fresh.Serialize())
    if len(values) > max_kept:
        loss = int(np.partition(counts, -max_kept - 1)[-max_kept - 1])
        kept = np.flatnonzero(counts > loss)
        values, counts = values.take(pa.array(kept)), counts[kept] - loss
        undercount += loss
    return values, counts, undercount, sketch
